"""Cohorts of natural language inference (RadNLI, MedNLI; BioViL section 4.2): sentence pairs."""

import pandas as pd

from cxrflow.data.flow import Flow
from cxrflow.data.result import Cohort
from cxrflow.data.tables import COLUMNS, Tables


def build(tables: Tables, flow: Flow) -> Cohort:
    """Every labelled pair is a sample; the files are the splits."""
    rows = tables.sentence_pairs[list(COLUMNS["sentence_pairs"])]
    flow.step("pairs listed", "samples", len(rows), tables.dropped.get("sentence_pairs", []))
    flow.checks.append(_check_splits(rows))
    counts = (rows["split"] + "/" + rows["label"]).value_counts().sort_index()
    return Cohort(
        rows=rows,
        images=pd.DataFrame({"image_id": [], "image_path": []}, dtype="str"),
        split=rows.set_index("sample_id")["split"],
        unit="samples",
        extra={"labels": {str(name): int(count) for name, count in counts.items()}},
    )


def _check_splits(rows: pd.DataFrame) -> dict[str, object]:
    """Whether the same two sentences, in either order, stand in several splits.

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
