"""What may stand in a configuration, and the run that follows from it and from its papers.

The configuration says where data sets lie, at which scale and extent the papers are made, what jobs
may use and what may be shown; what is method stands in the papers. Everything a run consists of is
known here, before anything has run.
"""

from functools import cached_property
from itertools import chain
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from cxrflow.benchmarks.grounding.settings import (
    GroundingFigureSettings,
    PhraseGroundingSettings,
)
from cxrflow.benchmarks.settings import FeatureSettings, PairedComparison, PairedTestProtocol
from cxrflow.command import Settings
from cxrflow.config.checks import check_all
from cxrflow.config.datasets import Datasets, ResolvedCohort, described
from cxrflow.config.label_comparisons import GivenLabels, label_comparisons
from cxrflow.config.needs import Needs
from cxrflow.config.papers import (
    Library,
    ResolvedModel,
    ResolvedTask,
    resolve_cohort,
    resolve_model,
    resolve_task,
    resolve_vocabulary,
)
from cxrflow.config.parts import Dataset, LabelAgreement, Privacy, Reports, Resources
from cxrflow.config.weights import Weights, import_settings
from cxrflow.errors import InputError
from cxrflow.images.settings import PixelSettings
from cxrflow.names import paper_of
from cxrflow.papers import Paper
from cxrflow.papers.figures import CurveFigure, Figure
from cxrflow.papers.recipes import Recipe, VocabularyRecipe
from cxrflow.papers.tables import HEADLINE, Ordering, Table, cells_of
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.text.settings import CorpusSettings, TokensSettings

Overrides = dict[str, dict[str, Any]]


class Config(Settings):
    """The whole configuration of a run."""

    scale: str = Field("demo", description="sizes that papers give under this name; paper: theirs")
    extent: Literal["headline", "all"] = Field(
        "all", description="headline: the rows that each paper names so; all: every row"
    )
    seeds: list[int] = Field([0], min_length=1)
    papers: list[str] = Field(["biovil"], min_length=1, description="names, or paths of YAML files")
    datasets: dict[str, Dataset | None]
    synthetic_hospital: HospitalSettings | None = HospitalSettings()
    reports: Reports = Reports()
    corpora: CorpusSettings = CorpusSettings()
    tokens: TokensSettings = TokensSettings()
    pixels: PixelSettings = PixelSettings()
    features: FeatureSettings = FeatureSettings()
    label_agreement: LabelAgreement = LabelAgreement()
    paired_tests: PairedTestProtocol = PairedTestProtocol()
    cohorts: dict[str, dict[str, Any] | None] = Field(
        default_factory=dict, description="laid over the papers'; null leaves one out"
    )
    vocabularies: Overrides = Field(default_factory=dict, description="laid over the papers'")
    models: Overrides = Field(default_factory=dict, description="settings laid over the papers'")
    tasks: Overrides = Field(default_factory=dict, description="settings laid over the papers'")
    weights: dict[str, Weights] = Field(default_factory=dict)
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

    # --- papers and data sets -----------------------------------------------------------------

    @cached_property
    def library(self) -> Library:
        """The chosen papers and all that they use."""
        return Library(self.papers)

    @property
    def chosen(self) -> dict[str, Paper]:
        """The chosen papers by name."""
        return self.library.chosen

    @cached_property
    def data(self) -> Datasets:
        """The data sets of this run."""
        return Datasets(self.datasets, self.synthetic_hospital is not None)

    @cached_property
    def known_cohorts(self) -> dict[str, ResolvedCohort]:
        """Every cohort of the papers that this run has the data of."""
        asked = {name: self.cohorts.get(name, {}) for name in self.library.cohorts}
        resolved = (
            self.data.cohort(name, resolve_cohort(name, self.library.cohorts[name], overrides))
            for name, overrides in asked.items()
            if overrides is not None
        )
        return {cohort.name: cohort for cohort in resolved if cohort is not None}

    @cached_property
    def known_vocabularies(self) -> dict[str, VocabularyRecipe]:
        """Every vocabulary of the papers that this run has a text for."""
        resolved = {
            name: resolve_vocabulary(name, recipe, self.scale, self.vocabularies.get(name, {}))
            for name, recipe in self.library.vocabularies.items()
        }
        return {
            name: vocabulary
            for name, vocabulary in resolved.items()
            if self.data.texts(vocabulary.documents)
        }

    def vocabulary_datasets(self, name: str) -> list[str]:
        """The data sets a vocabulary is made from."""
        return self.data.texts(self.known_vocabularies[name].documents)

    # --- models -----------------------------------------------------------------------------

    @property
    def recipes(self) -> dict[str, Recipe]:
        """The models of the chosen papers and those they use, by whole name."""
        return self.library.models

    def model(self, name: str) -> ResolvedModel:
        """The recipe and the complete settings of a model."""
        if name not in self.recipes:
            raise InputError(unknown("model", name, self.recipes))
        found = resolve_model(name, self.recipes[name], self.scale, self.models.get(name, {}))
        if not self.imported(name):
            return found
        settings = import_settings(self, name, found.geometry)
        return ResolvedModel(name, found.recipe, settings, settings.geometry or found.geometry)

    @cached_property
    def _trainable(self) -> dict[str, bool]:
        return {}

    def trainable(self, name: str) -> bool:
        """Whether this run has the data of this model, and of all it is made from."""
        if name not in self._trainable:
            recipe = self.recipes[name]
            # Without a cohort a model may be nothing but published weights.
            has_cohort = (
                recipe.cohort in self.known_cohorts if recipe.cohort else recipe.weights is None
            )
            has_text = not recipe.corpora or bool(self.data.texts(recipe.corpora))
            has_words = recipe.vocabulary is None or recipe.vocabulary in self.known_vocabularies
            parents = all(self.trainable(parent) for parent in recipe.parents.values())
            able = has_cohort and has_text and has_words and parents
            self._trainable[name] = able or self.imported(name)
        return self._trainable[name]

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

    def ancestors(self, name: str) -> list[str]:
        """All models that a model is made from, and itself, first the first to be trained."""
        before = [
            name for parent in self.parents_of(name).values() for name in self.ancestors(parent)
        ]
        return list(dict.fromkeys([*before, name]))

    def vocabulary_of(self, name: str) -> str:
        """The vocabulary of a text model: its own, or that of the model it starts from."""
        recipe = self.recipes[name]
        if recipe.vocabulary is not None:
            return recipe.vocabulary
        if recipe.start is None:
            raise ValueError(f"papers: text model '{name}' has neither 'vocabulary' nor 'start'")
        return self.vocabulary_of(recipe.start)

    def corpora_of(self, model: str) -> list[str]:
        """The data sets whose packed documents a text model is trained on."""
        return self.data.texts(self.recipes[model].corpora)

    # --- tasks ------------------------------------------------------------------------------

    def task(self, name: str) -> ResolvedTask:
        """A task and the complete settings of its benchmark."""
        found = resolve_task(name, self.library.tasks[name], self.scale, self.tasks.get(name, {}))
        settings = found.settings
        if isinstance(settings, PhraseGroundingSettings):
            cohort = self.known_cohorts[found.task.cohort]
            drawn = self.data.drawn(cohort.dataset, cohort.holder)
            allowed = {
                "figures": settings.figures if self.may_show("images", drawn) else 0,
                "figure_phrases": settings.figure_phrases and self.may_show("text", drawn),
            }
            settings = settings.model_copy(update=allowed)
        return ResolvedTask(name, found.task, settings)

    def may_show(self, what: Literal["images", "text"], synthetic: bool) -> bool:
        """Whether pictures may hold radiographs or report text of such data."""
        choice = getattr(self.privacy, f"show_{what}")
        return synthetic if choice == "auto" else bool(choice)

    def available(self, task: str) -> bool:
        """Whether this run has the data of a task."""
        recipe = self.library.tasks[task]
        cohorts = [recipe.cohort, *([recipe.training] if recipe.training else [])]
        if any(cohort not in self.known_cohorts for cohort in cohorts):
            return False
        method = self.known_cohorts[recipe.cohort].recipe.split_method
        return not self.task(task).benchmark.split or method != "all"

    def can_do(self, model: str, task: str) -> bool:
        """Whether this run can score a model in a task."""
        needs = self.task(task).benchmark.needs if self.available(task) else {""}
        return self.trainable(model) and needs <= self.recipes[model].offers

    def measures(self, task: str, model: str | None) -> bool:
        """Whether this run can score a model in a task, or without a model the data themselves."""
        return self.available(task) if model is None else self.can_do(model, task)

    def tasks_of(self, model: str) -> list[str]:
        """The tasks of its own paper that a model can do: what a control is put to."""
        own = [name for name in self.library.tasks if paper_of(name) == paper_of(model)]
        return [
            name for name in own if self.can_do(model, name) and self.task(name).benchmark.needs
        ]

    # --- tables -----------------------------------------------------------------------------

    def table_names(self, paper: str, extent: str | None = None) -> list[str]:
        """The tables of a paper in this extent: whole, or each cut to the paper's headline."""
        chosen = self.chosen[paper]
        if (extent or self.extent) == "all":
            return list(chosen.tables)
        return [f"{HEADLINE}{name}" for name in dict.fromkeys(one.table for one in chosen.headline)]

    def table(self, paper: str, name: str) -> Table:
        """A table of a paper by its name, which may be that of one cut to the headline."""
        return self.chosen[paper].tables[name.removeprefix(HEADLINE)]

    def table_cells(self, paper: str, name: str) -> list[tuple[str, str | None]]:
        """The (task, model) pairs a table shows and this run has the data of."""
        table = self.table(paper, name)
        results = table.results()
        if name.startswith(HEADLINE):
            parts = [one for one in self.chosen[paper].headline if f"{HEADLINE}{one.table}" == name]
            results = [cell for one in parts for cell in table.results(one.rows, one.columns)]
        return [
            (task, model) for task, model in dict.fromkeys(results) if self.measures(task, model)
        ]

    def comparisons(self, paper: str, name: str) -> list[PairedComparison]:
        """The tests of a table between rows that this run measures, in the table's order."""
        measured = set(self.table_cells(paper, name))
        return [
            one
            for one in self.chosen[paper].comparisons(name.removeprefix(HEADLINE))
            if self.task(one.task).benchmark.statistics is not None
            and {(one.task, one.model), (one.task, one.reference_model)} <= measured
        ]

    def orderings(self, paper: str) -> list[Ordering]:
        """The orders that a paper claims in its tables."""
        return self.chosen[paper].orderings

    def figures(self, paper: str, extent: str = "all") -> dict[str, Figure]:
        """The figures of a paper this run can draw: of the headline, those that need no more."""
        chosen = self.chosen[paper]
        headline = None if extent == "all" else chosen.headline
        made = {*cells_of(chosen.tables, headline)}
        return {
            name: figure
            for name, figure in chosen.figures.items()
            if self.figure_results(paper, name)
            and (headline is None or made.issuperset(figure.results(chosen.tables)))
        }

    def figure_results(self, paper: str, name: str) -> list[tuple[str, str | None]]:
        """The (task, model) pairs of a figure that this run measures; none without the first."""
        figure = self.chosen[paper].figures[name]
        able = [one for one in figure.results(self.chosen[paper].tables) if self.measures(*one)]
        if isinstance(figure, GroundingFigureSettings) and (figure.task, figure.by) in able:
            return able if getattr(self.task(figure.task).settings, "figures", 0) else []
        return able if isinstance(figure, CurveFigure) else []

    def results_of(self, paper: str, extent: str) -> list[tuple[str, str | None]]:
        """The (task, model) pairs that a paper's tables and figures show in this extent."""
        shown = [self.table_cells(paper, name) for name in self.table_names(paper, extent)]
        shown += [self.figure_results(paper, name) for name in self.figures(paper, extent)]
        return list(dict.fromkeys(chain.from_iterable(shown)))

    def needs(self, *shown: tuple[str, str]) -> Needs:
        """The models and tasks of papers, each in an extent, and all that they rest on."""
        results = [one for paper, extent in shown for one in self.results_of(paper, extent)]
        scored = [model for _, model in results if model is not None]
        made = {name for model in scored for name in self.ancestors(model)}
        tasks = list(dict.fromkeys(task for task, _ in results))
        return Needs(self, [name for name in self.recipes if name in made], tasks)

    def controls(self, paper: str) -> list[str]:
        """The controls of a paper that this run can train."""
        own = [name for name in self.recipes if paper_of(name) == paper]
        return [name for name in own if self.recipes[name].control and self.trainable(name)]

    # --- what of the data is read -------------------------------------------------------------

    @cached_property
    def models_in_use(self) -> list[str]:
        """The models of every table of the chosen papers, their controls, and their ancestors."""
        named = [
            model
            for paper in self.chosen
            for model in [*self.needs((paper, "all")).models, *self.controls(paper)]
        ]
        return list(dict.fromkeys(name for model in named for name in self.ancestors(model)))

    @cached_property
    def tasks_in_use(self) -> list[str]:
        """The tasks that this run can do."""
        return [name for name in self.library.tasks if self.available(name)]

    @cached_property
    def all_needs(self) -> Needs:
        """What the whole run rests on."""
        return Needs(self, self.models_in_use, self.tasks_in_use)

    @property
    def vocabularies_in_use(self) -> list[str]:
        """The vocabularies of this run."""
        return self.all_needs.vocabularies

    @property
    def cohorts_in_use(self) -> list[str]:
        """The cohorts of this run."""
        return self.all_needs.cohorts

    def document_cohort(self, dataset: str, paper: str) -> str | None:
        """The pairs cohort that splits a data set's documents for a paper, if there is one."""
        fitting = (
            name
            for name, cohort in self.known_cohorts.items()
            if cohort.recipe.kind == "pairs" and cohort.dataset == dataset
        )
        return next(iter(sorted(fitting, key=lambda name: paper_of(name) != paper)), None)

    @cached_property
    def stores(self) -> dict[tuple[str, str], list[str]]:
        """The cohorts whose images each pixel store holds, by (data set, geometry)."""
        wanted: dict[tuple[str, str], dict[str, None]] = {}

        def want(cohort: str | None, geometry: str | None) -> None:
            if cohort is not None and geometry is not None and cohort in self.known_cohorts:
                found = self.known_cohorts[cohort]
                if found.pictured:
                    wanted.setdefault((found.holder, geometry), {})[cohort] = None

        for name in self.models_in_use:
            geometry = self.model(name).geometry
            want(self.recipes[name].cohort, geometry)
            for task in self.tasks_in_use:
                if self.task(task).benchmark.reads != "samples" and self.can_do(name, task):
                    want(self.library.tasks[task].cohort, geometry)
        # In the order of the papers: an index that lists images in another order is another store.
        return {
            store: [name for name in self.known_cohorts if name in cohorts]
            for store, cohorts in wanted.items()
        }

    def datasets_in_use(self) -> list[str]:
        """Every data set that a cohort, a corpus or a comparison of labels of this run reads."""
        named = list(self.all_needs.text_datasets)
        for name in self.cohorts_in_use:
            cohort = self.known_cohorts[name]
            named += [cohort.dataset, cohort.holder, *cohort.held_out]
        for given in self.label_comparisons():
            named += [given.dataset, given.holder or given.dataset]
        for name in self.tasks_in_use:
            named += self.statistics_datasets(name)
        return list(dict.fromkeys(named))

    def label_comparisons(self) -> list[GivenLabels]:
        """The labels that report labels are compared with."""
        return label_comparisons(self)

    def statistics_datasets(self, task: str) -> list[str]:
        """What statistics of annotated images read (BioViL Table C.1).

        The annotated set, the data set with all studies and their dates (a table of MIMIC-CXR-JPG
        where there is one, and else the header of every image), demographics if there are any.
        """
        recipe = self.library.tasks[task]
        if recipe.benchmark != "ms_cxr_statistics":
            return []
        cohort = self.known_cohorts[recipe.cohort]
        tables = (
            name
            for name in self.data.present
            if self.data.layout(name).name == "mimic_cxr_jpg"
            and self.data.same_patients(name, cohort.dataset)
        )
        named = [cohort.dataset, next(tables, cohort.holder), self.data.at(recipe.demographics)]
        return [name for name in named if name is not None]

    def resolved(self) -> dict[str, Any]:
        """What the configuration was laid over: every part of a paper, complete."""
        return {
            "models": {name: self.model(name).described() for name in self.models_in_use},
            "cohorts": {name: described(self.known_cohorts[name]) for name in self.cohorts_in_use},
            "vocabularies": {
                name: self.known_vocabularies[name].model_dump(mode="json", exclude={"scales"})
                for name in self.vocabularies_in_use
            },
            "tasks": {
                name: {
                    **self.library.tasks[name].model_dump(
                        mode="json", exclude={"settings", "scales"}, exclude_none=True
                    ),
                    "settings": self.task(name).settings.model_dump(mode="json"),
                }
                for name in self.tasks_in_use
            },
        }

    def described(self) -> dict[str, Any]:
        """The whole as plain values, every default filled in, every part of a paper resolved."""
        return self.model_dump(mode="json") | self.resolved()

    # --- cross-references -----------------------------------------------------------------------

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        check_all(self)
        return self


def unknown(key: str, name: str, known: Any) -> str:
    """What is said of a name that refers to nothing."""
    return f"{key}: '{name}' is not known; there are {', '.join(sorted(known)) or 'none'}"
