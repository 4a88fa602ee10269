"""Whether what a model is scored on may hold patients or images that it was trained on.

Said from the data sets' descriptions alone, before anything is read; the cohorts' own checks
(:mod:`cxrflow.data.cohorts.leakage`) then look at the patients themselves. Three quarters of
MS-CXR's patients are in MIMIC-CXR's official training split; RSNA's images are NIH's.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from cxrflow.data.layouts import layout


@dataclass(frozen=True)
class CohortRows:
    """Rows of a cohort that a model is trained or scored on.

    Attributes:
        dataset, layout, synthetic: of the data set that the cohort is made from.
        images: the data set in whose folder its images lie.
        held_out: data sets whose patients are in the cohort's test part.
        split: what decides a patient's part (``CohortSettings.split_rule``); None where that is
            not by patient.
        parts: the parts of the split that are used.
    """

    cohort: str
    dataset: str
    layout: str
    synthetic: bool
    images: str
    held_out: frozenset[str] = frozenset()
    split: Hashable = None
    parts: frozenset[str] = frozenset(("train", "validate"))


def overlap(trained: Iterable[CohortRows], evaluated: CohortRows) -> list[CohortRows]:
    """What of ``trained`` may hold patients or images of ``evaluated``, and could hold them out.

    Two data sets of one layout are two hospitals; invented patients are nobody else's. The same
    people under ids that cannot be compared are not found.
    """
    leaking: list[CohortRows] = []
    for rows in trained:
        if rows.synthetic != evaluated.synthetic or evaluated.dataset in rows.held_out:
            continue
        ours, theirs = layout(rows.layout), layout(evaluated.layout)
        same_ids = ours.ids is not None and ours.ids == theirs.ids
        if {rows.dataset, rows.images} & {evaluated.dataset, evaluated.images}:
            if not _in_disjoint_parts(rows, evaluated):
                leaking.append(rows)
        elif ours != theirs and ours.people & theirs.people and same_ids:
            leaking.append(rows)
    return leaking


def _in_disjoint_parts(rows: CohortRows, evaluated: CohortRows) -> bool:
    """Whether splits by patient put the two uses of a data set into different parts.

    That is so where it is one split, and where a test part is the held-out patients alone and
    these are held out of the other split, too.
    """
    if rows.split is None or rows.dataset != evaluated.dataset:
        return False
    if evaluated.parts == {"test"} and _tests_held_out_alone(evaluated.split):
        return evaluated.held_out <= rows.held_out
    same_split = (rows.held_out, rows.split) == (evaluated.held_out, evaluated.split)
    return same_split and not rows.parts & evaluated.parts


def _tests_held_out_alone(split: Hashable) -> bool:
    """Whether a split's test part is what is held out: by patient, without a share for testing."""
    return isinstance(split, tuple) and split[0] == "patients" and split[-1] == 0
