"""Settings of heads on a model's image features, and of the encoder trained with a head.

Linear probes (BioViL sections 2.2 and 4.4), probes by folds (Windsor et al. 2023, Appendix D.1),
transfer to a labelled set (ConVIRT section 4.2).
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Seed
from cxr_labels.settings import LabellerSettings as ReportLabels
from cxrflow.benchmarks.classification.settings import (
    LABEL_SOURCE,
    ClassificationSettings,
    LabelSettings,
    LabelSource,
    LabelValue,
    Metric,
)
from cxrflow.benchmarks.heads.settings import ProbeSettings
from cxrflow.benchmarks.settings import EncodingSettings, Section, Seeds, Shares
from cxrflow.data.cohorts.settings import Split
from cxrflow.images.settings import AugmentationSettings
from cxrflow.training.settings import TrainingSettings


class LinearProbeSettings(ProbeSettings, ClassificationSettings):
    """Linear probes (BioViL sections 2.2 and 4.4: on RSNA). The paper gives no optimiser."""

    fractions: Shares = Field(default=[0.01, 0.1, 1.0], description="shares of the training labels")
    metrics: list[Metric] = Field(
        default=["auroc", "accuracy", "sensitivity", "specificity", "f1"], min_length=1
    )
    features: Literal["auto", "projected", "pooled"] = Field(
        default="auto",
        description="projected: joint space, length 1 (paper); pooled: the trunk's mean over the "
        "grid; auto: projected where the model has a text encoder, else pooled",
    )
    augmentation: AugmentationSettings | None = Field(
        default=None,
        description="what images that a head learns from are changed by (the paper's: Table E.1, "
        "third column); null: features of the images as they are, computed once for all",
    )
    draws: int = Field(
        default=8, ge=1, description="augmented versions of each image that a head learns from"
    )

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs of a share."""
        return self.probe_seeds

    @model_validator(mode="after")
    def _prompts_live_in_the_joint_space(self) -> "LinearProbeSettings":
        if self.start == "prompts" and self.features == "pooled":
            raise ValueError("start: prompts go with projected features")
        return self


# Windsor et al. 2023, Appendix D.1: CheXpert's observations without No Finding, Pleural Other.
CONDITIONS = [
    "Cardiomegaly", "Atelectasis", "Lung Opacity", "Pleural Effusion", "Edema", "Pneumonia",
    "Pneumothorax", "Consolidation", "Fracture", "Enlarged Cardiomediastinum", "Support Devices",
    "Lung Lesion",
]  # fmt: skip


class FoldProbeSettings(LabelSettings, EncodingSettings):
    """Linear probes on the test part alone, by folds (Windsor et al. 2023, Appendix D.1)."""

    split: Split = Field(default="test", description="studies of which the folds are made")
    label_source: LabelSource = LABEL_SOURCE
    sections: tuple[Section, ...] = Field(
        default=("findings", "impression"), min_length=1, description="that are labelled, together"
    )
    labels: ReportLabels = Field(default=ReportLabels(), description="of the reports")
    classes: list[str] | None = Field(default=CONDITIONS, min_length=1)
    uncertain: LabelValue | dict[str, LabelValue] = Field(
        default="zero",
        description="what the label -1 counts as; D.1 treats uncertain cases as negatives",
    )
    unknown: Literal["ignore", "zero"] = Field(default="zero", description="the same of no label")
    threshold: Literal["best_f1", "best_mcc"] | float = Field(
        default=0.5, description="probability from which a class is present; or the best in a fold"
    )
    metrics: list[Metric] = Field(default=["balanced_accuracy", "auroc"], min_length=1)
    folds: int = Field(default=5, ge=2, description="D.1: 5")
    fold_unit: Literal["patient", "image"] = Field(
        default="patient", description="what lies in one fold alone; not stated"
    )
    fold_seed: Seed = Field(default=0, description="of the folds; not stated")
    features: Literal["pooled", "projected"] = Field(
        default="pooled", description="pooled: the trunk's mean over the grid; not stated"
    )
    inverse_penalty: float = Field(default=1.0, gt=0, description="C; not stated")


class TransferSettings(LabelSettings):
    """Transfer of a pre-trained image encoder to a labelled data set (ConVIRT section 4.2).

    The parts of the cohort, the images, the shares of the labels and the runs; not how a head, or
    the encoder with it, learns.
    """

    split: Split = Field(default="test", description="rows that are scored")
    train_split: Split = Field(default="train", description="rows of which the shares are taken")
    validation_split: Split = Field(
        default="validate", description="rows that choose the epoch, the rate and the end"
    )
    geometry: str | None = Field(
        default=None,
        description="of the pixels, whatever a model was trained on (Appendix B: padded to a "
        "square, then 224 x 224: longer224); null: each model's own",
    )
    fractions: Shares = Field(default=[0.01, 0.1, 1.0], description="shares of the training labels")
    stratified: bool = Field(
        default=True,
        description="a share has each class's share of it, of classes that exclude each other; "
        "not stated",
    )
    lists: dict[str, Path] = Field(
        default={},
        description="files that name the images of a share, by the share in per cent ('1'), one a "
        "line; what follows the name does not count. Other shares are drawn, for each run anew",
    )
    run_seeds: Seeds = Field(
        default=[0, 1, 2, 3, 4],
        description="of the runs of a share: its rows, their order, the head's start and dropout; "
        "values are means over them (section 4.2: five)",
    )
    dropout: float = Field(default=0.2, ge=0, lt=1, description="before the head (Appendix B)")
    metrics: list[Metric] = Field(default=["auroc"], min_length=1)

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs of a share."""
        return self.run_seeds

    @model_validator(mode="after")
    def _parts_differ(self) -> Self:
        splits = (self.train_split, self.validation_split, self.split)
        if len(set(splits)) < len(splits):
            raise ValueError(f"train_split, validation_split, split: {splits} names a part twice")
        strange = set(self.lists) - {f"{100 * share:g}" for share in self.fractions}
        if strange:
            raise ValueError(f"lists: '{min(strange)}' is none of the fractions, in per cent")
        return self


class LinearClassificationSettings(TransferSettings):
    """A linear head on frozen features (ConVIRT section 4.2, Appendix B)."""

    learning_rate: float = Field(default=1e-4, gt=0, description="of Adam (COVIDx: 1e-3)")
    weight_decay: float = Field(default=1e-6, ge=0, description="added to the gradient")
    batch_size: int = Field(default=64, ge=1)
    factor: float = Field(default=0.5, gt=0, lt=1, description="of the rate at a plateau")
    plateau: int = Field(default=3, ge=1, description="epochs without a better validation score")
    patience: int = Field(default=10, ge=1, description="such epochs after which a run ends")
    epochs: int = Field(default=500, ge=1, description="at most; not stated")
    validate_steps: int | None = Field(
        default=None,
        ge=1,
        description="updates that count as an epoch in `plateau`, `patience` and `epochs`, the "
        "same of every share; null: once through the share's own rows (Appendix B)",
    )
    monitor: Metric = Field(default="auroc", description="the validation score")
    encoder_batch_size: int = Field(default=32, ge=1, description="images encoded at once; speed")

    @property
    def counts_epochs_of_shares(self) -> bool:
        return self.validate_steps is None and min(self.fractions) < 1

    @property
    def rhythm(self) -> TrainingSettings:
        """The stopping rule on the validation scores, for the training engine."""
        return TrainingSettings.model_validate(
            {
                "epochs": self.epochs,
                "validate_steps": self.validate_steps,
                "schedule": {"decay": "plateau", "factor": self.factor, "patience": self.plateau},
                "stopping": {"patience": self.patience, "monitor": self.monitor, "mode": "max"},
            }
        )


class FineTunedClassificationSettings(TransferSettings):
    """A linear head and the encoder under it (ConVIRT section 4.2, Appendix B)."""

    warmup_steps: int = Field(
        default=200, ge=0, description="updates of the head alone, the encoder frozen"
    )
    warmup_rate: float = Field(default=1e-3, gt=0, description="of Adam in these")
    training: TrainingSettings = Field(
        default=TrainingSettings.model_validate(
            {
                "batch_size": 64,
                "epochs": 200,
                "validations": 200,
                "optimiser": {"name": "adam", "learning_rate": 1e-4, "weight_decay": 1e-6},
                "schedule": {"decay": "plateau", "warmup": 0, "factor": 0.5, "patience": 3},
                "stopping": {"keep": "best", "patience": 10, "monitor": "auroc", "mode": "max"},
            }
        ),
        description="of both, Appendix B; a validation an epoch. The most epochs are not stated",
    )

    @property
    def counts_epochs_of_shares(self) -> bool:
        return self.training.epochs is not None and min(self.fractions) < 1
