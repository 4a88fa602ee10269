"""The data sets of a run under the names that papers use, and the cohorts drawn from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from pathlib import Path
from typing import Any, Self

from cxr_files.errors import InputError
from cxr_files.settings import overlay
from cxr_files.yaml_file import read_yaml
from cxr_hospital.settings import HospitalSettings
from cxrflow.config.lacks import Lack
from cxrflow.config.parts import Dataset
from cxrflow.config.problems import WrongKey
from cxrflow.data.layouts import Layout, Use, layout
from cxrflow.papers.recipes import CohortRecipe

# Where data sets are published, by the names that papers use for them.
PLACES = read_yaml(Path(__file__).with_name("places.yaml"))
# Kinds of cohort that may be made of several data sets in one place, each by itself, and joined.
JOINED = ("pairs", "progression")
# Layouts whose copies are about the hospital's followed patients.
OF_FOLLOWED = ("ms_cxr_t", "chest_imagenome")


@dataclass(frozen=True)
class ResolvedCohort:
    """A cohort of this run, with the data sets that stand in for those of its recipe."""

    name: str
    recipe: CohortRecipe
    dataset: str
    holder: str
    held_out: dict[str, tuple[str, ...]]  # the publisher's parts of each; none: all of it
    training: str | None = None
    #: Of rows of several data sets a cohort each; its own ``dataset`` is then the name of none.
    joined: tuple["ResolvedCohort", ...] = ()

    @classmethod
    def join(cls, name: str, recipe: CohortRecipe, cohorts: Sequence[Self]) -> Self:
        """The rows of several cohorts as one."""
        return cls(
            name,
            recipe,
            "+".join(cohort.dataset for cohort in cohorts),
            "+".join(cohort.holder for cohort in cohorts),
            {},
            joined=tuple(cohorts),
        )

    @property
    def of_one_set(self) -> "tuple[ResolvedCohort, ...]":
        """The cohorts of one data set whose rows are its rows: itself, or those it joins."""
        return self.joined or (self,)

    @property
    def sources(self) -> list[str]:
        """All data sets from which it is read."""
        datasets: list[str | None] = []
        for cohort in self.of_one_set:
            datasets += [cohort.dataset, cohort.holder, *cohort.held_out, cohort.training]
        return list(dict.fromkeys(name for name in datasets if name is not None))

    @property
    def datasets(self) -> list[str]:
        """The data sets whose studies and images its rows are."""
        pairs = [(cohort.dataset, cohort.holder) for cohort in self.of_one_set]
        return list(dict.fromkeys(chain.from_iterable(pairs)))

    @property
    def holders(self) -> list[str]:
        """The data sets in whose folders its images lie."""
        return list(dict.fromkeys(cohort.holder for cohort in self.of_one_set))

    @property
    def table(self) -> str:
        """The name of the table of its rows: pairs or samples."""
        return "pairs" if self.recipe.kind == "pairs" else "samples"

    @property
    def pictured(self) -> bool:
        """True if its rows have images."""
        return self.recipe.kind != "nli" and not (
            self.recipe.kind == "pairs" and "image" not in self.recipe.require
        )

    def described(self) -> dict[str, Any]:
        """Plain values."""
        places = {
            "dataset": self.dataset,
            "images": self.holder,
            "held_out": self.held_out if any(self.held_out.values()) else list(self.held_out),
            "training": self.training,
        }
        return overlay(self.recipe.record(exclude={"scales"}), places)


class Datasets:
    """The data sets of a configuration.

    Synthetic sets need a hospital that draws them. Where real data stand in for a data set there
    are none: what is learnt from patients is not tested on invented ones. A hospital that follows
    no patients draws no data sets about follow-up.

    ``absent``: those that a run goes without because their folder is not there.
    """

    def __init__(
        self, datasets: dict[str, Dataset | None], hospital: HospitalSettings | None
    ) -> None:
        replaced = any(entry and entry.places and entry.root for entry in datasets.values())
        draws = hospital is not None and not replaced
        undrawn = OF_FOLLOWED if hospital is not None and hospital.followed is None else ()
        self.present: dict[str, Dataset] = {}
        self.absent = [name for name, entry in datasets.items() if entry and entry.is_absent]
        self._roots = {name: entry.root for name, entry in datasets.items() if entry}
        self._layouts: dict[str, Layout] = {}
        self._replaced: dict[str, list[str]] = {}
        for name, dataset in datasets.items():
            if dataset is None or name in self.absent:
                continue
            if not dataset.is_drawn or (draws and (dataset.layout or name) not in undrawn):
                self.present[name] = dataset
                self._layouts[name] = self._layout(name, dataset)
                for place in dataset.places:
                    # By name, as a recorded configuration has them.
                    self._replaced[place] = sorted([*self._replaced.get(place, ()), name])
        # What an absent data set stands for is absent as well, unless another stands for it.
        absent = (entry for entry in datasets.values() if entry and entry.is_absent)
        places = {place for entry in absent for place in entry.places}
        self._empty = places - set(self._replaced)
        self.known = {*datasets, *self._replaced, *self._empty}

    def _layout(self, name: str, dataset: Dataset) -> Layout:
        try:
            described = layout(dataset.layout or name)
        except InputError as error:
            raise WrongKey(("datasets", name, "layout"), str(error)) from None
        if dataset.is_drawn and not described.synthetic:
            raise WrongKey(("datasets", name), "no synthetic copy is drawn; expected a root")
        stated = {"people": dataset.people, "ids": dataset.ids}
        return described.model_copy(update={k: v for k, v in stated.items() if v is not None})

    def at(self, name: str | None) -> str | None:
        """The data set that stands in for ``name``; None if this run has none.

        Raises:
            WrongKey: several do, which pairs, progressions and documents can be read from, but
                nothing else.
        """
        return self._only(name, [] if name is None else self.places([name]))

    def _only(self, name: str | None, places: Sequence[str]) -> str | None:
        """The one of ``places`` that stands for ``name``, if there is one; see :meth:`at`."""
        if len(places) > 1:
            raise WrongKey(
                ("datasets", places[1], "in_place_of"),
                f"'{name}' is replaced by '{places[0]}' already, and not only pairs or "
                "progressions are read from it; expected one data set in its place",
            )
        return places[0] if places else None

    def lack(self, name: str) -> Lack | None:
        """What stands in the way of reading ``name``; None if this run has it."""
        if self.places([name]):
            return None
        root, published = self._roots.get(name), PLACES.get(name)
        reason = f"data set {name}" if root is None else f"the folder {root} of data set {name}"
        line = f"datasets: {{{name}: {{root: {root or 'FOLDER'}}}}}"
        return Lack(reason, (f"{line}  # {published}" if published else line,))

    def cohort_lacks(self, recipe: CohortRecipe) -> list[Lack]:
        """What a cohort lacks; nothing where :meth:`cohort` makes it."""
        if self.cohort("", recipe) is not None:
            return []
        datasets = self.places([recipe.dataset])
        able = [name for name in datasets if recipe.kind in self.layout(name).cohorts]
        if datasets and not able:
            stand = "is" if len(datasets) == 1 else "are"
            among = f"{' and '.join(datasets)}, which {stand} in the place of {recipe.dataset}"
            return [Lack(f"{recipe.kind} in {among}")]
        names = (recipe.dataset, recipe.images, recipe.training)
        lacks = [self.lack(name) for name in names if name is not None]
        for name in able:
            companion = self.layout(name).companion
            if companion is not None and "images" not in self.layout(name).holds:
                lack = self.lack(companion)
                if lack is not None and len(able) > 1:
                    lack = lack.or_by(f"datasets: {{{name}: null}}  # the rows of the others alone")
                lacks.append(lack)
        # What replaces a data set may be of other patients, or lack images.
        foreign = Lack(f"images or labels of the patients of {' and '.join(able)}")
        return [lack for lack in lacks if lack is not None] or [foreign]

    def layout(self, name: str) -> Layout:
        """The layout of a data set's files."""
        return self._layouts[name]

    def drawn(self, *names: str) -> bool:
        """True if the synthetic hospital draws all of these."""
        return all(self.present[name].is_drawn for name in names)

    def list_files(self, name: str, *uses: Use) -> list[str]:
        """The list files of a real data set that are there; of a drawn one its manifest tells."""
        root = self.present[name].root
        if root is None:
            return []
        return [str(file) for file in self.layout(name).list_files(Path(root), *uses)]

    def places(self, names: list[str]) -> list[str]:
        """The data sets of this run that stand in for these names, each once."""
        # Under a name stands what replaces it, or itself.
        standing = (self._replaced.get(n, [] if n in self._empty else [n]) for n in names)
        places = chain.from_iterable(standing)
        return list(dict.fromkeys(place for place in places if place in self.present))

    def cohort(self, name: str, recipe: CohortRecipe) -> ResolvedCohort | None:
        """A cohort on the data sets of this run; None if one is missing.

        Pairs and progressions of a data set in whose place several stand are made of each, and
        joined.
        """
        standing = self.places([recipe.dataset])
        datasets = [each for each in standing if recipe.kind in self.layout(each).cohorts]
        if recipe.kind not in JOINED or len(datasets) < 2:
            return self._of_one_set(name, recipe, self._only(recipe.dataset, datasets))
        for first, second in combinations(datasets, 2):
            if self._may_be_same(first, second):
                raise WrongKey(
                    ("datasets", second, "in_place_of"),
                    f"has people of '{first}', which stands in the same place; their rows cannot "
                    "be joined, as a patient could train and test",
                )
        cohorts = [self._of_one_set(f"{name}.{each}", recipe, each) for each in datasets]
        present_cohorts = [cohort for cohort in cohorts if cohort is not None]
        if len(present_cohorts) < len(cohorts):
            return None
        return ResolvedCohort.join(name, present_cohorts[0].recipe, present_cohorts)

    def _may_be_same(self, first: str, second: str) -> bool:
        """True if people of one data set may be in another; two of one layout are two hospitals."""
        says = any(self.present[name].says_people for name in (first, second))
        two_hospitals = self.layout(first).name == self.layout(second).name and not says
        return not two_hospitals and bool(self.layout(first).people & self.layout(second).people)

    def _of_one_set(
        self, name: str, recipe: CohortRecipe, dataset: str | None
    ) -> ResolvedCohort | None:
        if dataset is None:
            return None
        # What replaces a data set brings its own images, unless these are replaced too.
        images = self._images(recipe, dataset)
        has_images = "images" in self.layout(dataset).holds
        elsewhere = recipe.images is not None and (
            dataset == recipe.dataset or recipe.images in self._replaced
        )
        if elsewhere and images and self._are_others(images, dataset):
            elsewhere = False  # what stands in for an annotation brings its own, or names whose
        if elsewhere:
            holder = images
        elif has_images or self.layout(dataset).companion is None:
            holder = dataset
        else:
            holder = self.companion_of(dataset)
        if holder is None:
            return None
        held_out: dict[str, tuple[str, ...]] = {}
        for name_of_set, parts in recipe.held_out.items():
            for place in self.places([name_of_set]):
                if self.may_share(place, dataset):
                    parts_of_both = (held_out[place], parts) if place in held_out else (parts,)
                    held_out[place] = (
                        tuple(dict.fromkeys(chain(*parts_of_both))) if all(parts_of_both) else ()
                    )
        silver = [] if recipe.training is None else self.places([recipe.training])
        silver = [place for place in silver if self.same_patients(place, dataset)]
        if recipe.training and not silver:
            return None
        # Its own silver labels, if it has any.
        training = None if dataset in silver else self._only(recipe.training, silver)
        try:
            recipe = recipe.split_as(self.layout(dataset).split)
        except ValueError as error:
            raise WrongKey(("cohorts", name, "splits"), str(error)) from None
        return ResolvedCohort(name, recipe, dataset, holder, held_out, training)

    def _images(self, recipe: CohortRecipe, dataset: str) -> str | None:
        """The data set that stands in for that of a cohort's images; of several its patients'."""
        places = [] if recipe.images is None else self.places([recipe.images])
        fitting = [place for place in places if self.same_patients(place, dataset)]
        return next(iter([*fitting, *places]), None)

    def may_share(self, first: str, second: str) -> bool:
        """True if patients of two data sets have ids, by which the cohort's program compares them.

        Other ids, as far as is said, may still be equal ones.
        """
        numbered = (self.layout(name).ids for name in (first, second))
        return self.drawn(first) == self.drawn(second) and None not in numbered

    def same_patients(self, first: str, second: str) -> bool:
        """True if two data sets can share patients under the same ids."""
        if self.drawn(first) != self.drawn(second):
            return False
        numbered = self.layout(first).ids
        return first == second or (numbered is not None and numbered == self.layout(second).ids)

    def _are_others(self, images: str, dataset: str) -> bool:
        """True if a data set's images are not those of the patients of another one.

        Where ids are not known, they are if the other has no images.
        """
        if self.same_patients(images, dataset):
            return False
        numbered = None not in (self.layout(images).ids, self.layout(dataset).ids)
        return numbered or "images" in self.layout(dataset).holds

    def companion_of(self, dataset: str) -> str | None:
        """The data set that completes this one (images, tables), of the same patients."""
        fitting = (
            name
            for name in self.present
            if self.layout(name).name == self.layout(dataset).companion
            and self.same_patients(name, dataset)
        )
        return next(fitting, None)
