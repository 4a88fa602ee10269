"""RadNLI 1.0.0 and MedNLI 1.0.0: a premise, a hypothesis and their relation, one object a line.

A file is a split; what the publishers call dev is ``validate``. A pair without a gold label (``-``:
annotators did not agree) and a damaged line are left out and counted. Neither set names patients or
studies.
"""

from pathlib import Path
from typing import Any

import pandas as pd

from cxr_files.csv_table import require_file
from cxr_files.drops import Drop, Tally
from cxr_files.reading import parse_json
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import COLUMNS, Request, Tables

LABELS = ("entailment", "neutral", "contradiction")
NO_LABEL = "-"
UNKNOWN_PATIENTS = (
    "the files name neither patients nor studies: sentences cannot be traced to reports that a "
    "model was trained on"
)


def read_radnli(root: Path, request: Request) -> Tables:
    """Read dev and test; the set has each pair in both directions."""
    return _read(root, "radnli", "pair_id")


def read_mednli(root: Path, request: Request) -> Tables:
    """Read train, dev and test."""
    return _read(root, "mednli", "pairID")


def _read(root: Path, edition: str, id_key: str) -> Tables:
    """Read the pairs of all files.

    Raises:
        InputError: the root or a file is absent.
    """
    rows: list[dict[str, str]] = []
    tally = Tally("lines read", "lines")
    for split, (name,) in layout(edition).lists["tables"].items():
        path = require_file(root, name)
        # By bytes: some characters that Python takes for line ends may stand in a sentence.
        for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
            if not line.strip():
                continue
            pair = _pair(line, id_key)
            if isinstance(pair, dict):
                rows.append({"sample_id": f"{split}-{number}", **pair, "split": split})
            else:
                tally.drop(f"{name}: {pair}", [f"{path}:{number}"], failed=pair != _UNLABELLED)
    pairs = pd.DataFrame(rows, columns=list(COLUMNS["sentence_pairs"]), dtype="str")
    again = pairs.duplicated(["pair_id", "premise", "hypothesis", "label", "split"])
    return Tables(
        source=root,
        sentence_pairs=pairs[~again].reset_index(drop=True),
        dropped={
            "sentence_pairs": [
                *tally.drops,
                Drop.of("the same line again", pairs.loc[again, "sample_id"]),
            ]
        },
        notes=[UNKNOWN_PATIENTS],
    )


_UNLABELLED = f"gold_label is {NO_LABEL}"


def _pair(line: bytes, id_key: str) -> dict[str, str] | str:
    """Return the pair of a line, or the reason why it has none."""
    try:
        values: Any = parse_json(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):  # a number of 5,000 digits, brackets in brackets
        return "not valid JSON"
    if not isinstance(values, dict):
        return "not a JSON object"
    fields = {
        "pair_id": id_key,
        "premise": "sentence1",
        "hypothesis": "sentence2",
        "label": "gold_label",
    }
    for key in fields.values():
        if not isinstance(values.get(key), str) or not values[key].strip():
            return f"{key} is missing or blank"
    pair = {name: values[key].strip() for name, key in fields.items()}
    if pair["label"] == NO_LABEL:
        return _UNLABELLED
    if pair["label"] not in LABELS:
        return f"gold_label is none of {', '.join(LABELS)}"
    return pair
