"""Settings of classification by prompts and by probes, and of segmentation (BioViL 4.4, 4.5)."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from cxr_files.settings import Before, Settings
from cxr_labels.settings import LabellerSettings as ReportLabels
from cxrflow.benchmarks.settings import (
    BenchmarkSettings,
    PromptSettings,
    Section,
)
from cxrflow.data.cohorts.settings import Split

Metric = Literal[
    "auroc",
    "average_precision",
    "accuracy",
    "balanced_accuracy",
    "sensitivity",
    "specificity",
    "f1",
    "threshold",
]
LabelValue = Literal["ignore", "zero", "one"]


class ClassPrompts(Settings):
    """Prompts of one class in place of the general ones."""

    positive: list[str] = Field(min_length=1)
    negative: list[str] = Field(min_length=1)


class LabelSettings(BenchmarkSettings):
    """Classes of images, what their labels count as, what is scored and how."""

    classes: list[str] | None = Field(
        default=None, min_length=1, description="of the cohort, in this order; null: all of them"
    )
    without: list[str] | None = Field(
        default=None,
        min_length=1,
        description="classes that are left out of all those of the cohort; null: none",
    )
    exclusive: bool = Field(
        default=False,
        description="every image has one of the classes: softmax over them all, and the answer is "
        "the greatest. Else each class is present or not",
    )
    uncertain: LabelValue | dict[str, LabelValue] = Field(
        default="ignore",
        description="what the label -1 counts as, for all classes or by class; ignore: the image "
        "does not count for the class",
    )
    unknown: Literal["ignore", "zero"] = Field(
        default="ignore", description="what a label that is not given counts as"
    )
    sample: Literal["image", "group"] = Field(
        default="image",
        description="what is scored; group: the study, by the mean score of its images",
    )
    threshold: Literal["best_f1", "best_mcc"] | float = Field(
        default="best_f1",
        description="above which an image is called positive: the best on the scored images, of "
        "each class, or a score",
    )
    metrics: list[Metric] = Field(
        default=["auroc", "accuracy", "sensitivity", "specificity", "f1", "threshold"],
        min_length=1,
        description="of exclusive classes: auroc, accuracy, balanced_accuracy, f1",
    )

    @model_validator(mode="after")
    def _without_is_of_all_classes(self) -> Self:
        if self.without is not None and self.classes is not None:
            raise ValueError(
                f"without names '{self.without[0]}', but classes are chosen; expected classes null"
            )
        return self


class ClassificationSettings(PromptSettings, LabelSettings):
    """Settings of classifications that have prompts."""

    class_prompts: dict[str, ClassPrompts] = Field(
        default={}, description="classes with prompts of their own"
    )
    prompts: Literal["chexzero", "windsor", "gloria", "kad"] | None = Field(
        default=None,
        description="a published set of prompts (data/prompts.py), with its own exceptions and the "
        "classes in words, in place of the two lists; null: those",
    )

    @model_validator(mode="after")
    def _prompts_are_lists_or_a_set(self) -> Self:
        lists = {"positive_prompts", "negative_prompts"}
        differing = [n for n in lists if getattr(self, n) != type(self).model_fields[n].default]
        if self.prompts is not None and differing:
            name = sorted(differing)[0]
            raise ValueError(f"prompts: {self.prompts} has its own; expected no {name}")
        return self


class PromptPair(Settings):
    """Another pair of prompts for the same two classes (BioViL Appendix A.1)."""

    name: str = Field(pattern=r"^[a-z0-9_]+$", description="as in the metrics auroc/<name> …")
    positive: list[str] = Field(min_length=1)
    negative: list[str] = Field(min_length=1)
    compared_with: str | None = Field(
        default=None,
        description="pair whose AUROC this one's is held against in delta/<name>: a name, or "
        "default for the main prompts",
    )


# Table A.1's pairs beside the default one; |ΔAUC| is printed for two of them, against the row
# before of the same model.
PAPER_PROMPT_PAIRS = [
    PromptPair(
        name="suggesting_acute",
        positive=["Findings suggesting pneumonia"],
        negative=["There is no evidence of acute pneumonia"],
    ),
    PromptPair(
        name="diagnosis_acute",
        positive=["Consistent with the diagnosis of pneumonia"],
        negative=["There is no evidence of acute pneumonia"],
        compared_with="default",
    ),
    PromptPair(
        name="consistent",
        positive=["Findings consistent with pneumonia"],
        negative=["No evidence of pneumonia"],
    ),
    PromptPair(
        name="consistent_none",
        positive=["Findings consistent with pneumonia"],
        negative=["There is no pneumonia"],
        compared_with="consistent",
    ),
]


class ZeroShotClassificationSettings(ClassificationSettings):
    """Zero-shot classification (BioViL sections 2.2 and 4.4: pneumonia on RSNA)."""

    temperature: float = Field(
        default=1.0,
        ge=0.06,
        description="divides the cosines before the softmax; below 0.06 probabilities round to 1",
    )
    threshold_part: Split | None = Field(
        default=None,
        description="part of the cohort on whose images the best threshold of each class is "
        "chosen, before it is applied to those that are scored; null: on these themselves",
    )
    rare: list[str] | None = Field(
        default=None,
        min_length=1,
        description="classes that are called rare: metrics auroc_rare, auroc_common, the means "
        "over them and over the others, and rare_less_common, the difference; null: none",
    )
    prompt_pairs: list[PromptPair] = Field(
        default=PAPER_PROMPT_PAIRS,
        description="other pairs of prompts, scored beside the main ones (Table A.1)",
    )

    @model_validator(mode="after")
    def _thresholds_are_chosen_elsewhere(self) -> Self:
        if self.threshold_part is None:
            return self
        if self.split in (None, self.threshold_part):
            raise ValueError(
                f"threshold_part is {self.threshold_part}; expected another part than the split "
                f"that is scored, {self.split or 'which is null, all parts'}"
            )
        if isinstance(self.threshold, float) or self.exclusive:
            raise ValueError(
                f"threshold_part is {self.threshold_part}; expected threshold best_f1 or best_mcc "
                "of classes that are not exclusive"
            )
        return self

    @model_validator(mode="after")
    def _rare_are_some_of_the_classes(self) -> Self:
        if self.rare is None:
            return self
        strange = [name for name in self.rare if name not in (self.classes or ())]
        if strange:
            raise ValueError(f"rare names '{strange[0]}'; expected some of `classes`")
        if self.exclusive or set(self.rare) >= set(self.classes or ()):
            raise ValueError("rare are all classes, or classes are exclusive; expected others")
        return self

    @property
    def parts(self) -> list[Split | None]:
        """The parts of the cohort that are read: what is scored, and where thresholds are from."""
        chosen_on = [] if self.threshold_part is None else [self.threshold_part]
        return [self.split, *chosen_on]

    @field_validator("prompt_pairs")
    @classmethod
    def _pairs_have_names_of_their_own(cls, pairs: list[PromptPair]) -> list[PromptPair]:
        names = [pair.name for pair in pairs]
        # Metrics auroc/normal and auroc/not_normal are those against one kind of negatives.
        repeated = sorted(
            n for n in set(names) if names.count(n) > 1 or n in ("default", "normal", "not_normal")
        )
        if repeated:
            raise ValueError(f"{repeated} cannot name a pair, or names two; want different names")
        for pair in pairs:
            if pair.compared_with not in (None, "default", *names):
                raise ValueError(
                    f"'{pair.name}' is compared with '{pair.compared_with}'; want default or one "
                    f"of {names}"
                )
        return pairs


# Those that MS-CXR has boxes of.
FINDINGS = [
    "Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Lung Opacity", "Pleural Effusion",
    "Pneumonia", "Pneumothorax",
]  # fmt: skip

LabelSource = Literal["reports", "cohort"]
LABEL_SOURCE: Any = Field(
    default="reports",
    description="reports: `labels` read them in `sections`; cohort: the column `labels` of its "
    "pairs, which a cohort with `labels: published` has of MIMIC-CXR-JPG's CheXpert table",
)


class ZeroShotFindingsSettings(ZeroShotClassificationSettings):
    """Zero-shot classification of what the studies' own reports name; not of the papers."""

    sections: tuple[Section, ...] = Field(
        default=("findings", "impression"), min_length=1, description="that are labelled, together"
    )
    labels: ReportLabels = Field(default=ReportLabels(), description="of the reports")
    label_source: Annotated[LabelSource, Before("reports")] = LABEL_SOURCE
    matching: Annotated[Literal["model", "global"], Before("model")] = Field(
        default="model",
        description="model: as the model compares images with texts; global: the cosine of the "
        "projections whatever it was trained with (Windsor et al. 2023, Appendix D.1)",
    )
    classes: list[str] | None = Field(
        default=FINDINGS, min_length=1, description="CheXpert's observations; null: all of them"
    )
    unknown: Literal["ignore", "zero"] = Field(
        default="zero", description="what a finding counts as that the report does not name"
    )
    positive_prompts: list[str] = Field(default=["Findings suggesting {}"], min_length=1)
    negative_prompts: list[str] = Field(default=["No evidence of {}"], min_length=1)
    prompt_pairs: list[PromptPair] = []
    batch_size: int = Field(default=32, ge=1, description="speed only; results do not depend on it")
