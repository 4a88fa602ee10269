"""Retrieval cohorts (ConVIRT section 4.2): images that are searched, by images and by texts.

A row is an image with its category and its ``part``: a query, or a candidate that queries rank.
``queries.parquet`` has the texts. Everything is test.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from cxr_files.drops import Drop, Tally
from cxr_files.errors import InputError
from cxrflow.data.cohorts import leakage
from cxrflow.data.cohorts.flow import CohortTables, Flow, counts
from cxrflow.data.readers.common_tables import RetrievalTables, Tables

COLUMNS = (
    *("sample_id", "subject_id", "group_id", "image_id", "image_path", "part", "category"),
    *("view", "split"),
)
_PARTS = {"candidate": "candidates", "query": "image queries"}


def build(tables: RetrievalTables, pictures: Tables, flow: Flow) -> CohortTables:
    """Join queries and candidates to their images.

    Args:
        tables: the images as the lists name them, and the texts.
        pictures: the images of the data set that holds them, opened.

    Raises:
        InputError: more queries, or more candidates, point nowhere than is allowed, or none of a
            category is left that is asked for.
    """
    files = pictures.images.set_index("image_id")
    searched = tables.searched
    damage = {role: tables.dropped[name] for role, name in _PARTS.items()}
    _step("images listed", searched, damage, flow)
    failure = searched["image_id"].map(files["failure"])
    failure = failure.mask(~searched["image_id"].isin(files.index), "not in the image data set")
    lost = {
        role: [
            Drop.of(f"{name}: {reason}", ids, failed=True)
            for reason, ids in searched.loc[searched["part"] == role, "image_id"].groupby(failure)
        ]
        for role, name in _PARTS.items()
    }
    rows = searched[failure.isna()]
    _step("image usable", rows, lost, flow)
    flow.step("text queries listed", "samples", len(tables.texts), tables.dropped["text queries"])
    rows = rows.join(files[["study_id", "subject_id", "image_path", "view"]], on="image_id")
    rows = rows.assign(sample_id=rows["image_id"], group_id=rows["study_id"], split="test")
    rows = rows[list(COLUMNS)].reset_index(drop=True)
    flow.check("each image once", leakage.unique_rows(rows, "image", tables.source))
    _require_answers(rows, tables)
    patients = pd.Index(rows["subject_id"].unique(), dtype="str")
    categories = [rows["part"] + "/" + rows["category"], "text/" + tables.texts["category"]]
    return CohortTables(
        rows=rows,
        images=rows[["image_id", "image_path"]],
        split=pd.Series("test", index=patients, dtype="str"),
        unit="samples",
        extra={"categories": counts(pd.concat(categories))},
        queries=tables.texts,
    )


def _step(name: str, rows: pd.DataFrame, lost: Mapping[str, Sequence[Drop]], flow: Flow) -> None:
    """Record a filter; queries and candidates may each lose only few to damage."""
    # Damage is limited for each kind: queries are few beside 1,600 candidates.
    for role, plural in _PARTS.items():
        tally = Tally(f"{name}: {plural}", "images", (rows["part"] == role).sum(), lost[role])
        tally.require_few(flow.source, flow.max_failed_share)
    flow.step(name, "images", len(rows), [drop for role in _PARTS for drop in lost[role]])


def _require_answers(rows: pd.DataFrame, tables: RetrievalTables) -> None:
    """Raise InputError if there is no query, or no candidate of the category of one."""
    candidates = set(rows.loc[rows["part"] == "candidate", "category"])
    queries = {*rows.loc[rows["part"] == "query", "category"], *tables.texts["category"]}
    if not queries <= candidates or not queries:
        missing = sorted(queries - candidates) or ["any query"]
        raise InputError(
            f"{tables.source}: no candidate is left for {', '.join(missing)}, or nothing is asked"
        )
