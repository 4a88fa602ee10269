"""Settings of temporal image classification (BioViL-T section 4.2, Appendix F.3)."""

from typing import Any, Literal

from pydantic import Field

from cxrflow.benchmarks.classification.settings import ConvergedSolver
from cxrflow.benchmarks.settings import BenchmarkSettings, IntervalSettings
from cxrflow.command import Settings
from cxrflow.images.settings import AugmentationSettings
from cxrflow.training.settings import TrainingSettings


def _training(**values: Any) -> TrainingSettings:
    """AdamW with linear warm-up and decay (F.3); kept are the weights of the last step."""
    return TrainingSettings.model_validate({"validations": 10, **values})


class Probe(Settings):
    """A linear layer on frozen features (Table 7), at its optimum."""

    name: Literal["probe"] = "probe"
    solver: ConvergedSolver = ConvergedSolver()


class HeadTraining(Settings):
    """A head that is trained by weighted cross-entropy on augmented images (F.3)."""

    seeds: list[int] = Field(
        default=[0, 1, 2, 3], min_length=1, description="of the runs (Table 2: four)"
    )


class FineTuning(HeadTraining):
    """The whole encoder and a multilayer head, for each finding by itself (F.3)."""

    name: Literal["fine_tuned"] = "fine_tuned"
    hidden: int = Field(default=128, ge=1, description="width inside the head; not given")
    augmentation: AugmentationSettings = Field(
        default=AugmentationSettings(
            angle=30, shear=15, flip_probability=0.5, crop_scale=(0.75, 1.0), noise=0.05
        ),
        description="F.3: flips, crops, rotation up to 30, shear up to 15 degrees, brightness, "
        "contrast, noise; the sizes of crops, jitter and noise are not given",
    )
    training: TrainingSettings = _training(
        batch_size=128, epochs=30, optimiser={"learning_rate": 1e-5}
    )


class FewShot(HeadTraining):
    """A linear layer that starts at the embeddings of three prompts, on a frozen encoder (F.3)."""

    name: Literal["few_shot"] = "few_shot"
    share: float = Field(default=0.1, gt=0, le=1, description="of the training pairs (Table 2)")
    prompts: dict[Literal["improving", "stable", "worsening"], str] = Field(
        default={name: f"{{}} is {name}" for name in ("improving", "stable", "worsening")},
        description="{} stands for the finding; not given",
    )
    augmentation: AugmentationSettings = Field(
        default=AugmentationSettings(angle=45, shear=25, flip_probability=0.5),
        description="F.3: flips, rotation up to 45, shear up to 25 degrees, brightness, contrast",
    )
    training: TrainingSettings = _training(
        batch_size=32, epochs=40, optimiser={"learning_rate": 1e-3}
    )


class TemporalClassificationSettings(BenchmarkSettings):
    """Temporal image classification: improving, stable or worsening, of a finding."""

    split: str = Field(default="test", description="rows that are scored")
    train_split: str = Field(default="train", description="rows that are learnt from")
    validation_split: str = Field(
        default="validate", description="rows whose loss is logged; nothing is chosen by it"
    )
    findings: list[str] = Field(
        default=["Consolidation", "Pleural Effusion", "Pneumonia", "Pneumothorax", "Edema"],
        min_length=1,
        description="in the order of Table 2",
    )
    batch_size: int = Field(default=32, ge=1, description="pairs encoded at once; speed only")
    registered: bool = Field(
        default=False,
        description="the prior is moved onto the current image first (F.7; Table 2, w/reg)",
    )
    learning: Probe | FineTuning | FewShot = Field(default=FineTuning(), discriminator="name")


class RegistrationErrorSettings(Settings):
    """Registration (Appendix F.7) against the truth of the synthetic hospital; ours."""

    geometry: str = Field(
        default="shorter512",
        pattern=r"^(shorter|longer)\d+(crop\d+|unpadded)?$",
        description="stored images that are registered; one that keeps their shape",
    )
    split: str | None = Field(default=None, description="rows of the cohort to use; null: all")
    intervals: IntervalSettings = IntervalSettings()
