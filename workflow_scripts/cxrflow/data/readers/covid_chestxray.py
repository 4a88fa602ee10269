"""The public covid-chestxray collection: ``metadata.csv`` and ``images/``, gathered from papers.

A row is an image with its clinical notes, which ``cxrflow.reports`` reads, and ``offset``, days
since the first symptoms, which orders a patient's images. CT slices stand in the same list and are
left out. Every image is taken as a study of its own; its id is the file name.
"""

from pathlib import Path

from cxr_files.csv_table import require_file
from cxr_files.drops import Drop
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, read_once, shaped

LISTS = layout("covid_chestxray").lists["tables"]
# Published short forms of views that other layouts spell out.
_VIEWS = {"L": "LATERAL"}


def read(root: Path, request: Request) -> Tables:
    """Read the list and check that each radiograph's file exists."""
    rows, drops = read_once(
        require_file(root, *LISTS["images"]),
        {
            **{"Patientid": "id", "filename": "path", "view": "text", "modality": "text"},
            **{"offset": "number", "clinical notes": "text"},
        },
        "filename",
    )
    radiograph = rows["modality"].fillna("").str.strip().str.casefold() == "x-ray"
    for modality, rest in rows[~radiograph].groupby("modality", dropna=False):
        drops.append(Drop.of(f"modality {modality}", rest["filename"]))
    names = {"filename": "image_id", "Patientid": "subject_id", "offset": "order"}
    rows = request.select(rows[radiograph].rename(columns=names))
    rows = rows.assign(
        study_id=rows["image_id"],
        image_path="images/" + rows["image_id"],
        view=rows["view"].str.strip().replace(_VIEWS).str.upper(),
        study_time=rows["order"].map(lambda days: f"{days:g}", na_action="ignore"),
    )
    return Tables(
        source=root,
        studies=shaped("studies", rows),
        images=request.images_of(root, rows),
        dropped={"images": drops},
        opened=request.headers,
    )
