"""The published split of RSNA's second stage (ConVIRT, Appendix B: 25,184 / 1,500 / 3,000 images).

The challenge's files have no labels of its 3,000 test images. MRM (Zhou et al., ICLR 2023)
publishes all three parts as lists, train_list.txt, val_list.txt and test_list.txt, of lines
``stage_2_test_images/<id>.dcm 1``. Without the first two all images that the challenge labels are
train. The split is by image: patients, where the NIH mapping tells them, stand in several parts.
"""

from dataclasses import replace
from pathlib import Path

import pandas as pd

from cxr_files.csv_table import find_file, match_lines
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers import rsna
from cxrflow.data.readers.common_tables import Request, Tables, require_none, shaped

LISTS = layout("rsna").lists["published"]
FOLDER = "stage_2_test_images"
_LINE = r"^stage_2_(?P<folder>train|test)_images/(?P<image_id>[^/\s]+)\.dcm\s+(?P<label>[01])$"


def read(root: Path, request: Request) -> Tables:
    """Read labels and images of train, and of test, whose images have no boxes."""
    tables = rsna.read(root, request)
    entries, damage = _lists(root)
    test_rows = request.select(entries[entries["folder"] == "test"])
    tests = rsna.images_in(root, FOLDER, test_rows, rsna.subjects(root), request)
    challenge_labels = tables.labels.set_index("image_id")[rsna.CLASS]
    challenge_label = entries["image_id"].map(challenge_labels)
    contradicts = challenge_label.notna() & (challenge_label != entries["label"])
    damage.append(
        Drop.of(
            f"label is not that of {rsna.LISTS['labels'][0]}",
            entries.loc[contradicts, "image_id"],
            failed=True,
        )
    )
    split = entries.loc[~contradicts, ["image_id", "split"]]
    if "train" not in set(split["split"]):
        rest = pd.DataFrame({"image_id": tables.images["image_id"], "split": "train"})
        split = pd.concat([rest[~rest["image_id"].isin(split["image_id"])], split])
    return replace(
        tables,
        studies=pd.concat([tables.studies, shaped("studies", tests)], ignore_index=True),
        images=pd.concat([tables.images, tests], ignore_index=True),
        labels=pd.concat(
            [tables.labels, test_rows[["image_id", "label"]].rename(columns={"label": rsna.CLASS})],
            ignore_index=True,
        ),
        splits=split.reset_index(drop=True),
        dropped={**tables.dropped, "labels": tables.dropped["labels"] + damage},
    )


def _lists(root: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Read ``image_id``, ``label``, ``folder``, ``split`` of the lists, and count damaged lines.

    Raises:
        InputError: there is no list of test images, or an image is listed twice.
    """
    damage: list[Drop] = []
    tables = []
    for split, (name,) in LISTS.items():
        path = find_file(root, name)
        if path is None and split == "test":
            raise InputError(
                f"{root}: {name} not found; expected the labels of RSNA's test images, which MRM "
                "publishes (docs/data.md), or splits.method ordered"
            )
        if path is None:
            continue
        rows, lost = match_lines(path, _LINE, "not <folder>/<id>.dcm <0 or 1>")
        damage.append(lost)
        tables.append(rows.assign(split=split))
    entries = pd.concat(tables, ignore_index=True).drop_duplicates()
    twice = entries.loc[entries["image_id"].duplicated(), "image_id"].unique()
    lists = ", ".join(name for names in LISTS.values() for name in names)
    require_none(twice, root, f"image(s) stand in {lists} with two labels or in two parts")
    return entries.astype({"label": "float64"}), damage
