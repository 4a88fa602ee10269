"""The true answers behind a drawn data set, which no published one has.

A folder of the hospital holds, beside the data set's own files, tables of what was drawn. They are
for those who measure, never for those who train: what a model reads of them is no score. Each table
is read by :func:`read_truth`, and ``TABLES`` says what its columns are.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cxr_files.errors import InputError
from cxr_files.parquet import read_table

if TYPE_CHECKING:
    import pandas as pd


class Table(NamedTuple):
    """A file of truth, and its columns with their meaning."""

    file: str
    columns: dict[str, str]


_IMAGE = {"image_id": "as in the data set's own files"}
_PAIR = {**_IMAGE, "prior_image_id": "the image before it", "finding": "its name"}
#: By name: of images, of studies (states) and of findings (``finding_truth``: sentences, boxes) in
#: mimic_cxr, of pairs in ms_cxr_t and chest_imagenome.
TABLES: Final = {
    "images": Table(
        "TRUTH.parquet",
        {
            **_IMAGE,
            "projection": "AP, PA or LATERAL, whatever the header says",
            "inspiration": "depth of the breath, 1 is full",
            "shift_x": "pixels of an image of 256 to the right",
            "shift_y": "pixels of an image of 256 down",
            "scale": "size of the chest, 1 is the mean",
            "rotation": "degrees in the plane",
            "usable": "false: the acquisition is spoilt",
            "kind": "the defect of a spoilt image",
        },
    ),
    "progressions": Table("TRUTH.parquet", {**_PAIR, "label": "improving, stable or worsening"}),
    "sentences": Table(
        "TRUTH_SENTENCES.parquet",
        {
            "study_id": "as in the data set's own files",
            "observation": "CheXpert's name of a finding that is present",
            "section": "findings or impression",
            "number": "place of the sentence in the section, from 0",
            "sentence": "its text",
        },
    ),
    "boxes": Table(
        "TRUTH_BOXES.parquet",
        {
            "study_id": "as in the data set's own files",
            **_IMAGE,
            "observation": "CheXpert's name of the finding",
            "x": "left edge, pixels",
            "y": "upper edge, pixels",
            "width": "pixels",
            "height": "pixels",
        },
    ),
    "states": Table(
        "TRUTH_STATES.parquet",
        {"study_id": "as in the data set's own files", "state": "all that its report may say"},
    ),
}


def read_truth(folder: Path, name: str, columns: Collection[str] | None = None) -> "pd.DataFrame":
    """Read a table of ``TABLES``, with all of its columns, or with those that are asked for.

    Raises:
        InputError: the folder has no such table (it was drawn without it), or it is damaged.
    """
    file, known = TABLES[name]
    if not (folder / file).is_file():
        raise InputError(
            f"{folder / file}: file not found; expected a drawn data set with its {name}"
        )
    return read_table(folder / file, tuple(known if columns is None else columns))
