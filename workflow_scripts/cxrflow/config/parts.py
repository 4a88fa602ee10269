"""The values under the top-level keys of a configuration, a class each."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from cxr_files.errors import InputError
from cxr_files.settings import MOST_CORES, Settings
from cxr_labels.settings import ReportSettings
from cxrflow.benchmarks.data.settings import LabelAgreementProtocol
from cxrflow.data.layouts import LAYOUTS, layout
from cxrflow.names import ShortName
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.reports.settings import EntityTaggerSettings, SentenceSplitterSettings


class Dataset(Settings):
    """A data set as published, or the synthetic hospital's copy of one."""

    layout: str | None = Field(
        None, description="whose files it has: chooses the reader; null = the one of its name"
    )
    root: str | None = Field(None, description="its folder; none for a synthetic one")
    synthetic: bool = Field(
        False, description="drawn by the synthetic hospital, where no root is given"
    )
    optional: bool = Field(
        False,
        description="where its root is not there, the run goes without it and says so; otherwise "
        "that is an error",
    )
    in_place_of: str | tuple[str, ...] | None = Field(
        None,
        description="name of the data set, or names, that it replaces wherever a paper names "
        "these: your own hospital, or Open-I for MIMIC-CXR. Nothing synthetic is read then",
    )
    people: frozenset[str] | None = Field(
        None,
        description="whose patients real files are of, by a layout's `people`: [chexpert]; []: of "
        "no data set's; null: as the layout says",
    )
    ids: str | None = Field(
        None,
        description="how these patients are numbered, by a layout's `ids`: then other data sets "
        "can be held out; null: as the layout says",
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
        if self.optional and self.root is None:
            raise ValueError("optional is of a 'root'; a drawn data set is always there")
        if self.root is None and (self.people is not None or self.ids is not None):
            raise ValueError("people and ids are of a 'root'; drawn patients are nobody's")
        for field, names_here, allowed in (
            ("people", self.people or (), frozenset().union(*(layout(n).people for n in LAYOUTS))),
            ("ids", [self.ids] if self.ids else (), {layout(n).ids for n in LAYOUTS} - {None}),
        ):
            strange = sorted(set(names_here) - allowed)
            if strange:
                names = ", ".join(sorted(map(str, allowed)))
                raise ValueError(f"{field} names '{strange[0]}'; expected of {names}")
        return self

    @property
    def places(self) -> tuple[str, ...]:
        """The names of the data sets that it replaces."""
        places = self.in_place_of or ()
        return (places,) if isinstance(places, str) else places

    @property
    def says_people(self) -> bool:
        """True if it says whose patients it has, and does not leave that to its layout."""
        return self.people is not None or self.ids is not None

    @property
    def is_drawn(self) -> bool:
        """True if the synthetic hospital draws it."""
        return self.root is None

    @property
    def is_absent(self) -> bool:
        """True if the run goes without it, since its folder is not there."""
        return self.optional and self.root is not None and not Path(self.root).is_dir()


class Entities(Settings):
    """The entity tagger of report generation: its stanza models, or how it is trained."""

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
        """Return the settings of the report program."""
        elsewhere = {"stanza_folder", "sentence_splitter", "entities"}
        return ReportSettings.model_validate(self.model_dump(exclude=elsewhere))


class LabelComparison(Settings):
    """Reference labels to compare the labels of a data set's reports with."""

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
    """The comparison of report labels with reference labels."""

    comparisons: list[LabelComparison] | None = Field(
        None, description="null: with what comes with this run's reports; an empty list: none"
    )


# The rules that have an entry under `resources`; evaluations may have one by benchmark as well.
RULES = (
    *("build_pairs", "build_vocabulary", "check_orderings", "collect_text", "compare_rows"),
    *("curate_images", "draw_curve", "draw_figure", "draw_phantom", "evaluate"),
    *("extract_features", "import_weights", "label_agreement"),
    *("make_certificate", "make_page", "make_table", "measure_data"),
    *("process_reports", "record_config", "register_pairs"),
    *("score_external", "score_reference", "show_reports", "store_pixels", "tokenise_documents"),
    *("train_entity_tagger", "train_sentence_splitter"),
    *sorted({program.rule for program in TRAINING_PROGRAMS.values()}),
)


# Rules that ask for resources under another's name.
ASK_AS = {
    **dict.fromkeys(
        ("build_samples", "build_retrieval", "join_pairs", "join_samples"), "build_pairs"
    ),
    "compare_labels": "label_agreement",
}


class Resources(Settings):
    """The resources of one job of a rule; on a cluster they are the job's limits."""

    threads: int = Field(1, ge=1, le=MOST_CORES)
    mem_mb: int = Field(2000, ge=100, le=100_000_000)
    runtime: int = Field(30, ge=1, le=525_600, description="minutes")
    gpu: int = Field(0, ge=0, le=1024)
    retries: int = Field(1, ge=0, le=100, description="a training resumes from its saved state")
    processes: int = Field(
        1, ge=1, le=MOST_CORES, description="of a training, on each node; one a GPU"
    )
    nodes: int = Field(1, ge=1, le=10_000, description="of a training, under Slurm")


class Rehearsal(Settings):
    """A rehearsal of a run: every kind of its jobs on a slice of its data, for a few steps."""

    steps: int = Field(5, ge=4, description="updates of a training, stopped and resumed in between")
    samples: int = Field(
        20, ge=4, description="rows of a part of a cohort; to train on, as many as a batch has"
    )
    reports: int = Field(1000, ge=100, description="reports, or documents, read of a data set")
    batch: int | None = Field(
        None, ge=2, description="largest batch, for a machine that holds no more; null: the run's"
    )
    image: int | None = Field(
        None, ge=32, description="edge of images, likewise; a vision transformer's stay as they are"
    )


class Privacy(Settings):
    """Permission to show images and report text in pictures and the page, and to name ids.

    auto: those of synthetic data alone.
    """

    show_images: Literal["auto"] | bool = "auto"
    show_text: Literal["auto"] | bool = "auto"
    show_ids: Literal["auto"] | bool = "auto"

    def permits(self, content: Literal["images", "text", "ids"], synthetic: bool) -> bool:
        """True if pictures may hold radiographs or report text of such data, and records ids."""
        choice = {"images": self.show_images, "text": self.show_text, "ids": self.show_ids}[content]
        return synthetic if choice == "auto" else choice
