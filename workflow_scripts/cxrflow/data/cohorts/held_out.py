"""Patients of evaluation sets, which no training may see (BioViL §4.1, design §5)."""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.data.cohorts.settings import PART_NAMES
from cxrflow.data.cohorts.splits import no_official_split
from cxrflow.data.layouts import LAYOUTS, layout
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.kinds import is_outside


@dataclass(frozen=True)
class HeldOut:
    """An evaluation set.

    Attributes:
        name: in messages.
        layout, root: of its files.
        parts: of the publisher's split whose patients are held out; none: all patients.
        ids: how its patients are numbered, where not as its layout says.
    """

    name: str
    layout: str
    root: Path
    parts: tuple[str, ...] = ()
    ids: str | None = None

    @property
    def numbered(self) -> str | None:
        """How its patients are numbered."""
        return self.ids or layout(self.layout).ids


def held_out_sets(items: Sequence[str], option: str = "--held-out") -> list[HeldOut]:
    """Parse ``[NAME:]LAYOUT[/PART,PART][@IDS]=ROOT``; the name is the layout unless it is given.

    Where several sets would be called the same, each is called by its root as well.

    Raises:
        InputError: an item of another form, an unknown layout, or the same set twice.
    """
    sets = []
    for item in items:
        head, equals, root = item.partition("=")
        if not equals or not root:
            raise InputError(f"{option} {item}: expected [NAME:]LAYOUT[/PART,PART][@IDS]=ROOT")
        head, _, ids = head.partition("@")
        head, _, parts = head.partition("/")
        first, _, rest = head.partition(":")
        is_named = rest in LAYOUTS or is_outside(rest)  # else a layout outside of the package
        name, kind = (first, rest) if is_named else ("", head)
        layout(kind)
        sets.append(HeldOut(name or kind, kind, Path(root), part_names(parts), ids or None))
    often = Counter(each.name for each in sets)
    sets = [replace(s, name=f"{s.name} ({s.root})") if often[s.name] > 1 else s for s in sets]
    if len({each.name for each in sets}) < len(sets):
        raise InputError(f"{option} {' '.join(items)}: names a set twice; expected each once")
    return sets


def part_names(text: str) -> tuple[str, ...]:
    """The parts of a split in ``valid,test``, under our names for them."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(PART_NAMES.get(name, name) for name in names)


def held_out_patients(
    sets: Sequence[HeldOut], numbered: str | None, patients: Set[str]
) -> tuple[dict[str, frozenset[str]], list[str]]:
    """Return the patients of each evaluation set by its name, and notes.

    A note says of which sets there is nothing to hold out: RSNA's patients, for example, are NIH's
    and not MIMIC's.

    Args:
        numbered: how the patients of this data set are numbered.
        patients: their ids.

    Raises:
        InputError: patients are numbered in another way, as far as is said, and have equal ids.
    """
    patients_by_set: dict[str, frozenset[str]] = {}
    notes = []
    for dataset in sets:
        theirs = dataset.numbered
        tables = layout(dataset.layout).read(dataset.root, Request(headers=False))
        ids_of_set = _patients(dataset, tables)
        if theirs is None or theirs != numbered:
            equal = sorted(ids_of_set & patients)
            if equal:
                raise InputError(
                    f"{len(equal)} of {len(ids_of_set)} patients of {dataset.name} have ids of "
                    f"patients of this data set ({', '.join(equal[:3])}), though one numbers them "
                    f"as {theirs}, the other as {numbered}; expected `ids: {theirs}` of the data "
                    f"set (`--ids {theirs}`) if they are the same people, or {dataset.name} not "
                    "to be held out"
                )
            notes.append(
                f"{dataset.name} is not known to share patients with this data set ({theirs} and "
                f"{numbered}, no equal ids): nothing to hold out"
            )
            continue
        patients_by_set[dataset.name] = ids_of_set
        if not ids_of_set:
            raise InputError(
                f"{dataset.root}: names no patient, so none of {dataset.name} can be held out"
            )
    return patients_by_set, notes


def _patients(dataset: HeldOut, tables: Tables) -> frozenset[str]:
    """The patients of a set, or of its parts."""
    if not dataset.parts:
        return frozenset(tables.studies["subject_id"].dropna())
    if tables.splits is None:
        raise no_official_split(dataset.root, tables.split_files)
    splits = tables.splits.assign(split=tables.splits["split"].replace(PART_NAMES))
    unknown = sorted({*dataset.parts} - {*splits["split"]})
    if unknown:
        raise InputError(
            f"{dataset.root}: parts of {dataset.name} to hold out name '{unknown[0]}'; its split "
            f"has {', '.join(sorted(set(splits['split'])))}"
        )
    key = splits.columns[0]
    chosen = splits.loc[splits["split"].isin(dataset.parts), key]
    rows = tables.images if key == "image_id" else tables.studies
    return frozenset(rows.loc[rows[key].isin(chosen), "subject_id"].dropna())
