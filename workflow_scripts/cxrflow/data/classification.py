"""Classification cohorts (RSNA): an image, its label, class and boxes.

The positive class is Target = 1 (lung opacity suspicious for pneumonia); the papers pool Normal
with No Lung Opacity / Not Normal as negative. BioViL says that its test set has 9,006 images and
follows GLoRIA; GLoRIA's own 30 % are 8,006 of 26,684, which is what the default gives.
"""

import pandas as pd

from cxrflow.data import filters, leakage, splits
from cxrflow.data.flow import Flow
from cxrflow.data.result import Cohort
from cxrflow.data.settings import CohortSettings
from cxrflow.data.tables import Drop, Tables

COLUMNS = (
    *("sample_id", "subject_id", "image_id", "image_path", "label", "class", "boxes"),
    *("image_width", "image_height", "view", "split"),
)


def build(tables: Tables, settings: CohortSettings, flow: Flow) -> Cohort:
    """Filter, label and split the images."""
    images = tables.images
    flow.step("images listed", "images", len(images), tables.dropped.get("images", []))
    # The split is drawn from the list, before files are looked at: a file that is missing here
    # must not move other images between train and test.
    by_image = settings.split_method == "ordered"
    unit = images["image_id"] if by_image else splits.groups(images)
    split = splits.assign(unit.drop_duplicates(), tables.splits, {}, settings, tables.source)
    rows, drops = filters.usable(images.assign(split=unit.map(split)))
    flow.step("image file usable", "images", len(rows), drops)
    labels = tables.labels.set_index("image_id")
    rows = rows.assign(
        sample_id=rows["image_id"],
        label=rows["image_id"].map(labels["label"]).astype("int64"),
        **{"class": rows["image_id"].map(labels["class"])},
    )
    unclassed = rows["class"].isna()
    flow.step(
        "class known",
        "images",
        int((~unclassed).sum()),
        [Drop.of("no class, or several, in the list", rows.loc[unclassed, "image_id"], True)],
    )
    rows = rows[~unclassed]
    if settings.negatives == "normal":
        abnormal = (rows["label"] == 0) & (rows["class"] != "Normal")
        flow.step(
            "negatives are normal",
            "images",
            int((~abnormal).sum()),
            [Drop.of("negative but not normal", rows.loc[abnormal, "image_id"])],
        )
        rows = rows[~abnormal]
    unknown = rows["split"].isna()
    flow.step(
        "split known",
        "images",
        int((~unknown).sum()),
        [Drop.of("not in the given split", rows.loc[unknown, "image_id"])],
    )
    rows = rows[~unknown].assign(boxes=rows["image_id"].map(_boxes(tables.boxes)))
    rows["boxes"] = [value if isinstance(value, list) else [] for value in rows["boxes"]]
    rows = rows.astype({"image_width": "int64", "image_height": "int64"})
    rows = rows[list(COLUMNS)].reset_index(drop=True)
    flow.check("image in one split", leakage.image_in_one_split(rows, tables.source))
    _check_patients(rows, by_image, tables, flow)
    counts = (rows["split"] + "/" + rows["label"].astype("str")).value_counts().sort_index()
    return Cohort(
        rows=rows,
        images=rows[["image_id", "image_path"]],
        split=split.dropna(),
        unit="samples",
        extra={"labels": {str(name): int(count) for name, count in counts.items()}},
    )


def _boxes(boxes: pd.DataFrame) -> pd.Series:
    """Boxes by image: lists of x, y, width, height in whole pixels."""
    whole = boxes[["x", "y", "w", "h"]].round().astype("int64").to_numpy().tolist()
    lists = pd.DataFrame(
        {"image_id": boxes["image_id"], "box": pd.Series(whole, index=boxes.index, dtype=object)}
    )
    return lists.groupby("image_id", sort=False)["box"].agg(list)


def _check_patients(rows: pd.DataFrame, by_image: bool, tables: Tables, flow: Flow) -> None:
    known = rows.dropna(subset="subject_id")
    if known.empty:
        flow.notes.append(
            "patients are not known, so a patient may stand in two splits (of RSNA's test images "
            "69 % belong to a patient who also has a training image)"
        )
        return
    if not by_image:
        flow.check("patient in one split", leakage.patient_in_one_split(rows, tables.source))
        return
    trained = set(known.loc[known["split"] != "test", "subject_id"])
    tested = known[known["split"] == "test"]
    shared = int(tested["subject_id"].isin(trained).sum())
    flow.checks.append(
        {
            "name": "patient in one split",
            "passed": shared == 0,
            "detail": f"{shared} of {len(tested)} test images belong to patients outside test "
            "too; the published split is by image and its numbers carry this leak "
            "(splits.method patients gives a clean one)",
        }
    )
