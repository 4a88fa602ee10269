"""The parts of a configuration: one class an entry of a top-level key."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from cxrflow.command import Settings
from cxrflow.config.entities import Entities
from cxrflow.data.layouts import layout
from cxrflow.data.settings import CohortSettings
from cxrflow.errors import InputError
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.reports.settings import ReportSettings, SentenceSplitterSettings
from cxrflow.text.settings import VocabularySettings


class Dataset(Settings):
    """A data set as published, or the synthetic hospital's copy of one."""

    layout: str = Field(description="whose files it has: chooses the reader")
    root: str | None = Field(None, description="its folder; none for a synthetic one")
    synthetic: bool = Field(False, description="drawn by the synthetic hospital")
    images: str | None = Field(None, description="data set that holds the images, if not this one")

    @field_validator("layout")
    @classmethod
    def _layout_exists(cls, name: str) -> str:
        try:
            return layout(name).name
        except InputError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.synthetic == (self.root is not None):
            raise ValueError("set either 'root' (real files) or 'synthetic: true'")
        if self.synthetic and not layout(self.layout).synthetic:
            raise ValueError(f"no synthetic copy of {self.layout} is drawn; expected a root")
        return self


class Cohort(CohortSettings):
    """A cohort: its data set, and the sets whose patients must not be in its training part."""

    dataset: str
    images: str | None = Field(
        None, description="data set that holds its images, if not the data set's own"
    )
    held_out: list[str] = Field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """What the cohort program receives."""
        return self.model_dump(mode="json", exclude={"dataset", "images", "held_out"})


class Reports(ReportSettings):
    """Report processing, and where its stanza models are."""

    stanza_folder: str | None = Field(
        None, description="folder of stanza models; null = train one on the synthetic text"
    )
    sentence_splitter: SentenceSplitterSettings = Field(
        SentenceSplitterSettings(), description="training of that one"
    )
    entities: Entities = Field(Entities(), description="named entities, for TEM and NEM")

    def settings(self) -> dict[str, Any]:
        """What the report program receives."""
        elsewhere = {"stanza_folder", "sentence_splitter", "entities"}
        return self.model_dump(mode="json", exclude=elsewhere)


class Pixels(PixelSettings):
    """The pixel store's geometry and settings."""

    geometry: str = Field(description="shorter<N>, shorter<N>crop<M>, longer<N> or square<N>")

    @field_validator("geometry")
    @classmethod
    def _geometry_exists(cls, name: str) -> str:
        try:
            return str(Geometry.parse(name))  # in the one spelling that names its folder
        except InputError as error:
            raise ValueError(str(error)) from None

    def settings(self) -> dict[str, Any]:
        """What the pixel store program receives."""
        return self.model_dump(mode="json", exclude={"geometry"})


class Vocabulary(VocabularySettings):
    """A WordPiece vocabulary and the data sets it is made from."""

    documents: list[str] | None = Field(
        None, description="data sets; null = all corpora and the reports"
    )

    def settings(self) -> dict[str, Any]:
        """What the vocabulary program receives."""
        return self.model_dump(mode="json", exclude={"documents"})


class Resources(Settings):
    """What one job of a rule asks for; on a cluster these become the job's limits."""

    threads: int = Field(1, ge=1)
    mem_mb: int = Field(2000, ge=100)
    runtime: int = Field(30, ge=1, description="minutes")
    gpu: int = Field(0, ge=0)
    retries: int = Field(1, ge=0, description="a training goes on from its saved state")
    processes: int = Field(1, ge=1, description="of a training, on each node; one a GPU")
    nodes: int = Field(1, ge=1, description="of a training, under Slurm")


class Privacy(Settings):
    """Whether the report page may show images and report text; auto = only synthetic ones."""

    show_images: Literal["auto"] | bool = "auto"
    show_text: Literal["auto"] | bool = "auto"
