"""The papers' tables, unchanged; each is checked to be complete and self-contained."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cxr_files.errors import InputError
from cxrflow.papers.table import HEADLINE
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.tables.text import csv_lines, split_title, summed_text, template

OUTSIDE = re.compile(
    r"""<(script|link|iframe|object|embed)\b|\b(src|srcset|href)\s*=|url\(""", re.I
)
MANY_PAPERS = 4  # fill a page by their pictures and summaries
RANKINGS = "Rankings. What the paper claims, and what is found here"


def paper_tables(run: RunFolder, paper: str) -> dict[str, Any]:
    """The rankings that a paper claims, its tables in this extent, and the names of the rest."""
    chosen, extent = run.config.library.chosen[paper], run.papers[paper]
    titles = {name: table.title for name, table in chosen.tables.items()}
    if chosen.orderings:
        titles = {"orderings": RANKINGS} | titles
    names = [name.removeprefix(HEADLINE) for name in run.config.results[paper].tables(extent)]
    if extent == "all":
        names = list(titles)
    folder = run.root / "tables" / paper / ("" if extent == "all" else HEADLINE)
    contents = {name: _table(folder, paper, name, titles[name]) for name in names}
    # Of many tables the one that the page leads with is unfolded, if there is something of ours in
    # it; of a paper without such, those of the headline. Of many papers all are folded.
    leading = {lead.table for lead in chosen.leads[:1]}
    unfolded = leading or {cut.table for cut in chosen.headline}
    if len(run.papers) >= MANY_PAPERS:
        unfolded = set()
    return {
        "rankings": contents.pop("orderings", None),
        "claims": len(chosen.orderings),
        "shown": [
            content | {"open": bool(content["ours"]) and name in unfolded}
            for name, content in contents.items()
        ],
        "left_out": [
            split_title(title)[0]
            for name, title in titles.items()
            if name not in names and name != "orderings"
        ],
    }


def _table(folder: Path, paper: str, name: str, title: str) -> dict[str, Any]:
    short, rest = split_title(title)
    content: dict[str, Any] = {"id": f"{paper}-{name}", "short": short, "title": rest, "html": None}
    content["synthetic"] = False
    path = folder / f"{name}.html"
    if not path.is_file():
        return content | {"ours": 0, "cells": 0}
    body = _section(path)
    column, unit = ("better_ours", "comparisons") if name == "orderings" else ("ours", "cells")
    rows = [row for _, row in csv_lines(folder / f"{name}.csv", [column])]
    ours = sum(row[column] != "" for row in rows)
    content["synthetic"] = '<p class="synthetic">' in body
    content |= {"html": Markup(body), "ours": ours, "cells": len(rows), "unit": unit}
    return content | {"verdicts": Counter(row.get("verdict", "") for row in rows)}


def certificate(run: RunFolder) -> Markup | None:
    """The certificate of released weights; None where this run has made none."""
    path = run.root / "released" / "certificate.html"
    return Markup(_section(path)) if path.is_file() else None


def _section(path: Path) -> str:
    """A table's HTML without the style that stands in the page once; checked to be whole."""
    body = summed_text(path).strip()
    outside = OUTSIDE.search(body)
    if outside:
        raise InputError(f"{path}: holds '{outside.group()}'; expected a self-contained table")
    return body.replace(template("table.css.jinja").render(), "")  # stands in the page once
