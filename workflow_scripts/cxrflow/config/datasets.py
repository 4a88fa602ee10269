"""Which data set stands where a paper names one, and the cohorts that follow."""

from dataclasses import dataclass
from typing import Any

from cxrflow.config.parts import Dataset
from cxrflow.config.problems import WrongKey
from cxrflow.data.layouts import Layout, layout
from cxrflow.errors import InputError
from cxrflow.papers.recipes import CohortRecipe
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.settings import overlay

# Layouts whose copies are about the hospital's followed patients.
OF_FOLLOWED = ("ms_cxr_t", "chest_imagenome")


@dataclass(frozen=True)
class ResolvedCohort:
    """A cohort of this run: the data sets that are really read."""

    name: str
    recipe: CohortRecipe
    dataset: str
    holder: str
    held_out: tuple[str, ...]
    training: str | None = None

    @property
    def sources(self) -> list[str]:
        """All data sets that it is read from."""
        named = [self.dataset, self.holder, *self.held_out, self.training]
        return [name for name in named if name is not None]

    @property
    def pictured(self) -> bool:
        """Whether its rows have images."""
        return self.recipe.kind != "nli" and not (
            self.recipe.kind == "pairs" and "image" not in self.recipe.require
        )

    def described(self) -> dict[str, Any]:
        """Plain values."""
        places = {
            "dataset": self.dataset,
            "images": self.holder,
            "held_out": list(self.held_out),
            "training": self.training,
        }
        return overlay(self.recipe.record(exclude={"scales"}), places)


class Datasets:
    """The data sets of a configuration.

    Synthetic ones are there only with a hospital that draws them, and not where real data stand in
    another's place: what is learnt from patients is not tested on inventions. A hospital that
    follows no patients draws no copies of what is about them.
    """

    def __init__(self, named: dict[str, Dataset | None], hospital: HospitalSettings | None) -> None:
        replaced = any(one and one.in_place_of and one.root for one in named.values())
        drawn = hospital is not None and not replaced
        undrawn = OF_FOLLOWED if hospital is not None and hospital.followed is None else ()
        self.present: dict[str, Dataset] = {}
        self._layouts: dict[str, Layout] = {}
        self._replaced: dict[str, str] = {}
        for name, dataset in named.items():
            if dataset is None:
                continue
            if not dataset.is_drawn or (drawn and (dataset.layout or name) not in undrawn):
                self.present[name] = dataset
                self._layouts[name] = self._layout(name, dataset)
                self._replace(name, dataset.in_place_of)
        self.known = {*named, *self._replaced}

    def _layout(self, name: str, dataset: Dataset) -> Layout:
        try:
            described = layout(dataset.layout or name)
        except InputError as error:
            raise WrongKey(("datasets", name, "layout"), str(error)) from None
        if dataset.is_drawn and not described.synthetic:
            raise WrongKey(("datasets", name), "no synthetic copy is drawn; expected a root")
        return described

    def _replace(self, name: str, place: str | None) -> None:
        if place is None:
            return
        if place in self._replaced:
            raise WrongKey(
                ("datasets", name, "in_place_of"),
                f"'{place}' is replaced by '{self._replaced[place]}' already",
            )
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

    def places(self, names: list[str]) -> list[str]:
        """The data sets that stand at these places, those that are there, each once."""
        places = [self.at(name) for name in names]
        return list(dict.fromkeys(place for place in places if place is not None))

    def cohort(self, name: str, recipe: CohortRecipe) -> ResolvedCohort | None:
        """A cohort on the data sets of this run; None where it lacks one."""
        dataset = self.at(recipe.dataset)
        if dataset is None:
            return None
        # What replaces a data set brings its own images, unless these are replaced too.
        elsewhere = recipe.images is not None and (
            dataset == recipe.dataset or recipe.images in self._replaced
        )
        if elsewhere:
            holder = self.at(recipe.images)
        elif "images" in self.layout(dataset).holds or self.layout(dataset).companion is None:
            holder = dataset
        else:
            holder = self.companion_of(dataset)
        if holder is None:
            return None
        held_out = [
            place for place in self.places(recipe.held_out) if self.same_patients(place, dataset)
        ]
        training = self.at(recipe.training)
        if recipe.training and not (training and self.same_patients(training, dataset)):
            return None
        return ResolvedCohort(name, recipe, dataset, holder, tuple(held_out), training)

    def same_patients(self, one: str, other: str) -> bool:
        """Whether two data sets can have patients in common that their ids would show."""
        if self.drawn(one) != self.drawn(other):
            return False
        numbered = self.layout(one).ids
        return one == other or (numbered is not None and numbered == self.layout(other).ids)

    def companion_of(self, dataset: str) -> str | None:
        """The data set of the same patients with what this one's layout lacks, as real as it is."""
        fitting = (
            name
            for name in self.present
            if self.layout(name).name == self.layout(dataset).companion
            and self.same_patients(name, dataset)
        )
        return next(fitting, None)
