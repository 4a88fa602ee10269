"""Corpora, report labels and vocabularies: the sources of the text models."""

from collections.abc import Mapping
from typing import Any

from cxrflow.show.page.inputs import RunFolder

STATES = ("positive", "uncertain", "negative", "blank")


def corpus(run: RunFolder, name: str) -> dict[str, Any]:
    """Counts of a data set's text; ``found`` is None if it was not processed."""
    record = run.corpus(name)
    content: dict[str, Any] = {"name": name, "found": record}
    if record is None:
        return content
    counts = dict(record.get("counts") or {})
    for key in ("reports", "documents", "characters"):
        if key in record:
            counts.setdefault(key, record[key])
    outcomes = record.get("outcomes") or {}
    total = sum(outcomes.values())
    dropped = [drop for step in record.get("steps", []) for drop in step["dropped"]]
    return content | {
        "synthetic": bool(record["synthetic"]),
        "counts": [(key.replace("_", " "), counts[key]) for key in sorted(counts)],
        "outcomes": [
            {"name": outcome, "count": count, "share": count / total}
            for outcome, count in sorted(outcomes.items(), key=lambda item: -item[1])
        ],
        "dropped": dropped,
        "labels": _labels(record.get("labels") or {}),
    }


def _labels(labels: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    rows = []
    for name, counts in labels.items():
        total = sum(counts.values())
        rows.append(
            {
                "name": name,
                "cells": [
                    {
                        "state": state,
                        "count": counts.get(state, 0),
                        "share": counts.get(state, 0) / total if total else 0.0,
                    }
                    for state in STATES
                ],
            }
        )
    return sorted(rows, key=lambda row: -row["cells"][0]["count"])


def vocabulary(run: RunFolder, name: str) -> dict[str, Any]:
    """A vocabulary's size and sources, and the data sets cut with it."""
    record = run.vocabulary(name)
    cut = [run.tokens(name, dataset) for dataset in run.needs.text_datasets]
    return {
        "name": name,
        "found": record,
        "tokens": [tokens for tokens in cut if tokens is not None],
    }


def spellings(run: RunFolder) -> list[dict[str, Any]]:
    """The pieces of terms, and tokens a report, in each vocabulary that a task compares."""
    recipes = run.config.library.tasks
    tasks = [task for task in run.needs.tasks if recipes[task].benchmark == "vocabulary"]
    scores = [run.scores(task, None) for task in tasks]
    return [_spelling(task_scores) for task_scores in scores if task_scores is not None]


def _spelling(scores: Mapping[str, Any]) -> dict[str, Any]:
    metrics, protocol = scores["metrics"], scores["protocol"]
    names = [key.removeprefix("tokens/") for key in metrics if key.startswith("tokens/")]
    return {
        "vocabularies": names,
        "rows": [
            {
                "word": word,
                "cells": [metrics.get(f"spelling/{n}/{word}", {}).get("value") for n in names],
            }
            for word in protocol.get("words", [])
        ],
        "words": metrics.get("words"),
        "section": protocol.get("section", "text"),
        "fertility": [
            {"name": n, "tokens": metrics[f"tokens/{n}"], "increase": metrics.get(f"increase/{n}")}
            for n in names
        ],
    }
