"""Patients of evaluation sets, which no training may see (BioViL §4.1, design §5)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cxrflow.data.layouts import Layout, layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.errors import InputError


@dataclass(frozen=True)
class HeldOut:
    """An evaluation set: what accounts call it, its layout, its folder."""

    name: str
    layout: str
    root: Path


def held_out_sets(items: Sequence[str], option: str = "--held-out") -> list[HeldOut]:
    """Read ``[NAME:]LAYOUT=ROOT`` items; a set without a name is called by its layout.

    Where several sets would be called the same, each is called by its root as well.

    Raises:
        InputError: an item of another form, an unknown layout, or the same set twice.
    """
    found = []
    for item in items:
        head, equals, root = item.partition("=")
        if not equals or not root:
            raise InputError(f"{option} {item}: expected [NAME:]LAYOUT=ROOT")
        name, _, kind = head.rpartition(":")
        layout(kind)
        found.append(HeldOut(name or kind, kind, Path(root)))
    often = Counter(one.name for one in found)
    named = [
        HeldOut(f"{one.name} ({one.root})", one.layout, one.root) if often[one.name] > 1 else one
        for one in found
    ]
    if len({one.name for one in named}) < len(named):
        raise InputError(f"{option} {' '.join(items)}: names a set twice; expected each once")
    return named


def held_out_patients(
    sets: Sequence[HeldOut], own: Layout
) -> tuple[dict[str, frozenset[str]], list[str]]:
    """Patients of each evaluation set, by its name, and notes on those that share none.

    A data set whose patients come from elsewhere (RSNA's are NIH's, not MIMIC's) has nothing to
    hold out; that is said in a note, not passed over.
    """
    held: dict[str, frozenset[str]] = {}
    notes = []
    for one in sets:
        other = layout(one.layout)
        if other.ids is None or other.ids != own.ids:
            notes.append(
                f"{one.name} shares no patients with this data set ({other.ids} and "
                f"{own.ids}): nothing to hold out"
            )
            continue
        tables = other.read(one.root, Request(headers=False))
        held[one.name] = frozenset(tables.studies["subject_id"].dropna())
        if not held[one.name]:
            raise InputError(f"{one.root}: names no patient, so none of {one.name} can be held out")
    return held, notes
