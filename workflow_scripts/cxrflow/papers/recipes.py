"""Recipes of a paper's cohorts, vocabularies, models and tasks, and what was run elsewhere.

``scales`` stand beside what they scale: sizes laid over it where the configuration asks for that
scale. A kind of encoder may go with a size; no method changes.
"""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from cxr_files.settings import Settings
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.layouts import LAYOUTS
from cxrflow.encoders.released.settings import Kind
from cxrflow.kinds import is_outside
from cxrflow.names import Name
from cxrflow.papers.entries import deep_overlay
from cxrflow.pretrain.registry import TRAINING_PROGRAMS, TrainingProgram, program_of
from cxrflow.text.settings import VocabularySettings

# A set that a scale makes smaller gives fewer updates an epoch, and a share of it hardly any.
COUNTS_EPOCHS = (
    "scales.{scale}: it learns from a share, and its length is in epochs, which are fewer updates "
    "of a smaller set; expected a number of updates for all shares (steps, or validate_steps)"
)

#: Keys of a model that name what it starts from or reads beside its cohort.
INPUTS = ("start", "text", "image", "vocabulary", "corpora", "selection", "truth")


def _whole_sets(names: Any) -> Any:
    """Names of data sets alone mean all parts of each."""
    return dict.fromkeys(names, ()) if isinstance(names, list) else names


#: Data sets, and the publisher's parts of each; none: all of it.
HeldOutParts = Annotated[dict[str, tuple[str, ...]], BeforeValidator(_whole_sets)]


class Curation(Settings):
    """A model chooses the image that stands for a study (BioViL-T section 3.3)."""

    model: Name = Field(description="a model with a joint space, trained on single acquisitions")
    candidates: Name = Field(description="cohort of pairs with `unit: image`: all acquisitions")
    margin: float = Field(0.2, ge=0, le=2, description="delta (Appendix A.4)")


class CohortRecipe(CohortSettings):
    """A cohort: its data set, and the sets whose patients must not be in its training part."""

    dataset: str = Field(description="name of a data set, or what the configuration puts there")
    images: str | None = Field(
        None, description="data set that holds its images, if not the data set's own"
    )
    held_out: HeldOutParts = Field(
        {},
        description="kinds pairs, classification and progression: data sets whose patients are "
        "not trained on; {chexpert: [valid, test]}: those of the publisher's parts",
    )
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

    @model_validator(mode="after")
    def _kind_reads_the_sets(self) -> Self:
        reading = {
            "held_out": ("pairs", "classification", "progression"),
            "training": ("progression",),
        }
        for name, kinds in reading.items():
            if getattr(self, name) and self.kind not in kinds:
                raise ValueError(f"{name} of a cohort of kind {self.kind}: expected none")
        return self

    def settings(self) -> CohortSettings:
        """Return the settings of the cohort program."""
        return CohortSettings.model_validate(self.model_dump(exclude=set(self.PLACES)))


class VocabularyRecipe(VocabularySettings):
    """A WordPiece vocabulary and the data sets it is made from."""

    documents: list[str] = Field(min_length=1, description="data sets with text")
    scales: dict[str, dict[str, Any]] = Field(default_factory=dict)

    def settings(self) -> VocabularySettings:
        """Return the settings of the vocabulary program."""
        return VocabularySettings.model_validate(self.model_dump(exclude={"documents", "scales"}))


#: Shares of the training pairs, in per cent.
Shares = Annotated[list[Annotated[float, Field(gt=0, le=100)]], Field(min_length=1)]


def _plain_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Settings that are read before their program validates them: of these kinds."""
    for key in ("terms", "training"):
        if not isinstance(values.get(key) or {}, dict):
            raise ValueError(f"{key} is {values[key]!r}; expected keys and values")
    share = values.get("training_share", 1)
    if isinstance(share, bool) or not isinstance(share, int | float):
        raise ValueError(f"training_share is {share!r}; expected a number")
    return values


#: What differs from a program's defaults.
ModelSettings = Annotated[dict[str, Any], AfterValidator(_plain_settings)]


class ModelScale(Settings):
    """Sizes that a scale lays over a model."""

    shares: list[float] | None = Field(
        None, description="those of its shares that are made, 100 is itself; null: all"
    )

    text: Name | None = Field(
        None, description="model that its text encoder starts from, if it is another one there"
    )
    image: Name | None = Field(None, description="the same of its image encoder")
    geometry: str | None = Field(None, description="of the pixels it sees")
    runs: int | None = Field(
        None, ge=1, description="of its authors, where they are not as many as the paper's"
    )
    settings: ModelSettings = Field(default_factory=dict)

    @property
    def starts(self) -> dict[str, str]:
        """The models that its encoders start from there, where they are others."""
        starts = {"text": self.text, "image": self.image}
        return {half: model for half, model in starts.items() if model is not None}


class Recipe(Settings):
    """One model of a paper."""

    program: str = Field(description="which training program makes it: pretrain/registry.py")
    start: Name | None = Field(None, description="model of its own kind that it starts from")
    text: Name | None = Field(None, description="model that its text encoder starts from")
    image: Name | None = Field(None, description="model that its image encoder starts from")
    vocabulary: Name | None = Field(None, description="its tokenizer")
    corpora: list[str] = Field(
        default_factory=list, description="data sets whose documents it is trained on, packed"
    )
    cohort: Name | None = Field(None, description="cohort whose pairs it is trained on")
    selection: Name | None = Field(
        None,
        description="task whose metrics are values of the validation, selection/<metric>, of which "
        "`stopping.monitor` may name one; never on data that its tables test on",
    )
    shuffled_twins: Name | None = Field(
        None,
        description="a model that differs in `shuffled_pairs` alone: those that this run trains "
        "are twins, beside the untrained starts, by which it is judged whether this one has learnt",
    )
    truth: bool = Field(
        False,
        description="a control may read the boxes of findings that only the synthetic hospital "
        "knows; such a model is trained where it writes them (`finding_truth`)",
    )
    shares: Shares | None = Field(
        None,
        description="per cent of its cohort's training pairs: for each below 100 there is a model "
        "more, which is trained on that share and named <model>_share<per cent>",
    )
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
    overlap: Literal["reports"] | None = Field(
        None,
        description="reports: a text encoder that it goes back to may have read reports of "
        "patients that it is scored on, never with their images; a note below its tables says so",
    )
    settings: ModelSettings = Field(default_factory=dict, description="what differs from defaults")
    scales: dict[str, ModelScale] = Field(default_factory=dict)
    weights: Kind | None = Field(
        None, description="kind of published weights that can stand for it (docs/weights.md)"
    )
    weights_name: str = Field("FILE", description="the usual name of their file or folder")
    weights_from: str = Field("docs/weights.md", description="where they are published")
    stand_in: str | None = Field(
        None,
        description="what weights it stands in for where it is trained here: whatever starts from "
        "it says so in its label, and no verdict on the paper is taken from that",
    )
    weights_of: Name | None = Field(
        None,
        description="model whose published weights these are, of a later stage than its own: no "
        "verdict on a published value is taken from them",
    )

    @field_validator("program")
    @classmethod
    def _program_exists(cls, name: str) -> str:
        if name not in TRAINING_PROGRAMS:
            raise ValueError(f"is '{name}'; expected one of {', '.join(TRAINING_PROGRAMS)}")
        return name

    @model_validator(mode="after")
    def _fits_its_program(self) -> Self:
        program = self.kind
        if self.weights is not None:
            imported = program_of(self.weights)
            if TRAINING_PROGRAMS[imported].offers != program.offers:
                raise ValueError(
                    f"weights is '{self.weights}', which stands for a model of the program "
                    f"{imported}, but program is '{self.program}'"
                )
        if (self.geometry is None) == ("image" in program.offers):
            raise ValueError("geometry belongs to models that see images, and these need one")
        if self.shuffled_twins is not None and "joint" not in program.offers:
            raise ValueError(
                f"shuffled_twins is '{self.shuffled_twins}', but a model of the program "
                f"{self.program} pairs no images and texts; expected null"
            )
        if self.overlap is not None and "text" not in program.offers:
            raise ValueError("overlap is set, but the model reads no texts; expected null")
        inputs = {key for key in INPUTS if getattr(self, key)}
        inputs |= {half for sizes in self.scales.values() for half in sizes.starts}
        foreign = [key for key in INPUTS if key in inputs and key not in program.accepts]
        if foreign:
            raise ValueError(f"a model of the program {self.program} has no '{foreign[0]}'")
        if self.cohort is None and self.weights is not None:
            return self  # nothing but published weights
        for keys in program.requires:
            if not any(getattr(self, key) for key in keys.split(" or ")):
                quoted = keys.replace(" or ", "' or '")
                raise ValueError(f"a model of the program {self.program} has '{quoted}'")
        return self

    @model_validator(mode="after")
    def _scales_count_updates(self) -> Self:
        for scale, sizes in self.scales.items():
            settings = deep_overlay(self.settings, sizes.settings)
            share, training = settings.get("training_share"), settings.get("training") or {}
            if share not in (None, 1) and training.get("steps") is None:
                raise ValueError(COUNTS_EPOCHS.format(scale=scale))
        return self

    @property
    def share(self) -> float:
        """The share of its cohort's training pairs that it is trained on, in per cent."""
        return round(100 * self.settings.get("training_share", 1), 6)

    @property
    def kind(self) -> TrainingProgram:
        """The registry's entry of the program that trains it."""
        return TRAINING_PROGRAMS[self.program]

    def at(self, scale: str) -> "Recipe":
        """This recipe with what it starts from at a scale; its sizes are laid over elsewhere."""
        starts = self.scales.get(scale, ModelScale()).starts
        return self.model_copy(update=starts) if starts else self

    @property
    def parents(self) -> dict[str, str]:
        """The models this one is made from, by the option of the program that takes them."""
        starts = {"start": self.start, "text": self.text, "image": self.image}
        return {option: model for option, model in starts.items() if model is not None}

    @property
    def offers(self) -> set[str]:
        """The abilities a benchmark can ask for: its program's, and a series of checkpoints."""
        terms = self.settings.get("terms") or {}
        trained = (
            more for term, more in self.kind.offers_with.items() if terms.get(term) is not None
        )
        training = self.settings.get("training") or {}
        series = {"checkpoints"} if training.get("checkpoint_validations") else set()
        return set(self.kind.offers.union(*trained, series))


class ExternalModel(Settings):
    """A model that is scored from files and neither trained nor run here."""

    trained_on: str = Field(min_length=1, description="in words, printed below its tables")
    people: list[str] = Field(
        description="layouts of data sets whose patients it has learnt from; an empty list: none"
    )
    files: dict[Name, str] = Field(
        min_length=1, description="by task, the CSV or Parquet file that is scored in it"
    )
    least_share: float = Field(
        1.0, gt=0, le=1, description="of a task's rows that a file must hold, of each part of them"
    )

    @field_validator("people")
    @classmethod
    def _layouts_exist(cls, names: list[str]) -> list[str]:
        for name in names:
            if not is_outside(name) and name not in LAYOUTS:
                raise ValueError(f"'{name}' is no layout; expected some of {', '.join(LAYOUTS)}")
        return names


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
        try:
            benchmark = BENCHMARKS.named(self.benchmark)
        except ValueError as error:
            raise ValueError(f"benchmark {error}") from None
        if (self.of is None) == benchmark.of_task:
            raise ValueError("`of` and a benchmark of checkpoints go together")
        if benchmark.training and self.training is None:
            raise ValueError(f"the benchmark {self.benchmark} needs a cohort 'training'")
        if self.training is not None and not (benchmark.training or benchmark.reports):
            raise ValueError(f"the benchmark {self.benchmark} reads no cohort 'training'")
        if self.demographics is not None and not benchmark.demographics:
            raise ValueError(f"the benchmark {self.benchmark} reads no 'demographics'")
        return self

    @model_validator(mode="after")
    def _scales_count_updates(self) -> Self:
        for scale, sizes in self.scales.items():
            try:
                settings = BENCHMARKS[self.benchmark].settings.model_validate(
                    deep_overlay(self.settings, sizes)
                )
            except ValidationError:  # said where the scale is chosen, with the place of the value
                continue
            if getattr(settings, "counts_epochs_of_shares", False):
                raise ValueError(COUNTS_EPOCHS.format(scale=scale))
        return self
