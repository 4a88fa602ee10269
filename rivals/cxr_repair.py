"""CXR-RePaiR-Sel (Endo et al. 2021): a CLIP of impressions, whose nearest sentences are the report.

The term is CLIP's loss (Radford et al. 2021, section 2), with the temperature that it learns. The
benchmark is ``report_generation`` in all but the text that a model gives an image: the sentence
nearest to it where a labeller finds nothing in that one, else the six nearest. Facts are of the
public code, rajpurkarlab/CXR-RePaiR; docs/rivals.md says what differs here.

Shapes: N pairs, P joint space, B images, S different texts of the corpus.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxr_files.errors import InputError
from cxr_labels.labeller import make_labeller
from cxr_labels.observations import OBSERVATIONS, POSITIVE
from cxr_labels.sentences import make_splitter
from cxr_labels.settings import LabellerSettings
from cxrflow.benchmarks.benchmark import rows
from cxrflow.benchmarks.generation import report_generation
from cxrflow.benchmarks.generation.report_retrieval import best, encode_texts
from cxrflow.benchmarks.generation.report_scores import statistic
from cxrflow.benchmarks.inputs import image_batches
from cxrflow.benchmarks.metric_names import METRICS
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.outside import OutsideBenchmark, OutsideBenchmarkSettings
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.benchmarks.settings import EncodingSettings, Section
from cxrflow.data.cohorts.settings import Split
from cxrflow.objectives.biovil import products, symmetric_cross_entropy
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.base_settings import Needs, OutsideTermSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.text.report_prompts import report_texts
from cxrflow.text.sentences import sentences_of

NO_FINDING = OBSERVATIONS.index("No Finding")


class ClipPairsSettings(OutsideTermSettings):
    """Of CLIP's loss."""

    title = "CLIP"

    temperature: float = Field(0.07, gt=0, description="the first one; it is learnt")
    largest_scale: float | None = Field(
        100.0, gt=1, description="that 1 / temperature may have (CLIP's paper); null: any"
    )

    @property
    def needs(self) -> Needs:
        """Image and text as wholes."""
        return Needs(images=1, texts=("intact",), parts=frozenset({"whole", "pooled"}))


class ClipPairs(Term):
    """Every image against every text of the batch, and the other way round; the mean of both."""

    settings: ClipPairsSettings
    compares = True
    pairs = "image and text"

    def __init__(self, settings: ClipPairsSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self.log_scale = nn.Parameter(torch.tensor(-math.log(settings.temperature)))

    def logits(self, image_NP: Tensor, text_NP: Tensor) -> Tensor:
        """Cosines [N, N] times the learnt scale."""
        image_NP, text_NP = (normalize(one.float(), dim=1) for one in (image_NP, text_NP))
        return products(image_NP, text_NP) * self.log_scale.exp()

    def loss(self, views: Views) -> Tensor:
        projections = views.images[0].projected_global, views.texts["intact"].projected
        (image_NP, text_NP), own = views.batch.gather(*projections)
        # The package's sum of both directions is twice CLIP's mean of them.
        return symmetric_cross_entropy(self.logits(image_NP, text_NP), own) / 2

    def comparisons(self, views: Views) -> Comparisons:
        projections = views.images[0].projected_global, views.texts["intact"].projected
        return Comparisons.of_batch(self.logits(*projections))

    def after_update(self) -> None:
        if self.settings.largest_scale is not None:
            self.log_scale.clamp_(max=math.log(self.settings.largest_scale))

    def logged(self) -> dict[str, Tensor]:
        return {"scale": self.log_scale.detach().exp()}


class SelectionSettings(OutsideBenchmarkSettings, EncodingSettings):
    """Which texts are found, and how many; the defaults are CXR-RePaiR-Sel's."""

    method: ClassVar = "own"  # what report generation asks: not its own retrieval of sentences

    split: Split | None = Field("test", description="studies whose reports are found")
    sections: tuple[Section, ...] = Field(
        ("impression",), min_length=1, description="of reports: compared with, and found"
    )
    corpus: Literal["sentences", "reports"] = Field(
        "sentences", description="what is found: of the training and validation reports"
    )
    distinct: bool = Field(
        True,
        description="a text stands in the corpus once, whatever its capitals; false: as often as "
        "it was written, so that the nearest may be one text many times (the README's steps)",
    )
    few: int = Field(1, ge=1, description="texts where these have no finding")
    many: int = Field(6, ge=1, description="texts where they have one")
    selects: bool = Field(True, description="false: always `many` (CXR-RePaiR-k)")
    samples: int | None = Field(None, ge=1, description="studies, drawn once; null: all")
    controls: bool = Field(True, description="find again for another patient's image")
    labels: LabellerSettings = Field(
        LabellerSettings(), description="of both texts, and of `few` (theirs: CheXbert)"
    )
    tagger: Literal["keywords"] = Field("keywords", description="of TEM, which Table 3 has not")

    @model_validator(mode="after")
    def _fewer_than_many(self) -> Self:
        if self.selects and self.few >= self.many:
            raise ValueError(f"few is {self.few}; expected fewer than many, {self.many}")
        return self


class Retrieving:
    """The inputs of report generation, where a model's report is what is found."""

    def __init__(self, inputs: ModelInputs) -> None:
        self._inputs = inputs
        self.kept_few: list[int] = []  # studies with `few` texts, by what was asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inputs, name)

    def ask(self, own: Callable[..., Any], *asked: Any) -> Any:
        """The answer of what is scored."""
        if self._inputs.row is not None or own is not report_generation.reports:
            return self._inputs.ask(own, *asked)
        texts, few = found(self._inputs, *asked)
        self.kept_few.append(few)
        return texts


class Selection(OutsideBenchmark):
    """Reports that are found, scored as those that are written."""

    settings: SelectionSettings
    description: ClassVar[dict[str, Any]] = {
        "kind": "pairs",
        "needs": ["joint"],
        "reads": "pixels",
        "compares": True,
        "own": ("writes", "prompt"),
        **rows("most_frequent", "typical", "random", "prior_report", states="states"),
        "baselines": "rows.texts:Reports",
    }
    metrics = METRICS["report_generation"]
    COLUMNS = report_generation.COLUMNS

    @staticmethod
    def predict(inputs: ModelInputs, settings: SelectionSettings) -> Predictions:
        """As report generation; its data also say how many studies have `few` texts."""
        asked: Any = Retrieving(inputs)
        predictions = report_generation.predict(asked, settings)  # type: ignore[arg-type]
        if not asked.kept_few:
            return predictions
        return replace(predictions, data={**predictions.data, "with_few_texts": asked.kept_few[0]})

    @staticmethod
    def statistic(table: pd.DataFrame, settings: SelectionSettings) -> CountedStatistic:
        return statistic(table, settings)  # type: ignore[arg-type]


def found(
    inputs: ModelInputs, samples: pd.DataFrame, settings: SelectionSettings
) -> tuple[pd.Series, int]:
    """The text that is found for each of the samples, and how many have `few`."""
    texts, counts_S = corpus_of(inputs.cohort.table, settings)
    model, pixels = inputs.model, inputs.pixels
    encoded = encode_texts(model, texts, settings.batch_size)
    chosen = [list[str]()] * len(samples)
    for positions, frames in image_batches(pixels, samples, settings.batch_size, model.takes_prior):
        images = EncodedImages.of(model.encode_image(frames))
        with torch.inference_mode():
            score_BS = model.similarity(images, encoded).cpu().numpy()
        for position, places in zip(
            positions, nearest(score_BS, counts_S, settings.many), strict=True
        ):
            chosen[position] = [texts[place] for place in places]
    return select(chosen, samples.index, settings)


def corpus_of(
    pairs: pd.DataFrame, settings: SelectionSettings
) -> tuple[list[str], NDArray[np.int64]]:
    """The different texts of the corpus [S] in order of studies, and how often each counts [S].

    A text without a letter is left out: it is a list's number. The first spelling stays.

    Raises:
        InputError: no report of training and validation has one.
    """
    pairs = pairs[pairs["split"].isin(["train", "validate"])].sort_values("study_id", kind="stable")
    if settings.corpus == "reports":
        texts = report_texts(pairs, settings.sections)
    else:
        of_sections = zip(*(sentences_of(pairs, name) for name in settings.sections), strict=True)
        texts = [text for report in of_sections for section in report for text in section]
    lettered = [text for text in texts if any(map(str.isalpha, text))]
    if not lettered:
        sections = " or ".join(settings.sections)
        raise InputError(
            f"the cohort's training and validation reports have no {sections}; expected a text"
        )
    counts = Counter(map(str.lower if settings.distinct else str, lettered))
    first: dict[str, str] = {}
    for text in lettered:
        first.setdefault(text.lower() if settings.distinct else text, text)
    often = [1 if settings.distinct else counts[key] for key in first]
    return list(first.values()), np.array(often, dtype=np.int64)


def nearest(
    score_BS: NDArray[np.float32], counts_S: NDArray[np.int64], many: int
) -> list[NDArray[np.int64]]:
    """Of each image the places of its ``many`` nearest texts, best first, ties in corpus order.

    A text comes as often as it counts. There are fewer where the corpus has fewer.
    """
    return [np.repeat(row, counts_S[row])[:many] for row in best(score_BS, many)]


def select(
    chosen: list[list[str]], index: pd.Index, settings: SelectionSettings
) -> tuple[pd.Series, int]:
    """The report of each list of texts, best first, and how many reports are of `few`.

    They are the first `few` where the labeller says No Finding of these, else all.
    """
    reports = [" ".join(texts) for texts in chosen]
    if not settings.selects:
        return pd.Series(reports, index=index, dtype=object), 0
    short = [" ".join(texts[: settings.few]) for texts in chosen]
    sentences = make_splitter("rules").split(short)
    labels = make_labeller(settings.labels).label(sentences)
    normal = [each[NO_FINDING] == POSITIVE for each in labels]
    written = [
        few if is_few else all_ for few, all_, is_few in zip(short, reports, normal, strict=True)
    ]
    return pd.Series(written, index=index, dtype=object), sum(normal)
