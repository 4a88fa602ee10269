"""Settings of the benchmarks: protocol choices as data, kept with every result.

Defaults are the paper's protocol where it states one, and the plainest choice where it does not;
docs/protocols.md says which is which, and what published inference code does instead.
"""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from cxrflow.command import Settings
from cxrflow.text.settings import MaskingSettings


class IntervalSettings(Settings):
    """Percentile bootstrap over the test samples; not in the papers."""

    replicates: int = Field(default=2000, ge=100, description="number of resamples")
    level: float = Field(default=0.95, gt=0, lt=1, description="share of resamples inside")
    unit: Literal["subject", "sample"] = Field(
        default="subject", description="what is drawn; a missing patient id stands for itself"
    )
    seed: int = Field(default=0, description="of the resamples; the same for every model and seed")


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


class PhraseGroundingSettings(EncodingSettings):
    """Phrase grounding on MS-CXR (BioViL sections 4.1 and 4.3; split null: all of MS-CXR)."""

    categories: list[str] = Field(
        default=[
            "Atelectasis",
            "Cardiomegaly",
            "Consolidation",
            "Lung Opacity",
            "Edema",
            "Pneumonia",
            "Pneumothorax",
            "Pleural Effusion",
        ],
        min_length=1,
        description="findings of the macro average, in the order of Table 5",
    )
    smoothing_sigma: float | None = Field(
        default=None,
        gt=0,
        description="Gaussian on the grid, in cells; null: none (paper); released code: 1.5",
    )
    rescale: Literal["none", "minmax"] = Field(
        default="none",
        description="minmax: each map to [-1, 1] (Appendix A.3, models with a local loss)",
    )
    upsample: Literal["nearest", "bilinear"] = Field(
        default="nearest", description="from the grid to pixels"
    )
    space: Literal["original", "stored"] = Field(
        default="original", description="pixels scored: the box image's, or the model's input"
    )
    outside: Literal["ignore", "missed"] = Field(
        default="ignore",
        description="box pixels outside the crop: NaN and left out, or not found (IoU only)",
    )
    thresholds: list[float] = Field(
        default=[0.1, 0.2, 0.3, 0.4, 0.5],
        min_length=1,
        description="of mIoU, on the similarity (section 4.1)",
    )
    figures: int = Field(
        default=0, ge=0, description="example pictures to write; they show radiographs"
    )
    figure_phrases: bool = Field(
        default=False, description="print the phrase, which is report text, with each picture"
    )


class PneumoniaSettings(BenchmarkSettings):
    """What the classifications on RSNA share (BioViL section 4.4): images and prompts."""

    split: str | None = Field(default="test", description="rows that are scored; null: all")
    positive_prompts: list[str] = Field(default=["Findings suggesting pneumonia"], min_length=1)
    negative_prompts: list[str] = Field(default=["No evidence of pneumonia"], min_length=1)


class ZeroShotClassificationSettings(PneumoniaSettings):
    """Zero-shot pneumonia classification on RSNA (BioViL sections 2.2 and 4.4)."""

    temperature: float = Field(
        default=1.0,
        gt=0,
        description="divides the cosines before the softmax; moves scores, not their order",
    )


class LinearProbeSettings(PneumoniaSettings):
    """Linear probes on RSNA (BioViL sections 2.2 and 4.4).

    The paper gives no optimiser, rate, batch or length; these are its successor's for the same head
    (BioViL-T, Appendix F.3, "few-shot").
    """

    split: str = Field(default="test", description="rows that are scored")
    train_split: str = Field(default="train", description="rows of which the shares are taken")
    fractions: list[float] = Field(
        default=[0.01, 0.1, 1.0], min_length=1, description="shares of the training labels"
    )
    probe_seeds: list[int] = Field(
        default=[0, 1, 2, 3, 4],
        min_length=2,
        description="of a share's rows and their order; values are means over them",
    )
    features: Literal["auto", "projected", "pooled"] = Field(
        default="auto",
        description="projected: joint space, length 1 (paper); pooled: the trunk's mean over the "
        "grid; auto: projected where the model has a text half, else pooled",
    )
    start: Literal["auto", "prompts", "zeros", "random"] = Field(
        default="auto",
        description="heads before training; prompts: the class embeddings, bias 0 (paper); "
        "random: uniform within 1/sqrt(features), bias 0; auto: prompts where the model has a "
        "text half, else zeros",
    )
    standardise: bool = Field(default=False, description="features, over a share's rows")
    epochs: int = Field(default=40, ge=1, description="passes over a share's rows")
    batch_size: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW; not on the bias")

    @field_validator("fractions")
    @classmethod
    def _shares(cls, fractions: list[float]) -> list[float]:
        if any(not 0 < share <= 1 for share in fractions) or len(set(fractions)) < len(fractions):
            raise ValueError("want different shares above 0 and up to 1")
        return fractions

    @field_validator("probe_seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("want different seeds from 0 on")
        return seeds

    @model_validator(mode="after")
    def _prompts_live_in_the_joint_space(self) -> "LinearProbeSettings":
        if self.start == "prompts" and self.features == "pooled":
            raise ValueError("start: prompts go with projected features")
        if self.split == self.train_split:
            raise ValueError(f"split: '{self.split}' is also the train_split")
        return self


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
    run_seeds: list[int] = Field(
        default=[0, 1, 2, 3, 4],
        min_length=2,
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

    @field_validator("run_seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("want different seeds from 0 on")
        return seeds

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
