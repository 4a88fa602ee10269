"""Classification cohorts: an image, a label a class, the study that scores are averaged over.

A label is 1, 0, −1 (uncertain) or unknown; what −1 and unknown count as belongs to the benchmark.
Labels of a study are those of its images. RSNA has one class: Target = 1 (lung opacity suspicious
for pneumonia) against Normal and No Lung Opacity / Not Normal, which the papers pool. BioViL says
that its test set has 9,006 images and follows GLoRIA; GLoRIA's own 30 % are 8,006 of 26,684, which
is what the default gives.
"""

from collections.abc import Mapping, Set

import numpy as np
import pandas as pd

from cxr_files.drops import Drop
from cxrflow.data.cohorts import filters, leakage, splits
from cxrflow.data.cohorts.flow import CohortTables, Flow, label_counts
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.readers.boxes import box_lists
from cxrflow.data.readers.common_tables import Tables

UNKNOWN_PATIENTS = "patients are not known, so a patient may stand in two splits"
COLUMNS = (
    *("sample_id", "subject_id", "group_id", "image_id", "image_path", "labels", "subgroup"),
    *("boxes", "image_width", "image_height", "view", "split"),
)


def build(
    tables: Tables, held_out: Mapping[str, Set[str]], settings: CohortSettings, flow: Flow
) -> CohortTables:
    """Filter, label and split the images.

    The labels of a row are in the order of ``classes`` in ``flow.json``.

    Images of ``held`` patients (by evaluation set) are in test, however the others are split.
    """
    images = tables.images
    flow.step("labels listed", "labels", len(tables.labels), tables.dropped.get("labels", []))
    flow.step("images listed", "images", len(images), tables.dropped.get("images", []))
    # The split is drawn from the list, before files are looked at: a file that is missing here
    # must not move other images between train and test.
    # RSNA's published split is of images, of which a patient has several.
    official = tables.splits
    if official is not None and "image_id" in official:
        by_image, official = True, official.rename(columns={"image_id": "subject_id"})
    else:
        by_image = settings.split_method == "ordered"
    unit = images["image_id"] if by_image else splits.groups(images)
    # A split by patient is that of a cohort of pairs: all listed patients, with an image or not.
    listed_units = unit if by_image else splits.groups(tables.studies)
    split = splits.assign(listed_units.drop_duplicates(), official, {}, settings, tables.source)
    split = split[split.index.isin(unit)]
    split[unit[images["subject_id"].isin(frozenset().union(*held_out.values()))]] = "test"
    rows = images.assign(split=unit.map(split))
    # Files of other parts need not be there: a test part often comes by itself.
    tests = {"not in the given split": rows["split"].isna()}
    rows = flow.keep("split known", "images", rows, rows["image_id"], tests)
    rows, drops = filters.usable(rows)
    flow.step("image usable", "images", len(rows), drops)
    if settings.frontal:
        rows = _frontal(rows, settings, flow)
    # MURA labels studies, the others images.
    key = "image_id" if "image_id" in tables.labels else "study_id"
    labels = tables.labels.set_index(key).reindex(rows[key])[tables.classes].to_numpy("float64")
    rows = rows.assign(sample_id=rows["image_id"], group_id=rows["study_id"], labels=list(labels))
    unknown = pd.Series(np.isnan(labels).all(axis=1), index=rows.index)
    tests = {"no label of any class": unknown}
    rows = flow.keep("label known", "images", rows, rows["image_id"], tests)
    rows = rows.assign(boxes=rows["image_id"].map(box_lists(tables.boxes, ["image_id"])))
    rows["boxes"] = [value if isinstance(value, list) else [] for value in rows["boxes"]]
    sizes = ["image_width", "image_height"]
    rows[sizes] = rows[sizes].astype("Int64" if rows[sizes].isna().any(axis=None) else "int64")
    rows = rows[list(COLUMNS)].reset_index(drop=True)
    flow.check("image in one split", leakage.image_in_one_split(rows, tables.source))
    if by_image:
        _count_shared_patients(rows, flow, settings.split_method)
    elif rows["subject_id"].isna().all():
        flow.notes.append(UNKNOWN_PATIENTS)
    else:
        flow.check("patient in one split", leakage.patient_in_one_split(rows, tables.source))
    if held_out:
        checked = leakage.held_out_not_trained(rows, held_out, tables.source)
        flow.check("held-out patients not trained on", checked)
    return CohortTables(
        rows=rows,
        images=rows[["image_id", "image_path"]],
        split=split.dropna(),
        unit="samples",
        extra={"classes": tables.classes, "labels": label_counts(rows, tables.classes)},
    )


def _frontal(images: pd.DataFrame, settings: CohortSettings, flow: Flow) -> pd.DataFrame:
    images, drops = filters.frontal(images, settings.views)
    flow.step("frontal view", "images", len(images), drops)
    if settings.choose == "all":
        return images
    chosen = filters.one_per_study(images, settings.choose, settings.views, settings.seed)
    surplus = images.loc[~images["image_id"].isin(chosen["image_id"]), "image_id"]
    reason = f"another image of the study was chosen ({settings.choose})"
    flow.step("one image a study", "images", len(chosen), [Drop.of(reason, surplus)])
    return chosen


def _count_shared_patients(rows: pd.DataFrame, flow: Flow, method: str) -> None:
    """Record how many test images of a split by image belong to patients outside test too."""
    with_patient = rows.dropna(subset="subject_id")
    if with_patient.empty:
        flow.notes.append(UNKNOWN_PATIENTS)
        return
    remedy = "; splits.method patients gives a clean one" if method == "ordered" else ""
    carried = f"; the split is by image, and its numbers carry this leak{remedy}"
    trained = set(with_patient.loc[with_patient["split"] != "test", "subject_id"])
    if not trained:
        return  # the test part alone
    tested = with_patient[with_patient["split"] == "test"]
    shared = int(tested["subject_id"].isin(trained).sum())
    flow.checks.append(
        {
            "name": "patient in one split",
            "passed": shared == 0,
            "detail": f"{shared} of {len(tested)} test images belong to patients outside test too"
            f"{carried if shared else ''}",
        }
    )
