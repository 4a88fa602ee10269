"""Pair cohorts: one row a study, its frontal image, its sections, its prior study and its split.

The order of filters follows BioViL §4.1: of all studies listed, those with a report, with the
required section, with a frontal image; then one image each, and a split by patient.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from cxrflow.data import filters, leakage, priors, splits
from cxrflow.data.flow import Flow
from cxrflow.data.settings import CohortSettings
from cxrflow.data.tables import Drop, Tables
from cxrflow.data.texts import Corpus, study_key
from cxrflow.errors import InputError

COLUMNS = (
    *("dataset", "subject_id", "study_id", "image_id", "image_path", "view", "study_time"),
    *("findings", "impression", "findings_sentences", "impression_sentences"),
    *("prior_study_id", "prior_image_id", "prior_image_path", "split"),
)


@dataclass(frozen=True)
class Cohort:
    """What is written: rows (pairs or samples), images, split by patient, documents if pairs."""

    rows: pd.DataFrame
    images: pd.DataFrame
    split: pd.Series
    documents: pd.DataFrame | None
    extra: dict[str, Any]


def build(
    tables: Tables,
    image_tables: Tables,
    corpus: Corpus,
    study_prefix: str,
    held: Mapping[str, frozenset[str]],
    settings: CohortSettings,
    flow: Flow,
    dataset: str,
    threads: int,
) -> Cohort:
    """Filter, choose, join and split.

    Args:
        tables: the data set's studies.
        image_tables: where the images are listed; ``tables`` itself, or another edition of it.
        corpus: its reports.
        held: patients of evaluation sets by name.
    """
    images = _frontal_images(image_tables, settings, flow, threads)
    chosen, others = filters.one_per_study(
        images, settings.choose, settings.views, settings.seed
    )
    studies = _with_times(tables.studies, image_tables.images)
    split, held_account = _split(tables, image_tables, held, settings, flow)

    flow.step("studies listed", "studies", len(studies), tables.dropped.get("studies", []))
    rows = _with_text(studies, corpus, study_prefix, flow)
    rows = _with_sections(rows, settings, flow)
    rows = _with_image(rows, chosen, image_tables.images, settings, flow)
    inside = chosen["study_id"].isin(rows["study_id"])
    spare = others[0].count if others else 0
    flow.step("one image a study", "images", int(inside.sum()), _spare(images, rows, chosen))
    flow.notes.append(
        f"{spare} frontal images are not the one of their study (choose: {settings.choose})"
    )
    rows["split"] = splits.groups(rows).map(split)
    lost = rows["split"].isna()
    rows = rows[~lost].reset_index(drop=True)
    flow.step(
        "split known",
        "studies",
        len(rows),
        [Drop.of("patient is not in the split", rows_id) for rows_id in ()],
    )
    return rows, held_account
