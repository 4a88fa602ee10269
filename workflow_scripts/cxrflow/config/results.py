"""The tasks, tables and figures of a run, and the results (task, model) that fill them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cxr_files.settings import Settings, overlay
from cxrflow.benchmarks.checkpoints.settings import CheckpointSeriesSettings
from cxrflow.benchmarks.classification.saliency_settings import SaliencyFigureSettings
from cxrflow.benchmarks.generation.settings import ReportsFigureSettings
from cxrflow.benchmarks.grounding.settings import (
    GroundingFigureSettings,
    PhraseGroundingSettings,
    PriorFigureSettings,
)
from cxrflow.benchmarks.registry import BENCHMARKS, Benchmark
from cxrflow.benchmarks.retrieval.settings import ModelFigureSettings, RetrievedFigureSettings
from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.benchmarks.temporal.settings import AttentionRolloutSettings
from cxrflow.config.models import Models, spelt
from cxrflow.config.papers import laid_over
from cxrflow.kinds import modules_of
from cxrflow.names import is_reference, paper_of, short_name
from cxrflow.papers.entries import Overlay
from cxrflow.papers.figures import Figure, PictureFigure
from cxrflow.papers.recipes import Task
from cxrflow.papers.table import HEADLINE, Ordering, Result, Table, cells_of

# Of the pixels of reference rows in a task that scores no model of ours.
REFERENCE_GEOMETRY = "shorter128"


@dataclass(frozen=True)
class ResolvedTask:
    """A task with the complete settings of its benchmark."""

    name: str
    task: Task
    settings: Settings

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark of the task."""
        return BENCHMARKS[self.task.benchmark]

    @property
    def computed(self) -> list[Benchmark]:
        """The benchmark, and for a series of checkpoints the benchmark that scores each of them."""
        if not isinstance(self.settings, CheckpointSeriesSettings):
            return [self.benchmark]
        return [self.benchmark, BENCHMARKS[self.settings.benchmark]]

    @property
    def code(self) -> list[str]:
        """The modules that score models, and the files that its settings make them read."""
        return [*(f"benchmarks.{one.program}" for one in self.computed), *modules_of(self.settings)]

    @property
    def scored_by(self) -> dict[str, Any]:
        """The settings that score: of a series of checkpoints those of its task."""
        if isinstance(self.settings, CheckpointSeriesSettings):
            return self.settings.settings
        return dict(self.settings)

    @property
    def files(self) -> dict[str, Path]:
        """Files of the user's that it reads, by share: lists of training images."""
        lists = self.scored_by.get("lists") or {}
        return {share: Path(file) for share, file in lists.items()}

    @property
    def needs(self) -> set[str]:
        """The abilities that a model must have."""
        return {need for benchmark in self.computed for need in benchmark.needs}


class RunResults(Models):
    """A configuration with the results of its models, and the tables and figures that show them."""

    # --- tasks ------------------------------------------------------------------------------

    def task(self, name: str) -> ResolvedTask:
        """A task and the complete settings of its benchmark."""
        return self._tasks[name]

    @cached_property
    def _tasks(self) -> dict[str, ResolvedTask]:
        return {name: self._resolve_task(name, task) for name, task in self.library.tasks.items()}

    def _resolve_task(self, name: str, task: Task) -> ResolvedTask:
        settings: Settings = laid_over(
            BENCHMARKS[task.benchmark].settings,
            self.library.overlay("tasks", name, task.settings, "settings"),
            self.library.overlay(
                "tasks", name, task.scales.get(self.scale, {}), "scales", self.scale
            ),
            Overlay(self.tasks.get(name, {}), ("tasks", name)),
        )
        if getattr(settings, "geometry", None) is not None:
            geometry = spelt(settings.geometry, ("tasks", name, "geometry"))  # type: ignore[attr-defined]
            settings = settings.model_copy(update={"geometry": geometry})
        drawing = (PhraseGroundingSettings, AttentionRolloutSettings)
        if isinstance(settings, drawing) and task.cohort in self.known_cohorts:
            figures = settings.figures if self.shows("images", name) else 0
            allowed: dict[str, int] = {"figures": figures}
            if isinstance(settings, PhraseGroundingSettings):
                phrases = settings.figure_phrases and self.shows("text", name)
                allowed["figure_phrases"] = phrases
            settings = settings.model_copy(update=allowed)
        if isinstance(settings, CheckpointSeriesSettings):
            assert task.of is not None  # as every task of this benchmark has
            each = self._resolve_task(task.of, self.library.tasks[task.of])
            each_settings = overlay(each.settings.model_dump(mode="json"), settings.settings)
            update = {"benchmark": each.task.benchmark, "settings": each_settings}
            settings = settings.model_copy(update=update)
        if BENCHMARKS[task.benchmark].reports and task.training not in self.known_cohorts:
            task = task.model_copy(update={"training": None})
        return ResolvedTask(name, task, settings)

    def shows(self, content: Literal["images", "text"], task: str) -> bool:
        """True if pictures of a task may hold radiographs or report text."""
        cohort = self.known_cohorts[self.library.tasks[task].cohort]
        return self.may_show(content, self.data.drawn(cohort.dataset, cohort.holder))

    def available(self, task: str) -> bool:
        """True if this run has the data of a task."""
        recipe = self.task(task).task
        cohorts = [recipe.cohort, *([recipe.training] if recipe.training else [])]
        if not all(map(self.has_cohort, cohorts)):
            return False
        if self.task(task).benchmark.reads == "curation" and not self.curators(recipe.cohort):
            return False
        cohort, benchmark = self.known_cohorts[recipe.cohort], self.task(task).benchmark
        if benchmark.truth in ("needed", "findings") and not self.data.drawn(*cohort.sources):
            return False
        if benchmark.truth == "findings" and not self.knows_findings:
            return False
        return not benchmark.split or cohort.recipe.split_method != "all"

    def can_do(self, model: str, task: str) -> bool:
        """True if this run can score a model or a reference row in a task."""
        needs = self.task(task).needs
        if is_reference(model):
            benchmark = self.task(task).benchmark
            if short_name(model) in benchmark.oracles:
                cohort = self.known_cohorts.get(self.task(task).task.cohort)
                drawn = cohort is not None and self.data.drawn(*cohort.sources)
                if not (drawn and self.knows_findings):
                    return False
            return short_name(model) in benchmark.references and task in self.first_models
        if model in self.external:
            return task in self.external[model].files and self.available(task)
        offers = self.recipes[model].offers | ({"run"} if self.trained(model) else set())
        if self.imported(model):
            offers -= {"guided", "checkpoints"}  # published weights come without them
        return self.available(task) and self.trainable(model) and needs <= offers

    @cached_property
    def first_models(self) -> dict[str, str]:
        """By task, the first model that a table scores; reference rows see the same images.

        One that was run elsewhere, where a task scores no other.
        """
        models: dict[str, str] = {}
        for paper in self.chosen.values():
            for table in paper.tables.values():
                for task, model in table.results():
                    if model is None or is_reference(model):
                        continue
                    if models.get(task, "") in {"", *self.external} and self.can_do(model, task):
                        models[task] = model
        return models

    def geometry_of(self, task: str, model: str) -> str | None:
        """The geometry of the pixels of a model in a task: the task's, or that of its training.

        A reference row sees the pixels of the first model. So does what was run elsewhere, of which
        the images that can be read are scored alone.
        """
        geometry: str | None = getattr(self.task(task).settings, "geometry", None)
        if geometry is not None:
            return geometry
        if is_reference(model) or model in self.external:
            model = self.first_models.get(task, model)
        return REFERENCE_GEOMETRY if model in self.external else self.model(model).geometry

    def measures(self, task: str, model: str | None) -> bool:
        """True if this run can score a model in a task; without a model: the data themselves."""
        return self.available(task) if model is None else self.can_do(model, task)

    def tasks_of(self, model: str) -> list[str]:
        """The tasks of its own paper that a model can do."""
        tasks = [name for name in self.library.tasks if paper_of(name) == paper_of(model)]
        return [
            name for name in tasks if self.can_do(model, name) and self.task(name).benchmark.needs
        ]

    @cached_property
    def tasks_in_use(self) -> list[str]:
        """The tasks that this run can do."""
        return [name for name in self.library.tasks if self.available(name)]

    # --- tables -----------------------------------------------------------------------------

    def table_names(self, paper: str, extent: str | None = None) -> list[str]:
        """The tables of a paper in this extent: complete, or cut to the paper's headline.

        They are complete as well if this run measures nothing of the headline.
        """
        tables = list(self.chosen[paper].tables)
        if (extent or self.extent) == "all":
            return tables
        cut = dict.fromkeys(f"{HEADLINE}{entry.table}" for entry in self.chosen[paper].headline)
        return list(cut) if any(self.table_cells(paper, name) for name in cut) else tables

    def table(self, paper: str, name: str) -> Table:
        """A table of a paper by its name, with or without the prefix of a headline table."""
        return self.chosen[paper].tables[name.removeprefix(HEADLINE)]

    def table_cells(self, paper: str, name: str) -> list[tuple[str, str | None]]:
        """The (task, model) pairs of a table that this run measures."""
        table = self.table(paper, name)
        results = table.results()
        if name.startswith(HEADLINE):
            cuts = [cut for cut in self.chosen[paper].headline if f"{HEADLINE}{cut.table}" == name]
            results = [cell for cut in cuts for cell in table.results(cut.rows, cut.columns, True)]
        return [
            (task, model) for task, model in dict.fromkeys(results) if self.measures(task, model)
        ]

    def comparisons(self, paper: str, name: str) -> list[PairedComparison]:
        """The tests of a table between cells that this run measures, in the table's order."""
        cells = set(self.table_cells(paper, name))
        uncut = not name.startswith(HEADLINE)  # claims may name cells of other tables
        return [
            comparison
            for comparison in self.chosen[paper].comparisons(name.removeprefix(HEADLINE))
            if all(
                (task, model) in cells or (uncut and self.measures(task, model))
                for task, model in comparison.results()
            )
            and self.task(comparison.task).benchmark.statistic_module is not None
        ]

    def of_several_seeds(self, results: Iterable[Result]) -> list[Result]:
        """Select results of several seeds whose predictions give intervals."""
        return [
            (task, model)
            for task, model in results
            if model is not None
            and len(self.seeds_of(model)) > 1
            and self.task(task).benchmark.statistic_module is not None
        ]

    def orderings(self, paper: str) -> list[Ordering]:
        """The rankings that a paper claims in its tables."""
        return self.chosen[paper].orderings

    def figures(self, paper: str, extent: str = "all") -> dict[str, Figure]:
        """The figures that this run can draw; in the headline those that need no further result."""
        chosen = self.chosen[paper]
        headline = None if extent == "all" else chosen.headline
        results = {*cells_of(chosen.tables, headline)}
        return {
            name: figure
            for name, figure in chosen.figures.items()
            if self.figure_results(paper, name)
            and (headline is None or results.issuperset(figure.results(chosen.tables)))
        }

    def figure_results(self, paper: str, name: str) -> list[tuple[str, str | None]]:
        """The (task, model) pairs of a figure that this run measures; none without the first."""
        figure = self.chosen[paper].figures[name]
        results = figure.results(self.chosen[paper].tables)
        measured = [result for result in results if self.measures(*result)]
        if getattr(figure, "READS", ()):  # it shows what a model made of the pixels here
            measured = [result for result in measured if result[1] not in self.external]
        if not measured:  # the task may lack its data
            return []
        if isinstance(figure, PriorFigureSettings):
            complete = measured == results and self.shows("images", figure.task)
            return measured if complete else []
        if isinstance(figure, RetrievedFigureSettings) and not self.shows("images", figure.task):
            return []
        if isinstance(figure, ReportsFigureSettings | ModelFigureSettings):
            return measured if self.shows("text", figure.task) else []
        if isinstance(figure, SaliencyFigureSettings):
            return measured if self.shows("images", figure.task) else []
        if isinstance(figure, PictureFigure) and figure.radiographs:
            return measured if getattr(self.task(figure.task).settings, "figures", 0) else []
        if not isinstance(figure, GroundingFigureSettings):
            return measured
        if (figure.task, figure.by) not in measured:
            return []
        return measured if getattr(self.task(figure.task).settings, "figures", 0) else []

    def results_of(self, paper: str, extent: str) -> list[Result]:
        """The (task, model) pairs of a paper's tables and figures that this run measures."""
        results = [self.table_cells(paper, name) for name in self.table_names(paper, extent)]
        results += [self.figure_results(paper, name) for name in self.figures(paper, extent)]
        return list(dict.fromkeys(result for group in results for result in group))

    def controls(self, paper: str) -> list[str]:
        """The controls of a paper that this run can train."""
        models = [name for name in self.recipes if paper_of(name) == paper]
        return [name for name in models if self.recipes[name].control and self.trainable(name)]
