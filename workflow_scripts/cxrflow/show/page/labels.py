"""Our report labels beside reference labels: scores by finding, confusion, differing sentences.

Sentences and the phrases in them are report text: the page shows them only where
``privacy:`` of the configuration allows it. Counts, findings, labels and names of rules always do.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxr_files.atomic import require_unchanged
from cxr_files.errors import InputError
from cxrflow.show.page.inputs import RunFolder, require

if TYPE_CHECKING:
    import pandas as pd

STATES = ("positive", "negative", "uncertain", "blank")
SCORES = ("precision", "recall", "f1")
SENTENCES, READINGS = 12, 20  # at most as many of each list
FIELDS = {  # of metrics.json
    "protocol": ("findings", "classes", "positives_only", "uncertain", "labels"),
    "data": ("studies", "studies_differing", "labels_differing", "dropped"),
    "metrics": ("agreement", "macro_kappa"),
}
COLUMNS = (
    *("rank", "study_id", "finding", "ours", "given", "sentence", "phrase", "rule"),
    *("disagreements", "studies"),
)


def agreement(run: RunFolder, dataset: str, reference: str) -> dict[str, Any]:
    """The page's content about a comparison; ``found`` is None if it was not made."""
    from cxr_files.parquet import read_table

    scores = run.agreement(dataset, reference)
    content: dict[str, Any] = {
        "id": f"labels-{dataset}-{reference}",
        "dataset": dataset,
        "reference": reference,
        "found": scores,
    }
    if scores is None:
        return content
    folder = run.agreement_folder(dataset, reference)
    for section, fields in FIELDS.items():
        require(folder / "metrics.json", scores[section], section, fields)
    protocol, metrics = scores["protocol"], scores["metrics"]
    synthetic = bool(scores["data"]["synthetic"])
    # JSON objects come back in alphabetical order.
    classes = {name: protocol["classes"][name] for name in STATES if name in protocol["classes"]}
    differing = read_table(folder / "disagreements.parquet", COLUMNS)
    has_phrase = differing["phrase"] != ""
    show_text = run.permits("text", synthetic)
    read, unread = (
        _sentences(rows) if show_text else []
        for rows in (differing[has_phrase], differing[~has_phrase])
    )
    rows = _rows(protocol["findings"], classes, metrics)
    return content | {
        "synthetic": synthetic,
        "data": scores["data"],
        "engine": scores["model"],
        "protocol": protocol,
        "agreement": metrics["agreement"],
        "kappa": metrics["macro_kappa"],
        "classes": list(classes),
        "totals": list(_totals(classes, metrics)),
        "rows": [row for row in rows if not row["absent"]],
        "absent": [row["name"] for row in rows if row["absent"]],
        "confusion": _confusion(folder / "confusion.csv"),
        "show_text": show_text,
        "read": read,
        "unread": unread,
        "readings": [] if show_text else _readings(differing)[:READINGS],
        "more": differing["rank"].nunique()
        - len({sentence["rank"] for sentence in [*read, *unread]}),
    }


def _totals(
    classes: Mapping[str, list[str]], metrics: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """Micro and macro averages: positive, the same without No Finding, negative, uncertain."""
    for name in classes:
        for suffix, words in (("", ""), ("_without_no_finding", ", without No Finding")):
            if f"micro_f1{suffix}/{name}" in metrics:
                yield {
                    "name": name,
                    "words": words,
                    "micro": [metrics[f"micro_{score}{suffix}/{name}"] for score in SCORES],
                    "macro": metrics[f"macro_f1{suffix}/{name}"],
                }


def _rows(
    findings: Sequence[str], classes: Mapping[str, list[str]], metrics: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """A row a finding, most positives first; a cell is None if its class is not scored.

    ``absent``: blank on both sides.
    """
    rows = []
    for finding in findings:
        cells = [
            [metrics[f"{score}/{name}/{finding}"] for score in SCORES]
            if finding in members
            else None
            for name, members in classes.items()
        ]
        # F1 is undefined where neither side says it.
        absent = all(cell is None or cell[-1]["value"] is None for cell in cells)
        kappa = metrics[f"kappa/{finding}"]
        rows.append({"name": finding, "cells": cells, "kappa": kappa, "absent": absent})
    return sorted(rows, key=lambda row: -metrics[f"f1/positive/{row['name']}"]["n"])


def _confusion(path: Path) -> list[dict[str, Any]]:
    """Our states by the reference's, as counts and shares, over all findings but No Finding."""
    import pandas as pd

    if not path.is_file():
        raise InputError(f"{path}: file not found, though its metrics.json is there")
    require_unchanged(path)
    table = pd.read_csv(path)
    missing = {"finding", "ours", "given", "studies"} - set(table)
    if missing:
        raise InputError(f"{path}: column '{min(missing)}' is missing")
    table = table[table["finding"] != "No Finding"]
    counts = table.groupby(["ours", "given"])["studies"].sum()
    totals = table.groupby("given")["studies"].sum()
    return [
        {
            "state": ours,
            "cells": [
                {
                    "count": int(counts.get((ours, state), 0)),
                    "share": counts.get((ours, state), 0) / totals[state] if totals[state] else 0.0,
                    "same": ours == state,
                }
                for state in STATES
                if totals.get(state, 0)
            ],
            "given": [state for state in STATES if totals.get(state, 0)],
        }
        for ours in STATES
    ]


def _sentences(rows: "pd.DataFrame") -> list[dict[str, Any]]:
    """The first sentences by rank, each with how its labels differ."""
    sentences = []
    ranked = rows[rows["rank"].notna()]
    for _, group in ranked[ranked["rank"].isin(ranked["rank"].unique()[:SENTENCES])].groupby(
        "rank"
    ):
        first = group.iloc[0]
        sentences.append(
            {
                "rank": int(first["rank"]),
                "sentence": first["sentence"],
                "studies": int(first["studies"]),
                "readings": _readings(group),
            }
        )
    return sentences


def _readings(rows: "pd.DataFrame") -> list[dict[str, Any]]:
    """Finding, our label, the reference label and the rule, by number of reports."""
    by = ["finding", "ours", "given", "rule"]
    counts = rows.drop_duplicates([*by, "study_id"]).groupby(by).size().reset_index(name="count")
    counts = counts.sort_values("count", ascending=False, kind="stable")
    return [{str(name): row[name] for name in row} for row in counts.to_dict("records")]
