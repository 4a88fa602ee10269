"""Writes the folder that the layout `hospital` reads: list, reports, and links to the images."""

import os
import shutil
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

import pandas as pd

from cxr_files.outputs import claim_folder, empty_folder
from cxr_files.progress import progress
from cxrflow.commands.adopt.matching import Study
from cxrflow.commands.adopt.new_ids import NewIds
from cxrflow.commands.audit.findings import Finding, findings
from cxrflow.commands.audit.pictures import with_pictures
from cxrflow.commands.audit.sets import AuditedSet

PRODUCT = "adopted"
OWNER_ALONE = 0o700


@dataclass
class ImageCheck:
    """What the images show.

    Attributes:
        aside: why an image is not adopted, by its path in the export.
        shared: what is there twice, as ``cxrflow audit`` counts it.
    """

    aside: dict[str, str] = field(default_factory=dict)
    shared: list[Finding] = field(default_factory=list)


def look_at_images(
    root: Path, files: pd.DataFrame, studies: list[Study], ids: NewIds, threads: int
) -> ImageCheck:
    """Decode the images of the studies; leave out what cannot be, and equal files of one study."""
    rows = [
        (files.at[place, "place"], study.name, study.patient)
        for study in studies
        for place in study.images
    ]
    images = pd.DataFrame(rows, columns=["path", "study", "patient"], dtype="str")
    images["patient"] = images["patient"].map(ids.patient, na_action="ignore")
    images = images.assign(image=images["path"], part=pd.Series(index=images.index, dtype="str"))
    audited = AuditedSet(PRODUCT, root, images[["image", "path", "patient", "part", "study"]])
    pictures = with_pictures([audited], threads)
    check = ImageCheck()
    damaged = pictures.dropna(subset="reason")
    check.aside = {place: f"damaged: {why}" for place, why in zip(damaged["path"],
                    damaged["reason"], strict=True)}  # fmt: skip
    usable = pictures[pictures["reason"].isna()]
    again = usable[usable.duplicated(["patient", "study", "digest"])]
    check.aside |= dict.fromkeys(again["path"], "the same file again in its study")
    distinct = pictures.drop(index=again.index)
    check.shared = [
        each
        for each in findings([audited], distinct)
        if not each.what.startswith("images that cannot")
    ]
    return check


def write_folder(
    output: Path,
    root: Path,
    files: pd.DataFrame,
    studies: list[Study],
    ids: NewIds,
    aside: Mapping[str, str],
    copy: bool,
) -> pd.DataFrame:
    """Write list, reports and images of studies that have an image left.

    Args:
        output: a folder that is not there, or that an earlier adoption wrote.
        root: the export.
        files: its list, by the places that the studies name.
        studies: their images, dates and texts.
        ids: the names of studies and patients.
        aside: images that are left out, by their paths.
        copy: copy images; links otherwise.

    Returns: the list as written, with ``called``, the name and the patient in the export.
    """
    if not output.exists():
        output.mkdir(parents=True, mode=OWNER_ALONE)
    claim_folder(output, PRODUCT)
    empty_folder(output)
    for kind in ("images", "reports"):
        (output / kind).mkdir()
    often = Counter(study.name for study in studies)
    names: set[str] = set()
    rows = []
    for study in progress(studies, len(studies), "study", lambda _: 1):
        places = [n for n in study.images if files.at[n, "place"] not in aside]
        assert study.patient is not None, "only studies of known patients are written"
        if not places:
            continue
        name = free_name(ids.study(study.name, study.patient, often[study.name] == 1), names)
        names.add(name)
        for number, place in enumerate(places, start=1):
            source = (root / str(files.at[place, "place"])).resolve()
            target = output / "images" / f"{name}_{number}{files.at[place, 'suffix']!s}"
            if copy:
                shutil.copyfile(source, target)
            else:
                os.symlink(source, target)
        if study.text is not None:
            (output / "reports" / f"{name}.txt").write_text(study.text + "\n", encoding="utf-8")
        views = files.loc[places, "view"].fillna("").tolist()
        day = "" if study.date is None else study.date.isoformat(timespec="seconds")
        view = views[0] if len(set(views)) == 1 else ";".join(views)
        called = study.name, study.patient
        patient = ids.patient(study.patient)
        rows.append((name, patient, day.removesuffix("T00:00:00"), view, called))
    studies_table = pd.DataFrame(rows, columns=["study_id", "patient_id", "date", "view", "called"])
    studies_table = studies_table.sort_values(["patient_id", "date", "study_id"], kind="stable")
    studies_table.drop(columns="called").to_csv(
        output / "studies.csv", index=False, encoding="utf-8"
    )
    return studies_table


def free_name(name: str, names: Collection[str]) -> str:
    """The name, or the first with a number behind it that no study has: 2019/1 beside 2019-1."""
    numbered = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(each for each in numbered if each not in names)
