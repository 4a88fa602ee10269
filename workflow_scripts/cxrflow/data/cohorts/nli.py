"""Cohorts of sentence pairs (RadNLI, MedNLI, MS-CXR-T): every labelled pair is a sample."""

import pandas as pd

from cxrflow.data.cohorts.flow import CohortTables, Flow, counts
from cxrflow.data.readers.common_tables import Tables


def build(tables: Tables, flow: Flow) -> CohortTables:
    """Make each labelled pair a sample; the files are the splits.

    That no two sentences, in either order, are in several of them is recorded, and nothing is taken
    out: the splits are as published.
    """
    rows = tables.sentence_pairs
    flow.step("pairs listed", "samples", len(rows), tables.dropped.get("sentence_pairs", []))
    texts = [frozenset(pair) for pair in zip(rows["premise"], rows["hypothesis"], strict=True)]
    splits = pd.Series(rows["split"].to_numpy(), index=pd.Index(texts, dtype=object))
    shared = int((splits.groupby(level=0).nunique() > 1).sum())
    said = f"{shared} pairs of sentences stand in several of the published splits"
    check = {"name": "sentence pair in one split", "passed": shared == 0, "detail": said}
    flow.checks.append(check)
    return CohortTables(
        rows=rows,
        images=pd.DataFrame({"image_id": [], "image_path": []}, dtype="str"),
        split=rows.set_index("sample_id")["split"],
        unit="samples",
        extra={"labels": counts(rows["split"] + "/" + rows["label"])},
    )
