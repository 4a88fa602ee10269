"""ReXVal 1.0.0: radiologists' errors in candidate reports, as pairs of texts with a count.

``50_samples_gt_and_candidates.csv`` has the report of each study and the candidates that four
metrics have found; the other list has the number of errors by study, candidate, radiologist,
category and significance. Public code takes ``study_number`` for the row of the first list, counted
from 0; where all of them are values of ``study_id``, it is that. ``significant`` and ``all`` are
means over the radiologists; ``label`` is the first, in words.
"""

from pathlib import Path

import pandas as pd

from cxr_files.csv_table import Kind, read_csv, require_file
from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request, Tables, without

LISTS = layout("rexval").lists["tables"]
CANDIDATES = ("radgraph", "bertscore", "s_emb", "bleu")
SIGNIFICANT = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_PAIR = ["study_number", "candidate_type"]


def read(root: Path, request: Request) -> Tables:
    """Read both lists."""
    path = require_file(root, *LISTS["reports"])
    reports, damage = _reports(path)
    errors, wrong = _errors(require_file(root, *LISTS["errors"]))
    by_id = {*errors["study_number"]} <= {*reports["study_id"]}
    if damage and not by_id:
        raise InputError(
            f"{path}: {damage[0].reason}; expected no such row, as studies are numbered by rows"
        )
    number = reports["study_id"] if by_id else reports.index.astype("str")
    texts = reports.assign(study_number=number).melt(
        ["study_number", "gt"], [*CANDIDATES], "candidate_type", "hypothesis"
    )
    pairs = errors.merge(texts, on=_PAIR, how="left")
    names = pairs["study_number"] + "|" + pairs["candidate_type"]
    tests = {"errors of a candidate that is not in the list of reports": pairs["hypothesis"].isna()}
    pairs, lost = without(pairs, names, tests)
    rows = pd.DataFrame(
        {
            "sample_id": names[pairs.index],
            "pair_id": pairs["study_number"],
            "premise": pairs["gt"],
            "hypothesis": pairs["hypothesis"],
            "label": pairs["significant"].map("{:g} significant errors".format),
            "split": "test",
            "subset": pairs["candidate_type"],
        },
        dtype="str",
    ).assign(significant=pairs["significant"], all=pairs["all"])
    numbered = "values of study_id" if by_id else "rows of the list of reports, from 0"
    return Tables(
        source=root,
        sentence_pairs=rows.reset_index(drop=True),
        dropped={"sentence_pairs": [*damage, *wrong, *lost]},
        notes=[f"study_number is taken for {numbered}"],
    )


def _reports(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Study, report and candidates; public code calls the report gt or gt_report."""
    candidates: dict[str, Kind] = dict.fromkeys(CANDIDATES, "id")
    rows, damage = read_csv(
        path,
        {"study_id": "id", **candidates},
        {"gt": "text", "gt_report": "text"},
    )
    rows["gt"] = rows["gt"].fillna(rows["gt_report"])
    if rows["gt"].isna().any():
        raise InputError(f"{path}: column 'gt' or 'gt_report' is missing or blank")
    return rows, damage


def _errors(path: Path) -> tuple[pd.DataFrame, list[Drop]]:
    """Mean errors of each candidate, significant ones and all."""
    rows, damage = read_csv(
        path,
        {"study_number": "id", "candidate_type": "id", "rater_index": "id",
         "clinically_significant": "id", "num_errors": "value"},
        together=("study_number", "candidate_type"),
    )  # fmt: skip
    is_significant = rows["clinically_significant"].str.lower().map(SIGNIFICANT)
    names = rows["study_number"] + "|" + rows["candidate_type"]
    bad = is_significant.isna() | (rows["num_errors"] < 0)
    tests = {f"{path.name}: a count is negative, or not said to be significant": bad}
    tests = {why: bad.groupby(names).transform("any") for why, bad in tests.items()}
    rows, wrong = without(rows, names, tests)
    significant = rows["num_errors"].where(is_significant[rows.index].astype("bool"), 0.0)
    sums = rows.assign(significant=significant).groupby([*_PAIR, "rater_index"])
    by_reader = sums[["significant", "num_errors"]].sum().rename(columns={"num_errors": "all"})
    return by_reader.groupby(_PAIR).mean().reset_index(), damage + wrong
