"""Settings of retrieval by image and by text (ConVIRT 4.2, Figure 3), and of pairs."""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings
from cxrflow.benchmarks.settings import BenchmarkSettings, EncodingSettings, Section
from cxrflow.data.cohorts.settings import Split
from cxrflow.names import Name


def _cutoffs_rise(cutoffs: list[int]) -> list[int]:
    if cutoffs != sorted(set(cutoffs)) or cutoffs[0] < 1:
        raise ValueError("want rising whole numbers from 1 on")
    return cutoffs


class RetrievalSettings(BenchmarkSettings):
    """Candidates of several categories, ranked for each query."""

    cutoffs: Annotated[list[int], Field(min_length=1), AfterValidator(_cutoffs_rise)] = Field(
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
    cutoffs: Annotated[list[int], Field(min_length=1), AfterValidator(_cutoffs_rise)] = Field(
        default=[1, 5, 10], description="k of recall at k"
    )


class RetrievalAurocSettings(EncodingSettings):
    """All pairs of test images and reports, by one threshold (Windsor et al. 2023, section 3)."""

    split: Split | None = Field(default="test", description="studies that are compared")
    sections: tuple[Section, ...] = Field(
        default=("impression",),
        min_length=1,
        description="of the reports, as one text in this order (section 3: the impression)",
    )
    cutoffs: Annotated[list[int], Field(min_length=1), AfterValidator(_cutoffs_rise)] = Field(
        default=[1, 5, 10], description="k of recall at k; ours"
    )


class EmbeddingFigureSettings(ColumnsFigureSettings):
    """Candidates of some categories in the plane, for several models (ConVIRT Figure 3)."""

    PROGRAM: ClassVar = "retrieval.embedding_map"
    READS: ClassVar = ("models", "features")

    kind: Literal["t_sne"] = "t_sne"
    task: Name = Field(description="image retrieval, whose candidates and features are drawn")
    categories: list[str] = Field(min_length=2)
    perplexity: float = Field(default=30, gt=0, description="of t-SNE; not stated")
