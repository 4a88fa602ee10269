"""Settings of what is measured on the data themselves, without a model."""

from typing import Literal

from pydantic import Field

from cxr_files.settings import Settings
from cxr_labels.settings import LabellerSettings
from cxrflow.benchmarks.settings import IntervalSettings
from cxrflow.data.cohorts.settings import Split
from cxrflow.reports.settings import EntitySettings


class MsCxrStatisticsSettings(Settings):
    """Statistics of MS-CXR (BioViL Appendix C, Table C.1)."""

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


class CourseStatisticsSettings(Settings):
    """Patients' repeated studies, and reports that compare (BioViL-T Appendix B)."""

    max_failed_share: float = Field(
        default=0.01, ge=0, le=1, description="damaged files or rows that are tolerated"
    )


class RowStatisticsSettings(Settings):
    """Numbers of a cohort's rows (BioViL-T Tables C.1, C.2, F.2; Windsor et al. 2023, Table 1)."""

    split: Split | None = Field(default="test", description="rows that are counted; null: all")


class MetricAgreementSettings(Settings):
    """Agreement of metrics of reports with radiologists' errors (ReXVal)."""

    split: Split | None = Field(default="test", description="pairs that are scored; null: all")
    labels: LabellerSettings = Field(
        default=LabellerSettings(), description="of both texts, for F1 (CheXbert by its weights)"
    )
    tagger: Literal["stanza", "keywords"] = Field(
        default="stanza",
        description="of entities for TEM; keywords: TEM's words wherever they stand",
    )
    entities: EntitySettings = EntitySettings()
    intervals: IntervalSettings = IntervalSettings()


class TrainingTimeSettings(Settings):
    """Hours of a training, which has nothing to set (Windsor et al. 2023, Table 3)."""


class CurationStatisticsSettings(Settings):
    """Decisions of image curation (BioViL-T Appendix A.4)."""

    split: Split | None = Field(default=None, description="patients that are counted; null: all")
    intervals: IntervalSettings = IntervalSettings()


class LabelAgreementProtocol(Settings):
    """Protocol of comparing report labels with a reference (Irvin et al. 2019, "Evaluation")."""

    uncertain: Literal["apart", "negative", "positive"] = Field(
        default="apart",
        description="what -1 counts as, on both sides: a class of its own, absent or present",
    )
    intervals: IntervalSettings = IntervalSettings()


class LabelAgreementSettings(LabelAgreementProtocol):
    """The protocol, and the kind of reference labels."""

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
