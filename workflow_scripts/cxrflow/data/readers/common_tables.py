"""The common tables every reader returns, and what it had to leave out.

Ids are strings without the letters some layouts put before them (``p19990001`` → ``19990001``).
Missing values are null. Paths are relative to the data set's root, with forward slashes.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, read_csv
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.reading import OutsideError, below

# Columns of each table. `order` sorts a patient's studies in time (any unit, NaN = unknown);
# `failure` says why an image cannot be used (null = nothing known against it); `subgroup` is the
# publisher's word for what else tells images of one label apart; `quality` who says a progression.
COLUMNS: dict[str, tuple[str, ...]] = {
    "studies": ("study_id", "subject_id", "study_time", "order"),
    "images": (
        *("image_id", "study_id", "subject_id", "image_path", "view"),
        *("study_time", "order", "image_width", "image_height", "failure", "subgroup"),
    ),
    "boxes": ("image_id", "category", "phrase", "x", "y", "w", "h"),
    "labels": (),
    "sentence_pairs": ("sample_id", "pair_id", "premise", "hypothesis", "label", "split"),
    "progressions": (
        *("image_id", "prior_image_id", "study_id", "prior_study_id", "subject_id"),
        *("finding", "label", "quality"),
    ),
    "splits": ("subject_id", "split"),
}
# What becomes of a finding from one image to the next (BioViL-T section 4), and what these say of
# one that was not there before or is there no more: the words of Table F.3 have them so.
DIRECTIONS = ("improving", "stable", "worsening")
FURTHER_DIRECTIONS = {"new": "worsening", "resolved": "improving"}
_NUMBERS = {"order", "image_width", "image_height", "x", "y", "w", "h"}


def empty(table: str) -> pd.DataFrame:
    """Return the table of that name without rows."""
    return pd.DataFrame(
        {name: pd.Series(dtype="float64" if name in _NUMBERS else "str") for name in COLUMNS[table]}
    )


def shaped(
    table: str, columns: dict[str, object] | pd.DataFrame, index: pd.Index | None = None
) -> pd.DataFrame:
    """Return a table with all its columns.

    Missing columns become nulls; columns that the table does not have are left out.
    """
    frame = pd.DataFrame(columns, index=index).reset_index(drop=True)
    for name in COLUMNS[table]:
        if name not in frame:
            frame[name] = pd.Series(
                index=frame.index, dtype="float64" if name in _NUMBERS else "str"
            )
        elif name not in _NUMBERS:
            frame[name] = frame[name].astype("str")
    return frame[list(COLUMNS[table])]


@dataclass(frozen=True)
class Request:
    """A request to a reader, so that it opens no more files than needed.

    Attributes:
        threads: processes or threads for work a file.
        headers: open the image files' headers (view, date, size, damage) where lists lack these.
        images: only these image ids matter; None for all.
        labels: open the table of labels that lies beside the lists (MIMIC-CXR-JPG), which then
            concerns only who asks for it.
    """

    threads: int = 1
    headers: bool = True
    images: Set[str] | None = None
    labels: bool = False

    def select(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Keep the rows whose ``image_id`` is requested, and renumber them."""
        rows_needed = rows if self.images is None else rows[among(rows["image_id"], self.images)]
        return rows_needed.reset_index(drop=True)

    def images_of(self, root: Path, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the table of images, with the failure of each file if headers are requested."""
        images = shaped("images", rows)
        if self.headers:
            paths = images["image_path"].tolist()
            images["failure"] = file_failures(root, paths, self.threads)
        return images


@dataclass(frozen=True)
class Tables:
    """The common tables of a data set.

    Attributes:
        source: the data set's root; named in errors.
        studies, images, boxes: see :data:`COLUMNS`.
        second_boxes: boxes of the same regions by a second reader, where there is one.
        labels: ``study_id`` or ``image_id``, then a column a class: 1, 0, −1 (uncertain), NaN (not
            known, or not mentioned).
        sentence_pairs: premises and hypotheses with their relation (natural language inference);
            columns beyond :data:`COLUMNS` are kept.
        progressions: a finding's direction, of three or five, between two images of a patient;
            ``quality`` "silver" is what reports say.
        avoid: patients of whom the publisher says that they must not be trained on.
        splits: the data set's own split by patient, or None; names as published.
        split_files: what the publisher's split is in, if none of it is there; named in errors.
        dropped: what the reader left out, by the table the rows were meant for; "elsewhere" are
            progressions on images of other data sets.
        notes: sentences for the person who reads ``flow.json``.
        opened: the image files were looked at, so a null ``failure`` means a readable file.
        together: patients who share an image file, each with the one that stands for all of them;
            they are in one part of a split.

    Raises:
        InputError: an id occurs twice in ``studies`` or ``images``.
    """

    source: Path
    studies: pd.DataFrame = field(default_factory=lambda: empty("studies"))
    images: pd.DataFrame = field(default_factory=lambda: empty("images"))
    boxes: pd.DataFrame = field(default_factory=lambda: empty("boxes"))
    second_boxes: pd.DataFrame = field(default_factory=lambda: empty("boxes"))
    labels: pd.DataFrame = field(default_factory=pd.DataFrame)
    sentence_pairs: pd.DataFrame = field(default_factory=lambda: empty("sentence_pairs"))
    progressions: pd.DataFrame = field(default_factory=lambda: empty("progressions"))
    avoid: frozenset[str] = frozenset()
    splits: pd.DataFrame | None = None
    split_files: Sequence[str] = ()
    dropped: dict[str, list[Drop]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    opened: bool = True
    together: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for drops in self.dropped.values():
            drops[:] = [drop for drop in drops if drop.count]
        for table in ("studies", "images", "boxes"):
            missing = [name for name in COLUMNS[table] if name not in getattr(self, table)]
            if missing:
                raise ValueError(f"the reader of {self.source} made no {table}.{missing[0]}")
        require_unique(self.studies, "study_id", self.source)
        require_unique(self.images, "image_id", self.source)
        require_labels(self.labels, self.classes, self.source)

    @property
    def classes(self) -> list[str]:
        """The classes of the labels, in the publisher's order."""
        return [str(name) for name in self.labels if name not in ("study_id", "image_id")]

    def with_failures(self, images: pd.DataFrame, threads: int) -> pd.DataFrame:
        """Return some of the images with the failure of each file; look at it if none has."""
        if self.opened:
            return images
        failures = file_failures(self.source, images["image_path"].tolist(), threads)
        return images.assign(failure=failures.to_numpy())


@dataclass(frozen=True)
class RetrievalTables(Tables):
    """A data set of queries and candidates.

    Attributes:
        searched: ``image_id``, ``part`` (query or candidate), ``category``: what the image shows.
        texts: ``query_id``, ``category``, ``text``: what images are searched by as well.
    """

    searched: pd.DataFrame = field(default_factory=pd.DataFrame)
    texts: pd.DataFrame = field(default_factory=pd.DataFrame)


def file_failures(root: Path, paths: Sequence[str], threads: int = 1) -> pd.Series:
    """Return why each ``root/path`` cannot be used, null if it can.

    Reasons are ``file not found``, ``file is empty`` and that the path leads out of the root.
    """
    # Waiting for a network file system dominates, so many more threads than cores pay.
    with ThreadPoolExecutor(max(1, threads * 8)) as pool:
        return pd.Series(list(pool.map(lambda path: _failure(root, path), paths)), dtype="str")


def _failure(root: Path, place: str) -> str | None:
    try:
        return None if below(root, place).stat().st_size else "file is empty"
    except OutsideError as error:
        return str(error)
    except (OSError, ValueError):  # no file, or no name that one could have
        return "file not found"


def among(names: pd.Series, listed: Iterable[str]) -> pd.Series:
    """Return which of ``names`` are ``listed``, missing ones not.

    ``Series.isin`` makes a scalar of each listed text, 30 times as slow.
    """
    distinct = pd.Index(pd.Series(list(listed), dtype="str")).unique()
    return pd.Series(distinct.get_indexer(pd.Index(names)) >= 0, index=names.index) & names.notna()


def require_none(
    ids: Iterable[object], source: object, wrong: str, expected: str = "expected each once"
) -> None:
    """Raise InputError that says of ``ids``, if any, what is ``wrong``, and names up to five."""
    names = [str(name) for name in ids]
    if names:
        raise InputError(f"{source}: {len(names)} {wrong} ({', '.join(names[:5])}); {expected}")


def require_unique(frame: pd.DataFrame, column: str, source: object) -> None:
    """Raise InputError naming up to five values that occur more than once."""
    repeated = frame.loc[frame[column].duplicated(), column].unique()
    require_none(repeated, source, f"value(s) of {column} stand in several rows that differ")


def require_labels(frame: pd.DataFrame, classes: Iterable[str], source: object) -> None:
    """Raise InputError naming a value that is none of 1, 0, −1 and blank."""
    for name in classes:
        wrong = frame.loc[no_label(frame[name]), name]
        if len(wrong):
            raise InputError(
                f"{source}: {name} holds {wrong.iloc[0]:g}; expected 1, 0, -1 or blank"
            )


def no_label(values: pd.Series) -> pd.Series:
    """True for values other than 1, 0, −1 and blank."""
    return ~(values.isin([1, 0, -1]) | values.isna())


def read_once(
    path: Path,
    columns: Mapping[str, Kind],
    key: str,
    optional: Mapping[str, Kind] | None = None,
) -> tuple[pd.DataFrame, list[Drop]]:
    """Read a CSV list (:func:`read_csv`) in which each value of ``key`` has one row.

    Raises:
        InputError: as there, or two rows of one value differ.
    """
    rows, damage = read_csv(path, columns, optional)
    rows, repeats = drop_repeats(rows, key)
    require_unique(rows, key, path)
    return rows, damage + repeats


def without(
    rows: pd.DataFrame, names: pd.Series, tests: Mapping[str, pd.Series], failed: bool = True
) -> tuple[pd.DataFrame, list[Drop]]:
    """Leave out the rows for which a test is true; the first such test is the reason.

    Args:
        names: what a row is called where it is counted.
        tests: which rows must go, by the reason.
        failed: whether that is damage.
    """
    valid = pd.Series(True, index=rows.index)
    drops = []
    for reason, wrong in tests.items():
        drops.append(Drop.of(reason, names[valid & wrong], failed))
        valid &= ~wrong
    return rows[valid], [drop for drop in drops if drop.count]


def drop_repeats(frame: pd.DataFrame, column: str) -> tuple[pd.DataFrame, list[Drop]]:
    """Leave out rows that repeat an earlier row in every column, and count them."""
    repeated = frame.duplicated()
    if not repeated.any():
        return frame, []
    return frame[~repeated], [Drop.of("the same row again", frame.loc[repeated, column])]
