"""Settings of the benchmarks of generated reports: protocol choices as data, kept with results."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Settings
from cxr_labels.settings import LabellerSettings
from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings
from cxrflow.benchmarks.settings import EncodingSettings, Section
from cxrflow.data.cohorts.settings import Split
from cxrflow.names import Name
from cxrflow.reports.settings import EntitySettings


class ReportGenerationSettings(EncodingSettings):
    """Reports of images (BioViL-T Tables 1, 3, 7 and F.1); what it does not state is ours."""

    split: Split | None = Field(default="test", description="studies whose reports are written")
    method: Literal["own", "sentences"] = Field(
        default="own",
        description="own: a decoder writes; without one the training report that is nearest in the "
        "joint space (Appendix F.2). sentences: the nearest sentences, joined (CXR-RePaiR)",
    )
    sections: tuple[Section, ...] = Field(
        default=("findings", "impression"),
        min_length=1,
        description="of the reports, as one text in this order; a decoder writes its own",
    )
    embedded: tuple[Section, ...] = Field(
        default=("impression",),
        min_length=1,
        description="of training reports, the text that an image is compared with: what joint "
        "training has compared it with",
    )
    sentences: int = Field(default=2, ge=1, description="of method sentences, best first")
    beams: int = Field(default=1, ge=1, description="of a decoder; 1: greedy, the paper is silent")
    length_penalty: float = Field(default=1.0, description="of beams")
    samples: int | None = Field(default=None, ge=1, description="studies, drawn once; null: all")
    controls: bool = Field(
        default=True, description="write again with another patient's image, and prior"
    )
    labels: LabellerSettings = Field(
        default=LabellerSettings(), description="of both texts, for F1 (CheXbert by its weights)"
    )
    tagger: Literal["stanza", "keywords"] = Field(
        default="stanza",
        description="of entities for TEM and NEM (Appendix D); keywords: TEM's words wherever they "
        "stand, and no NEM",
    )
    entities: EntitySettings = EntitySettings()

    @model_validator(mode="after")
    def _sections_once(self) -> Self:
        for name in ("sections", "embedded"):
            chosen = getattr(self, name)
            if len(set(chosen)) < len(chosen):
                raise ValueError(f"{name} is {list(chosen)}; expected each section once")
        return self


class ReportsFigureSettings(ColumnsFigureSettings):
    """Reports of several models beside the radiologist's (BioViL-T Table A.1).

    The paper's are chosen by hand. Ours stand at equal distances in the order of ROUGE-L, mean of
    all columns: of three the quartiles, of one the median. Where there is a prior image, of the
    studies whose report speaks of change.
    """

    RULE: ClassVar = "show_reports"
    PROGRAM: ClassVar = "benchmarks.generation.side_by_side"
    ENDING: ClassVar = "json"
    SHOWS: ClassVar = frozenset({"text"})

    kind: Literal["reports"] = "reports"
    task: Name = Field(description="report generation, whose texts are shown")
    with_prior: int = Field(default=3, ge=0, le=12, description="studies that have a prior image")
    without_prior: int = Field(default=1, ge=0, le=12, description="studies that have none")


class OneReportSettings(Settings):
    """Settings of ``cxrflow draft``."""

    beams: int = Field(default=1, ge=1, description="1: greedy")
    length_penalty: float = Field(default=1.0, description="of beams")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
