"""Settings of linear probes that are cross-validated on the test part (Windsor et al. 2023)."""

from typing import Literal

from pydantic import Field

from cxr_files.settings import Seed
from cxr_labels.settings import LabellerSettings as ReportLabels
from cxrflow.benchmarks.classification.settings import (
    LABEL_SOURCE,
    LabelSettings,
    LabelSource,
    LabelValue,
    Metric,
)
from cxrflow.benchmarks.settings import EncodingSettings, Section
from cxrflow.data.cohorts.settings import Split

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
