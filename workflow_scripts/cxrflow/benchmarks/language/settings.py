"""Settings of the benchmarks of text: protocol choices as data, kept with every result.

docs/protocols.md says which is the paper's and which is ours.
"""

from typing import Literal

from pydantic import Field, model_validator

from cxr_files.settings import Seed, Settings
from cxrflow.benchmarks.settings import BenchmarkSettings, EncodingSettings, IntervalSettings, Seeds
from cxrflow.data.cohorts.settings import Split
from cxrflow.text.settings import MaskingSettings


class MaskPredictionSettings(EncodingSettings):
    """Masked-token prediction on validation reports (BioViL section 4.2, Table 3)."""

    split: Split | None = Field(default="validate", description="rows to predict; null: all")
    baseline_split: Split = Field(default="train", description="where the baseline counts tokens")
    sections: list[Literal["findings", "impression"]] = Field(
        default=["findings", "impression"],
        min_length=1,
        description="each present section is one sequence",
    )
    masking: MaskingSettings = MaskingSettings()
    max_length: int = Field(default=512, ge=8, le=512, description="tokens a sequence")
    mask_seed: Seed = Field(
        default=0, description="of the masks; the same for every model and seed"
    )

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

    split: Split = Field(default="test", description="RadNLI pairs that are scored")
    validation_split: Split = Field(
        default="validate", description="RadNLI pairs whose accuracy chooses the epoch"
    )
    train_split: Split = Field(default="train", description="MedNLI pairs that are trained on")
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

    split: Split | None = Field(
        default="test", description="RadNLI pairs that are compared; null: all; the paper is silent"
    )


class ParaphraseDetectionSettings(EncodingSettings):
    """Paraphrase or contradiction by the cosine of two sentences (BioViL-T F.6, Table 6)."""

    split: Split | None = Field(default="test", description="pairs that are compared; null: all")
    embedding: Literal["auto", "cls", "mean", "projected"] = Field(
        default="auto",
        description="of a sentence, from the last layer. cls: the state of [CLS]; mean: of all "
        "tokens; projected: as in the joint space. auto: cls where an objective has reached it "
        "(section matching, joint training), else mean (F.6)",
    )
    folds: int = Field(default=10, ge=2, description="of the cross-validation of the threshold")
    fold_seed: Seed = Field(default=0, description="of the folds; the paper does not say")
    step: float = Field(default=0.005, gt=0, le=1, description="between thresholds (F.6)")


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
    split: Split | None = Field(default="validate", description="reports counted; null: all")
    intervals: IntervalSettings = IntervalSettings()
