"""BRAX (Reis et al. 2022, PhysioNet): radiographs of Brazil with CheXpert's labels of reports.

``master_spreadsheet_update.csv`` has a row an image, with the path of its PNG file.
"""

from pathlib import Path

from cxr_files.csv_table import read_csv, require_file, require_root
from cxrflow.data.layouts import layout
from cxrflow.data.layouts.outside import OutsideLayout
from cxrflow.data.readers.common_tables import Request, Tables, no_label, shaped, without

LIST = "master_spreadsheet_update.csv"
CLASSES = layout("chexpert").classes


class Brax(OutsideLayout):
    """Images, and their labels; there is no published split."""

    description = {
        "holds": ["images", "labels"],
        "people": ["brax"],
        "ids": "brax",
        "cohorts": ["classification"],
        "classes": CLASSES,
        "lists": {"tables": {"images": LIST}},
    }

    @staticmethod
    def tables(root: Path, request: Request) -> Tables:
        path = require_file(require_root(root), LIST)
        columns = dict.fromkeys(("PngPath", "PatientID", "AccessionNumber"), "id")
        labels = dict.fromkeys(CLASSES, "number")
        rows, damage = read_csv(path, {**columns, "ViewPosition": "text", **labels})  # type: ignore[arg-type]
        wrong = {f"{name} is not 1, 0, -1 or blank": no_label(rows[name]) for name in CLASSES}
        rows, drops = without(rows, rows["PngPath"], wrong)
        names = {"PatientID": "subject_id", "AccessionNumber": "study_id", "ViewPosition": "view"}
        rows = rows.rename(columns={**names, "PngPath": "image_path"})
        rows = request.select(rows.assign(image_id=rows["image_path"].str.split("/").str[-1]))
        return Tables(
            source=root,
            studies=shaped("studies", rows[["study_id", "subject_id"]].drop_duplicates()),
            images=request.images_of(root, rows),
            labels=rows[["image_id", *CLASSES]],
            dropped={"images": [*damage, *drops]},
            opened=request.headers,
        )
