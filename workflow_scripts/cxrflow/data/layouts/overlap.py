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
        held_out: data sets whose patients are in the cohort's test part.
        split: what decides a patient's part (``CohortSettings.split_rule``); None where that is
            not by patient.
        parts: the parts of the split that are used.
        published: the publisher's parts that these are taken from; None where the split is another.
    """

    cohort: str
    dataset: str
    layout: str
    synthetic: bool
    images: str
    held_out: frozenset[str] = frozenset()
    split: Hashable = None
    parts: frozenset[str] = frozenset(("train", "validate"))
    published: frozenset[str] | None = None


def overlap(trained: Iterable[CohortRows], evaluated: CohortRows) -> list[CohortRows]:
    """Return those of ``trained`` that may share patients or images with ``evaluated``.

    Only data sets that can hold them out are returned, not those with the same people under ids
    that cannot be compared. Two data sets of one layout are two hospitals, unless they are drawn.
    """
    leaking: list[CohortRows] = []
    for rows in trained:
        # Invented patients are nobody else's, whatever their ids.
        if rows.synthetic != evaluated.synthetic:
            continue
        # Held-out patients are in the test part, by which a checkpoint may have been chosen.
        if evaluated.dataset in rows.held_out and "test" not in rows.parts:
            continue
        ours, theirs = layout(rows.layout), layout(evaluated.layout)
        # Patients who are numbered otherwise cannot be held out, so asking for it would not help.
        same_ids = ours.ids is not None and ours.ids == theirs.ids
        if {rows.dataset, rows.images} & {evaluated.dataset, evaluated.images}:
            if not _in_disjoint_parts(rows, evaluated):
                leaking.append(rows)
        elif (ours != theirs or rows.synthetic) and ours.people & theirs.people and same_ids:
            leaking.append(rows)
    return leaking


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
