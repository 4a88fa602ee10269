"""The papers of a run and all that they use: cohorts, vocabularies, models, tasks by whole names.

A paper brings its own; what it takes from another paper by name comes with what that is made from.
The scale and the configuration's own word are laid over each.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from cxrflow.benchmarks.registry import BENCHMARKS, Benchmark
from cxrflow.command import Settings, SettingsT, explain, overlay
from cxrflow.errors import InputError
from cxrflow.images.geometry import Geometry
from cxrflow.names import paper_of, short_name
from cxrflow.papers import Paper, load_paper
from cxrflow.papers.recipes import CohortRecipe, Recipe, Task, VocabularyRecipe
from cxrflow.papers.tables import cells_of
from cxrflow.pretrain.settings import (
    ImagePretrainingSettings,
    JointPretrainingSettings,
    TextPretrainingSettings,
)

PROGRAMS: dict[str, type[BaseModel]] = {
    "text": TextPretrainingSettings,
    "image": ImagePretrainingSettings,
    "joint": JointPretrainingSettings,
}


@dataclass(frozen=True)
class ResolvedModel:
    """A model with the settings its training program receives, every default filled in."""

    name: str
    recipe: Recipe
    settings: BaseModel
    geometry: str | None

    def described(self) -> dict[str, Any]:
        """Plain values: what it is made from, and the settings."""
        left_out = {"settings", "scales", "geometry"}
        made_from = self.recipe.model_dump(mode="json", exclude=left_out, exclude_none=True)
        settings = self.settings.model_dump(mode="json", exclude_none=False)
        return made_from | {"geometry": self.geometry, "settings": settings}


@dataclass(frozen=True)
class ResolvedTask:
    """A task with the settings its benchmark receives."""

    name: str
    task: Task
    settings: Settings

    @property
    def benchmark(self) -> Benchmark:
        """What is computed."""
        return BENCHMARKS[self.task.benchmark]


def resolve_model(
    name: str, recipe: Recipe, scale: str, overrides: Mapping[str, Any]
) -> ResolvedModel:
    """Lay the scale and then ``overrides`` over the settings of ``recipe``.

    Raises:
        InputError: naming the model, the key, and the layers it can have come from.
    """
    scaled = recipe.scales.get(scale)
    layers = [recipe.settings, scaled.settings if scaled else {}, overrides]
    settings = _laid_over(PROGRAMS[recipe.program], layers, f"model {name}")
    geometry = scaled.geometry if scaled and scaled.geometry else recipe.geometry
    # In the one spelling that names its folder.
    return ResolvedModel(name, recipe, settings, geometry and str(Geometry.parse(geometry)))


def resolve_task(name: str, task: Task, scale: str, overrides: Mapping[str, Any]) -> ResolvedTask:
    """Lay the scale and then ``overrides`` over the settings of ``task``; InputError as above."""
    layers = [task.settings, task.scales.get(scale, {}), overrides]
    return ResolvedTask(
        name, task, _laid_over(BENCHMARKS[task.benchmark].settings, layers, f"task {name}")
    )


def resolve_vocabulary(
    name: str, recipe: VocabularyRecipe, scale: str, overrides: Mapping[str, Any]
) -> VocabularyRecipe:
    """Lay the scale and then ``overrides`` over a vocabulary; InputError as above."""
    layers = [recipe.model_dump(exclude={"scales"}), recipe.scales.get(scale, {}), overrides]
    return _laid_over(VocabularyRecipe, layers, f"vocabulary {name}")


def resolve_cohort(name: str, recipe: CohortRecipe, overrides: Mapping[str, Any]) -> CohortRecipe:
    """Lay ``overrides`` over a cohort; InputError as above."""
    return _laid_over(CohortRecipe, [recipe.model_dump(), overrides], f"cohort {name}")


def _laid_over(kind: type[SettingsT], layers: list[Mapping[str, Any]], what: str) -> SettingsT:
    values: dict[str, Any] = {}
    for layer in layers:
        values = overlay(values, layer)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        source = f"{what} (its paper's YAML, its scale there, the configuration)"
        raise InputError(explain(error, source)) from None


class Library:
    """The chosen papers, and what of other papers they use."""

    def __init__(self, papers: list[str]) -> None:
        self.chosen: dict[str, Paper] = {}
        for source in papers:
            paper = load_paper(source)
            if paper.name in self.chosen:
                raise ValueError(f"papers: two are called '{paper.name}'")
            self.chosen[paper.name] = paper
        self.models: dict[str, Recipe] = {}
        self.tasks: dict[str, Task] = {}
        self.cohorts: dict[str, CohortRecipe] = {}
        self.vocabularies: dict[str, VocabularyRecipe] = {}
        for paper in self.chosen.values():
            for short in paper.models:
                self._add_model(f"{paper.name}/{short}")
            for short in paper.tasks:
                self._add_task(f"{paper.name}/{short}")
            for short in paper.vocabularies:
                self._add_vocabulary(f"{paper.name}/{short}")
            shown = cells_of(paper.tables, None)
            for figure in paper.figures.values():
                shown += figure.results(paper.tables)
            for task, model in shown:
                self._add_task(task)
                if model is not None:
                    self._add_model(model)

    def paper(self, name: str) -> Paper:
        """A paper by its name."""
        return self.chosen[name] if name in self.chosen else load_paper(name)

    def _entry(self, kind: str, name: str, user: str) -> Any:
        """What a paper calls ``name``; a ValueError that says who asked for it."""
        paper = paper_of(name)
        try:
            entries = getattr(self.paper(paper), kind)
        except InputError as error:
            raise ValueError(f"papers: {user} names '{name}': {error}") from None
        if short_name(name) not in entries:
            known = ", ".join(sorted(entries)) or "none"
            raise ValueError(
                f"papers: {user} names '{name}', which is not known; {kind} of {paper} are {known}"
            )
        return entries[short_name(name)]

    def _add_model(self, name: str, user: str = "a table or figure") -> None:
        if name in self.models:
            return
        recipe: Recipe = self._entry("models", name, user)
        for parent in recipe.parents.values():
            self._add_model(parent, f"model {name}")
        self.models[name] = recipe
        if recipe.cohort is not None:
            self._add_cohort(recipe.cohort, f"model {name}")
        if recipe.vocabulary is not None:
            self._add_vocabulary(recipe.vocabulary, f"model {name}")

    def _add_task(self, name: str, user: str = "a table or figure") -> None:
        if name in self.tasks:
            return
        task: Task = self._entry("tasks", name, user)
        self.tasks[name] = task
        for cohort in (task.cohort, task.training):
            if cohort is not None:
                self._add_cohort(cohort, f"task {name}")

    def _add_cohort(self, name: str, user: str) -> None:
        self.cohorts.setdefault(name, self._entry("cohorts", name, user))

    def _add_vocabulary(self, name: str, user: str = "a paper") -> None:
        self.vocabularies.setdefault(name, self._entry("vocabularies", name, user))
