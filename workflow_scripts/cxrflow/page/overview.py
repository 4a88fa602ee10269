"""The top of the page: which data, what was run, and the few numbers people look for first."""

from collections.abc import Mapping
from typing import Any

from cxrflow import __version__
from cxrflow.names import short_name
from cxrflow.page.inputs import RunFolder, Training
from cxrflow.papers.tables import Headline, Row, Table
from cxrflow.tables.cells import Cell, make_cell
from cxrflow.tables.results import Results
from cxrflow.tables.text import number, ours_text

# Fewer training pairs than this show that the path works, not how well the method does: published
# models were trained on a hundred thousand and more.
FEW_PAIRS = 5000


def data_kinds(run: RunFolder, flows: Mapping[str, dict[str, Any] | None]) -> dict[str, bool]:
    """Whether each data set is synthetic: as its products say, else the configuration."""
    kinds = {}
    for name in run.needs.cohorts:
        cohort = run.config.known_cohorts[name]
        for dataset in (cohort.dataset, cohort.holder, *cohort.held_out):
            kinds[dataset] = run.config.data.drawn(dataset)
    for name in run.needs.corpora:
        corpus = run.corpus(name)
        kinds[name] = bool(corpus["synthetic"]) if corpus else run.config.data.drawn(name)
    for flow in flows.values():
        if flow is not None:
            kinds[flow["dataset"]] = bool(flow["synthetic"])
    return kinds


def training_pairs(run: RunFolder, flows: Mapping[str, dict[str, Any] | None]) -> int | None:
    """Training studies of the smallest cohort that images and text are learnt from together."""
    recipes = [run.config.recipes[name] for name in run.needs.models]
    joint = [flows.get(recipe.cohort or "") for recipe in recipes if recipe.program == "joint"]
    counts = [flow["splits"].get("train", {}).get("studies") for flow in joint if flow is not None]
    return min((count for count in counts if count is not None), default=None)


def headline_cards(run: RunFolder) -> list[dict[str, Any]]:
    """The cell that each part of a paper's headline leads with, and the same of other rows."""
    cards = []
    for paper in run.papers:
        chosen, results = run.config.chosen[paper], run.results(paper)
        for part in chosen.headline:
            card = _card(chosen.tables[part.table], part, results)
            if card is not None:
                controls = run.config.controls(paper)
                card["others"] += _controls(chosen.tables[part.table], part, results, controls)
                cards.append(card | {"paper": paper})
    return cards


def _card(table: Table, part: Headline, results: Results) -> dict[str, Any] | None:
    if part.lead is None:
        return None
    column, row = table.column(part.lead.column), table.row(part.lead.row)
    cell = make_cell(table, row, column, results)
    if not isinstance(cell.ours, float):
        return None
    runs = results.of(table.result_of(row, column))
    others = [make_cell(table, table.row(label), column, results) for label in part.rows or []]
    return {
        "label": part.lead.label,
        "meaning": part.lead.meaning,
        "row": row.label,
        "shown": {"spread": None, "interval": None} | ours_text(cell, column),
        "seeds": cell.seeds,
        "data": runs[0]["data"]["name"],
        "n": runs[0]["metrics"][row.metric_of(column)]["n"],
        "others": [
            {"label": other.row, "value": number(other.ours, column)}
            for other in others
            if isinstance(other.ours, float) and other.row != row.label
        ],
    }


def _controls(
    table: Table, part: Headline, results: Results, controls: list[str]
) -> list[dict[str, str]]:
    """The same number of the paper's controls that were scored, as if each were the leading row."""
    found = []
    assert part.lead is not None
    row, column = table.row(part.lead.row), table.column(part.lead.column)
    for name in controls:
        label = f"{short_name(name)} (control)"
        own: Row = row.model_copy(update={"model": name, "label": label, "published": {}})
        cell: Cell = make_cell(table, own, column, results)
        if isinstance(cell.ours, float):
            found.append({"label": label, "value": number(cell.ours, column)})
    return found


def overview(
    run: RunFolder,
    flows: Mapping[str, dict[str, Any] | None],
    trainings: Mapping[str, Mapping[int, Training]],
) -> dict[str, Any]:
    """Everything above the first chapter."""
    kinds = data_kinds(run, flows)
    pairs = training_pairs(run, flows)
    runs = [training.run for seeds in trainings.values() for training in seeds.values()]
    versions = sorted({str(one.get("code_version", "not recorded")) for one in runs})
    real = sorted(name for name, drawn in kinds.items() if not drawn)
    shown = {"radiographs": run.privacy.images(False), "report text": run.privacy.text(False)}
    return {
        "synthetic": sorted(name for name, drawn in kinds.items() if drawn),
        "real": real,
        "pairs": pairs,
        "few": bool(real) and pairs is not None and pairs < FEW_PAIRS,
        "reveals": [what for what, allowed in shown.items() if real and allowed],
        "scale": run.config.scale,
        "headline": "headline" in run.papers.values(),
        "seeds": run.config.seeds,
        "finished": max(
            (str(one["finished"]) for one in runs if one.get("finished")), default=None
        ),
        "versions": versions or [__version__],
        "seconds": sum(float(one.get("seconds", 0)) for one in runs),
        "trained": len(runs),
        "cards": headline_cards(run),
    }
