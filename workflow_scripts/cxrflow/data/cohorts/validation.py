"""A validation part drawn from the training part of a data set that is published without one.

CheXpert, COVIDx and MURA come as a training and a test part. ConVIRT (Appendix B) draws 5,000, 300
and 10 % of the training images, so that a patient may both train and validate. Ours, the default,
draws whole patients until they have as many images. It is a step of its own on a built cohort of
kind classification: cohorts without it stay what they are.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.data.cohorts.filters import unit_hash
from cxrflow.data.cohorts.flow import CohortTables, Flow, label_counts
from cxrflow.data.cohorts.settings import SplitSettings, ValidationSettings
from cxrflow.data.cohorts.splits import groups


def draw_validation(
    cohort: CohortTables, flow: Flow, splits: SplitSettings, source: Path
) -> CohortTables:
    """Move part of the training rows to validation; ``flow`` gets the note, and its checks anew.

    Raises:
        InputError: the cohort validates already, or nothing would be left to train on.
    """
    assert splits.validation is not None
    rows, split = cohort.rows.copy(), cohort.split.copy()
    if "validate" in set(rows["split"]):
        raise InputError(
            f"{source}: the data set's own split has a validation part; expected "
            "splits.validation null"
        )
    by_image = splits.validation.unit == "images"
    unit = rows["image_id"] if by_image else groups(rows.rename(columns={"group_id": "study_id"}))
    validating = validation_units(unit[rows["split"] == "train"], splits.validation, splits.seed)
    rows.loc[(rows["split"] == "train") & unit.isin(validating), "split"] = "validate"
    if "train" not in set(rows["split"]):
        raise InputError(f"{source}: splits.validation leaves no image to train on")
    # A published split may be one of images.
    if by_image or set(split.index) & set(rows["image_id"]):
        split = rows.set_index("image_id")["split"]
    else:
        split[split.index.isin(validating)] = "validate"
    labels = label_counts(rows, cohort.extra["classes"])
    drawn = replace(cohort, rows=rows, split=split, extra={**cohort.extra, "labels": labels})
    flow.notes.append(_note(splits.validation, drawn.split_sizes()))
    flow.checks = [_checked(check, rows, splits.validation.unit) for check in flow.checks]
    return drawn


def validation_units(units: pd.Series, settings: ValidationSettings, seed: int) -> list[str]:
    """Choose the images, or patients, that validate.

    Args:
        units: the unit of each training image: itself, or its patient.

    Returns:
        Units in the order of a hash of seed and name, cut where they first have as many images as
        are wanted: an image that is missing moves at most those at the cut.
    """
    assert settings.count is not None or settings.share is not None
    count = settings.count or round((settings.share or 0) * len(units))
    sizes = units.value_counts()
    order = sorted(sizes.index, key=lambda name: (unit_hash(seed, name), name))
    before = np.cumsum([0, *sizes[order]])[:-1]
    return [name for name, images in zip(order, before, strict=True) if images < count]


def _note(settings: ValidationSettings, sizes: dict[str, dict[str, int]]) -> str:
    rule = "images, one by one" if settings.unit == "images" else "whole patients"
    number = sizes.get("validate", {}).get("samples", 0)
    return f"validation is drawn from the published training part: {number} images ({rule})"


def _checked(check: dict[str, object], rows: pd.DataFrame, unit: str) -> dict[str, object]:
    """Repeat the check of patients: images that are drawn singly may divide a patient."""
    if check["name"] != "patient in one split" or unit == "patients":
        return check
    patient_splits = rows.dropna(subset="subject_id").groupby("subject_id")["split"].agg(set)
    several = int((patient_splits.map(len) > 1).sum())
    tested = int(patient_splits.map(lambda names: "test" in names and len(names) > 1).sum())
    if not several:
        return {**check, "passed": True}
    return {
        **check,
        "passed": False,
        "detail": f"{several} of {len(patient_splits)} patients stand in two splits, {tested} of "
        "them in test; validation is drawn by image (splits.validation.unit patients gives a clean "
        "one)",
    }
