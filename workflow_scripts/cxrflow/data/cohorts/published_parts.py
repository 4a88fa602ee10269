"""Classification cohorts in the parts that the publisher chose.

CheXpert, COVIDx, MURA and RSNA's second stage come with a test part of their own (ConVIRT, Appendix
B). Held-out patients leave the other parts. They do not go to test, which would no longer be the
published one.
"""

from collections.abc import Mapping, Set
from dataclasses import replace

import pandas as pd

from cxr_files.drops import Drop
from cxrflow.data.cohorts import classification, leakage, splits
from cxrflow.data.cohorts.flow import CohortTables, Flow
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.readers.common_tables import Tables


def build(
    tables: Tables, held_out: Mapping[str, Set[str]], settings: CohortSettings, flow: Flow
) -> CohortTables:
    """Build labelled images in their published parts, renamed by ``splits.parts``.

    Held-out patients (by evaluation set) leave the parts that are not test.
    """
    if tables.splits is None:
        raise splits.no_official_split(tables.source, tables.split_files)
    dropped = tables.dropped.get("images", [])
    parts = settings.splits.parts
    published = splits.rename_parts(tables.splits, parts, tables.source, dropped)
    by_image = "image_id" in published
    unit = tables.images["image_id"] if by_image else splits.groups(tables.images)
    split_by_unit = published.set_index(published.columns[0])["split"]
    split = unit.map(split_by_unit[~split_by_unit.index.duplicated()])
    images = tables.images
    if held_out:
        images = _not_held(tables, split, held_out, flow)
        tables = replace(tables, dropped={**tables.dropped, "images": []})  # counted by now
    tables = replace(tables, images=images, splits=published)
    cohort = classification.build(tables, {}, settings, flow)
    if held_out:
        checked = leakage.held_out_not_trained(cohort.rows, held_out, tables.source)
        flow.check("held-out patients not trained on", checked)
    return cohort


def _not_held(
    tables: Tables, split: pd.Series, held_out: Mapping[str, Set[str]], flow: Flow
) -> pd.DataFrame:
    """Leave out images of held-out patients that are not in test."""
    images = tables.images
    flow.step("images published", "images", len(images), tables.dropped.get("images", []))
    lost = pd.Series(False, index=images.index)
    drops = []
    for name, patients in held_out.items():
        theirs = images["subject_id"].isin(patients) & (split != "test") & ~lost
        drops.append(Drop.of(f"patient of {name}", images.loc[theirs, "image_id"]))
        lost |= theirs
    flow.step("patient not held out", "images", int((~lost).sum()), drops)
    return images[~lost]
