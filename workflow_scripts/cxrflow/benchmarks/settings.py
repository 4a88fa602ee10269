"""Settings of the benchmarks: protocol choices as data, kept with every result.

Defaults are the paper's protocol where it states one, and the plainest choice where it does not;
docs/protocols.md says which is which, and what published inference code does instead.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from cxr_files.settings import Seed, Settings
from cxrflow.data.cohorts.settings import Split
from cxrflow.similarity.settings import PromptAverage


def _seeds_differ(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ValueError("want different seeds from 0 on")
    return seeds


def _shares_differ(shares: list[float]) -> list[float]:
    if any(not 0 < share <= 1 for share in shares) or len(set(shares)) < len(shares):
        raise ValueError("want different shares above 0 and up to 1")
    return shares


def _limits_rise(limits: tuple[float, float]) -> tuple[float, float]:
    if not 0 < limits[0] < limits[1] < 1:
        raise ValueError("want two shares between 0 and 1, the smaller first")
    return limits


Section = Literal["findings", "impression"]

# Fewer trainings of a model say too little of what another seed would give: rows get no marks, and
# no claim is judged.
LEAST_SEEDS = 3

Seeds = Annotated[list[int], Field(min_length=2), AfterValidator(_seeds_differ)]
Shares = Annotated[list[float], Field(min_length=1), AfterValidator(_shares_differ)]
SizeLimits = Annotated[tuple[float, float], AfterValidator(_limits_rise)]


class IntervalSettings(Settings):
    """Bootstrap over the test samples; not in the papers."""

    replicates: int = Field(default=2000, ge=100, description="number of resamples")
    level: float = Field(default=0.95, gt=0, lt=1, description="share of resamples inside")
    unit: Literal["subject", "sample"] = Field(
        default="subject", description="what is drawn; a missing patient id stands for itself"
    )
    seed: Seed = Field(default=0, description="of the resamples; the same for every model and seed")

    def resampling(self) -> dict[str, Any]:
        """Return the arguments of a bootstrap of :mod:`cxrflow.metrics.intervals`."""
        return {"replicates": self.replicates, "seed": self.seed, "level": self.level}


class CurationSettings(Settings):
    """Image curation (BioViL-T section 3.3, Appendix A.4)."""

    margin: float = Field(
        default=0.2, ge=0, le=2, description="delta of section 3.3 (Appendix A.4)"
    )
    batch_size: int = Field(default=64, ge=1, description="images encoded at once")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")


class BenchmarkSettings(Settings):
    """Settings of every benchmark that runs a model."""

    split: Split | None = Field(default=None, description="rows of the cohort to use; null: all")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
    intervals: IntervalSettings = IntervalSettings()

    @property
    def counts_epochs_of_shares(self) -> bool:
        """True if it learns from a share of the labels, as long as so many epochs of the share."""
        return False


class EncodingSettings(BenchmarkSettings):
    """Settings of a benchmark that runs an encoder over its samples."""

    batch_size: int = Field(default=32, ge=1, description="speed only; results do not depend on it")


class MapSettings(Settings):
    """How a map on a grid of patches is compared with boxes."""

    upsample: Literal["nearest", "bilinear"] = Field(
        default="nearest",
        description="from the grid to pixels; nearest is counted by cell, bilinear pixel by pixel",
    )
    space: Literal["original", "stored"] = Field(
        default="original", description="pixels scored: the box image's, or the model's input"
    )
    outside: Literal["ignore", "missed"] = Field(
        default="ignore",
        description="box pixels outside the crop: left out, or not found (not of CNR)",
    )


class FeatureSettings(Settings):
    """Image features, computed once for every benchmark that starts from them."""

    batch_size: int = Field(default=32, ge=1, description="images encoded at once; speed only")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")


class PairedComparison(Settings):
    """One metric of one model against one of another (or the same) model, same task."""

    task: str
    model: str
    metric: str = Field(description="name in metrics.json")
    reference_model: str
    reference_metric: str = Field(
        description="name in metrics.json; equal to metric for two models"
    )
    reference_task: str | None = Field(
        default=None, description="another task of the same samples; null: the same task"
    )
    margin: float | None = Field(
        default=None, gt=0, description="tested is whether the difference is within ± this"
    )
    factor: float | None = Field(
        default=None, gt=0, description="of the reference before it is subtracted; null: 1"
    )

    def results(self) -> list[tuple[str, str]]:
        """The task and the model of either side."""
        task = self.reference_task or self.task
        return [(self.task, self.model), (task, self.reference_model)]


class PairedTestSettings(IntervalSettings):
    """The protocol, and what is compared."""

    comparisons: list[PairedComparison] = Field(default_factory=list)


class PromptSettings(BenchmarkSettings):
    """Images that are scored, and the prompts of what is looked for (BioViL section 4.4)."""

    split: Split | None = Field(default="test", description="rows that are scored; null: all")
    positive_prompts: list[str] = Field(
        default=["Findings suggesting pneumonia"],
        min_length=1,
        description="{} stands for a class in lower case, where there are several",
    )
    negative_prompts: list[str] = Field(default=["No evidence of pneumonia"], min_length=1)
    prompt_average: PromptAverage = Field(
        default="normalised",
        description="several prompts of a class: mean of their unit embeddings, or raw: of the "
        "projections as they are (public inference code); made unit again either way",
    )
