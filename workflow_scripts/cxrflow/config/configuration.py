"""A configuration and the run that follows from it and from its papers.

The configuration says where data sets lie, at which scale and extent the papers are made, what jobs
may use and what may be shown; the method is in the papers. Everything a run consists of is
known here, before anything has run.
"""

from functools import cached_property
from typing import Any

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.temporal.settings import RegistrationErrorSettings
from cxrflow.config.label_comparisons import ReferenceLabels, label_comparisons
from cxrflow.config.needs import RunNeeds
from cxrflow.config.results import RunResults
from cxrflow.images.settings import PixelSettings
from cxrflow.names import is_reference, paper_of


class Config(RunResults):
    """The configuration of a run, with all that it makes and needs."""

    def needs(self, *extents: tuple[str, str]) -> RunNeeds:
        """The models and tasks of (paper, extent) pairs, and all that they need."""
        results = [result for extent in extents for result in self.results_of(*extent)]
        tasks = list(dict.fromkeys(task for task, _ in results))
        models = [model for _, model in results if model in self.recipes]
        models += self.curators(*(self.library.tasks[task].cohort for task in tasks))
        ancestors = {name for model in models for name in self.ancestors(model)}
        return RunNeeds(self, [name for name in self.recipes if name in ancestors], tasks)

    @cached_property
    def all_needs(self) -> RunNeeds:
        """The needs of the whole run: every row of each paper, with its controls."""
        models = list(self.needs(*((paper, "all") for paper in self.chosen)).models)
        for paper in self.chosen:
            models += [name for model in self.controls(paper) for name in self.ancestors(model)]
        return RunNeeds(self, list(dict.fromkeys(models)), self.tasks_in_use)

    @property
    def outside_modules(self) -> list[str]:
        """Modules outside of the package that hold the code of models in use."""
        kinds = {kind for name in self.models_in_use for kind in self.code_of(name) if ":" in kind}
        return sorted({kind.partition(":")[0] for kind in kinds})

    @property
    def models_in_use(self) -> list[str]:
        """The models that the chosen papers show, their controls, and what they are made from."""
        return list(self.all_needs.models)

    @property
    def vocabularies_in_use(self) -> list[str]:
        """The vocabularies of this run."""
        return self.all_needs.vocabularies

    def vocabularies_of(self, task: str) -> list[str]:
        """The vocabularies that a task compares: those of its paper."""
        return [name for name in self.vocabularies_in_use if paper_of(name) == paper_of(task)]

    @property
    def cohorts_in_use(self) -> list[str]:
        """The cohorts of this run."""
        return self.all_needs.cohorts

    @cached_property
    def stores(self) -> list[tuple[str, str]]:
        """(cohort, geometry) of each pixel store.

        Every cohort has a store of its own, so that a cohort of another paper changes nothing for
        the readers of this one.
        """
        trained = [name for name in self.models_in_use if not self.imported(name)]
        pairs = {(self.recipes[name].cohort, name) for name in trained}
        pairs |= {(self.selecting_cohort(name), name) for name in trained}
        curations = filter(None, map(self.curation, self.cohorts_in_use))
        pairs |= {(curation.candidates, curation.model) for curation in curations}
        stores = {(cohort, self.model(name).geometry) for cohort, name in pairs}
        stores |= {
            (self.library.tasks[task].cohort, self.geometry_of(task, name))
            for task, name in self._reading_images()
        }
        stores |= {
            (task.task.cohort, task.settings.geometry)
            for task in map(self.task, self.tasks_in_use)
            if isinstance(task.settings, RegistrationErrorSettings)
        }
        return sorted(
            (cohort, geometry)
            for cohort, geometry in stores
            if cohort and geometry and self.known_cohorts[cohort].pictured
        )

    def pixels_of(self, cohort: str) -> PixelSettings:
        """The settings of a cohort's stores; a hospital's own pictures are stored upright."""
        holder = self.known_cohorts[cohort].holder
        upright = self.data.layout(holder).upright and not self.data.drawn(holder)
        return self.pixels.model_copy(update={"upright": True}) if upright else self.pixels

    def _reading_images(self) -> set[tuple[str, str]]:
        """The (task, model) pairs that read pixels: those of one paper, and those it shows."""
        pairs = [(task, name) for name in self.models_in_use for task in self.tasks_of(name)]
        for paper in self.chosen:
            results = self.results_of(paper, "all")
            pairs += [(task, name) for task, name in results if name and not is_reference(name)]
        return {pair for pair in pairs if self.task(pair[0]).benchmark.reads != "samples"}

    def datasets_in_use(self) -> list[str]:
        """All data sets that cohorts, corpora and comparisons of labels of this run read."""
        datasets = list(self.all_needs.text_datasets)
        for name in self.cohorts_in_use:
            datasets += self.known_cohorts[name].sources
        for labels in self.label_comparisons():
            datasets += [labels.dataset, labels.holder or labels.dataset]
        for name in self.tasks_in_use:
            datasets += self.statistics_datasets(name)
        return list(dict.fromkeys(datasets))

    def label_comparisons(self) -> list[ReferenceLabels]:
        """The labels that report labels are compared with."""
        return label_comparisons(self.data, self.label_agreement, self.all_needs.corpora)

    def statistics_datasets(self, task: str) -> list[str]:
        """The data sets behind statistics of data sets (BioViL Table C.1, BioViL-T Appendix B).

        The annotated set, the data set with all studies and their dates (a table of MIMIC-CXR-JPG
        where there is one, and else the header of every image), demographics if there are any.
        """
        recipe = self.library.tasks[task]
        if BENCHMARKS[recipe.benchmark].reads != "datasets":
            return []
        cohort = self.known_cohorts[recipe.cohort]
        studies = self.data.companion_of(cohort.dataset) or cohort.holder
        datasets = [cohort.dataset, studies, self.data.at(recipe.demographics)]
        return [name for name in datasets if name is not None]

    def resolved(self) -> dict[str, Any]:
        """The entries of the papers in use, complete: with their scale and the overrides."""
        excluded = {"settings", "scales"}
        return {
            "models": {name: self.model(name).described() for name in self.models_in_use},
            "cohorts": {name: self.known_cohorts[name].described() for name in self.cohorts_in_use},
            "vocabularies": {
                name: self.known_vocabularies[name].model_dump(mode="json", exclude=excluded)
                for name in self.vocabularies_in_use
            },
            "tasks": {
                name: self.library.tasks[name].model_dump(
                    mode="json", exclude=excluded, exclude_none=True
                )
                | {"settings": self.task(name).settings.model_dump(mode="json")}
                for name in self.tasks_in_use
            },
        }

    def described(self) -> dict[str, Any]:
        """The configuration with every default and the resolved entries, as plain values."""
        return self.model_dump(mode="json") | self.resolved()
