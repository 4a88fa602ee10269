"""What a paper says of its cohorts, vocabularies, models and tasks (the design's "papers as data").

``scales`` stand beside what they scale: sizes laid over it where the configuration asks for that
scale. They never change a method.
"""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from cxrflow.benchmarks.registry import BENCHMARKS, CHECKPOINTS
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.encoders.released.settings import PROGRAMS, Kind
from cxrflow.names import Name
from cxrflow.settings import Settings
from cxrflow.text.settings import VocabularySettings

Program = Literal[
    "text",
    "initial",
    "supervised",
    "image",
    "joint",
    "studies",
    "temporal",
    "report",
    "caption",
]


class Curation(Settings):
    """Which image of a study stands for it, decided by a model (BioViL-T section 3.3)."""

    model: Name = Field(description="a model with a joint space, trained on single acquisitions")
    candidates: Name = Field(description="cohort of pairs with `unit: image`: all acquisitions")
    margin: float = Field(0.2, ge=0, le=2, description="delta (Appendix A.4)")


class CohortRecipe(CohortSettings):
    """A cohort: its data set, and the sets whose patients must not be in its training part."""

    dataset: str = Field(description="name of a data set, or what the configuration puts there")
    images: str | None = Field(
        None, description="data set that holds its images, if not the data set's own"
    )
    held_out: list[str] = Field(default_factory=list)
    training: str | None = Field(
        None, description="kind progression: data set whose silver labels are trained on"
    )
    curation: Curation | None = Field(
        None, description="rejected images stand for no study; where none is, `choose` chooses"
    )
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict)

    #: Fields that name data sets and models, and sizes; the others are settings of the program.
    PLACES: ClassVar = frozenset(
        {"dataset", "images", "held_out", "training", "curation", "scales"}
    )

    @model_validator(mode="after")
    def _curation_has_a_choice(self) -> Self:
        chooses = self.kind in ("pairs", "progression") or self.priors
        if self.curation and (not chooses or self.unit == "image" or self.acquisitions != "any"):
            raise ValueError(
                "curation of a cohort in which no image is chosen: expected one of kind pairs or "
                "progression, or of grounding with priors, with a row a study"
            )
        return self

    def settings(self) -> dict[str, Any]:
        """What the cohort program receives."""
        return self.model_dump(mode="json", exclude=set(self.PLACES))


class VocabularyRecipe(VocabularySettings):
    """A WordPiece vocabulary and the data sets it is made from."""

    documents: list[str] = Field(min_length=1, description="data sets with text")
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        """What the vocabulary program receives."""
        return self.model_dump(mode="json", exclude={"documents", "scales"})


class ModelScale(Settings):
    """What a scale lays over a model."""

    geometry: str | None = Field(None, description="of the pixels it sees")
    settings: dict[str, Any] = Field(default_factory=dict)


class Recipe(Settings):
    """One model of a paper."""

    program: Program = Field(description="which training program makes it: cxrflow.pretrain.*")
    start: Name | None = Field(None, description="text, report: model that it starts from")
    text: Name | None = Field(None, description="joint, studies, temporal: the text model")
    image: Name | None = Field(None, description="the same, initial, caption: the image model")
    vocabulary: Name | None = Field(None, description="text, caption: its tokenizer")
    corpora: list[str] = Field(
        default_factory=list, description="text program: train on these data sets, packed"
    )
    cohort: Name | None = Field(None, description="cohort whose pairs it is trained on")
    geometry: str | None = Field(
        None,
        description="of the pixels it sees: shorter<N>, shorter<N>crop<M>, longer<N>, square<N>",
    )
    seeds: Literal["shared", "each", "once"] = Field(
        "shared",
        description="each: one run a seed; shared: the first seed's for all, or one a seed where "
        "the configuration says `shared_models: each`; once: the first seed's whatever it says",
    )
    control: bool = Field(False, description="a control: made by the target `controls` only")
    settings: dict[str, Any] = Field(default_factory=dict, description="what differs from defaults")
    scales: dict[str, ModelScale] = Field(default_factory=dict)
    weights: Kind | None = Field(
        None, description="kind of published weights that can stand for it (docs/weights.md)"
    )

    @model_validator(mode="after")
    def _fits_its_program(self) -> Self:
        program = "image" if self.program == "supervised" else self.program  # a trunk alone
        if self.weights is not None and PROGRAMS[self.weights] != program:
            raise ValueError(
                f"weights is '{self.weights}', which stands for a model of the program "
                f"{PROGRAMS[self.weights]}, but program is '{self.program}'"
            )
        if (self.geometry is None) != (self.program == "text"):
            raise ValueError("geometry belongs to models that see images, and these need one")
        if self.program == "report" and (self.start is None or self.cohort is None):
            raise ValueError("a report model has a 'start', with both halves, and a 'cohort'")
        if self.program == "caption" and (self.vocabulary is None or self.cohort is None):
            raise ValueError("a captioning model has a 'vocabulary' and a 'cohort'")
        tokens = self.vocabulary or self.start
        if self.program == "text" and self.cohort is not None and tokens is None:
            raise ValueError("a text model that is trained has a 'vocabulary' or a 'start'")
        return self

    @property
    def parents(self) -> dict[str, str]:
        """The models this one is made from, by the option of the program that takes them."""
        named = {"start": self.start, "text": self.text, "image": self.image}
        return {option: model for option, model in named.items() if model is not None}

    @property
    def offers(self) -> set[str]:
        """What a benchmark can ask of it: an image half, a text half, both in one space, frames,
        masked words that are guided by the image, a report of an image (which a decoder writes, and
        a joint space finds), a decoder, a series of checkpoints."""
        both = {"text", "image", "joint", "report"}
        guided = {"guided"} if self.settings.get("terms", {}).get("mlm") is not None else set()
        training = self.settings.get("training") or {}
        series = {"checkpoints"} if training.get("checkpoint_validations") else set()
        offered = {
            "text": {"text"},
            "initial": {"image"},
            "supervised": {"image"},
            "image": {"image"},
            "joint": both,
            "studies": both,
            "temporal": both | {"frames"} | guided,
            "report": {"image", "report", "decoder"},
            "caption": {"image", "report"},
        }
        return offered[self.program] | series


class Task(Settings):
    """A benchmark on a cohort, with its protocol."""

    benchmark: str
    cohort: Name = Field(description="what it is measured on")
    training: Name | None = Field(None, description="cohort whose training part a benchmark reads")
    demographics: str | None = Field(None, description="data set that says who the patients are")
    of: Name | None = Field(None, description="task that every checkpoint of a training is put to")
    settings: dict[str, Any] = Field(default_factory=dict, description="what differs from defaults")
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _benchmark_exists(self) -> Self:
        if self.benchmark not in BENCHMARKS:
            raise ValueError(
                f"benchmark is '{self.benchmark}'; expected one of {', '.join(BENCHMARKS)}"
            )
        known = BENCHMARKS[self.benchmark]
        if (self.of is None) == (known.needs == CHECKPOINTS):
            raise ValueError("`of` and a benchmark of checkpoints go together")
        if known.training and self.training is None:
            raise ValueError(f"the benchmark {self.benchmark} needs a cohort 'training'")
        if self.training is not None and not (known.training or known.reports):
            raise ValueError(f"the benchmark {self.benchmark} reads no cohort 'training'")
        if self.demographics is not None and self.benchmark != "ms_cxr_statistics":
            raise ValueError(f"the benchmark {self.benchmark} reads no 'demographics'")
        return self
