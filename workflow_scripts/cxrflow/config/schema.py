"""What may stand in a configuration: one class a top-level key, composed of the stages' settings.

Every cross-reference (a role's cohort, a cohort's data set, a model's parent) is checked here, so
that nothing starts with a name that refers to nothing.
"""

from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from cxrflow.command import Settings
from cxrflow.config.benchmarks import BENCHMARK_PROGRAMS, BENCHMARK_ROLES, Benchmarks
from cxrflow.config.checks import (
    check_documents_are_split,
    check_evaluation_is_held_out,
    check_inference_has_sentence_pairs,
    check_label_comparisons,
    check_layouts_have_text,
    check_pictures_are_allowed,
)
from cxrflow.config.entities import Entities
from cxrflow.config.label_comparisons import GivenLabels, label_comparisons
from cxrflow.config.models import ResolvedModel, resolve
from cxrflow.data.settings import CohortSettings
from cxrflow.errors import InputError
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.papers import Recipe, Table, load_paper, load_scale, paper_names, scale_names
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.reports.settings import ReportSettings, SentenceSplitterSettings
from cxrflow.text.settings import CorpusSettings, TokensSettings, VocabularySettings


class Dataset(Settings):
    """A data set as published, or the synthetic hospital's copy of one."""

    layout: Literal[
        "mimic_cxr",
        "mimic_cxr_jpg",
        "ms_cxr",
        "radnli",
        "mednli",
        "rsna",
        "open_i",
        "covid_chestxray",
        "pubmed",
        "mimic_iii",
    ] = Field(description="whose files it has: chooses the reader")
    root: str | None = Field(None, description="its folder; none for a synthetic one")
    synthetic: bool = Field(False, description="drawn by the synthetic hospital")
    images: str | None = Field(None, description="data set that holds the images, if not this one")

    @model_validator(mode="after")
    def _one_origin(self) -> Self:
        if self.synthetic == (self.root is not None):
            raise ValueError("set either 'root' (real files) or 'synthetic: true'")
        return self


class Roles(Settings):
    """Which cohort plays which part in the models and benchmarks; null leaves the part out."""

    reports: str = Field(description="cohort of the report sections: CXR-BERT phases II and III")
    images: str | None = Field(None, description="cohort of image pretraining")
    pairs: str | None = Field(None, description="cohort of joint training")
    corpora: list[str] = Field(default_factory=list, description="data sets of text, phases I, II")
    grounding: str | None = Field(None, description="cohort of phrase grounding")
    classification: str | None = Field(None, description="cohort of classification")
    inference: str | None = Field(None, description="cohort of sentence pairs to test on (RadNLI)")
    inference_training: str | None = Field(None, description="and to fine-tune on (MedNLI)")


class Cohort(CohortSettings):
    """A cohort: its data set, and the sets whose patients must not be in its training part."""

    dataset: str
    held_out: list[str] = Field(default_factory=list)

    def settings(self) -> dict[str, Any]:
        """What the cohort program receives."""
        return self.model_dump(mode="json", exclude={"dataset", "held_out"})


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


class Config(Settings):
    """The whole configuration of a run."""

    scale: str = "demo"
    seeds: list[int] = Field([0], min_length=1)
    papers: list[str] = Field(["biovil"], min_length=1)
    datasets: dict[str, Dataset]
    roles: Roles
    synthetic_hospital: HospitalSettings = HospitalSettings()
    reports: Reports = Reports()
    corpora: CorpusSettings = CorpusSettings()
    tokens: TokensSettings = TokensSettings()
    cohorts: dict[str, Cohort]
    pixels: Pixels
    vocabularies: dict[str, Vocabulary]
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)
    benchmarks: Benchmarks = Benchmarks()
    resources: dict[str, Resources] = Field(default_factory=dict)
    privacy: Privacy = Privacy()
    pathvars: dict[Literal["results"], str] = Field(default_factory=dict)

    @property
    def results(self) -> str:
        """The folder of all products: ``results``, unless ``pathvars`` moves it."""
        return self.pathvars.get("results", "results")

    def resources_of(self, rule: str) -> Resources:
        """What one job of a rule asks for."""
        return self.resources.get(rule, Resources())

    # --- models -----------------------------------------------------------------------------

    @cached_property
    def recipes(self) -> dict[str, Recipe]:
        """The models of the chosen papers, in the papers' order."""
        found: dict[str, Recipe] = {}
        for paper in self.papers:
            for name, recipe in load_paper(paper).models.items():
                if found.setdefault(name, recipe) != recipe:
                    raise ValueError(f"papers: two papers define the model '{name}' differently")
        return found

    def model(self, name: str) -> ResolvedModel:
        """The recipe and the complete settings of a model."""
        if name not in self.recipes:
            raise InputError(_unknown("model", name, self.recipes))
        return resolve(
            name, self.recipes[name], load_scale(self.scale), self.scale, self.models.get(name, {})
        )

    def trainable(self, name: str) -> bool:
        """Whether the roles give this model, and all it is made from, their data."""
        recipe = self.recipes[name]
        has_pairs = recipe.pairs is None or getattr(self.roles, recipe.pairs) is not None
        return has_pairs and all(self.trainable(parent) for parent in recipe.parents.values())

    def seeds_of(self, name: str) -> list[int]:
        """The seeds a model is trained with."""
        return self.seeds[:1] if self.recipes[name].seeds == "shared" else list(self.seeds)

    def parents(self, name: str, seed: int) -> dict[str, tuple[str, int]]:
        """(model, seed) of each model it is made from, by the option that takes it."""
        return {
            option: (parent, seed if seed in self.seeds_of(parent) else self.seeds_of(parent)[0])
            for option, parent in self.recipes[name].parents.items()
        }

    def vocabulary_of(self, name: str) -> str:
        """The vocabulary of a text model: its own, or that of the model it starts from."""
        recipe = self.recipes[name]
        if recipe.vocabulary is not None:
            return recipe.vocabulary
        if recipe.start is None:
            raise ValueError(f"papers: text model '{name}' has neither 'vocabulary' nor 'start'")
        return self.vocabulary_of(recipe.start)

    def models_of(self, paper: str, control: bool = False) -> list[str]:
        """The models of a paper that this run's data can train: its rows, or its controls."""
        recipes = load_paper(paper).models.items()
        return [name for name, made in recipes if made.control == control and self.trainable(name)]

    # --- data -------------------------------------------------------------------------------

    def holder(self, dataset: str) -> str:
        """The data set whose folder holds the images of ``dataset``."""
        return self.datasets[dataset].images or dataset

    def cohorts_in_use(self) -> list[str]:
        """The cohorts that play a role, each once."""
        roles = self.roles
        named = [roles.reports, roles.images, roles.pairs, roles.grounding, roles.classification]
        named += [roles.inference, roles.inference_training]
        return list(dict.fromkeys(cohort for cohort in named if cohort is not None))

    def cohorts_pictured_in(self, dataset: str) -> list[str]:
        """The cohorts in use whose images lie in ``dataset``: what its pixel store must hold."""
        roles = self.roles
        named = [roles.images, roles.pairs, roles.grounding, roles.classification]
        cohorts = dict.fromkeys(cohort for cohort in named if cohort is not None)
        return [name for name in cohorts if self.holder(self.cohorts[name].dataset) == dataset]

    def text_datasets(self) -> list[str]:
        """The data sets of CXR-BERT's phases I and II: the corpora, then the reports."""
        return list(dict.fromkeys([*self.roles.corpora, self.report_dataset]))

    @property
    def report_dataset(self) -> str:
        """The data set of the role ``reports``."""
        return self.cohorts[self.roles.reports].dataset

    def document_cohort(self, dataset: str) -> str | None:
        """The pairs cohort that splits a data set's documents: that of a role, if there is one."""
        names = dict.fromkeys([self.roles.reports, *self.cohorts_in_use(), *self.cohorts])
        fitting = (
            name
            for name in names
            if self.cohorts[name].kind == "pairs" and self.cohorts[name].dataset == dataset
        )
        return next(fitting, None)

    def training_cohorts(self) -> list[str]:
        """The cohorts that a model or a vocabulary learns from, each once."""
        roles = self.roles
        named = [roles.reports, roles.images, roles.pairs]
        texts = list(self.text_datasets())
        for vocabulary in self.vocabularies:
            texts += self.vocabulary_datasets(vocabulary)
        named += [self.document_cohort(name) for name in texts]
        return list(dict.fromkeys(cohort for cohort in named if cohort is not None))

    def vocabulary_datasets(self, name: str) -> list[str]:
        """The data sets a vocabulary is made from."""
        chosen = self.vocabularies[name].documents
        return self.text_datasets() if chosen is None else chosen

    def datasets_in_use(self) -> list[str]:
        """Every data set that a cohort, a corpus or a comparison of labels of this run reads."""
        found = list(self.text_datasets())
        for vocabulary in self.vocabularies:
            found += self.vocabulary_datasets(vocabulary)
        for name in dict.fromkeys([*self.cohorts_in_use(), *self.training_cohorts()]):
            cohort = self.cohorts[name]
            found += [cohort.dataset, self.holder(cohort.dataset), *cohort.held_out]
        for given in self.label_comparisons():
            found += [given.dataset, given.holder or given.dataset]
        return list(dict.fromkeys(found))

    def label_comparisons(self) -> list[GivenLabels]:
        """The labels that report labels are compared with."""
        return label_comparisons(self)

    # --- benchmarks and tables ----------------------------------------------------------------

    def tables(self, paper: str) -> dict[str, Table]:
        """The tables of a paper, in its order."""
        return load_paper(paper).tables

    def available(self, benchmark: str) -> bool:
        """Whether this run has the data of a benchmark."""
        role = BENCHMARK_ROLES.get(benchmark)
        cohort = None if role is None else getattr(self.roles, role)
        if cohort is None:
            return False
        if benchmark == "natural_language_inference":
            return self.roles.inference_training is not None
        # A probe is trained on one part of its cohort and tested on another.
        return benchmark != "linear_probe" or self.cohorts[cohort].split_method != "all"

    def table_cells(self, paper: str, table: str) -> list[tuple[str, str | None]]:
        """The (benchmark, model) pairs a table shows and this run has the data of."""
        return [
            (benchmark, model)
            for benchmark, model in self.tables(paper)[table].cells()
            if (model is None and self.available(benchmark))
            or (model is not None and benchmark in self.benchmarks_of(model))
        ]

    def benchmarks_of(self, model: str) -> list[str]:
        """The benchmarks that a model can do and this run has the data of; none if untrainable."""
        if not self.trainable(model):
            return []
        program = self.recipes[model].program
        able = [name for name, programs in BENCHMARK_PROGRAMS.items() if program in programs]
        return [name for name in able if self.available(name)]

    def described(self) -> dict[str, Any]:
        """The whole as plain values, every default filled in, every model resolved."""
        values = self.model_dump(mode="json")
        values["models"] = {
            name: self.model(name).described() for name in self.recipes if self.trainable(name)
        }
        return values

    # --- cross-references -----------------------------------------------------------------------

    @model_validator(mode="after")
    def _names_refer_to_something(self) -> Self:
        _known("scale", [self.scale], scale_names())
        _known("papers", self.papers, paper_names())
        for name, dataset in self.datasets.items():
            _known(f"datasets.{name}.images", [dataset.images], self.datasets)
        for name, cohort in self.cohorts.items():
            _known(f"cohorts.{name}.dataset", [cohort.dataset], self.datasets)
            _known(f"cohorts.{name}.held_out", cohort.held_out, self.datasets)
        for role in ("reports", "images", "pairs", "grounding", "classification"):
            _known(f"roles.{role}", [getattr(self.roles, role)], self.cohorts)
        for role in ("inference", "inference_training"):
            _known(f"roles.{role}", [getattr(self.roles, role)], self.cohorts)
        _known("roles.corpora", self.roles.corpora, self.datasets)
        for name, vocabulary in self.vocabularies.items():
            _known(f"vocabularies.{name}.documents", vocabulary.documents or [], self.datasets)
        _known("models", self.models, self.recipes)
        for name, recipe in self.recipes.items():
            for option, parent in recipe.parents.items():
                _known(f"papers: model {name}, '{option}'", [parent], self.recipes)
            _known("vocabularies", [recipe.vocabulary], self.vocabularies)
        for paper in self.papers:
            for name, table in self.tables(paper).items():
                models = [row.model for row in table.rows]
                _known(f"papers: {paper}, table {name}", models, self.recipes)
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds: {self.seeds} names a seed twice")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        check_layouts_have_text(self)
        check_documents_are_split(self)
        check_evaluation_is_held_out(self)
        check_inference_has_sentence_pairs(self)
        check_pictures_are_allowed(self)
        check_label_comparisons(self)
        return self


def _known(key: str, names: Any, known: Any) -> None:
    for name in names:
        if name is not None and name not in known:
            raise ValueError(_unknown(key, name, known))


def _unknown(key: str, name: str, known: Any) -> str:
    return f"{key}: '{name}' is not known; there are {', '.join(sorted(known)) or 'none'}"
