"""The public covid-chestxray collection: ``metadata.csv`` and ``images/``, gathered from papers.

A row is an image with its clinical notes, which ``cxrflow.reports`` reads, and ``offset``, days
since the first symptoms, which orders a patient's images. CT slices stand in the same list and are
left out. Every image is taken as a study of its own; its id is the file name.
"""

from pathlib import Path

from cxrflow.csv_table import read_csv, require_file, require_root
from cxrflow.data.filters import file_failures
from cxrflow.data.tables import Request, Tables, drop_repeats, require_unique, shaped
from cxrflow.drops import Drop

# Published short forms of views that other layouts spell out.
_VIEWS = {"L": "LATERAL"}


def read(root: Path, request: Request) -> Tables:
    """Read the list and look whether each radiograph's file is there."""
    path = require_file(require_root(root), "metadata.csv")
    rows, damage = read_csv(
        path,
        {
            **{"Patientid": "id", "filename": "path", "view": "text", "modality": "text"},
            **{"offset": "number", "clinical notes": "text"},
        },
    )
    rows, repeats = drop_repeats(rows, "filename")
    require_unique(rows, "filename", path)
    drops = damage + repeats
    radiograph = rows["modality"].fillna("").str.strip().str.casefold() == "x-ray"
    for modality, others in rows[~radiograph].groupby("modality", dropna=False):
        drops.append(Drop.of(f"modality {modality}", others["filename"]))
    rows = rows[radiograph]
    if request.images is not None:
        rows = rows[rows["filename"].isin(request.images)]
    rows = rows.reset_index(drop=True)
    paths = "images/" + rows["filename"]
    time = rows["offset"].map(lambda days: f"{days:g}", na_action="ignore").astype("str")
    images = shaped(
        "images",
        {
            "image_id": rows["filename"],
            "study_id": rows["filename"],
            "subject_id": rows["Patientid"],
            "image_path": paths,
            "view": rows["view"].str.strip().replace(_VIEWS).str.upper(),
            "study_time": time,
            "order": rows["offset"],
        },
    )
    if request.headers:
        images["failure"] = file_failures(root, paths.tolist(), request.threads)
    return Tables(
        source=root,
        studies=shaped(
            "studies",
            {
                "study_id": rows["filename"],
                "subject_id": rows["Patientid"],
                "study_time": time,
                "order": rows["offset"],
            },
        ),
        images=images,
        dropped={"images": [drop for drop in drops if drop.count]},
        opened=request.headers,
    )
