"""The cohorts of a run and the texts it reads: a paper's word, its scale, the configuration's."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import chain

from cxrflow.config.datasets import Datasets, ResolvedCohort
from cxrflow.config.lacks import Lack
from cxrflow.config.papers import Library, laid_over
from cxrflow.config.problems import WrongKey
from cxrflow.config.schema import Values
from cxrflow.data.cohorts.settings import READ_BY
from cxrflow.images.settings import PixelSettings
from cxrflow.names import paper_of
from cxrflow.papers.entries import Overlay
from cxrflow.papers.recipes import CohortRecipe, Curation, VocabularyRecipe


class Cohorts(dict[str, ResolvedCohort]):
    """Every cohort of the papers that this run has the data of, by its name."""

    def __init__(self, values: Values, library: Library, data: Datasets) -> None:
        self._values, self._library, self._data = values, library, data
        self._recipes = {
            name: self._recipe(name, recipe)
            for name, recipe in library.cohorts.items()
            if values.cohorts.get(name, {}) is not None
        }
        resolved = (data.cohort(name, recipe) for name, recipe in self._recipes.items())
        known_cohorts = [cohort for cohort in resolved if cohort is not None]
        joined = chain.from_iterable(cohort.joined for cohort in known_cohorts)
        super().__init__((cohort.name, cohort) for cohort in (*known_cohorts, *joined))

    def _recipe(self, name: str, recipe: CohortRecipe) -> CohortRecipe:
        overrides = self._values.cohorts.get(name) or {}
        # Another data set brings its own images.
        own_images = {"images": None} if "dataset" in overrides else {}
        scale = self._values.scale
        resolved = laid_over(
            CohortRecipe,
            self._library.overlay(
                "cohorts", name, recipe.model_dump(exclude={"scales"}) | own_images
            ),
            self._library.overlay("cohorts", name, recipe.scales.get(scale, {}), "scales", scale),
            Overlay(overrides, ("cohorts", name)),
        )
        splits = overrides.get("splits")
        if isinstance(splits, Mapping) and "method" not in splits:
            method = resolved.split_method
            for value in sorted(set(splits) & set(READ_BY)):
                if method not in READ_BY[value]:
                    raise WrongKey(
                        ("cohorts", name, "splits", value),
                        f"is not read by method {method}, which the cohort has; expected "
                        f"`method: {' or '.join(READ_BY[value])}` beside it",
                    )
        return resolved

    def is_as_published(self, name: str) -> bool:
        """True if a cohort's data set has the files of the one that its recipe names."""
        cohort = self[name]
        if cohort.joined:
            return False
        return self._data.layout(cohort.dataset).name == cohort.recipe.dataset

    def lacks(self, name: str) -> list[Lack]:
        """What this run lacks of a cohort's data."""
        if name not in self._recipes:
            return [Lack(f"`cohorts: {{{name}: null}}` leaves it out")]
        return self._data.cohort_lacks(self._recipes[name])

    def curation(self, name: str | None) -> Curation | None:
        """How a cohort is curated, if it is."""
        return self[name].recipe.curation if name is not None and name in self else None

    def separate(self, names: Iterable[str]) -> list[str]:
        """Cohorts, and those of one data set that they join."""
        cohorts = [self[name] for name in names]
        return [each.name for cohort in cohorts for each in (cohort, *cohort.joined)]

    def curators(self, *names: str | None) -> list[str]:
        """The models that choose among the images of these cohorts' studies."""
        return [each.model for each in map(self.curation, names) if each is not None]

    def drawn(self, name: str) -> bool:
        """True if the synthetic hospital draws all that a cohort is read from."""
        return name in self and self._data.drawn(*self[name].sources)

    def pixels(self, name: str) -> PixelSettings:
        """The settings of a cohort's stores; a hospital's own pictures are stored upright."""
        upright = any(
            self._data.layout(holder).upright and not self._data.drawn(holder)
            for holder in self[name].holders
        )
        pixels = self._values.pixels
        return pixels.model_copy(update={"upright": True}) if upright else pixels


class Texts:
    """The vocabularies of a run, and the documents they are made from and cut."""

    def __init__(self, values: Values, library: Library, data: Datasets, cohorts: Cohorts) -> None:
        self._values, self._library, self._data, self._cohorts = values, library, data, cohorts

    def lacks(self, datasets: list[str]) -> list[Lack]:
        """What is lacking of a text that any one of these data sets gives."""
        if self._data.places(datasets):
            return []
        lacks = [lack for lack in map(self._data.lack, datasets) if lack is not None]
        lines = tuple(line for lack in lacks for line in lack.lines)
        return [Lack("; ".join(lack.reason for lack in lacks), lines)]

    @cached_property
    def vocabularies(self) -> dict[str, VocabularyRecipe]:
        """Every vocabulary of the papers that this run has a text for, by its name."""
        return {
            name: each for name, each in self.recipes.items() if self._data.places(each.documents)
        }

    @cached_property
    def recipes(self) -> dict[str, VocabularyRecipe]:
        """Every vocabulary of the papers at this scale, by its name."""
        scale, resolved = self._values.scale, {}
        for name, recipe in self._library.vocabularies.items():
            resolved[name] = laid_over(
                VocabularyRecipe,
                self._library.overlay("vocabularies", name, recipe.model_dump(exclude={"scales"})),
                self._library.overlay(
                    "vocabularies", name, recipe.scales.get(scale, {}), "scales", scale
                ),
                Overlay(self._values.vocabularies.get(name, {}), ("vocabularies", name)),
            )
        return resolved

    def datasets(self, vocabulary: str) -> list[str]:
        """The data sets a vocabulary is made from."""
        return self._data.places(self.vocabularies[vocabulary].documents)

    def cohort(self, dataset: str, paper: str) -> str | None:
        """The pairs cohort that splits a data set's documents for a paper, if there is one.

        One of the paper's own; among several, or without any, one that models of its vocabularies
        are trained on.
        """
        read = [
            recipe.cohort
            for recipe in self._library.models.values()
            if recipe.vocabulary is not None and paper_of(recipe.vocabulary) == paper
        ]
        fitting = (
            name
            for name, cohort in self._cohorts.items()
            if cohort.recipe.kind == "pairs" and cohort.dataset == dataset
            if cohort.recipe.curation is None  # which may need a model of these documents
        )
        # So that a paper more, whose cohorts may come first, changes nothing for this one.
        place = {name: rank for rank, name in enumerate(dict.fromkeys(read))}
        for name, cohort in self._cohorts.items():
            place |= {each.name: place[name] for each in cohort.joined if name in place}
        ranked = sorted(fitting, key=lambda n: (paper_of(n) != paper, place.get(n, len(read))))
        return next(iter(ranked), None)
