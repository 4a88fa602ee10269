"""A configuration and the run that follows from it and from its papers, a subject each.

The configuration says where data sets lie, at which scale and extent the papers are made, what jobs
may use and what may be shown; the method is in the papers. Everything a run consists of is
known here, before anything has run.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from cxrflow.config.cohorts import Cohorts, Texts
from cxrflow.config.datasets import Datasets
from cxrflow.config.label_comparisons import ReferenceLabels, label_comparisons
from cxrflow.config.models import Models, Selection
from cxrflow.config.needs import RunNeeds
from cxrflow.config.papers import Library
from cxrflow.config.results import PaperResults
from cxrflow.config.schema import Values
from cxrflow.config.tasks import Tasks
from cxrflow.kinds import is_outside
from cxrflow.papers.table import Result


class Config:
    """The configuration of a run, with all that it makes and needs."""

    def __init__(self, values: Values, selection: Selection | None = None) -> None:
        self.values, self.selection = values, selection

    @cached_property
    def library(self) -> Library:
        """The chosen papers and all that they use, as they are written."""
        left_out = self.values.leave_out
        return Library([paper for paper in self.values.papers if Path(paper).stem not in left_out])

    @cached_property
    def data(self) -> Datasets:
        """The data sets of this run."""
        return Datasets(self.values.datasets, self.values.synthetic_hospital)

    @cached_property
    def cohorts(self) -> Cohorts:
        """The cohorts that this run has the data of."""
        return Cohorts(self.values, self.library, self.data)

    @cached_property
    def texts(self) -> Texts:
        """The vocabularies that this run has a text for, and their documents."""
        return Texts(self.values, self.library, self.data, self.cohorts)

    @cached_property
    def models(self) -> Models:
        """The models of the chosen papers and those they use."""
        return Models(
            self.values, self.library, self.data, self.cohorts, self.texts, self.selection
        )

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks of the chosen papers and those they use."""
        return Tasks(self.models)

    @cached_property
    def results(self) -> dict[str, PaperResults]:
        """What fills the tables and figures of each chosen paper."""
        return {
            name: PaperResults(paper, self.tasks) for name, paper in self.library.chosen.items()
        }

    @cached_property
    def cells(self) -> list[Result]:
        """The (task, model) pairs of all tables and figures that this run measures, each once."""
        pairs = (result for results in self.results.values() for result in results.all("all"))
        return list(dict.fromkeys(pairs))

    def needs(self, *extents: tuple[str, str]) -> RunNeeds:
        """The models and tasks of (paper, extent) pairs, and all that they need."""
        return self.needs_of(
            [result for paper, extent in extents for result in self.results[paper].all(extent)]
        )

    def needs_of(self, results: Sequence[Result]) -> RunNeeds:
        """The same of (task, model) pairs."""
        tasks = list(dict.fromkeys(task for task, _ in results))
        models = [model for _, model in results if model is not None and model in self.models]
        models += self.cohorts.curators(*(self.tasks[task].cohort for task in tasks))
        ancestors = {name for model in models for name in self.models[model].ancestors}
        return RunNeeds(self.tasks, [name for name in self.models if name in ancestors], tasks)

    @cached_property
    def whole(self) -> RunNeeds:
        """The needs of the whole run: every row of each paper, with its controls."""
        models = list(self.needs(*((paper, "all") for paper in self.results)).models)
        for results in self.results.values():
            models += [
                name for control in results.controls for name in self.models[control].ancestors
            ]
        models += self.selection.models if self.selection else ()
        return RunNeeds(self.tasks, list(dict.fromkeys(models)), self.tasks.available, self.cells)

    @cached_property
    def seeds(self) -> list[int]:
        """All seeds of the run's models."""
        return sorted({s for name in self.whole.models for s in self.models[name].seeds}) or [0]

    def label_comparisons(self) -> list[ReferenceLabels]:
        """The labels that report labels are compared with."""
        return label_comparisons(self.data, self.values.label_agreement, self.whole.corpora)

    @cached_property
    def datasets(self) -> list[str]:
        """All data sets that this run reads."""
        compared = [
            (comparison.dataset, comparison.holder or comparison.dataset)
            for comparison in self.label_comparisons()
        ]
        return list(dict.fromkeys([*self.whole.datasets, *(name for p in compared for name in p)]))

    @property
    def outside_modules(self) -> list[str]:
        """Modules outside of the package that hold the code of this run."""
        names = {kind for name in self.whole.models for kind in self.models[name].code}
        names |= {self.library.tasks[task].benchmark for task in self.whole.tasks}
        names |= {self.data.layout(dataset).name for dataset in self.datasets}
        return sorted({name.partition(":")[0] for name in names if is_outside(name)})

    def resolved(self) -> dict[str, Any]:
        """The entries of the papers in use, complete: with their scale and the overrides."""
        excluded = {"settings", "scales"}
        return {
            "models": {name: self.models[name].described() for name in self.whole.models},
            "cohorts": {name: self.cohorts[name].described() for name in self.whole.cohorts},
            "vocabularies": {
                name: self.texts.vocabularies[name].model_dump(mode="json", exclude=excluded)
                for name in self.whole.vocabularies
            },
            "tasks": {
                name: self.library.tasks[name].model_dump(
                    mode="json", exclude=excluded, exclude_none=True
                )
                | {"settings": self.tasks[name].settings.model_dump(mode="json")}
                for name in self.whole.tasks
            },
        }

    def described(self) -> dict[str, Any]:
        """The configuration with every default and the resolved entries, as plain values."""
        rehearsal = set() if self.values.rehearsal else {"rehearsal"}
        return self.values.model_dump(mode="json", exclude=rehearsal) | self.resolved()
