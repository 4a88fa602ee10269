"""Cohorts of sentence pairs (RadNLI, MedNLI, MS-CXR-T): every labelled pair is a sample."""

import pandas as pd

from cxrflow.data.cohorts.flow import CohortTables, Flow, counts
from cxrflow.data.readers.common_tables import Tables


def build(tables: Tables, flow: Flow) -> CohortTables:
    """Make each labelled pair a sample; the files are the splits."""
    rows = tables.sentence_pairs
    flow.step("pairs listed", "samples", len(rows), tables.dropped.get("sentence_pairs", []))
    flow.checks.append(_check_splits(rows))
    return CohortTables(
        rows=rows,
        images=pd.DataFrame({"image_id": [], "image_path": []}, dtype="str"),
        split=rows.set_index("sample_id")["split"],
        unit="samples",
        extra={"labels": counts(rows["split"] + "/" + rows["label"])},
    )


def _check_splits(rows: pd.DataFrame) -> dict[str, object]:
    """Check that no two sentences, in either order, are in several splits.

    The splits are as published, so what is found is recorded and nothing is taken out.
    """
    texts = [frozenset(pair) for pair in zip(rows["premise"], rows["hypothesis"], strict=True)]
    splits = pd.Series(rows["split"].to_numpy(), index=pd.Index(texts, dtype=object))
    shared = int((splits.groupby(level=0).nunique() > 1).sum())
    return {
        "name": "sentence pair in one split",
        "passed": shared == 0,
        "detail": f"{shared} pairs of sentences stand in several of the published splits",
    }
