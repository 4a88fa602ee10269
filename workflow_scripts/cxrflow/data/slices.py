"""Slices of real data for a rehearsal: some reports, some documents, some rows of each part.

A rehearsal puts the sizes into the environment of its jobs (:data:`cxrflow.kinds.REHEARSAL`).
Lists are read whole. Whole patients are kept, those with the smallest hashes, so that data sets
with the same patients keep the same ones; a cohort keeps a few rows of each class in each part,
too. What is cut says so where its data set is named (:data:`cxrflow.kinds.MARK`), and so does what
is made of it.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.atomic import atomic_path, read_json
from cxr_files.drops import Drop, Tally
from cxr_files.parquet import read_table
from cxrflow.data.cohorts.filters import unit_hash
from cxrflow.data.cohorts.flow import rewrite_flow
from cxrflow.data.cohorts.settings import Sizes
from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.kinds import MARK, REHEARSAL

IMAGES = 5  # of each report, at most, whose headers are read
FEW = 3  # rows of each class in each part, so that no part lacks a class
FEW_TEXTS = 20  # of cohorts without images: each of ten folds of sentence pairs wants some of each
CLASSES = ("label", "finding", "category", "part", "subset")  # columns that name a row's class


def sizes() -> Sizes:
    """The sizes of the rehearsal that this process belongs to."""
    return Sizes.model_validate_json(os.environ[REHEARSAL])


def sliced(kind: str, reader: Any) -> Any:
    """The reader of a part of a layout that reads a slice."""
    readers = {"reports": reports_reader, "documents": documents_reader}
    return readers.get(kind, tables_reader)(reader, sizes().reports)


# --- texts ----------------------------------------------------------------------------------------


def first_patients(patients: Iterable[str], rows: int) -> set[str]:
    """Those with the smallest hashes that have so many rows together, one at least."""
    counts = pd.Series(list(patients), dtype="str").value_counts()
    order = sorted(counts.index, key=lambda name: (unit_hash(0, name), name))
    before = counts[order].cumsum().shift(fill_value=0)
    return set(before.index[before < rows])


def reports_reader(reader: Any, reports: int) -> Any:
    """The reader of a set of reports whose list has those of the first patients alone."""

    class Slice(reader):
        @staticmethod
        def listing(root: Path) -> Any:
            reports_list = reader.listing(root)
            names = [each.subject_id or each.study_id for each in reports_list.references]
            patients = first_patients(names, reports)
            pairs = zip(reports_list.references, names, strict=True)
            references = [reference for reference, name in pairs if name in patients]
            beyond = Drop("beyond the slice", len(names) - len(references))
            return replace(
                reports_list, references=references, dropped=(*reports_list.dropped, beyond)
            )

    return Slice


def tables_reader(reader: Any, reports: int) -> Any:
    """The reader of tables beside reports: headers of images of the first patients alone.

    They are more than those whose reports are read, as a study has one report and several images.
    """

    def read(root: Path, request: Request) -> Tables:
        if request.headers and request.images is None:
            images = reader(root, replace(request, headers=False)).images
            patient = images["subject_id"].fillna(images["study_id"]).astype("str")
            is_first = patient.isin(first_patients(patient, IMAGES * reports))
            request = replace(request, images=frozenset(images.loc[is_first, "image_id"]))
        tables: Tables = reader(root, request)
        return tables

    return read


class _Full(Exception):
    """The slice has its documents."""


def documents_reader(reader: Any, documents: int) -> Any:
    """The reader of a corpus of texts that stops after so many documents."""

    def read(root: Path, settings: Any, writer: Any, threads: int = 1) -> list[Tally]:
        add = writer.add

        def counted(document_id: str, text: str) -> None:
            if writer.documents >= documents:
                raise _Full
            add(document_id, text)

        writer.add = counted
        try:
            steps: list[Tally] = reader(root, settings, writer, threads)
        except _Full:
            steps = [Tally("documents of the slice", "documents", writer.documents)]
        return steps

    return read


# --- cohorts --------------------------------------------------------------------------------------


def cut_cohort(folder: Path) -> None:
    """Keep a slice of a finished cohort, and write what the whole was like as ``whole``.

    Of a retrieval, whose scores need all candidates, everything stays.
    """
    rows, flow = sizes(), read_json(folder / "flow.json")
    table = folder / ("pairs.parquet" if flow["kind"] == "pairs" else "samples.parquet")
    cohort, images = read_table(table), read_table(folder / "images.parquet")
    training = rows.training.get(f"{folder.parent.name}/{folder.name}", rows.samples)
    split = cohort["split"] if "split" in cohort else pd.Series("test", index=cohort.index)
    places = [
        index
        for name, of_part in cohort.groupby(split, sort=False)
        for index in (
            of_part.index
            if flow["kind"] == "retrieval"
            else slice_of(of_part, training if name == "train" else rows.samples)
        )
    ]
    cut = cohort.loc[sorted(places)].reset_index(drop=True)
    image_ids = {value for name in cut if str(name).endswith("image_id") for value in cut[name]}
    for path, content in (
        (table, cut),
        (folder / "images.parquet", images[images["image_id"].isin(image_ids)]),
    ):
        with atomic_path(path) as temporary:
            content.to_parquet(temporary, index=False)
    flow |= {
        "dataset": f"{MARK}{flow['dataset']}",
        "whole": {**split.value_counts().to_dict(), "images": len(images)},
        "notes": [*flow["notes"], f"rehearsal: {len(cut)} of {len(cohort)} rows are kept"],
    }
    rewrite_flow(folder, flow)


def slice_of(rows: pd.DataFrame, size: int) -> Iterator[Any]:
    """Yield the index of rows of whole patients: ``size`` or more, and a few of each class.

    Of no class has one patient more than half where others have it too: tasks compare a patient's
    rows with another's.
    """
    patient = pd.Series(rows.index, index=rows.index).astype("str")
    for name in ("image_id", "subject_id"):  # who is not known stands for himself
        if name in rows:
            patient = rows[name].astype("object").fillna(patient)
    classes = [list(_classes(row)) for row in rows.to_dict("records")]
    counts, largest = Counter[Any](), Counter[Any]()  # rows of a class; of one patient, at most
    few, number = FEW if "image_id" in rows else FEW_TEXTS, 0
    groups = dict(list(pd.Series(range(len(rows)), index=rows.index).groupby(patient, sort=False)))
    for name in sorted(groups, key=lambda name: (unit_hash(0, name), name)):
        places = groups[name]
        of_patient = Counter(kind for place in places for kind in classes[place])
        if number < size or any(
            counts[kind] < few or 2 * largest[kind] > counts[kind] for kind in of_patient
        ):
            number += len(places)
            counts += of_patient
            largest |= of_patient
            yield from places.index


def _classes(row: dict[Any, Any]) -> Iterator[tuple[Any, ...]]:
    yield tuple(row[name] for name in CLASSES if name in row)
    if "prior_image_id" in row:  # tasks of change need some that have one
        yield "prior", bool(pd.notna(row["prior_image_id"]))
    labels = row.get("labels")
    for number, value in enumerate(() if labels is None else labels):
        if value == value:  # noqa: PLR0124 - not known is no class
            yield number, float(value)
