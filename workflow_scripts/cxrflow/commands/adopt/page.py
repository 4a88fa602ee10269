"""The account of an adoption, as a page and as JSON: what was matched, and what was not and why."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from cxr_files.drops import Drop
from cxrflow.commands.adopt.columns import Columns
from cxrflow.commands.adopt.contents import Contents
from cxrflow.commands.adopt.matching import Matching
from cxrflow.commands.adopt.report_table import ReportTable
from cxrflow.commands.audit.findings import Finding
from cxrflow.commands.templates import rendered

PAGE, JSON, TABLE = "adopted.html", "adopted.json", "left_out.csv"


def trainings(contents: Contents) -> list[dict[str, Any]]:
    """What each training has of the folder: studies and patients."""
    reports = contents.reports
    pairs = contents.of_cohort(["image", "text"], None)
    impressions = contents.of_cohort(["image", "impression"], None)
    both = reports[reports["findings"] & reports["impression"]]["study_id"]
    text = reports[reports["findings"] | reports["impression"]]["study_id"]
    patients = contents.tables.studies.set_index("study_id")["subject_id"]
    return [
        {
            "training": training,
            "studies": len(ids),
            "patients": int(patients.reindex(ids).nunique()),
        }
        for training, ids in (
            ("text of reports: a findings or impression section", text),
            ("CXR-BERT's phase III: both sections", both),
            ("a pair of a frontal image and a findings or impression section", pairs["study_id"]),
            ("BioViL: a frontal image and an impression", impressions["study_id"]),
            (
                "BioViL-T: these, with an earlier image of the patient",
                impressions[impressions["reason"].isna()]["study_id"],
            ),
        )
    ]


def left_out(
    files: pd.DataFrame,
    table: ReportTable,
    matching: Matching,
    aside: Mapping[str, str],
    listed: pd.DataFrame,
) -> pd.DataFrame:
    """Everything without a place in the folder, or without a counterpart.

    Returns: ``what`` (image, study or report), ``id`` (a path, a name, a row) and ``reason``.
    """
    set_aside = files.dropna(subset="aside")
    written = set(listed["called"])
    rows = [
        *(("image", place, why) for place, why in zip(set_aside["place"], set_aside["aside"],
                                                      strict=True)),
        *(("image", place, why) for place, why in {**matching.unmatched, **aside}.items()),
        *(("study without a report", called[0], why)
          for called, why in matching.without_report.items() if called in written),
        *(("study", each.name, "none of its images can be used") for each in matching.studies
          if (each.name, each.patient) not in written),
        *(("report", f"{table.source.name}:{row}", why) for row, why in matching.unread.items()),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["what", "id", "reason"], dtype="str")


def account_of(
    table: ReportTable,
    columns: Columns,
    matching: Matching,
    dates: Mapping[str, int],
    shared: Sequence[Finding],
    lost: pd.DataFrame,
    listed: pd.DataFrame,
    contents: Contents,
) -> dict[str, Any]:
    """The content of adopted.json; no text of a report."""
    groups = lost.groupby(["what", "reason"], sort=False)["id"]
    drops = [Drop.of(f"{what}: {reason}", names) for (what, reason), names in groups]
    drops += table.dropped
    views = contents.tables.images["view"].fillna("not known, counted as frontal").value_counts()
    outcomes = contents.reports["outcome"].value_counts()
    return {
        "studies": len(listed),
        "matched": len(contents.reports),
        "columns": list(columns.lines()),
        "matching": dict(matching.counts),
        "dates": dict(dates),
        "views": {f"images with view {view}": int(count) for view, count in views.items()},
        "sections": {f"reports: {name}": int(count) for name, count in outcomes.items()},
        "pictures": [one.as_json() for one in shared],
        "left_out": [drop.as_json() for drop in sorted(drops, key=lambda drop: -drop.count)],
        "trainings": trainings(contents),
    }


def page(title: str, account: Mapping[str, Any], lines: Sequence[str]) -> str:
    """A self-contained page.

    Args:
        title: the folder.
        account: as it is in adopted.json.
        lines: what the folder holds.
    """
    values = {"title": title, "account": account, "lines": lines, "table": TABLE}
    return rendered("page.html.jinja", "cxrflow.commands.adopt", **values)
