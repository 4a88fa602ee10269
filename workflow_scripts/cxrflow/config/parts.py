"""The parts of a configuration: one class an entry of a top-level key."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from cxrflow.benchmarks.data.settings import LabelAgreementProtocol
from cxrflow.data.layouts import layout
from cxrflow.errors import InputError
from cxrflow.names import ShortName
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.reports.entities.settings import EntityTaggerSettings
from cxrflow.reports.settings import ReportSettings, SentenceSplitterSettings
from cxrflow.settings import MOST_CORES, Settings


class Dataset(Settings):
    """A data set as published, or the synthetic hospital's copy of one."""

    layout: str | None = Field(
        None, description="whose files it has: chooses the reader; null = the one of its name"
    )
    root: str | None = Field(None, description="its folder; none for a synthetic one")
    synthetic: bool = Field(
        False, description="drawn by the synthetic hospital, where no root is given"
    )
    in_place_of: str | None = Field(
        None,
        description="name of the data set that it replaces wherever a paper names that one: your "
        "own hospital, or Open-I for MIMIC-CXR. Nothing synthetic is read then",
    )

    @field_validator("layout")
    @classmethod
    def _layout_exists(cls, name: str | None) -> str | None:
        try:
            return name and layout(name).name
        except InputError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if not self.synthetic and self.root is None:
            raise ValueError("set either 'root' (real files) or 'synthetic: true'")
        return self

    @property
    def is_drawn(self) -> bool:
        """Whether the synthetic hospital draws it."""
        return self.root is None


class Entities(Settings):
    """Where the stanza models of report generation's entity tagger are."""

    stanza_folder: str | None = Field(
        None, description="folder of stanza models; null = train one on the synthetic text"
    )
    training: EntityTaggerSettings = Field(
        EntityTaggerSettings(), description="training of that one"
    )


class Reports(ReportSettings):
    """Report processing, and where its stanza models are."""

    stanza_folder: str | None = Field(
        None, description="folder of stanza models; null = train one on the synthetic text"
    )
    sentence_splitter: SentenceSplitterSettings = Field(
        SentenceSplitterSettings(), description="training of that one"
    )
    entities: Entities = Field(Entities(), description="named entities, for TEM and NEM")

    def settings(self) -> ReportSettings:
        """What the report program receives."""
        elsewhere = {"stanza_folder", "sentence_splitter", "entities"}
        return ReportSettings.model_validate(self.model_dump(exclude=elsewhere))


class Comparison(Settings):
    """Given labels to compare the labels of a data set's reports with."""

    dataset: str = Field(description="data set of reports")
    reference: ShortName = Field(
        description="its name; without a file: chexpert, negbio or radiologist, tables of the "
        "mimic_cxr_jpg data set, or terms, the index terms of an open_i one",
    )
    file: str | None = Field(
        None, description="CSV or Parquet, a row a study, the observations as columns"
    )
    id_column: str = Field("study_id", description="column of the file that names the study")
    positives_only: bool = Field(
        False, description="the file states what is there and nothing else: 0 is not 'absent'"
    )


class LabelAgreement(LabelAgreementProtocol):
    """How report labels are compared, and with which."""

    comparisons: list[Comparison] | None = Field(
        None, description="null: with what comes with this run's reports; an empty list: none"
    )


# Rules whose jobs ask for resources, by what they ask under; those of a benchmark by that as well.
RULES = (
    *("build_pairs", "build_vocabulary", "check_orderings", "collect_text", "compare_rows"),
    *("curate_images", "draw_curve", "draw_figure", "draw_phantom", "evaluate"),
    *("extract_features", "import_weights", "label_agreement"),
    *("make_page", "make_table", "measure_data"),
    *("process_reports", "record_config", "register_pairs"),
    *("score_reference", "show_reports", "store_pixels", "tokenise_documents"),
    *("train_entity_tagger", "train_sentence_splitter"),
    *sorted({program.rule for program in TRAINING_PROGRAMS.values()}),
)


class Resources(Settings):
    """What one job of a rule asks for; on a cluster these become the job's limits."""

    threads: int = Field(1, ge=1, le=MOST_CORES)
    mem_mb: int = Field(2000, ge=100, le=100_000_000)
    runtime: int = Field(30, ge=1, le=525_600, description="minutes")
    gpu: int = Field(0, ge=0, le=1024)
    retries: int = Field(1, ge=0, le=100, description="a training resumes from its saved state")
    processes: int = Field(
        1, ge=1, le=MOST_CORES, description="of a training, on each node; one a GPU"
    )
    nodes: int = Field(1, ge=1, le=10_000, description="of a training, under Slurm")


class Privacy(Settings):
    """Whether pictures and the page may show images and report text; auto = only synthetic ones."""

    show_images: Literal["auto"] | bool = "auto"
    show_text: Literal["auto"] | bool = "auto"
