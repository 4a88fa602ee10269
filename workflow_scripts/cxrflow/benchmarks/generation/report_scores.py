"""What is counted of a generated report beside its reference, and the scores made of the counts.

Wording: BLEU-2 and BLEU-4 of the corpus, ROUGE-L, CIDEr-D. Facts: F1 of the 14 CheXpert labels of
both texts, weighted as in BioViL-T's Table 1 and plain as in its Table 3, whose splits are those of
CXR-RePaiR. Entities: TEM (appendix D) and NEM (appendix F.1), micro over all reports.

The counts are columns of predictions.parquet, so that resamples need no text and no model.
"""

import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.errors import InputError
from cxrflow.metrics.cider import Cider
from cxrflow.metrics.entity_match import corpus_f1, set_counts
from cxrflow.metrics.factuality import factuality
from cxrflow.metrics.intervals import Floats, Statistic, weighted_mean
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
from cxrflow.reports.entities.taggers import Entity, KeywordTagger, StanzaTagger, Tagger
from cxrflow.reports.entities.temporal import COUNTED, is_temporal_entity
from cxrflow.reports.labels.labeller import make_labeller
from cxrflow.reports.sentences import make_splitter
from cxrflow.text.report_prompts import words_of

_JOINED = re.compile(r"\s*([-/])\s*")
#: What is exchanged in a control; its columns end so, and so do its scores.
CONTROLS = ("other_image", "other_prior")
PARTS = ("with_prior", "without_prior")


class Scorer:
    """Counts what texts have in common with references; a text is read once."""

    def __init__(self, settings: ReportGenerationSettings, stanza: Any) -> None:
        self.splitter, self.labeller = make_splitter("rules"), make_labeller(settings.labels)
        self.by_keywords = settings.tagger == "keywords"
        self.tagger: Tagger = KeywordTagger()
        if not self.by_keywords:
            if stanza is None:
                raise InputError("--stanza is missing; expected a folder of stanza's models")
            entities = settings.entities
            self.tagger = StanzaTagger(stanza, entities.package, entities.tokenizer)
        self._tagged: dict[str, list[Entity]] = {}
        self._sentences: dict[str, list[str]] = {}
        self._labels: dict[str, tuple[float, ...]] = {}

    def read(self, texts: Sequence[str]) -> None:
        """Take in texts: the entities of their sentences, and their labels.

        Sentences are tagged by themselves, each once, as reports say the same again and again. What
        a decoder writes has no capitals, and blanks around hyphens. A model tags all sentences in
        one form: else a perfect decoder would miss what its text spells in another way.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._labels]
        sentences = self.splitter.split(new)
        if self.by_keywords:
            forms = sentences
        else:
            forms = [[_JOINED.sub(r"\1", one.lower()) for one in text] for text in sentences]
        self._sentences |= dict(zip(new, forms, strict=True))
        unread = [one for one in dict.fromkeys(chain(*forms)) if one not in self._tagged]
        self._tagged |= dict(zip(unread, self.tagger.tag(unread), strict=True))
        self._labels |= dict(zip(new, self.labeller.label(sentences), strict=True))

    def columns(self, references: Sequence[str], texts: Sequence[str]) -> dict[str, list[Any]]:
        """The counts of N texts, by column."""
        self.read([*references, *texts])
        truth, told = ([words_of(text) for text in side] for side in (references, texts))
        found: dict[str, list[Any]] = {
            "bleu": bleu_counts(truth, told).tolist(),
            "rouge_l": rouge_l(truth, told).tolist(),
            "rouge_l_coco": rouge_l(truth, told, beta=1.2).tolist(),
            "cider_d": Cider(truth).cider_d(truth, told).tolist(),
            "labels": [list(self._labels[text]) for text in texts],
            "tem": self._matches(references, texts, temporal=True),
        }
        if not self.by_keywords:
            found["nem"] = self._matches(references, texts, temporal=False)
        return found

    def labels(self, texts: Sequence[str]) -> list[list[float]]:
        """The labels of texts that were read."""
        return [list(self._labels[text]) for text in texts]

    def _matches(
        self, references: Sequence[str], texts: Sequence[str], temporal: bool
    ) -> list[list[float]]:
        def counts(entity: Entity) -> bool:
            if temporal:
                return self.by_keywords or is_temporal_entity(entity.type, entity.text)
            return entity.type in COUNTED

        def strings(side: Sequence[str]) -> list[list[str]]:
            return [
                [
                    entity.text.lower()
                    for sentence in self._sentences[text]
                    for entity in self._tagged[sentence]
                    if counts(entity)
                ]
                for text in side
            ]

        return set_counts(strings(references), strings(texts)).tolist()


def statistics(predictions: pd.DataFrame, settings: ReportGenerationSettings) -> Statistic:
    """All scores: ``bleu_4``, …; of studies with and without a prior image ``bleu_4/with_prior``;
    of a control ``bleu_4/other_image``, over the studies that have one."""
    everyone = np.ones(len(predictions), dtype=bool)
    prior = predictions["with_prior"].to_numpy(dtype=bool)
    parts = {"": everyone, "/with_prior": prior, "/without_prior": ~prior}
    scores = [(name, _of_columns(predictions, part, "")) for name, part in parts.items()]
    for control in CONTROLS:
        if f"bleu_{control}" in predictions:
            there = predictions[f"bleu_{control}"].notna().to_numpy()
            scores.append((f"/{control}", _of_columns(predictions, there, f"_{control}")))
    shown = [(name, score) for name, score in scores if score is not None]

    def all_scores(counts: Floats) -> dict[str, Floats]:
        return {
            f"{metric}{name}": values
            for name, score in shown
            for metric, values in score(counts).items()
        }

    return all_scores


def _of_columns(
    predictions: pd.DataFrame, chosen: NDArray[np.bool_], ending: str
) -> Statistic | None:
    """The scores of some rows, from the columns with an ending; None without a row."""
    if not chosen.any():
        return None
    rows = predictions[chosen]

    def array(name: str) -> Floats:
        return np.stack([np.asarray(one, dtype=np.float64) for one in rows[name]])

    wording, truth, told = (
        array(f"bleu{ending}"),
        array("reference_labels"),
        array(f"labels{ending}"),
    )
    means = {n: array(f"{n}{ending}") for n in ("rouge_l", "rouge_l_coco", "cider_d")}
    entities = {name: array(f"{name}{ending}") for name in ("tem", "nem") if name in predictions}

    def scores(counts: Floats) -> dict[str, Floats]:
        weights = counts[:, chosen]
        found = {f"bleu_{order}": bleu(wording, order, weights) for order in (2, 4)}
        found |= {name: weighted_mean(weights, values) for name, values in means.items()}
        agreed = factuality(truth, told, weights)
        found |= {f"label_f1_{average}": values for average, values in agreed.items()}
        found |= {name: corpus_f1(matches, weights) for name, matches in entities.items()}
        return found

    return scores
