"""What ceilings know: the answers of a drawn data set, and the states behind its reports.

The labels, categories and boxes of drawn data sets are true, so a ceiling that is an ``oracle``
answers by them. Labels of reports say what a report says; a ceiling by ``states`` knows what the
hospital drew, and so has the noise of the report and of who reads it. Only drawn data sets have
ceilings of these two kinds: what people have written down is no truth that a row must reach.

Shapes: N rows, F features, C classes.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxr_hospital.truth import TABLES, read_truth
from cxrflow.metrics.intervals import Floats

ORACLE, STATES = "oracle", "states"
GRADES = {"mild": 1 / 3, "moderate": 2 / 3, "severe": 1.0}
_DEVICES, _NOTHING = "Support Devices", "No Finding"
_BETWEEN, _RESOLVED = "; ", "resolved "  # in a state: its parts, and what is gone


def answers(table: pd.DataFrame) -> Floats:
    """The answers [N, F] of a table: its categories, a column each, or which labels are present."""
    if "labels" in table:
        return (np.stack(table["labels"].tolist()) == 1).astype(np.float64)
    return same_category(table["category"], table["category"].drop_duplicates())


def same_category(categories: pd.Series, other_categories: pd.Series) -> Floats:
    """1 where two categories are the same, and else 0: [N, M]."""
    return (categories.to_numpy()[:, None] == other_categories.to_numpy()).astype(np.float64)


def states(folder: Path, table: pd.DataFrame, source: Path) -> pd.Series:
    """The state of each study of a table.

    Raises:
        InputError: the folder does not know a study of ``source``.
    """
    known_states = read_truth(folder, "states", ("study_id", "state"))
    known_states = known_states.assign(study_id=known_states["study_id"].map(str))
    state_N = table["study_id"].map(str).map(known_states.set_index("study_id")["state"])
    if state_N.isna().any():
        study = table["study_id"][state_N.isna()].iloc[0]
        raise InputError(f"{folder / TABLES['states'].file}: has no study {study} of {source}")
    return state_N


def parts(state: str) -> list[str]:
    """The findings of a state, in words, those that have resolved included."""
    return state.split(_BETWEEN) if state else []


def grades(states_N: pd.Series, classes: Sequence[str]) -> Floats:
    """How severe each observation is [N, C], in [0, 1]; without any but devices: no finding."""
    graded_NC = np.zeros((len(states_N), len(classes)))
    for grade_C, state in zip(graded_NC, states_N, strict=True):
        present = [finding for finding in parts(state) if not finding.startswith(_RESOLVED)]
        for place, name in enumerate(classes):
            degrees = [_degree(finding) for finding in present if finding.startswith(f"{name} ")]
            grade_C[place] = max(degrees, default=0.0)
            if name == _NOTHING:
                findings = (finding for finding in present if not finding.startswith(_DEVICES))
                grade_C[place] = 1 - max(map(_degree, findings), default=0.0)
    return graded_NC


def _degree(finding: str) -> float:
    """The degree of a finding."""
    return next(GRADES[word] for word in finding.split() if word in GRADES)


def nearest(states_N: pd.Series, states_M: pd.Series) -> NDArray[np.int64]:
    """For each of N states the place among M of the one that shares most of its parts.

    By the share of parts in both of those in either (Jaccard); of several the first.
    """
    candidates_M = [frozenset(parts(state) or [_NOTHING]) for state in states_M]
    places: dict[str, int] = {}
    for state in set(states_N):
        of_state = frozenset(parts(state) or [_NOTHING])
        shares = [
            len(of_state & candidate) / len(of_state | candidate) for candidate in candidates_M
        ]
        places[state] = int(np.argmax(shares))
    return np.array([places[state] for state in states_N], dtype=np.int64)
