"""What may stand in a configuration: one class a top-level key, composed of the stages' settings.

Every cross-reference (a role's cohort, a cohort's data set, a model's parent) is checked here, so
that nothing starts with a name that refers to nothing.
"""

from functools import cached_property
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings
from cxrflow.command import Settings
from cxrflow.config.benchmarks import BENCHMARK_PROGRAMS, BENCHMARK_ROLES, Benchmarks
from cxrflow.config.checks import (
    check_documents_are_split,
    check_evaluation_is_held_out,
    check_inference_has_sentence_pairs,
    check_label_comparisons,
    check_layouts_have_text,
    check_pictures_are_allowed,
    text_kind,
)
from cxrflow.config.label_comparisons import GivenLabels, label_comparisons
from cxrflow.config.models import ResolvedModel, resolve
from cxrflow.config.ms_cxr_statistics import check_demographics_fit, statistics_datasets
from cxrflow.config.parts import (
    Cohort,
    Dataset,
    Pixels,
    Privacy,
    Reports,
    Resources,
    Vocabulary,
)
from cxrflow.config.roles import COHORT_ROLES, LEARNT_ROLES, PICTURED_ROLES, Roles
from cxrflow.config.weights import Weights, check_weights, import_settings
from cxrflow.errors import InputError
from cxrflow.papers import Recipe, load_paper, load_scale, paper_names, scale_names
from cxrflow.papers.tables import Ordering, Table
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.text.settings import CorpusSettings, TokensSettings


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
    weights: dict[str, Weights] = Field(default_factory=dict)
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
        if self.imported(name):
            return ResolvedModel(name, self.recipes[name], import_settings(self, name))
        return resolve(
            name, self.recipes[name], load_scale(self.scale), self.scale, self.models.get(name, {})
        )

    def trainable(self, name: str) -> bool:
        """Whether the roles give this model, and all it is made from, their data."""
        recipe, role = self.recipes[name], self.recipes[name].pairs
        # Without pairs a model may be nothing but published weights.
        has_pairs = getattr(self.roles, role) is not None if role else recipe.weights is None
        has_text = not recipe.corpora or bool(self.corpora_of(name))
        parents = all(self.trainable(parent) for parent in recipe.parents.values())
        return (has_pairs and has_text and parents) or self.imported(name)

    def imported(self, name: str) -> bool:
        """Whether published weights stand for a model, which is then not trained."""
        return name in self.weights

    def seeds_of(self, name: str) -> list[int]:
        """The seeds a model is trained with; there is one of the imported ones."""
        one = self.imported(name) or self.recipes[name].seeds == "shared"
        return self.seeds[:1] if one else list(self.seeds)

    def parents_of(self, name: str) -> dict[str, str]:
        """The models that a model of this run is made from: none if it is imported."""
        return {} if self.imported(name) else self.recipes[name].parents

    def parents(self, name: str, seed: int) -> dict[str, tuple[str, int]]:
        """(model, seed) of each model it is made from, by the option that takes it."""
        return {
            option: (parent, seed if seed in self.seeds_of(parent) else self.seeds_of(parent)[0])
            for option, parent in self.parents_of(name).items()
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

    def holder(self, cohort: str) -> str:
        """The data set whose folder holds the images of a cohort."""
        chosen = self.cohorts[cohort]
        return chosen.images or self.datasets[chosen.dataset].images or chosen.dataset

    def cohorts_in_use(self) -> list[str]:
        """The cohorts that play a role, each once."""
        return self.roles.cohorts(*COHORT_ROLES)

    def cohorts_pictured_in(self, dataset: str) -> list[str]:
        """The cohorts in use whose images lie in ``dataset``: what its pixel store must hold."""
        cohorts = self.roles.cohorts(*PICTURED_ROLES)
        return [name for name in cohorts if self.holder(name) == dataset]

    def corpora_of(self, model: str) -> list[str]:
        """The data sets whose packed documents a text model is trained on."""
        kinds = self.recipes[model].corpora
        return [
            name for name in self.text_datasets() if text_kind(self.datasets[name].layout) in kinds
        ]

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
        named: list[str | None] = [*self.roles.cohorts(*LEARNT_ROLES)]
        texts = list(self.text_datasets())
        for vocabulary in self.vocabularies_in_use():
            texts += self.vocabulary_datasets(vocabulary)
        named += [self.document_cohort(name) for name in texts]
        return list(dict.fromkeys(cohort for cohort in named if cohort is not None))

    def vocabularies_in_use(self) -> list[str]:
        """The vocabularies of this run's models, and those of no model: they are compared."""
        named = {recipe.vocabulary for recipe in self.recipes.values()}
        used = {self.recipes[name].vocabulary for name in self.recipes if self.trainable(name)}
        return [name for name in self.vocabularies if name in used or name not in named]

    def vocabulary_datasets(self, name: str) -> list[str]:
        """The data sets a vocabulary is made from."""
        chosen = self.vocabularies[name].documents
        return self.text_datasets() if chosen is None else chosen

    def datasets_in_use(self) -> list[str]:
        """Every data set that a cohort, a corpus or a comparison of labels of this run reads."""
        found = list(self.text_datasets())
        for vocabulary in self.vocabularies_in_use():
            found += self.vocabulary_datasets(vocabulary)
        for name in dict.fromkeys([*self.cohorts_in_use(), *self.training_cohorts()]):
            cohort = self.cohorts[name]
            found += [cohort.dataset, self.holder(name), *cohort.held_out]
        for given in self.label_comparisons():
            found += [given.dataset, given.holder or given.dataset]
        found += statistics_datasets(self)
        return list(dict.fromkeys(found))

    def label_comparisons(self) -> list[GivenLabels]:
        """The labels that report labels are compared with."""
        return label_comparisons(self)

    # --- benchmarks and tables ----------------------------------------------------------------

    def tables(self, paper: str) -> dict[str, Table]:
        """The tables of a paper, in its order."""
        return load_paper(paper).tables

    def orderings(self, paper: str) -> list[Ordering]:
        """The orders that a paper claims in its tables."""
        return load_paper(paper).orderings

    def figures(self, paper: str) -> dict[str, GroundingFigureSettings]:
        """The figures of a paper that this run draws: none where no pictures are asked for."""
        if not self.benchmarks.phrase_grounding.figures:
            return {}
        figures = load_paper(paper).figures.items()
        return {name: one for name, one in figures if one.by in self.figure_models(one)}

    def figure_models(self, figure: GroundingFigureSettings) -> list[str]:
        """The models of a figure's columns that this run can evaluate."""
        models = [column.model for column in figure.columns if column.model is not None]
        return [name for name in models if "phrase_grounding" in self.benchmarks_of(name)]

    def available(self, benchmark: str) -> bool:
        """Whether this run has the data of a benchmark."""
        role = BENCHMARK_ROLES.get(benchmark)
        cohort = None if role is None else getattr(self.roles, role)
        if cohort is None:
            return False
        if benchmark == "natural_language_inference":
            return self.roles.inference_training is not None
        # A probe is trained on one part of its cohort and tested on another.
        probes = ("linear_probe", "segmentation")
        return benchmark not in probes or self.cohorts[cohort].split_method != "all"

    def table_cells(self, paper: str, table: str) -> list[tuple[str, str | None]]:
        """The (benchmark, model) pairs a table shows and this run has the data of."""
        return [
            (benchmark, model)
            for benchmark, model in self.tables(paper)[table].results()
            if (model is None and self.available(benchmark))
            or (model is not None and benchmark in self.benchmarks_of(model))
        ]

    def benchmarks_of(self, model: str) -> list[str]:
        """The benchmarks that a model can do and this run has the data of; none if untrainable."""
        if not self.trainable(model):
            return []
        program = self.recipes[model].program
        able = [name for name, programs in BENCHMARK_PROGRAMS.items() if program in programs]
        if not self.roles.cohorts(self.recipes[model].grounding):
            able = [name for name in able if name != "phrase_grounding"]
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
            _known(f"cohorts.{name}.images", [cohort.images], self.datasets)
            _known(f"cohorts.{name}.held_out", cohort.held_out, self.datasets)
        for role in COHORT_ROLES:
            _known(f"roles.{role}", [getattr(self.roles, role)], self.cohorts)
        _known("roles.demographics", [self.roles.demographics], self.datasets)
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
            for name, figure in load_paper(paper).figures.items():
                models = [column.model for column in figure.columns]
                _known(f"papers: {paper}, figure {name}", models, self.recipes)
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"seeds: {self.seeds} names a seed twice")
        return self

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        check_layouts_have_text(self)
        check_documents_are_split(self)
        check_demographics_fit(self)
        check_evaluation_is_held_out(self)
        check_inference_has_sentence_pairs(self)
        check_pictures_are_allowed(self)
        check_label_comparisons(self)
        check_weights(self)
        return self


def _known(key: str, names: Any, known: Any) -> None:
    for name in names:
        if name is not None and name not in known:
            raise ValueError(_unknown(key, name, known))


def _unknown(key: str, name: str, known: Any) -> str:
    return f"{key}: '{name}' is not known; there are {', '.join(sorted(known)) or 'none'}"
