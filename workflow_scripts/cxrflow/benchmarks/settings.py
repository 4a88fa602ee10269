"""Settings of the benchmarks: protocol choices as data, kept with every result.

Defaults are the paper's protocol where it states one, and the plainest choice where it does not;
docs/protocols.md says which is which, and what published inference code does instead.
"""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from cxrflow.command import Settings
from cxrflow.text.settings import MaskingSettings


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


Seeds = Annotated[list[int], Field(min_length=2), AfterValidator(_seeds_differ)]
Shares = Annotated[list[float], Field(min_length=1), AfterValidator(_shares_differ)]
SizeLimits = Annotated[tuple[float, float], AfterValidator(_limits_rise)]


class IntervalSettings(Settings):
    """Percentile bootstrap over the test samples; not in the papers."""

    replicates: int = Field(default=2000, ge=100, description="number of resamples")
    level: float = Field(default=0.95, gt=0, lt=1, description="share of resamples inside")
    unit: Literal["subject", "sample"] = Field(
        default="subject", description="what is drawn; a missing patient id stands for itself"
    )
    seed: int = Field(default=0, description="of the resamples; the same for every model and seed")

    def resampling(self) -> dict[str, Any]:
        """What a bootstrap of :mod:`cxrflow.metrics.intervals` is told besides the clusters."""
        return {"replicates": self.replicates, "seed": self.seed, "level": self.level}


class BenchmarkSettings(Settings):
    """What every benchmark that runs a model has."""

    split: str | None = Field(default=None, description="rows of the cohort to use; null: all")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
    intervals: IntervalSettings = IntervalSettings()


class EncodingSettings(BenchmarkSettings):
    """What a benchmark has that runs an encoder over its samples."""

    batch_size: int = Field(default=32, ge=1, description="speed only; results do not depend on it")


class FeatureSettings(Settings):
    """Image features, computed once for every benchmark that starts from them."""

    batch_size: int = Field(default=32, ge=1, description="images encoded at once; speed only")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")


class MaskPredictionSettings(EncodingSettings):
    """Masked-token prediction on validation reports (BioViL section 4.2, Table 3)."""

    split: str | None = Field(default="validate", description="rows to predict; null: all")
    baseline_split: str = Field(default="train", description="where the baseline counts tokens")
    sections: list[Literal["findings", "impression"]] = Field(
        default=["findings", "impression"],
        min_length=1,
        description="each present section is one sequence",
    )
    masking: MaskingSettings = MaskingSettings()
    max_length: int = Field(default=512, ge=8, le=512, description="tokens a sequence")
    mask_seed: int = Field(default=0, description="of the masks; the same for every model and seed")

    @model_validator(mode="after")
    def _sections_differ(self) -> "MaskPredictionSettings":
        if len(set(self.sections)) < len(self.sections):
            raise ValueError("sections: want each only once")
        return self


class NaturalLanguageInferenceSettings(BenchmarkSettings):
    """Fine-tuning on MedNLI, tested on RadNLI (BioViL section 4.2, Table 3).

    The paper gives the epochs, the number of runs and what is monitored. All else it does not say;
    these are the usual values of fine-tuning BERT (Devlin et al. 2019, Appendix A.3).
    """

    split: str = Field(default="test", description="RadNLI pairs that are scored")
    validation_split: str = Field(
        default="validate", description="RadNLI pairs whose accuracy chooses the epoch"
    )
    train_split: str = Field(default="train", description="MedNLI pairs that are trained on")
    run_seeds: Seeds = Field(
        default=[0, 1, 2, 3, 4],
        description="of head, order and dropout; values are means over the runs (paper: five)",
    )
    epochs: int = Field(default=20, ge=1, description="most passes over the training pairs")
    patience: int | None = Field(
        default=5,
        ge=1,
        description="epochs without a better validation accuracy before a run stops; null: none. "
        "The best epoch is tested in any case, the first of equals",
    )
    batch_size: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=2e-5, gt=0)
    warmup: float = Field(
        default=0.1, ge=0, le=1, description="share of all steps; then linear decay to zero"
    )
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW; not on biases and norms")
    dropout: float = Field(
        default=0.1, ge=0, lt=1, description="in the encoder, attention included, and on [CLS]"
    )
    gradient_clip: float = Field(default=1.0, gt=0, description="largest gradient norm")
    max_length: int = Field(default=128, ge=8, le=512, description="tokens of a pair")

    @model_validator(mode="after")
    def _tested_on_other_pairs(self) -> "NaturalLanguageInferenceSettings":
        if self.split == self.validation_split:
            raise ValueError(f"split: '{self.split}' is also the validation_split")
        return self


class SentenceSimilaritySettings(EncodingSettings):
    """Cosines of RadNLI's sentence pairs (BioViL section 4.2, Table 4)."""

    split: str | None = Field(
        default="test", description="RadNLI pairs that are compared; null: all; the paper is silent"
    )


class VocabularyComparisonSettings(Settings):
    """Tokens per word and the words of Table 1 (BioViL sections 2.1 and 4.2, Tables 1 and 3)."""

    words: list[str] = Field(
        default=[
            "pneumonia",
            "opacity",
            "effusion",
            "pneumothorax",
            "atelectasis",
            "cardiomegaly",
            "bibasilar",
        ],
        min_length=1,
        description="Table 1",
    )
    section: Literal["findings", "impression"] = Field(
        default="findings", description="whose tokens are counted (Table 3)"
    )
    split: str | None = Field(default="validate", description="reports counted; null: all")
    intervals: IntervalSettings = IntervalSettings()


class MsCxrStatisticsSettings(Settings):
    """What MS-CXR holds (BioViL Appendix C, Table C.1)."""

    tokens: Literal["words_and_marks", "words"] = Field(
        default="words_and_marks",
        description="tokens of a phrase; the paper says only 'tokens (inc. full-stop)'. A hyphen "
        "inside a word does not cut it",
    )
    full_stop: Literal["always", "as_written"] = Field(
        default="always", description="whether a phrase without a full stop has its token too"
    )
    age: Literal["study", "anchor"] = Field(
        default="study",
        description="study: at the patient's first study of the row, anchor_age + (its year - "
        "anchor_year); anchor: anchor_age as it stands. The paper does not say",
    )
    max_failed_share: float = Field(
        default=0.01, ge=0, le=1, description="damaged rows of a table that are tolerated"
    )


class PairedTestProtocol(IntervalSettings):
    """Paired bootstrap between the rows of a table; not in the papers."""

    replicates: int = Field(
        default=5000,
        ge=100,
        description="number of resamples; the smallest p is 2 / (this + 1), and what is left of "
        "it after correction for many comparisons needs it to be small",
    )


class PairedComparison(Settings):
    """One metric of one model against one of another (or the same) model, same benchmark."""

    benchmark: str
    model: str
    metric: str = Field(description="name in metrics.json")
    reference_model: str
    reference_metric: str = Field(
        description="name in metrics.json; equal to metric for two models"
    )


class PairedTestSettings(PairedTestProtocol):
    """The protocol, and what is compared."""

    comparisons: list[PairedComparison] = Field(default_factory=list)


class LabelAgreementProtocol(Settings):
    """How our report labels are compared with given ones (Irvin et al. 2019, "Evaluation")."""

    uncertain: Literal["apart", "negative", "positive"] = Field(
        default="apart",
        description="what -1 counts as, on both sides: a class of its own, absent or present",
    )
    intervals: IntervalSettings = IntervalSettings()


class LabelAgreementSettings(LabelAgreementProtocol):
    """The protocol, and what kind of labels the given ones are."""

    layout: Literal["table", "open_i"] = Field(
        default="table",
        description="table: a CSV or Parquet file with a row a study and the observations as "
        "columns (1, 0, -1, blank); open_i: the human index terms of an Open-I folder",
    )
    id_column: str = Field(default="study_id", description="of a table: names the study")
    positives_only: bool = Field(
        default=False,
        description="a table that states what is there and nothing else: its 0, -1 and blank are "
        "not positive, so only positive is scored; index terms always are such a reference",
    )
