"""The data sets, folders and lists of images that an audit reads."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, find_file, read_csv
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.cohorts.held_out import held_out_sets
from cxrflow.data.cohorts.settings import PART_NAMES
from cxrflow.data.layouts import LAYOUTS, Layout, layout
from cxrflow.data.readers.common_tables import Request, Tables

SUFFIXES = (".png", ".jpg", ".jpeg", ".dcm", ".dicom")
# Layouts whose folders are filled by hand have one list of one name; a chest is the usual thing.
USUAL = "hospital"


@dataclass(frozen=True)
class AuditedSet:
    """A data set.

    Attributes:
        name: in the account.
        root: below which its images lie.
        images: ``image``, ``path``, ``patient``, ``part``; null where not known.
        described: its layout; None of a folder or list of images.
        numbered: how its patients are numbered; None where nothing says so.
        dropped: what its reader left out.
    """

    name: str
    root: Path
    images: pd.DataFrame
    described: Layout | None = None
    numbered: str | None = None
    dropped: Sequence[Drop] = field(default_factory=list)

    @property
    def pictured(self) -> bool:
        """True if its images lie below its root."""
        return self.described is None or "images" in self.described.holds


def read_sets(items: Sequence[str]) -> list[AuditedSet]:
    """Read data sets as published, folders of images, or lists of them; each has a name of its own.

    Args:
        items: ``FOLDER``, ``LIST.csv`` or ``[NAME:]LAYOUT[@IDS]=FOLDER``.

    Raises:
        InputError: one is of no known form, or is given twice.
    """
    sets = [_read(item) for item in items]
    for longer in (lambda each: each.root.resolve().name, lambda each: str(each.root)):
        often = Counter(each.name for each in sets)
        sets = [replace(s, name=longer(s)) if often[s.name] > 1 else s for s in sets]
    if len({each.name for each in sets}) < len(sets):
        raise InputError(f"{' '.join(items)}: names a set twice; expected each once")
    return sets


def _read(item: str) -> AuditedSet:
    path = Path(item)
    if path.is_dir():
        found = layout_of(path)
        return _folder(path) if found is None else _published(found.name, path, found, found.ids)
    if path.is_file():
        optional: dict[str, Kind] = {"image": "id", "patient": "id", "part": "text"}
        rows, damage = read_csv(path, {"path": "id"}, optional)
        return AuditedSet(path.stem, path.parent, _images(rows), dropped=damage)
    if "=" not in item:
        raise InputError(
            f"{item}: no such folder or list; expected a data set, a folder or a list of images, "
            "or [NAME:]LAYOUT[@IDS]=FOLDER"
        )
    (published,) = held_out_sets([item], "data set")
    return _published(published.name, published.root, layout(published.layout), published.numbered)


def layout_of(root: Path) -> Layout | None:
    """The layout whose list files lie in a folder, most of them first; None if there is none.

    Raises:
        InputError: as much speaks for several.
    """
    scores: dict[str, float] = {}
    for name in LAYOUTS:
        lists = layout(name).lists.get("tables", {})
        if layout(name).tables and "images" in layout(name).holds and lists:
            found = sum(find_file(root, *names) is not None for names in lists.values())
            scores[name] = found + found / len(lists)
    most = max(scores.values(), default=0)
    names = [name for name, number in scores.items() if number == most]
    if not most:
        return None
    if len(names) > 1 and USUAL not in names:
        raise InputError(
            f"{root}: may be {' or '.join(names)}, by its list files; expected LAYOUT={root}"
        )
    return layout(USUAL if USUAL in names else names[0])


def _published(name: str, root: Path, described: Layout, numbered: str | None) -> AuditedSet:
    tables: Tables = described.read(root, Request(headers=False))
    images = tables.images[["image_id", "image_path", "subject_id"]]
    images.columns = pd.Index(["image", "path", "patient"])
    parts = pd.Series(index=images.index, dtype="str")
    if tables.splits is not None:
        key = tables.splits.columns[0]
        split = tables.splits.drop_duplicates(key).set_index(key)["split"].replace(PART_NAMES)
        parts = images["image" if key == "image_id" else "patient"].map(split)
    dropped = [drop for drops in tables.dropped.values() for drop in drops]
    return AuditedSet(name, root, images.assign(part=parts), described, numbered, dropped)


def _folder(root: Path) -> AuditedSet:
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    places = [path.relative_to(root).as_posix() for path in paths]
    if not places:
        raise InputError(
            f"{root}: has no list of a data set and no image; expected {', '.join(SUFFIXES)} files"
        )
    return AuditedSet(root.resolve().name, root, _images(pd.DataFrame({"path": places})))


def _images(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with all columns; an image without a name is called by its path."""
    for name in ("image", "patient", "part"):
        if name not in rows:
            rows[name] = pd.Series(index=rows.index, dtype="str")
    parts = rows["part"].str.lower().replace(PART_NAMES)
    return rows.assign(image=rows["image"].fillna(rows["path"]), part=parts)[
        ["image", "path", "patient", "part"]
    ]
