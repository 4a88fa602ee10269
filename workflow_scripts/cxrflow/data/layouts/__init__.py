"""Descriptions of data sets: a YAML file a layout with contents, people and readers.

A layout outside of the package is named ``module:Class`` (:mod:`cxrflow.data.layouts.outside`).

Everything that depends on a data set follows from its file: the names a configuration accepts, the
kinds of cohort, the patients it shares with others, the programs that read it. Readers are imported
only when used, because every job reads the configuration.
"""

import os
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, ValidationError

from cxr_files.csv_table import find_file
from cxr_files.errors import InputError
from cxr_files.settings import Settings, explain
from cxr_files.yaml_file import read_yaml
from cxrflow.data.cohorts.settings import CohortKind, SplitMethod
from cxrflow.kinds import REHEARSAL, is_outside, outside_class, require_trusted

if TYPE_CHECKING:
    from cxrflow.data.readers.common_tables import Request, Tables

FOLDER = Path(__file__).parent
Content = Literal[
    "reports",
    "documents",
    "images",
    "boxes",
    "labels",
    "sentence_pairs",
    "progressions",
    "second_readings",
    "demographics",
]
Part = Literal["tables", "published", "reports", "documents"]
# What lists are read for: `labels` where `Request.labels` asks, `demographics` by a benchmark.
Use = Literal[Part, "labels", "demographics"]
# The names of one list by edition or folder, of which the first that is there is read.
Names = Annotated[
    tuple[str, ...], BeforeValidator(lambda names: [names] if isinstance(names, str) else names)
]
READER = r"^\w+(\.\w+)*:\w+(\.\w+)?$"
OUTSIDE = "cxrflow.data.layouts.outside:OutsideLayout"


class Layout(Settings):
    """The description of a published data set.

    Two layouts that name the same ``people`` may hold the same patients and images; patients can be
    told apart from each other's only where ``ids`` are the same too.
    """

    name: str
    holds: frozenset[Content] = Field(min_length=1)
    people: frozenset[str] = Field(frozenset(), description="whose patients; none: of no patients")
    ids: str | None = Field(None, description="how patients are numbered; null: they are not named")
    cohorts: tuple[CohortKind, ...] = Field((), description="kinds that can be made of it")
    split: SplitMethod = Field(
        "patients", description="of labelled images whose cohort names no method"
    )
    tables: str | None = Field(None, pattern=READER, description="reader of studies, images, boxes")
    published: str | None = Field(
        None,
        pattern=READER,
        description="the same with the publisher's split, where that has images of its own",
    )
    reports: str | None = Field(None, pattern=READER, description="reader of report texts")
    documents: str | None = Field(None, pattern=READER, description="reader of documents of text")
    lists: dict[Use, dict[str, Names]] = Field(
        {}, description="list files by the reader that opens them: inputs of what it is read for"
    )
    companion: str | None = Field(
        None, description="layout of the same patients that holds images or tables this one lacks"
    )
    label_tables: dict[str, str] = Field({}, description="files of given labels, by reference")
    compared_with: tuple[str, ...] = Field(
        (), description="references that labels of its reports are compared with unasked"
    )
    classes: tuple[str, ...] = Field((), description="of its labels; none: as its files say")
    listed: tuple[str, ...] = Field(
        (), description="names of its classes, of which those count that an image has"
    )
    study_prefix: str = Field(
        r"^s(?=\d)", description="what corpora may write around a bare study id; empty: nothing"
    )
    upright: bool = Field(
        False,
        description="pictures are turned by their EXIF orientation, as nothing is published in "
        "pixels of the files",
    )
    account: str | None = Field(
        None,
        pattern=READER,
        description="what opens a folder that people fill and says what is in it, before a run",
    )
    synthetic: bool = Field(False, description="drawn by cxr_hospital/writers/<name>.py")

    def reader(self, kind: Part) -> Any:
        """Return the function that reads that part; InputError if the layout has none."""
        place = getattr(self, kind)
        if place is None:
            raise InputError(f"layout '{self.name}' has no {kind}; {_expected(holders(kind))}")
        reader = _imported(place)
        # Of the tables those beside reports, of which other patients' images have no use.
        if os.environ.get(REHEARSAL) and (kind in ("reports", "documents") or self.reports):
            from cxrflow.data.slices import sliced

            return sliced(kind, reader)
        return reader

    def read(self, root: Path, request: "Request") -> "Tables":
        """Read the data set at ``root`` into the common tables."""
        tables: Tables = self.reader("tables")(root, request)
        return tables

    def accounts(self, root: Path, *about: Any) -> Iterator[str]:
        """Say in lines what lies at ``root``, where the layout has an ``account``; else nothing.

        Raises:
            InputError: the folder is of another form.
        """
        if self.account is not None:
            yield from _imported(self.account)(root, *about)

    def list_files(self, root: Path, *uses: Use) -> list[Path]:
        """Return the list files of these uses that are at ``root``, plain or gzipped.

        What is not there, or may not be looked at, the reader says.
        """
        lists = [names for use in uses for names in self.lists.get(use, {}).values()]
        try:
            files = [find_file(root, *names) for names in lists]
        except OSError:
            return []
        return [file for file in files if file is not None]

    def source(self, kind: Part) -> list[str]:
        """Return the files and modules of a reader, which no import statement leads to."""
        if is_outside(self.name):
            return [self.name]
        place: str | None = getattr(self, kind)
        module = [place.split(":")[0].removeprefix("cxrflow.")] if place else []
        return [f"data/layouts/{self.name}.yaml", *module]


def _imported(place: str) -> Any:
    """What ``module:name``, or the attribute of a class there, is."""
    module, names = place.split(":")
    return reduce(getattr, names.split("."), import_module(module))


# Adding a file is all that registers a data set.
LAYOUTS = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


@cache
def layout(name: str) -> Layout:
    """Return the layout of that name.

    Raises InputError, which lists the layouts, if there is none.
    """
    if is_outside(name):
        return _outside(name)
    if name not in LAYOUTS:
        raise InputError(f"layout '{name}' is unknown; {_expected(LAYOUTS)}")
    path = FOLDER / f"{name}.yaml"
    try:
        return Layout.model_validate({"name": name, **read_yaml(path)})
    except ValidationError as error:
        raise InputError(explain(error, str(path))) from None


def recorded_layout(name: str, source: Path) -> Layout:
    """Return the layout that a file names; code outside of the package must be trusted."""
    try:
        if is_outside(name):
            require_trusted(name)
    except ValueError as error:
        raise InputError(f"{source}: field 'layout' is {error}") from None
    return layout(name)


def _outside(name: str) -> Layout:
    """The layout of ``module:Class``."""
    try:
        cls = outside_class(name, OUTSIDE)
    except ValueError as error:
        raise InputError(f"layout {error}") from None
    description = getattr(cls, "description", None)
    if not isinstance(description, Mapping):
        raise InputError(f"layout '{name}': expected a mapping `description` of the class")
    readers = {part: f"{name}.{part}" for part in get_args(Part) if hasattr(cls, part)}
    if not readers:
        raise InputError(f"layout '{name}': expected a reader, one of {', '.join(get_args(Part))}")
    try:
        return Layout.model_validate({**description, **readers, "name": name, "synthetic": False})
    except ValidationError as error:
        raise InputError(explain(error, f"layout '{name}'")) from None


def holders(*contents: str) -> tuple[str, ...]:
    """Return the layouts that have one of the readers or hold one of the ``contents``."""
    return tuple(
        name
        for name in LAYOUTS
        if any(
            getattr(layout(name), content, None) or content in layout(name).holds
            for content in contents
        )
    )


def _expected(names: tuple[str, ...]) -> str:
    return f"expected one of {', '.join(names)}"
