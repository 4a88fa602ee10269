"""The models, cohorts and texts that models and tasks rest on, for a run or for one paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cxrflow.config.results import RunResults
from cxrflow.names import paper_of


@dataclass(frozen=True)
class RunNeeds:
    """The vocabularies, texts and cohorts of these models and tasks, each once."""

    config: RunResults
    models: Sequence[str]
    tasks: Sequence[str]

    @cached_property
    def vocabularies(self) -> list[str]:
        """Those of the models; where vocabularies are compared, also those of no model."""
        recipes = self.config.recipes
        used = {recipes[name].vocabulary for name in self.models}
        named = {recipe.vocabulary for recipe in recipes.values()}
        tasks = self.config.library.tasks
        compared = any(tasks[name].benchmark == "vocabulary" for name in self.tasks)
        return [
            name
            for name in self.config.known_vocabularies
            if name in used or (compared and name not in named)
        ]

    @cached_property
    def documents(self) -> list[tuple[str, str]]:
        """(data set, paper of the vocabulary that cuts it) of everything that is read as text."""
        named = [
            (dataset, paper_of(name))
            for name in self.vocabularies
            for dataset in self.config.vocabulary_datasets(name)
        ]
        named += [
            (dataset, paper_of(self.config.vocabulary_of(name)))
            for name in self.models
            for dataset in self.config.corpora_of(name)
        ]
        return list(dict.fromkeys(named))

    @property
    def text_datasets(self) -> list[str]:
        """The data sets that are read as text."""
        return list(dict.fromkeys(dataset for dataset, _ in self.documents))

    @property
    def corpora(self) -> list[str]:
        """The data sets whose text was processed: what is read as text, reports of pairs."""
        cohorts = (self.config.known_cohorts[name] for name in self.cohorts)
        pairs = [cohort.dataset for cohort in cohorts if cohort.recipe.kind == "pairs"]
        return list(dict.fromkeys([*self.text_datasets, *pairs]))

    @cached_property
    def cohorts(self) -> list[str]:
        """Cohorts that a model learns from, a task is measured on, or documents are split by."""
        named = [self.config.recipes[name].cohort for name in self.models]
        named += [self.config.selecting_cohort(name) for name in self.models]
        for name in self.tasks:
            task = self.config.library.tasks[name]
            named += [task.cohort, task.training]
        named += [self.config.document_cohort(*document) for document in self.documents]
        curations = filter(None, map(self.config.curation, named))
        named += [curation.candidates for curation in curations]
        return [name for name in self.config.known_cohorts if name in named]
