"""The tasks of a run, with the complete settings of their benchmarks: who can do them, on what."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cxr_files.settings import Settings, overlay
from cxrflow.benchmarks.registry import BENCHMARKS, Benchmark
from cxrflow.config.lacks import Lack, Lacks, distinct
from cxrflow.config.models import NO_CEILING, TRUTH, Models, geometry_name
from cxrflow.config.papers import laid_over
from cxrflow.kinds import modules_of
from cxrflow.names import is_reference, paper_of, short_name
from cxrflow.papers.entries import Overlay
from cxrflow.papers.recipes import Task
from cxrflow.papers.table import Result

# Of the pixels of reference rows in a task that scores no model of ours.
REFERENCE_GEOMETRY = "shorter128"


class ResolvedTask:
    """A task with the complete settings of its benchmark, which says what it needs."""

    def __init__(self, name: str, task: Task, settings: Settings, tasks: "Tasks") -> None:
        self.name, self.task, self.settings, self._tasks = name, task, settings, tasks
        self.benchmark: Benchmark = BENCHMARKS[task.benchmark]

    # --- what its benchmark says --------------------------------------------------------------

    @property
    def cohort(self) -> str:
        """The cohort that it is measured on."""
        return self.task.cohort

    @property
    def computed(self) -> list[Benchmark]:
        """The benchmark, and for a series of checkpoints the benchmark that scores each of them."""
        if not self.benchmark.of_task:
            return [self.benchmark]
        return [self.benchmark, BENCHMARKS[dict(self.settings)["benchmark"]]]

    @property
    def code(self) -> list[str]:
        """The modules that score models, and the files that its settings make them read."""
        return [
            *(benchmark.code(benchmark.program) for benchmark in self.computed),
            *modules_of(self.settings),
        ]

    @property
    def scored_by(self) -> dict[str, Any]:
        """The settings that score: of a series of checkpoints those of its task."""
        settings = dict(self.settings)
        return dict(settings["settings"]) if self.benchmark.of_task else settings

    @property
    def files(self) -> dict[str, Path]:
        """Files of the user's that it reads, by share: lists of training images."""
        lists = self.scored_by.get("lists") or {}
        return {share: Path(file) for share, file in lists.items()}

    @property
    def needs(self) -> set[str]:
        """The abilities that a model must have."""
        return {need for benchmark in self.computed for need in benchmark.needs}

    @property
    def datasets(self) -> list[str]:
        """The data sets behind statistics of data sets (BioViL Table C.1, BioViL-T Appendix B).

        The annotated set, the data set with all studies and their dates (a table of MIMIC-CXR-JPG
        where there is one, and else the header of every image), demographics if there are any.
        """
        if self.benchmark.reads != "datasets":
            return []
        cohort, data = self._tasks.models.cohorts[self.cohort], self._tasks.models.data
        studies = data.companion_of(cohort.dataset) or cohort.holder
        datasets = [cohort.dataset, studies, data.at(self.task.demographics)]
        return [name for name in datasets if name is not None]

    # --- what this run can do -----------------------------------------------------------------

    def shows(self, content: Literal["images", "text"]) -> bool:
        """True if its pictures may hold radiographs or report text."""
        return self._tasks.shows(content, self.cohort)

    @property
    def pictures(self) -> int:
        """How many example pictures it draws, where these may be shown."""
        return int(getattr(self.settings, "figures", 0))

    @property
    def available(self) -> bool:
        """True if this run has its data."""
        return not self.lacks

    @cached_property
    def lacks(self) -> Lacks:
        """What this run lacks of its data."""
        benchmark, models = self.benchmark, self._tasks.models
        if self.name in models.choices.leave_out:
            return (Lack(f"`leave_out` names {self.name}"),)
        cohorts = [self.cohort, *([self.task.training] if self.task.training else [])]
        lacks = [lack for cohort in cohorts for lack in models.cohort_lacks(cohort)]
        if lacks:
            return distinct(lacks)
        if benchmark.reads == "curation" and not models.cohorts.curators(self.cohort):
            return (Lack(f"cohort {self.cohort} is not curated"),)
        if benchmark.reads == "curation" and models.cohorts[self.cohort].joined:
            return (Lack(f"{self.name} counts in one data set, and {self.cohort} joins several"),)
        if benchmark.reads == "datasets" and not models.cohorts.is_as_published(self.cohort):
            published = models.cohorts[self.cohort].recipe.dataset
            return (Lack(f"{self.name} counts in the files of {published} itself"),)
        if benchmark.truth == "needed" and not models.cohorts.drawn(self.cohort):
            return (TRUTH,)
        if benchmark.truth == "findings" and not models.knows_findings(self.cohort):
            return (TRUTH,)
        if benchmark.split and models.cohorts[self.cohort].recipe.split_method == "all":
            return (Lack(f"all of cohort {self.cohort} is test, and {self.name} fits on a part"),)
        return ()

    def lacks_of(self, row: str | None) -> Lacks:
        """What this run lacks to score a row in it; without one: to measure the data themselves."""
        if row is None:
            return self.lacks
        models, external = self._tasks.models, self._tasks.models.library.external
        if models.selection is not None and (self.name, row) not in models.selection.cells:
            return (Lack("a rehearsal makes another cell of its kind"),)
        if is_reference(row):
            if short_name(row) not in self.benchmark.references:
                return (Lack(f"{self.name} has no row {row}"),)
            knowledge = self.benchmark.ceilings.get(short_name(row))
            if knowledge == "states" and not models.knows_states(self.cohort):
                return (TRUTH,)
            if knowledge == "answers" and not models.cohorts.drawn(self.cohort):
                return (NO_CEILING,)
            by_second = knowledge == "second_readings" and self.available
            if by_second and not models.read_twice(self.cohort):
                return (Lack(f"a second reader, whom the data of {self.cohort} do not have"),)
            if self.name in self._tasks.first_models:
                return ()
            beside = self._tasks.first_named.get(self.name)
            if beside is None:
                return self.lacks or (Lack(f"a model in {self.name} beside it"),)
            return self.lacks_of(beside)
        if row in external:
            has_file = self.name in external[row].files
            return self.lacks if has_file else (Lack(f"{row} has no file for {self.name}"),)
        model = models[row]
        lacks = (*self.lacks, *model.lacks)
        unable = sorted(self.needs - model.offers)
        if unable and not lacks:
            return (Lack(f"{row} has not what {self.name} needs ({', '.join(unable)})"),)
        return distinct(lacks)

    def scores(self, row: str | None) -> bool:
        """True if this run can score a row in it; without one: the data themselves."""
        return not self.lacks_of(row)

    def geometry(self, row: str | None) -> str | None:
        """The geometry of a row's pixels: the task's, or that of the model's training.

        A reference row sees the pixels of the first model. So does what was run elsewhere, of which
        the images that can be read are scored alone.
        """
        geometry: str | None = getattr(self.settings, "geometry", None)
        if geometry is not None or row is None:
            return geometry
        if row not in self._tasks.models:
            row = self._tasks.first_models.get(self.name, row)
        is_model = row in self._tasks.models
        return self._tasks.models[row].geometry if is_model else REFERENCE_GEOMETRY


class Tasks(dict[str, ResolvedTask]):
    """The tasks of the chosen papers and those they use, by names in full."""

    def __init__(self, models: Models) -> None:
        self.models = models
        super().__init__((n, self._resolve(n, task)) for n, task in models.library.tasks.items())

    def _resolve(self, name: str, task: Task) -> ResolvedTask:
        library, values, benchmark = self.models.library, self.models.choices, task.benchmark
        scaled = task.scales.get(values.scale, {})
        settings: Settings = laid_over(
            BENCHMARKS[benchmark].settings,
            library.overlay("tasks", name, task.settings, "settings"),
            library.overlay("tasks", name, scaled, "scales", values.scale),
            Overlay(values.tasks.get(name, {}), ("tasks", name)),
        )
        update: dict[str, Any] = {}
        geometry = getattr(settings, "geometry", None)
        if geometry is not None:
            update["geometry"] = geometry_name(geometry, ("tasks", name, "geometry"))
        if task.cohort in self.models.cohorts:
            kind = type(settings).model_fields
            for field, content in BENCHMARKS[benchmark].shows.items():
                if not self.shows(content, task.cohort):
                    update[field] = kind[field].default
        if BENCHMARKS[benchmark].of_task:
            assert task.of is not None  # as every task of this benchmark has
            each = self._resolve(task.of, library.tasks[task.of])
            each_settings = each.settings.model_dump(mode="json")
            update["benchmark"] = each.task.benchmark
            update["settings"] = overlay(each_settings, dict(settings)["settings"])
        if update:
            settings = settings.model_copy(update=update)
        if BENCHMARKS[benchmark].reports and task.training not in self.models.cohorts:
            task = task.model_copy(update={"training": None})
        return ResolvedTask(name, task, settings, self)

    def shows(self, content: Literal["images", "text"], cohort: str) -> bool:
        """True if pictures of a cohort may hold radiographs or report text."""
        place = self.models.cohorts[cohort]
        is_drawn = self.models.data.drawn(*place.datasets)
        return self.models.choices.privacy.permits(content, is_drawn)

    @cached_property
    def available(self) -> list[str]:
        """The tasks that this run can do."""
        return [name for name, task in self.items() if task.available]

    def of_model(self, model: str) -> list[str]:
        """The tasks of its own paper that a model can do."""
        tasks = [task for name, task in self.items() if paper_of(name) == paper_of(model)]
        return [task.name for task in tasks if task.benchmark.needs and task.scores(model)]

    @cached_property
    def _named(self) -> list[tuple[str, str]]:
        """The (task, model) pairs of tables, models ours and others', in their order."""
        tables = (t for paper in self.models.library.chosen.values() for t in paper.tables.values())
        results = (result for table in tables for result in table.results())
        return [(task, model) for task, model in results if model and not is_reference(model)]

    @cached_property
    def first_named(self) -> dict[str, str]:
        """By task, the first model that stands in it in a table."""
        return dict(reversed(self._named))

    @cached_property
    def first_models(self) -> dict[str, str]:
        """By task, the first model that a table scores; reference rows see the same images.

        One that was run elsewhere, where a task scores no other.
        """
        first: dict[str, str] = {}
        unscored = {"", *self.models.library.external}
        for task, model in self._named:
            if first.get(task, "") in unscored and self[task].scores(model):
                first[task] = model
        return first

    def of_several_seeds(self, results: Iterable[Result]) -> list[Result]:
        """Select results of several seeds whose predictions give intervals."""
        return [
            (task, model)
            for task, model in results
            if model is not None
            and len(self.models.seeds_of(model)) > 1
            and self[task].benchmark.statistic_module is not None
        ]
