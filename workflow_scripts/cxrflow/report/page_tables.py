"""The papers' tables as they were made, checked to be whole and to need nothing from outside."""

import csv
import re
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cxrflow.errors import InputError
from cxrflow.report.page_inputs import RunFolder

OUTSIDE = re.compile(
    r"""<(script|link|iframe|object|embed)\b|\b(src|srcset|href)\s*=|url\(""", re.I
)


def paper_tables(run: RunFolder) -> list[dict[str, Any]]:
    """Each paper with its tables, in the paper's order."""
    return [
        {
            "paper": paper,
            "tables": [
                _table(run.root / "tables" / paper, paper, name, table.title)
                for name, table in run.config.tables(paper).items()
            ],
        }
        for paper in run.config.papers
    ]


def _table(folder: Path, paper: str, name: str, title: str) -> dict[str, Any]:
    short, _, rest = " ".join(title.split()).partition(". ")
    shown = {"id": f"{paper}-{name}", "short": short, "title": rest or short, "html": None}
    path = folder / f"{name}.html"
    if not path.is_file():
        return shown | {"ours": 0, "cells": 0}
    html = path.read_text(encoding="utf-8")
    body = html.strip()
    if not (body.startswith("<section") and body.endswith("</section>")):
        raise InputError(f"{path}: not a whole table; expected one <section> element")
    outside = OUTSIDE.search(body)
    if outside:
        raise InputError(f"{path}: holds '{outside.group()}'; expected a self-contained table")
    rows = _csv(folder / f"{name}.csv")
    ours = sum(row["ours"] != "" for row in rows)
    return shown | {"html": Markup(body), "ours": ours, "cells": len(rows)}


def _csv(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            if "ours" not in (reader.fieldnames or []):
                raise InputError(f"{path}: column 'ours' is missing")
            return list(reader)
    except FileNotFoundError:
        raise InputError(f"{path}: file not found, though the table's HTML is there") from None
