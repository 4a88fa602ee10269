"""Grounding cohorts (MS-CXR): a phrase, its image and the boxes it refers to.

Rows of the published CSV with the same image, category and phrase are one sample; the region is
the union of its boxes (BioViL §3.1). Boxes stay in pixels of the original image.
"""

from dataclasses import replace

import pandas as pd

from cxr_files.errors import InputError
from cxrflow.data.cohorts import filters, leakage, priors, splits
from cxrflow.data.cohorts.flow import CohortTables, Flow, counts
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.readers.boxes import box_lists, impossible, whole_regions
from cxrflow.data.readers.common_tables import Tables

COLUMNS = (
    *("sample_id", "subject_id", "image_id", "image_path", "phrase", "category", "boxes"),
    *("image_width", "image_height", "view", "split"),
)
SAMPLE = ["image_id", "category", "phrase"]


def build(
    tables: Tables, pictures: Tables, settings: CohortSettings, flow: Flow, threads: int
) -> CohortTables:
    """Join the phrases to the images they were drawn on.

    Args:
        tables: boxes, and the images as the annotation names them.
        pictures: the images of the data set that holds them.
    """
    boxes = tables.boxes
    reasons = impossible(boxes, tables.images[["image_id", "image_width", "image_height"]])
    # Of samples all of whose boxes are possible, so that no region is incomplete.
    boxes, drops = whole_regions(boxes, SAMPLE, reasons, boxes["image_id"])
    flow.step("boxes listed", "boxes", len(boxes), [*tables.dropped.get("boxes", []), *drops])
    samples = box_lists(boxes, SAMPLE).reset_index()
    number = samples.groupby("image_id").cumcount().astype("str")
    samples["sample_id"] = samples["image_id"] + "#" + number
    flow.step("phrase and image (union of boxes)", "samples", len(samples))
    annotated = tables.images.set_index("image_id")
    for name in ("subject_id", "image_width", "image_height"):
        samples[name] = samples["image_id"].map(annotated[name])
    owners = samples["subject_id"].fillna(samples["image_id"])  # who is not named is one image

    images, failures = _image_files(pictures, threads)
    located = samples.merge(
        images[["image_id", "image_path", "view", "image_width", "image_height"]],
        on="image_id",
        how="left",
        suffixes=("", "_file"),
    )
    failure = located["image_id"].map(failures)
    tests = {str(reason): failure == reason for reason in sorted(failure.dropna().unique())}
    tests["image is not in the image data set"] = located["image_path"].isna()
    located = flow.keep(
        "image file usable", "samples", located, located["sample_id"], tests, failed=True
    )
    # Boxes are in pixels of the image as annotated; in a file of another size they lie elsewhere.
    differs = located["image_width_file"].notna() & (
        (located["image_width_file"] != located["image_width"])
        | (located["image_height_file"] != located["image_height"])
    )
    tests = {"size differs from the file's": differs}
    step = "image has the size the boxes refer to"
    located = flow.keep(step, "samples", located, located["sample_id"], tests, failed=True)
    located = located.reset_index(drop=True)
    if located.empty:
        raise InputError(f"{tables.source}: no sample is left; see the reasons above")
    _note_boxes_outside(located, flow)
    # All annotated patients are split: a file that is missing must not move the others.
    official = tables.splits
    if official is not None:
        official = official.rename(columns={"image_id": "subject_id"})
    split = splits.assign(owners.drop_duplicates(), official, {}, settings, tables.source)
    located["split"] = located["subject_id"].fillna(located["image_id"]).map(split)
    tests = {"patient is not in the given split": located["split"].isna()}
    located = flow.keep("split known", "samples", located, located["sample_id"], tests)
    located = located.astype({"image_width": "int64", "image_height": "int64"})
    rows = located[list(COLUMNS)].reset_index(drop=True)
    if len(tables.second_boxes):
        second = box_lists(tables.second_boxes, SAMPLE).rename("second_boxes")
        rows = rows.join(second, on=SAMPLE)
        count = int(rows["second_boxes"].notna().sum())
        flow.notes.append(f"a second reader has drawn boxes of {count} of the samples")
    flow.check("patient in one split", leakage.patient_in_one_split(rows, tables.source))
    flow.check("image in one split", leakage.image_in_one_split(rows, tables.source))
    return CohortTables(
        rows=rows,
        images=rows[["image_id", "image_path"]].drop_duplicates().reset_index(drop=True),
        split=split.dropna(),
        unit="samples",
        extra={"categories": counts(rows["category"])},
    )


def with_priors(
    cohort: CohortTables, pictures: Tables, settings: CohortSettings, threads: int
) -> CohortTables:
    """Add each image's prior, for models that compare two (BioViL-T Table 5)."""
    images = pictures.images
    usable, _ = _image_files(pictures, threads)
    frontal, _ = filters.frontal(usable, settings.views)
    chosen = filters.one_per_study(frontal, settings.choose, settings.views, settings.seed)
    study = images.set_index("image_id")["study_id"]
    rows = cohort.rows.assign(study_id=cohort.rows["image_id"].map(study))
    studies = priors.with_times(pictures.studies, images)
    rows, account = priors.with_priors(rows, studies, chosen)
    return replace(
        cohort,
        rows=rows,
        images=priors.images_and_priors(rows),
        extra={**cohort.extra, "priors": account},
    )


def _image_files(pictures: Tables, threads: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return the usable images, and the failure of the unusable by image id."""
    images = pictures.with_failures(pictures.images, threads)
    bad = images["failure"].notna()
    return images[~bad], images[bad].set_index("image_id")["failure"]


def _note_boxes_outside(samples: pd.DataFrame, flow: Flow) -> None:
    outside = [
        any(x < 0 or y < 0 or x + w > width or y + h > height for x, y, w, h in boxes)
        for boxes, width, height in zip(
            samples["boxes"], samples["image_width"], samples["image_height"], strict=True
        )
    ]
    if any(outside):
        flow.notes.append(
            f"{sum(outside)} samples have a box that reaches out of its image; kept as published"
        )
