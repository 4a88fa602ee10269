"""Scores of generated reports against their references.

Wording: BLEU-2 and BLEU-4 of the corpus, ROUGE-L, CIDEr-D. Facts: F1 of the 14 CheXpert labels of
both texts, weighted as in BioViL-T's Table 1 and plain as in its Table 3, whose splits are those of
CXR-RePaiR. Entities: TEM (appendix D) and NEM (appendix F.1), micro over all reports. Beside them
stands the share of sentences that stand word for word in training reports, which wording alone can
score by.

Counts of each report are columns of predictions.parquet, so that resamples need no text and no
model.
"""

import re
from collections.abc import Sequence, Set
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_labels.labeller import make_labeller
from cxr_labels.sentences import make_splitter
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.result import CountedStatistic
from cxrflow.metrics.cider import Cider
from cxrflow.metrics.entity_match import corpus_f1, set_counts
from cxrflow.metrics.factuality import factuality
from cxrflow.metrics.intervals import Floats, Statistic, ratio, weighted_mean
from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
from cxrflow.reports.entities.taggers import Entity, KeywordTagger, StanzaTagger, Tagger
from cxrflow.reports.entities.temporal import COUNTED, is_temporal_entity
from cxrflow.text.words import words_of

_JOINED = re.compile(r"\s*([-/])\s*")
# By what another patient lends; suffixes of columns and of metric names.
CONTROLS = ("other_image", "other_prior")


class Scorer:
    """Compares texts with references; labels and tags each text once."""

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
        """Label texts and tag their sentences.

        Reports repeat sentences, so each is tagged once, by itself. A decoder writes no capitals,
        and blanks around hyphens. The tagging model gets all sentences in this form, as it would
        tag other spellings differently and a perfect decoder would miss entities.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._labels]
        sentences = self.splitter.split(new)
        if self.by_keywords:
            forms = sentences
        else:
            forms = [[_JOINED.sub(r"\1", s.lower()) for s in text] for text in sentences]
        self._sentences |= dict(zip(new, forms, strict=True))
        untagged = [s for s in dict.fromkeys(chain(*forms)) if s not in self._tagged]
        self._tagged |= dict(zip(untagged, self.tagger.tag(untagged), strict=True))
        self._labels |= dict(zip(new, self.labeller.label(sentences), strict=True))

    def columns(self, references: Sequence[str], texts: Sequence[str]) -> dict[str, list[Any]]:
        """Return the counts of N texts, by column."""
        self.read([*references, *texts])
        truth, words = ([words_of(text) for text in side] for side in (references, texts))
        counts: dict[str, list[Any]] = {
            "bleu": bleu_counts(truth, words).tolist(),
            "rouge_l": rouge_l(truth, words).tolist(),
            # Beta of the COCO caption evaluation code.
            "rouge_l_coco": rouge_l(truth, words, beta=1.2).tolist(),
            "cider_d": Cider(truth).cider_d(truth, words).tolist(),
            "labels": [list(self._labels[text]) for text in texts],
            "tem": self._matches(references, texts, temporal=True),
        }
        if not self.by_keywords:
            counts["nem"] = self._matches(references, texts, temporal=False)
        return counts

    def labels(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the labels of texts that :meth:`read` got."""
        return [list(self._labels[text]) for text in texts]

    def sentences(self, text: str) -> list[str]:
        """Return the sentences of a text, words and punctuation apart, in lower case."""
        (sentences,) = self.splitter.split([text])
        return [" ".join(words_of(sentence)) for sentence in sentences]

    def verbatim(self, texts: Sequence[str], corpus: Set[str]) -> list[list[int]]:
        """Return how many sentences of each of N texts stand in a corpus, and how many it has."""
        sentences = map(self.sentences, texts)
        return [[sum(sentence in corpus for sentence in text), len(text)] for text in sentences]

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


def statistic(predictions: pd.DataFrame, settings: ReportGenerationSettings) -> CountedStatistic:
    """Scores such as ``bleu_4``, also ``/with_prior`` and ``/without_prior`` for these studies.

    ``/other_image`` and ``/other_prior``: of a control, over the studies that have it.
    """
    prior = predictions["with_prior"].to_numpy(dtype=bool)
    everyone = np.ones(len(predictions), bool)
    rows_by_group = {"": everyone, "with_prior": prior, "without_prior": ~prior}
    suffixes = dict.fromkeys(rows_by_group, "")
    for control in CONTROLS:
        if f"bleu_{control}" in predictions:
            rows_by_group[control] = predictions[f"bleu_{control}"].notna().to_numpy()
            suffixes[control] = f"_{control}"
    statistics = {
        f"/{group}" if group else "": _of_columns(predictions, rows, suffixes[group])
        for group, rows in rows_by_group.items()
        if rows.any()
    }

    def all_scores(counts: Floats) -> dict[str, Floats]:
        return {
            f"{metric}{group}": values
            for group, scores in statistics.items()
            for metric, values in scores(counts).items()
        }

    def size(name: str) -> int:
        return int(rows_by_group[name.partition("/")[2]].sum())

    def behind(name: str) -> dict[str, int]:
        metric, _, group = name.partition("/")
        rows = predictions[rows_by_group[group]]
        if metric.startswith("label_f1"):
            labels_NC = np.stack(rows["reference_labels"].tolist())
            return {"labels": int((labels_NC == 1).sum())}
        if metric in ("tem", "nem"):
            in_reference_N = np.stack(rows[f"{metric}{suffixes[group]}"].tolist())[:, 2]
            return {"entities": int(in_reference_N.sum())}
        return {"reports": len(rows)}

    return CountedStatistic(all_scores, size, behind=behind)


def _of_columns(predictions: pd.DataFrame, chosen: NDArray[np.bool_], suffix: str) -> Statistic:
    """Return the statistic of the ``chosen`` rows over columns with a suffix."""
    rows = predictions[chosen]

    def array(name: str) -> Floats:
        return np.stack([np.asarray(values, dtype=np.float64) for values in rows[name]])

    wording = array(f"bleu{suffix}")
    truth, labels = array("reference_labels"), array(f"labels{suffix}")
    means = {n: array(f"{n}{suffix}") for n in ("rouge_l", "rouge_l_coco", "cider_d")}
    entities = {name: array(f"{name}{suffix}") for name in ("tem", "nem") if name in predictions}
    columns = {"verbatim": f"verbatim{suffix}", "verbatim_reference": "verbatim_reference"}
    verbatim = {name: array(column) for name, column in columns.items() if column in predictions}

    def scores(counts: Floats) -> dict[str, Floats]:
        weights = counts[:, chosen]
        by_name = {f"bleu_{order}": bleu(wording, order, weights) for order in (2, 4)}
        by_name |= {name: weighted_mean(weights, values) for name, values in means.items()}
        label_f1 = factuality(truth, labels, weights)
        by_name |= {f"label_f1_{average}": values for average, values in label_f1.items()}
        by_name |= {name: corpus_f1(matches, weights) for name, matches in entities.items()}
        for name, counted in verbatim.items():
            by_name[name] = ratio(weights @ counted[:, 0], weights @ counted[:, 1])
        return by_name

    return scores
