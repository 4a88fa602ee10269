"""CheXpert Plus: a row an image, with CheXpert's names and patients; dates stand in the texts.

``df_chexpert_plus_240401.csv`` says ``.jpg`` where the files are ``.png``, below ``PNG/`` as they
are unpacked, or below the root. The order of a patient's studies is that of the dates in their
narratives. The column ``patient_report_date_order`` is compared with it and not used: an audit of
the published table found it unrelated to the dates. A study without a date has no prior.
"""

import re
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import find_file, read_csv, read_lines, require_file, require_root
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxr_files.reading import parse_json
from cxrflow.data.layouts import layout
from cxrflow.data.readers import study_time
from cxrflow.data.readers.chexpert import ids_of_paths
from cxrflow.data.readers.common_tables import Request, Tables, drop_repeats, shaped, without

LISTS = layout("chexpert_plus").lists
CLASSES = layout("chexpert_plus").classes
FOLDER = "PNG"
#: Month, day and year; hours and minutes as four digits or with a colon.
DATE = re.compile(
    r"\b(?P<month>1[0-2]|0?[1-9])[-/](?P<day>3[01]|[12]\d|0?[1-9])[-/](?P<year>\d{4}|\d\d)\b"
    r"(?:,?\s+(?:at\s+)?(?P<hour>[01]\d|2[0-3]):?(?P<minute>[0-5]\d)\b(?!\s*/))?"
)
_CENTURY = 40  # a year of two digits below it is of this century


def read(root: Path, request: Request) -> Tables:
    """Read the list, the dates of its narratives and, if asked, labels; look for the files."""
    path = require_file(root, *LISTS["tables"]["images"])
    rows, damage = read_csv(
        path,
        {"path_to_image": "id", "deid_patient_id": "id", "split": "id"},
        {"frontal_lateral": "text", "ap_pa": "text", "section_narrative": "text",
         "patient_report_date_order": "text"},
    )  # fmt: skip
    rows, repeats = drop_repeats(rows, "path_to_image")
    ids = ids_of_paths(rows["path_to_image"])
    strange = ids["study_id"].isna()
    is_another = ids["subject_id"].ne(rows["deid_patient_id"])
    tests = {
        f"{path.name}: path_to_image is not <part>/patient<n>/study<n>/<image>": strange,
        f"{path.name}: path_to_image is of another patient than deid_patient_id": is_another,
    }
    rows = rows.drop(columns="split").join(ids)
    rows, wrong = without(rows, rows["path_to_image"], tests)
    studies, account = with_dates(rows)
    prefix = f"{FOLDER}/" if (require_root(root) / FOLDER).is_dir() else ""
    if request.headers:
        _require_unpacked(root)
    place = prefix + rows["image_path"].str.replace(r"\.jpg$", ".png", regex=True)
    view = rows["ap_pa"].fillna(rows["frontal_lateral"]).str.upper()
    rows = rows.drop(columns="image_path").assign(image_path=place, view=view)
    rows = request.select(rows.merge(studies[["study_id", "study_time", "order"]], on="study_id"))
    labels, lost = _labels(root) if request.labels else (pd.DataFrame(), [])
    return Tables(
        source=root,
        studies=shaped("studies", studies),
        images=request.images_of(root, rows),
        labels=labels,
        splits=rows[["subject_id", "split"]].drop_duplicates(),
        dropped={"images": [*damage, *repeats, *wrong], "labels": lost},
        notes=account,
        opened=request.headers,
    )


def dates(narratives: pd.Series) -> pd.Series:
    """Return the first date of each text, with its time where one follows; NaT where none is."""
    match = narratives.fillna("").str.extract(DATE)
    year = match["year"].where(
        match["year"].str.len() != 2,
        match["year"].map(lambda y: f"{20 if int(y) < _CENTURY else 19}{y}", na_action="ignore"),
    )
    text = year + match["month"].str.zfill(2) + match["day"].str.zfill(2)
    text += match["hour"].fillna("00") + match["minute"].fillna("00")
    return pd.to_datetime(text, format="%Y%m%d%H%M", errors="coerce")


def with_dates(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Return the studies in the order of their dates, and what is to be said of it.

    Images of a study may hold other versions of its text: its first image with a date counts.
    """
    rows = rows.assign(time=dates(rows["section_narrative"])).sort_values("image_id")
    studies = rows.groupby("study_id", sort=False, as_index=False).agg(
        {"subject_id": "first", "time": "first", "patient_report_date_order": "first"}
    )
    # Of a day on which one study has no hour, the hours of the others say nothing.
    day = studies["time"].dt.normalize()
    has_hours = (studies["time"] != day).groupby([studies["subject_id"], day]).transform("all")
    studies["time"] = studies["time"].where(has_hours.eq(True), day)
    column = pd.to_numeric(studies["patient_report_date_order"], errors="coerce")
    dated = studies.assign(told=column).dropna(subset=["time", "told"])
    dated = dated.sort_values(["subject_id", "time"], kind="stable")
    same = dated["subject_id"].eq(dated["subject_id"].shift())
    pairs = dated[same & dated["time"].ne(dated["time"].shift())]
    against = int((pairs["told"] < dated["told"].shift()[pairs.index]).sum())
    notes = [
        f"{int(studies['time'].isna().sum())} of {len(studies)} studies have no date in their "
        "narrative, and no prior; the others are in the order of these dates",
        f"column patient_report_date_order contradicts the dates in {against} of {len(pairs)} "
        "neighbouring pairs of a patient's studies; it is not used",
    ]
    times = studies["time"]
    studies = studies.assign(study_time=study_time.iso(times), order=study_time.order(times))
    return studies, notes


def _labels(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Labels of studies: those of the impression, where it has none those of the findings."""
    tables, drops = [], []
    for names in LISTS["labels"].values():
        path = find_file(root, *names)
        if path is not None:
            table, damage = _labels_of(path)
            tables.append(table)
            drops += damage
    if not tables:
        expected = " or ".join(names[0] for names in LISTS["labels"].values())
        raise InputError(f"{root}: {expected} not found; expected the labels of a section")
    labels = pd.concat(tables).drop_duplicates("study_id")
    return labels.reset_index(drop=True), drops


def _labels_of(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Labels of a file with an object a line; of a study its first image's that has any."""
    lines, damaged = [], []
    for number, line in enumerate(read_lines(path), start=1):
        try:
            lines.append(parse_json(line))
        except ValueError:
            damaged.append(f"{path}:{number}")
    table = pd.DataFrame([line for line in lines if isinstance(line, dict)])
    for name in ("path_to_image", *CLASSES):
        if name not in table:
            raise InputError(f"{path}: field '{name}' is missing; expected it in every line")
    ids = ids_of_paths(table["path_to_image"].astype("str"))
    values = table[list(CLASSES)].apply(pd.to_numeric, errors="coerce")
    table = values.assign(study_id=ids["study_id"], image_id=ids["image_id"])
    labelled = table.dropna(subset="study_id").dropna(subset=list(CLASSES), how="all")
    first = labelled.sort_values("image_id").drop_duplicates("study_id")
    drop = Drop.of(f"{path.name}: line is no JSON object", damaged, failed=True)
    return first[["study_id", *CLASSES]].reset_index(drop=True), [drop]


def _require_unpacked(root: Path) -> None:
    """Say how the archives are unpacked, if that was not done."""
    packed = [*root.glob("png_chexpert_plus_chunk_*.zip"), *root.glob(f"{FOLDER}/*.zip")]
    if packed and not [*root.glob("train"), *root.glob(f"{FOLDER}/train")]:
        raise InputError(
            f"{packed[0]}: is not unpacked; expected {FOLDER}/train/: type `unzip -q "
            f"'{packed[0].parent.name}/*.zip'` in the folder of the data set"
        )
