"""Settings of retrieval by image and by text (ConVIRT 4.2, Figure 3), and of pairs."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings, FigureColumn
from cxrflow.benchmarks.settings import BenchmarkSettings, EncodingSettings, Section
from cxrflow.data.cohorts.settings import Split
from cxrflow.names import Name


def _cutoffs_rise(cutoffs: list[int]) -> list[int]:
    if cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1:
        raise ValueError("want rising whole numbers from 1 on")
    return cutoffs


Cutoffs = Annotated[list[int], Field(min_length=1), AfterValidator(_cutoffs_rise)]


class RetrievalSettings(BenchmarkSettings):
    """Candidates of several categories, ranked for each query."""

    cutoffs: Cutoffs = Field(
        default=[5, 10, 50, 100],
        description="k of precision at k: section 4.2 says 5, 10 and 100, Table 2 has 50",
    )


class ImageRetrievalSettings(RetrievalSettings):
    """Images that are like an image."""

    features: Literal["pooled", "projected"] = Field(
        default="pooled",
        description="pooled: the trunk's mean over the grid, the output of f_v, which every row "
        "of Table 2 has; projected: the joint space",
    )


class TextRetrievalSettings(RetrievalSettings):
    """Images that fit a text: the cosine of their vectors in the joint space."""


class PairRetrievalSettings(EncodingSettings):
    """Of each image its own report, of each report its own image."""

    split: Split | None = Field(default="test", description="studies that are searched")
    sections: tuple[Section, ...] = Field(
        default=("impression",),
        min_length=1,
        description="of the reports, as one text in this order; what the model was trained with",
    )
    equal_texts: Literal["once", "tied"] = Field(
        default="once",
        description="studies whose texts agree but for case and blanks. once: the first of them "
        "stands for all; tied: all are asked for, and none of them counts against another",
    )
    cutoffs: Cutoffs = Field(default=[1, 5, 10], description="k of recall at k")


class RetrievalAurocSettings(EncodingSettings):
    """All pairs of test images and reports, by one threshold (Windsor et al. 2023, section 3)."""

    split: Split | None = Field(default="test", description="studies that are compared")
    sections: tuple[Section, ...] = Field(
        default=("impression",),
        min_length=1,
        description="of the reports, as one text in this order (section 3: the impression)",
    )
    cutoffs: Cutoffs = Field(default=[1, 5, 10], description="k of recall at k; ours")


class EmbeddingFigureSettings(ColumnsFigureSettings):
    """Candidates of some categories in the plane, for several models (ConVIRT Figure 3)."""

    PROGRAM: ClassVar = "benchmarks.retrieval.embedding_map"
    READS: ClassVar = ("models", "features")

    kind: Literal["t_sne"] = "t_sne"
    task: Name = Field(description="image retrieval, whose candidates and features are drawn")
    categories: list[str] = Field(min_length=2)
    perplexity: float = Field(default=30, gt=0, description="of t-SNE; not stated")


class ModelFigureSettings(ColumnsFigureSettings):
    """Examples of one model's retrieval, at equal distances in an order, not chosen by hand."""

    columns: list[FigureColumn] = Field(min_length=1, max_length=1)
    sections: tuple[Section, ...] = Field(
        default=("impression",), min_length=1, description="of the reports, as one text"
    )
    batch_size: int = Field(
        default=64, ge=1, description="images or texts that are encoded together"
    )


class NeighboursFigureSettings(ModelFigureSettings):
    """Texts beside their nearest neighbours of training (Windsor et al. 2023, Figure 6).

    Searched are texts of other training studies, as the queue of the term ``neighbours`` does, but
    with the trained encoder. A text that agrees word for word is no example and is left out.
    """

    RULE: ClassVar = "show_reports"
    PROGRAM: ClassVar = "benchmarks.retrieval.text_neighbours"
    READS: ClassVar = ("models",)
    ENDING: ClassVar = "json"
    SHOWS: ClassVar = frozenset({"text"})

    kind: Literal["neighbours"] = "neighbours"
    task: Name = Field(description="retrieval of pairs, whose cohort has the texts")
    count: int = Field(default=6, ge=1, le=24, description="examples; Figure 6 has 6")
    queries: int = Field(default=200, ge=1, description="training texts that examples are among")
    searched: int = Field(default=16_384, ge=2, description="training texts at most, by their hash")


class RetrievedFigureSettings(ModelFigureSettings):
    """Reports with the images they retrieve (Windsor et al. 2023, the second Figure 7).

    Beside a report are its own image with its rank, the two most similar images and the least
    similar one, each with its cosine.
    """

    PROGRAM: ClassVar = "benchmarks.retrieval.retrieved_images"
    READS: ClassVar = ("models", "pixels")
    SHOWS: ClassVar = frozenset({"images", "text"})

    kind: Literal["retrieved"] = "retrieved"
    task: Name = Field(description="retrieval of pairs, whose test studies are searched")
    count: int = Field(default=5, ge=1, le=24, description="examples; the paper has 5")
    split: Split | None = Field(default="test", description="studies that are searched")
