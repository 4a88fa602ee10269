"""The models, cohorts and texts that models and tasks rest on, for a run or for one paper."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from cxrflow.config.tasks import Tasks
from cxrflow.names import paper_of
from cxrflow.papers.table import Result


class RunNeeds:
    """The vocabularies, texts, cohorts and pixels of these models and tasks, each once."""

    def __init__(
        self,
        run: Tasks,
        models: Sequence[str],
        tasks: Sequence[str] = (),
        shown: Sequence[Result] = (),
    ) -> None:
        self.models, self.tasks = models, tasks
        self._run, self._shown = run, shown
        self._resolved = [run.models[name] for name in models]
        self._cohorts, self._texts = run.models.cohorts, run.models.texts

    @cached_property
    def vocabularies(self) -> list[str]:
        """Those of the models; where vocabularies are compared, also those of no model."""
        sought = {model.recipe.vocabulary for model in self._resolved}
        of_models = {model.recipe.vocabulary for model in self._run.models.values()}
        compared = any(self._run[name].benchmark.reads == "vocabularies" for name in self.tasks)
        return [
            name
            for name in self._texts.vocabularies
            if name in sought or (compared and name not in of_models)
        ]

    def vocabularies_of(self, task: str) -> list[str]:
        """The vocabularies that a task compares: those of its paper."""
        return [name for name in self.vocabularies if paper_of(name) == paper_of(task)]

    @cached_property
    def documents(self) -> list[tuple[str, str]]:
        """(data set, paper of the vocabulary that cuts it) of everything that is read as text."""
        documents = [
            (dataset, paper_of(name))
            for name in self.vocabularies
            for dataset in self._texts.datasets(name)
        ]
        documents += [
            (dataset, paper_of(model.vocabulary))
            for model in self._resolved
            for dataset in model.corpora
        ]
        return list(dict.fromkeys(documents))

    @property
    def text_datasets(self) -> list[str]:
        """The data sets that are read as text."""
        return list(dict.fromkeys(dataset for dataset, _ in self.documents))

    @property
    def corpora(self) -> list[str]:
        """The data sets whose text was processed: what is read as text, reports of pairs."""
        cohorts = (self._cohorts[name] for name in self.cohorts)
        pairs = [
            cohort.dataset
            for cohort in cohorts
            if cohort.recipe.kind == "pairs" and not cohort.joined
        ]
        return list(dict.fromkeys([*self.text_datasets, *pairs]))

    @property
    def datasets(self) -> list[str]:
        """The data sets that are read as text, by cohorts, or counted."""
        datasets = list(self.text_datasets)
        for name in self.cohorts:
            datasets += self._cohorts[name].sources
        for name in self.tasks:
            datasets += self._run[name].datasets
        return list(dict.fromkeys(datasets))

    @cached_property
    def cohorts(self) -> list[str]:
        """Cohorts that a model learns from, a task is measured on, or documents are split by."""
        names = [model.recipe.cohort for model in self._resolved]
        names += [model.selecting_cohort for model in self._resolved]
        for name in self.tasks:
            names += [self._run[name].cohort, self._run.models.library.tasks[name].training]
        names += [self._texts.cohort(*document) for document in self.documents]
        needed = self._cohorts.separate(n for n in names if n is not None and n in self._cohorts)
        curations = filter(None, map(self._cohorts.curation, self._apart(needed)))
        needed += self._cohorts.separate(curation.candidates for curation in curations)
        return [name for name in self._cohorts if name in needed]

    def _apart(self, cohorts: Iterable[str]) -> list[str]:
        """Cohorts without those that join others: they are curated one by one."""
        return [name for name in cohorts if not self._cohorts[name].joined]

    @cached_property
    def stores(self) -> list[tuple[str, str]]:
        """(cohort, geometry) of each pixel store.

        Every cohort has a store of its own, so that a cohort of another paper changes nothing for
        the readers of this one. Read are pixels by trainings, curation and what a table shows, and
        by a model in every task of its paper.
        """
        trained = [model for model in self._resolved if not model.imported]
        stores = {(model.recipe.cohort, model.geometry) for model in trained}
        stores |= {(model.selecting_cohort, model.geometry) for model in trained}
        for curation in filter(None, map(self._cohorts.curation, self._apart(self.cohorts))):
            stores.add((curation.candidates, self._run.models[curation.model].geometry))
        results: set[Result] = {*self._shown, *((name, None) for name in self.tasks)}
        results |= {(task, name) for name in self.models for task in self._run.of_model(name)}
        for task, row in results:
            if self._run[task].benchmark.images:
                stores.add((self._run[task].cohort, self._run[task].geometry(row)))
        return sorted(
            (cohort, geometry)
            for cohort, geometry in stores
            if cohort and geometry and self._cohorts[cohort].pictured
        )
