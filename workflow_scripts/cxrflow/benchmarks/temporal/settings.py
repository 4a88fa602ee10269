"""Settings of the benchmarks of two images of a patient: protocol choices as data."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from cxr_files.settings import Before, Settings
from cxr_files.yaml_file import read_yaml
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.settings import EncodingSettings, IntervalSettings
from cxrflow.data.cohorts.settings import Split
from cxrflow.images.settings import AugmentationSettings
from cxrflow.training.settings import TrainingSettings

Direction = Literal["improving", "stable", "worsening"]


def _training(**values: Any) -> TrainingSettings:
    """Return AdamW with linear warm-up and decay (F.3); the last step's weights count."""
    return TrainingSettings.model_validate({"validations": 10, **values})


PairFeatures = Literal["pair", "current", "differences"]


class Probe(Settings):
    """A linear layer on frozen features (Table 7), at its optimum."""

    name: Literal["probe"] = "probe"
    features: Annotated[PairFeatures, Before("pair")] = Field(
        default="pair",
        description="pair: as the paper's heads read two images; current: of the current image by "
        "itself (ours); differences: beside the pair's, each image's by itself, subtracted, and "
        "the absolute values of that (ours)",
    )
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
    prompts: dict[Direction, str] = Field(
        default={name: f"{{}} is {name}" for name in get_args(Direction)},
        description="{} stands for the finding; not given",
    )
    augmentation: AugmentationSettings = Field(
        default=AugmentationSettings(angle=45, shear=25, flip_probability=0.5),
        description="F.3: flips, rotation up to 45, shear up to 25 degrees, brightness, contrast",
    )
    training: TrainingSettings = _training(
        batch_size=32, epochs=40, optimiser={"learning_rate": 1e-3}
    )


class TemporalSettings(EncodingSettings):
    """Classification of a finding as improving, stable or worsening."""

    split: Split = Field(default="test", description="rows that are scored")
    findings: list[str] = Field(
        default=["Consolidation", "Pleural Effusion", "Pneumonia", "Pneumothorax", "Edema"],
        min_length=1,
        description="in the order of Table 2",
    )


class TemporalClassificationSettings(TemporalSettings):
    """Temporal image classification by a trained head."""

    train_split: Split = Field(default="train", description="rows that are learnt from")
    validation_split: Split = Field(
        default="validate", description="rows whose loss is logged; nothing is chosen by it"
    )
    registered: bool = Field(
        default=False,
        description="the prior is moved onto the current image first (F.7; Table 2, w/reg)",
    )
    learning: Probe | FineTuning | FewShot = Field(default=FineTuning(), discriminator="name")

    @property
    def counts_epochs_of_shares(self) -> bool:
        learning = self.learning
        is_few = isinstance(learning, FewShot) and learning.share < 1
        return is_few and learning.training.epochs is not None  # type: ignore[union-attr]


# fmt: off
WORDS: dict[Direction, list[str]] = {
    "improving": [
        "better", "cleared", "decreased", "decreasing", "improved", "improving", "reduced",
        "resolved", "resolving", "smaller",
    ],
    "stable": ["constant", "stable", "unchanged"],
    "worsening": [
        "bigger", "developing", "enlarged", "enlarging", "greater", "growing", "increased",
        "increasing", "larger", "new", "progressing", "progressive", "worse", "worsened",
        "worsening",
    ],
}
# fmt: on


class TemporalPromptingSettings(TemporalSettings):
    """Temporal image classification by the next word of a report decoder (Appendix F.4)."""

    template: str = Field(
        default="{} is", pattern=r"\{\}", description='{} stands for the finding: "[FINDING] is"'
    )
    words: dict[Direction, list[str]] = Field(
        default=WORDS, description="Table F.3: what stands for each class"
    )
    pooled: Literal["sum", "mean"] = Field(
        default="sum", description="of the words' posterior, by class; not given"
    )

    @model_validator(mode="after")
    def _classes_have_words(self) -> Self:
        for name in get_args(Direction):
            if not self.words.get(name):
                raise ValueError(f"words has none of class {name}; expected at least one")
        return self


class TemporalZeroShotSettings(EncodingSettings):
    """Zero-shot classification of change by prompts (CheXTemporal)."""

    split: Split = Field(default="test", description="rows that are scored")
    findings: list[str] | None = Field(
        default=None, min_length=1, description="null: those that the rows have"
    )
    template: str = Field(
        default="{} is {}",
        pattern=r"^[^{}]*\{\}[^{}]*\{\}[^{}]*$",
        description="{} stands for the finding, in lower case, and then for the direction",
    )


class RegistrationErrorSettings(Settings):
    """Registration (Appendix F.7) against the truth of the synthetic hospital; ours."""

    geometry: str = Field(
        default="shorter512",
        pattern=r"^(shorter|longer)\d+(crop\d+|unpadded)?$",
        description="stored images that are registered; one that keeps their shape",
    )
    split: Split | None = Field(default=None, description="rows of the cohort to use; null: all")
    intervals: IntervalSettings = IntervalSettings()


class AttentionRolloutSettings(EncodingSettings):
    """Attention rollout from boxes to the prior (BioViL-T Appendix A.3, Figures 3 and A.5)."""

    split: Split | None = Field(default=None, description="boxes to start from; null: all")
    kept: float = Field(
        default=0.1, gt=0, le=1, description="share of each block's attention weights (A.3)"
    )
    angles: list[float] = Field(
        default=[-30.0, 30.0],
        min_length=1,
        description="degrees that the prior image is rotated by (Figure A.5)",
    )
    figures: int = Field(
        default=0,
        ge=0,
        le=8,
        description="findings of which an example is drawn, on one sheet; it shows radiographs, "
        "so 0 leaves it out",
    )

    @model_validator(mode="after")
    def _angles_turn(self) -> Self:
        if 0 in self.angles or len(set(self.angles)) < len(self.angles):
            raise ValueError(f"angles is {self.angles}; expected each once, and not 0")
        return self


def _categories() -> dict[str, Any]:
    return read_yaml(Path(__file__).with_name("token_categories.yaml"))


class PriorInfluenceSettings(EncodingSettings):
    """Gain of masked words by the prior image (BioViL-T section 4.6, Appendix F.5, Figure 4)."""

    split: Split | None = Field(default="test", description="studies whose reports are masked")
    sections: list[Literal["findings", "impression"]] = Field(
        default=["findings", "impression"], min_length=1, description="whose sentences are read"
    )
    samples: int | None = Field(
        default=None, ge=1, description="studies drawn of those with a prior; null: all"
    )
    least_sentences: int = Field(
        default=10, ge=1, description="a token must stand in so many sentences (N_m of F.5)"
    )
    categories: dict[str, list[str]] = Field(
        default_factory=_categories,
        min_length=1,
        description="words by category (Table F.4); ours, as the paper's are not published",
    )

    @model_validator(mode="after")
    def _a_word_stands_once(self) -> Self:
        words = [word for group in self.categories.values() for word in group]
        twice = sorted({word for word in words if words.count(word) > 1})
        if twice:
            raise ValueError(f"categories: want each word only once, not so: {', '.join(twice)}")
        return self
