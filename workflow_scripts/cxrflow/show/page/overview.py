"""The first page: which data, what was run, and the few numbers people look for first."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from cxrflow import __version__
from cxrflow.benchmarks.settings import LEAST_SEEDS
from cxrflow.config.configuration import Config
from cxrflow.names import short_name
from cxrflow.papers.claims import Lead
from cxrflow.papers.table import Address, Column, Row, Table, TableCell
from cxrflow.show.page.digits import measured_on, of_few
from cxrflow.show.page.inputs import RunFolder, Training
from cxrflow.show.page.scores import PaperScores
from cxrflow.show.page.training import unlearnt
from cxrflow.show.tables.cells import Cell, make_cell, make_cells
from cxrflow.show.tables.notes import WRONG_WAY, below_chance, percent
from cxrflow.show.tables.tests import Tested, Tests
from cxrflow.show.tables.text import number, ours_text, published_text, unlearnt_text

# Fewer training pairs than this show that the path works, not how well the method does: published
# models were trained on a hundred thousand and more.
FEW_PAIRS = 5000


def data_kinds(run: RunFolder, flows: Mapping[str, dict[str, Any] | None]) -> dict[str, bool]:
    """True for each synthetic data set: by its products, or else by the configuration."""
    kinds = {}
    for name in run.needs.cohorts:
        for dataset in run.config.cohorts[name].sources:
            kinds[dataset] = run.config.data.drawn(dataset)
    for name in run.needs.corpora:
        corpus = run.corpus(name)
        kinds[name] = bool(corpus["synthetic"]) if corpus else run.config.data.drawn(name)
    for flow in flows.values():
        if flow is not None and "joined" not in flow:  # the flows of those that it joins are there
            kinds[flow["dataset"]] = bool(flow["synthetic"])
    return kinds


def training_pairs(run: RunFolder, flows: Mapping[str, dict[str, Any] | None]) -> int | None:
    """The number of training images of the largest cohort that a joint model learns from."""
    recipes = [run.config.models[name].recipe for name in run.needs.models]
    joint = [flows.get(recipe.cohort or "") for recipe in recipes if "joint" in recipe.offers]
    counts = [flow["splits"].get("train", {}).get("images") for flow in joint if flow is not None]
    return max((count for count in counts if count is not None), default=None)


def paper_name(run: RunFolder, paper: str) -> str:
    """The name of a paper: its title up to the colon."""
    return run.config.library.chosen[paper].title.partition(":")[0] or paper


def leading_cards(config: Config, paper: str, scores: PaperScores) -> list[dict[str, Any]]:
    """The cells that a paper leads with, beside other models, controls and reference rows."""
    controls, tables = config.results[paper].controls, scores.paper.tables
    cards = [
        _card(scores, lead, controls, starts(config, tables[lead.table], lead))
        for lead in scores.paper.leads
    ]
    return [card for card in cards if card is not None]


def starts(config: Config, table: Table, lead: Lead) -> set[str]:
    """The models whose weights the leading model starts from, and those that are not trained."""
    row = table.row(lead.row)
    model = table.model_of(row, table.column(lead.column))
    if model is None or model not in config.models:
        return set()
    untrained = {n for n, each in config.models.items() if not each.recipe.kind.learns}
    return {*config.models[model].ancestors, *untrained} - {model}


def _card(
    scores: PaperScores, lead: Lead, controls: Sequence[str] = (), starts: Collection[str] = ()
) -> dict[str, Any] | None:
    """The card of a leading cell; None where it is not measured."""
    spot, results = scores.paper.spot(Address(lead.table, lead.row, lead.column)), scores.results
    table, row, column = spot
    tests = scores.tests.get(lead.table, Tests())
    # A page of the headline may lead with a cell of another table.
    made = scores.cells.get(lead.table) or make_cells(table, results, tests)
    cells = {each.row: each for each in made if each.column == column.key}
    cell = cells[row.label]
    if not isinstance(cell.ours, float):
        return None
    measured = measured_on(spot, results)
    column = of_few(column, min(count for _, count in measured))
    beside = [(each, each.label, cells[each.label]) for each in _beside(table, row, column)]
    for name in controls:  # scored as if it stood in the leading row
        control = row.model_copy(update={"model": name})
        control_cell = make_cell(TableCell(table, control, column), results)
        beside.append((control, f"{short_name(name)} (control)", control_cell))
    beside = [entry for entry in beside if isinstance(entry[2].ours, float)]
    scored = [
        (neighbour, beside_cell, tests.between(spot, spot._replace(row=neighbour)))
        for neighbour, _, beside_cell in beside
    ]
    of_starts = [entry for entry in scored if table.model_of(entry[0], column) in starts]
    return {
        "label": lead.label,
        "meaning": lead.meaning,
        "row": row.label,
        "shown": {"spread": None, "interval": None, "unlearnt": None} | ours_text(cell, column),
        "over": cell.over,
        "level": percent(cell.level),
        "seeds": cell.seeds,
        "published": published_text(cell),
        "measured": measured,
        "below_chance": WRONG_WAY if below_chance(cell, column) else None,
        "compared": _compared(table, row, cell, scored, of_starts, column),
        "others": [
            {
                "label": label,
                "value": number(_value(beside_cell), column),
                "unlearnt": unlearnt_text(beside_cell),
            }
            for _, label, beside_cell in beside
            if label != row.label
        ],
    }


Scored = tuple[Row, Cell, Tested | None]  # a row with its cell, and the test of the leading one


def _compared(
    table: Table,
    row: Row,
    cell: Cell,
    scored: Sequence[Scored],
    of_starts: Sequence[Scored],
    column: Column,
) -> list[dict[str, Any]]:
    """Compare the leading cell with its base, what it starts from and the best baselines.

    The first of the three that is there is ``judged``, and coloured; of baselines both that of all
    budgets of labels and that of the row's own.
    """
    base = table.reference_of(row)
    is_based = base is not None and base.label != row.label and not base.is_reference
    of_base = [entry for entry in scored if is_based and entry[0] is base]
    floors = [entry for entry in scored if entry[0].is_baseline]
    alike = [entry for entry in floors if entry[0].share == row.share]
    budget = f"{row.share} %" if row.share else "none"
    several = len({floor.share for floor, *_ in floors}) > 1
    rivals = [
        ("its base", of_base, True),
        ("what it starts from", [entry for entry in of_starts if entry not in of_base], True),
        (f"the strongest baseline{' at any label budget' if several else ''}", floors, not of_base),
    ]
    if several:
        rival = f"the strongest baseline at the same label budget ({budget})"
        rivals.append((rival, alike, not of_base))
    lines = []
    for rival, entries, is_judged in rivals:
        best = _beside_best(cell, entries, column)
        if best is not None:
            lines.append({**best, "what": rival, "judged": is_judged})
    return lines


def _beside_best(cell: Cell, rows: Sequence[Scored], column: Column) -> dict[str, str] | None:
    """Compare a value with the best of other rows: their value and, if tested, the difference."""
    if not rows:
        return None
    row, best, tested = max(rows, key=lambda entry: _value(entry[1]))
    # Of a mean of columns no interval is over samples.
    verdict = "Beside" if column.mean_of else _verdict(cell, best, tested)
    return {"label": row.label, "value": number(_value(best), column), "verdict": verdict}


def _value(cell: Cell) -> float:
    assert isinstance(cell.ours, float)  # rows without one are not compared
    return cell.ours


def _verdict(cell: Cell, best: Cell, tested: Tested | None = None) -> str:
    """Compare a value with the best of others; of one that did not learn nothing is claimed.

    It is above where the interval of the difference is, or of two that are not tested the
    intervals are apart.
    """
    if cell.unlearnt or not isinstance(cell.ours, float) or not isinstance(best.ours, float):
        return "Beside"
    if cell.ours <= best.ours:
        return "Not above"
    if tested is not None and tested.low is not None:
        return "Above" if tested.low > 0 else "Not clearly above"
    most = best.ours if best.high is None else best.high
    return "Above" if cell.low is not None and cell.low > most else "Not clearly above"


def _beside(table: Table, row: Row, column: Column) -> list[Row]:
    """The rows of the same task, and reference rows of any, with any number of labels."""
    return [
        candidate
        for candidate in sorted(table.rows, key=lambda candidate: candidate.is_reference)
        if candidate.is_reference or table.task_of(candidate, column) == table.task_of(row, column)
    ]


def conclusions(config: Config, trainings: Mapping[str, Mapping[int, Training]]) -> list[str]:
    """Sentences about conclusions that the numbers above do not support."""
    sentences = []
    not_learnt = [name for name, runs in trainings.items() if unlearnt(runs)]
    if not_learnt:
        sentences.append(
            "Training not converged, as pairs are told apart no better than by untrained starts, "
            f"or than permuted ones: {', '.join(map(short_name, not_learnt))}. Their scores say "
            "nothing of their methods, and no ranking is taken from them."
        )
    for parent in not_learnt:
        started = [name for name in trainings if parent in config.models[name].parents.values()]
        if started:
            sentences.append(
                f"{short_name(parent)} is what {', '.join(map(short_name, started))} "
                f"{'starts' if len(started) == 1 else 'start'} from."
            )
    if len(config.seeds) < LEAST_SEEDS:
        sentences.append(
            f"With fewer than {LEAST_SEEDS} training seeds one model cannot be said to be better "
            "than another: values that differ may differ by the luck of a training."
        )
    return sentences


def differing(run: RunFolder, kinds: Mapping[str, bool], pairs: int | None) -> list[str]:
    """Reasons why our values differ from the published ones; none at the papers' own scale."""
    sentences = []
    if any(kinds.values()):
        sentences.append(
            "Ours were measured on drawn radiographs and written reports: other pictures, other "
            "shares of findings, easier or harder than a hospital's."
        )
    if pairs is not None and pairs < FEW_PAIRS:
        sentences.append(
            f"Models learnt from at most {pairs:,} pairs of image and report, the published ones "
            "from a hundred thousand and more."
        )
    if run.config.values.scale != "paper":
        sentences.append(
            f"At the scale {run.config.values.scale} images and encoders are smaller than the "
            "papers', and trainings shorter."
        )
    if sentences:
        sentences.append(
            "So compare ours with ours: rows of one table, measured on the same samples, and "
            "first of all with baselines without learning."
        )
    return sentences


def overview(
    run: RunFolder,
    flows: Mapping[str, dict[str, Any] | None],
    trainings: Mapping[str, Mapping[int, Training]],
) -> dict[str, Any]:
    """The content of the page above the first chapter."""
    kinds = data_kinds(run, flows)
    pairs = training_pairs(run, flows)
    runs = [training.run for seeds in trainings.values() for training in seeds.values()]
    versions = sorted(
        {str(training_run.get("code_version", "not recorded")) for training_run in runs}
    )
    real = sorted(name for name, synthetic in kinds.items() if not synthetic)
    permissions = {
        "radiographs": run.permits("images", False),
        "report text": run.permits("text", False),
    }
    return {
        "synthetic": sorted(name for name, synthetic in kinds.items() if synthetic),
        "real": real,
        "rehearsal": run.config.values.rehearsal,
        "pairs": pairs,
        "few": bool(real) and pairs is not None and pairs < FEW_PAIRS,
        "why": differing(run, kinds, pairs),
        "reveals": [content for content, allowed in permissions.items() if real and allowed],
        "scale": run.config.values.scale,
        "headline": "headline" in run.papers.values(),
        "seeds": run.config.seeds,
        "finished": max(
            (
                str(training_run["finished"])
                for training_run in runs
                if training_run.get("finished")
            ),
            default=None,
        ),
        "versions": versions or [__version__],
        "seconds": sum(float(training_run.get("seconds", 0)) for training_run in runs),
        "trained": len(runs),
        "conclusions": conclusions(run.config, trainings),
    }
