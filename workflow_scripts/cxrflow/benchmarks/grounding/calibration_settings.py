"""Settings of the images that a peak of a map is compared with."""

from pydantic import Field

from cxr_files.settings import Settings
from cxr_labels.settings import LabellerSettings
from cxrflow.benchmarks.settings import Section
from cxrflow.data.cohorts.settings import Split


class CalibrationSettings(Settings):
    """Images of a cohort and the labels of their reports; ours, not of a paper."""

    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
    split: Split | None = Field(
        default="validate", description="studies that are taken; null: of all parts"
    )
    images: int = Field(default=400, ge=20, description="at most, evenly spaced in the cohort")
    sections: tuple[Section, ...] = Field(
        default=("findings", "impression"), min_length=1, description="that are labelled, together"
    )
    labels: LabellerSettings = Field(default=LabellerSettings(), description="of the reports")
    batch_size: int = Field(default=32, ge=1, description="speed only; results do not depend on it")
