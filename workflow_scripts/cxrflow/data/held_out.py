"""Patients of evaluation sets, which no training may see (BioViL §4.1, design §5)."""

from collections.abc import Mapping
from pathlib import Path

from cxrflow.data.layouts import Layout, layout
from cxrflow.data.request import Request


def held_out_patients(
    roots: Mapping[str, Path], own: Layout
) -> tuple[dict[str, frozenset[str]], list[str]]:
    """Patients of each evaluation set, by layout name, and notes on those that share none.

    A data set whose patients come from elsewhere (RSNA's are NIH's, not MIMIC's) has nothing to
    hold out; that is said in a note, not passed over.
    """
    held: dict[str, frozenset[str]] = {}
    notes = []
    for name, root in roots.items():
        other = layout(name)
        if other.patients != own.patients:
            notes.append(
                f"{name} shares no patients with this data set ({other.patients} and "
                f"{own.patients}): nothing to hold out"
            )
            continue
        tables = other.read(root, Request(headers=False))
        held[name] = frozenset(tables.studies["subject_id"].dropna())
    return held, notes
