"""Which data set stands where a paper names one, and the cohorts that follow."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cxrflow.command import overlay
from cxrflow.data.layouts import Layout, layout
from cxrflow.errors import InputError
from cxrflow.papers.recipes import CohortRecipe

if TYPE_CHECKING:
    from cxrflow.config.parts import Dataset


@dataclass(frozen=True)
class ResolvedCohort:
    """A cohort of this run: the data sets that are really read."""

    name: str
    recipe: CohortRecipe
    dataset: str
    holder: str
    held_out: tuple[str, ...]

    @property
    def pictured(self) -> bool:
        """Whether its rows have images."""
        return self.recipe.kind != "nli" and not (
            self.recipe.kind == "pairs" and "image" not in self.recipe.require
        )


class Datasets:
    """The data sets of a configuration, synthetic ones only where there is a hospital."""

    def __init__(self, named: "dict[str, Dataset | None]", hospital: bool) -> None:
        self.present: dict[str, Dataset] = {}
        self._layouts: dict[str, Layout] = {}
        for name, dataset in named.items():
            if dataset is None or (dataset.is_drawn and not hospital):
                continue
            try:
                self._layouts[name] = layout(dataset.layout or name)
            except InputError as error:
                raise ValueError(f"datasets.{name}.layout: {error}") from None
            if dataset.is_drawn and not self._layouts[name].synthetic:
                raise ValueError(f"datasets.{name}: no synthetic copy is drawn; expected a root")
            self.present[name] = dataset
        self._replaced: dict[str, str] = {}
        for name, dataset in self.present.items():
            place = dataset.in_place_of
            if place is not None and place in self._replaced:
                raise ValueError(
                    f"datasets.{name}.in_place_of: '{place}' is replaced by "
                    f"'{self._replaced[place]}' already"
                )
            if place is not None:
                self._replaced[place] = name

    def at(self, name: str | None) -> str | None:
        """The data set that stands where a paper names ``name``; None when there is none."""
        if name is None:
            return None
        name = self._replaced.get(name, name)
        return name if name in self.present else None

    def layout(self, name: str) -> Layout:
        """Whose files a data set has, and what follows from that."""
        return self._layouts[name]

    def drawn(self, *names: str) -> bool:
        """Whether the synthetic hospital draws all of these."""
        return all(self.present[name].is_drawn for name in names)

    def texts(self, names: list[str]) -> list[str]:
        """The data sets at these places, those that are there, each once."""
        places = [self.at(name) for name in names]
        return list(dict.fromkeys(place for place in places if place is not None))

    def cohort(self, name: str, recipe: CohortRecipe) -> ResolvedCohort | None:
        """A cohort on the data sets of this run; None where it lacks one."""
        dataset = self.at(recipe.dataset)
        if dataset is None:
            return None
        # What replaces a data set brings its own images.
        elsewhere = recipe.images is not None and dataset == recipe.dataset
        holder = self.at(recipe.images) if elsewhere else dataset
        held_out = [
            place for place in self.texts(recipe.held_out) if self.same_patients(place, dataset)
        ]
        if holder is None:
            return None
        return ResolvedCohort(name, recipe, dataset, holder, tuple(held_out))

    def same_patients(self, one: str, other: str) -> bool:
        """Whether two data sets can have patients in common that their ids would show."""
        if self.drawn(one) != self.drawn(other):
            return False
        numbered = self.layout(one).ids
        return one == other or (numbered is not None and numbered == self.layout(other).ids)


def described(cohort: ResolvedCohort) -> dict[str, Any]:
    """Plain values of a cohort."""
    real = {"dataset": cohort.dataset, "images": cohort.holder, "held_out": list(cohort.held_out)}
    return overlay(cohort.recipe.model_dump(mode="json"), real)
