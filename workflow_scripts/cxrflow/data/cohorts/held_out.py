"""Patients of evaluation sets, which no training may see (BioViL §4.1, design §5)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.data.layouts import LAYOUTS, Layout, layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.kinds import is_outside


@dataclass(frozen=True)
class HeldOut:
    """An evaluation set: its name in messages, its layout and its folder."""

    name: str
    layout: str
    root: Path


def held_out_sets(items: Sequence[str], option: str = "--held-out") -> list[HeldOut]:
    """Parse ``[NAME:]LAYOUT=ROOT`` items; the name is the layout unless it is given.

    Where several sets would be called the same, each is called by its root as well.

    Raises:
        InputError: an item of another form, an unknown layout, or the same set twice.
    """
    sets = []
    for item in items:
        head, equals, root = item.partition("=")
        if not equals or not root:
            raise InputError(f"{option} {item}: expected [NAME:]LAYOUT=ROOT")
        first, _, rest = head.partition(":")
        is_named = rest in LAYOUTS or is_outside(rest)  # else a layout outside of the package
        name, kind = (first, rest) if is_named else ("", head)
        layout(kind)
        sets.append(HeldOut(name or kind, kind, Path(root)))
    often = Counter(each.name for each in sets)
    sets = [replace(s, name=f"{s.name} ({s.root})") if often[s.name] > 1 else s for s in sets]
    if len({each.name for each in sets}) < len(sets):
        raise InputError(f"{option} {' '.join(items)}: names a set twice; expected each once")
    return sets


def held_out_patients(
    sets: Sequence[HeldOut], origin: Layout
) -> tuple[dict[str, frozenset[str]], list[str]]:
    """Return the patients of each evaluation set by its name, and notes.

    A note says which sets share no patients with this data set.

    RSNA's patients, for example, are NIH's and not MIMIC's, so there is nothing to hold out.
    """
    patients_by_set: dict[str, frozenset[str]] = {}
    notes = []
    for dataset in sets:
        dataset_layout = layout(dataset.layout)
        if dataset_layout.ids is None or dataset_layout.ids != origin.ids:
            notes.append(
                f"{dataset.name} shares no patients with this data set ({dataset_layout.ids} and "
                f"{origin.ids}): nothing to hold out"
            )
            continue
        tables = dataset_layout.read(dataset.root, Request(headers=False))
        patients_by_set[dataset.name] = frozenset(tables.studies["subject_id"].dropna())
        if not patients_by_set[dataset.name]:
            raise InputError(
                f"{dataset.root}: names no patient, so none of {dataset.name} can be held out"
            )
    return patients_by_set, notes
