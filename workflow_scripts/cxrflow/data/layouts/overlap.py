"""Overlap of training and evaluation data, from the descriptions of the data sets alone.

It is checked before anything is read. The cohorts' own checks (:mod:`cxrflow.data.cohorts.leakage`)
then compare the patients. Three quarters of MS-CXR's patients are in MIMIC-CXR's official training
split; RSNA's images are NIH's.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from cxrflow.data.layouts import layout


@dataclass(frozen=True)
class CohortRows:
    """The rows of a cohort that a model is trained or scored on.

    Attributes:
        dataset, layout, synthetic: of the data set that the cohort is made from.
        images: the data set in whose folder its images lie.
        stated: ``people`` and ``ids`` of the data set where its configuration says them.
        held_out: data sets whose patients are in the cohort's test part, each with the publisher's
            parts of it; none: all of it.
        split: what decides a patient's part (``CohortSettings.split_rule``); None where that is
            not by patient.
        parts: the parts of the split that are used.
        published: the publisher's parts that these are taken from; None where the split is another.
        silver: of labels that reports say, whose patients are not held out with the data set.
    """

    cohort: str
    dataset: str
    layout: str
    synthetic: bool
    images: str
    stated: tuple[frozenset[str], str | None] | None = None
    held_out: frozenset[tuple[str, frozenset[str]]] = frozenset()
    split: Hashable = None
    parts: frozenset[str] = frozenset(("train", "validate"))
    published: frozenset[str] | None = None
    silver: bool = False

    @property
    def people(self) -> frozenset[str]:
        """Whose patients they are."""
        return layout(self.layout).people if self.stated is None else self.stated[0]

    @property
    def ids(self) -> str | None:
        """How patients are numbered."""
        return layout(self.layout).ids if self.stated is None else self.stated[1]

    def holds_out(self, evaluated: "CohortRows") -> bool:
        """True if no patient of these rows is one of ``evaluated``, which its test part has."""
        held_parts = [parts for name, parts in self.held_out if name == evaluated.dataset]
        published = evaluated.published
        return any(
            not parts or (published is not None and published <= parts) for parts in held_parts
        ) and not ("test" in self.parts or evaluated.silver)


def overlap(trained: Iterable[CohortRows], evaluated: CohortRows) -> list[CohortRows]:
    """Return those of ``trained`` that may share patients or images with ``evaluated``.

    Data sets with the same people under ids that cannot be compared are returned only where a
    configuration says so of one, since layouts alone leave no way out. Two data sets of one layout
    are two hospitals, unless they are drawn, or said to be of the same people.
    """
    leaking: list[CohortRows] = []
    for rows in trained:
        # Invented patients are nobody else's, whatever their ids.
        if rows.synthetic != evaluated.synthetic:
            continue
        # Held-out patients are in the test part, by which a checkpoint may have been chosen.
        is_stated = rows.stated is not None or evaluated.stated is not None
        are_apart = rows.layout == evaluated.layout and not (rows.synthetic or is_stated)
        same_people = not are_apart and bool(rows.people & evaluated.people)
        held_in_vain = is_stated and same_people and not comparable(rows, evaluated)
        if rows.holds_out(evaluated) and not held_in_vain:
            continue
        if {rows.dataset, rows.images} & {evaluated.dataset, evaluated.images}:
            if not _in_disjoint_parts(rows, evaluated):
                leaking.append(rows)
        elif held_in_vain or (same_people and comparable(rows, evaluated)):
            leaking.append(rows)
    return leaking


def comparable(rows: CohortRows, evaluated: CohortRows) -> bool:
    """True if both number their patients in one way, so that they can be held out."""
    return rows.ids is not None and rows.ids == evaluated.ids


def _in_disjoint_parts(rows: CohortRows, evaluated: CohortRows) -> bool:
    """True if splits by patient put the two uses of a data set into different parts.

    This holds for parts of one split, and for the publisher's parts, whatever cohorts call them. It
    also holds for a test part of held-out patients that the other split holds out, too.
    """
    if rows.split is None or rows.dataset != evaluated.dataset:
        return False
    tested = "test" in rows.parts
    if not tested and evaluated.parts == {"test"} and _tests_held_out_alone(evaluated.split):
        return evaluated.held_out <= rows.held_out
    same_split = (rows.held_out, rows.split) == (evaluated.held_out, evaluated.split)
    if same_split and not rows.parts & evaluated.parts:
        return True
    if rows.published is None or evaluated.published is None:
        return False
    return rows.held_out == evaluated.held_out and not rows.published & evaluated.published


def _tests_held_out_alone(split: Hashable) -> bool:
    """True if the test part is exactly the held-out patients."""
    return isinstance(split, tuple) and split[0] == "patients" and split[-1] == 0
