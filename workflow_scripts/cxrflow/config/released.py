"""The published cells that need no training of ours: what the target ``released`` measures.

The model of such a cell is published weights, or made from them without learning; the data
themselves need no model. The benchmark learns nothing by gradient: it has no state to resume and no
second cohort to learn from. A probe in closed form, which the papers fit as well, is no training.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from cxr_files.errors import InputError
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.configuration import Config
from cxrflow.config.lacks import Lack, distinct
from cxrflow.config.plan import PlannedCell, cell_lacks, needs, sentence
from cxrflow.papers.table import Result, TableCell

OF_TRAINING = {"guided", "checkpoints", "run"}  # abilities that published weights come without


@dataclass(frozen=True)
class ReleasedCell(PlannedCell):
    """A published cell, with the results that fill it: several of a mean."""

    results: tuple[Result, ...] = ()


def released_cells(config: Config) -> list[ReleasedCell]:
    """All such cells of the chosen papers; those on drawn data only where no other is measured."""
    cells = list(_cells(config))
    is_drawn = config.cohorts.drawn
    real = [
        c for c in cells if not any(is_drawn(config.tasks[task].cohort) for task, _ in c.results)
    ]
    return cells if all(cell.lacks for cell in real) else real


def released_results(config: Config) -> list[Result]:
    """The (task, model) pairs that fill them in this run, each once.

    Raises:
        InputError: no model among them is published weights; with the lines that name some.
    """
    cells = released_cells(config)
    results = [result for cell in cells if not cell.lacks for result in cell.results]
    if not any(model for _, model in results):
        lines = [
            line.partition("  # ")
            for _, lack in needs(c.lacks for c in cells)
            for line in lack.lines
        ]
        raise InputError(
            "released: this run measures no published weights; expected some of "
            + "; ".join(f"`{line}` ({source})" for line, _, source in lines)
        )
    return list(dict.fromkeys(results))


def released_notes(config: Config) -> list[str]:
    """How many of these cells are measured, what the others need, what is not as in the papers."""
    cells = released_cells(config)
    notes = [f"Of all that need no training {sentence(cells)}."]
    scale, reports = config.values.scale, config.values.reports
    if scale != "paper":
        notes.append(f"Settings are of the scale `{scale}`, not the papers' own.")
    tasks = {task for cell in cells if not cell.lacks for task, _ in cell.results}
    read = any(config.cohorts[config.tasks[t].cohort].recipe.kind == "pairs" for t in tasks)
    folders = (reports.stanza_folder, reports.entities.stanza_folder)
    if read and reports.splitter == "stanza" and None in folders:
        notes.append(
            "Sentences or entities of reports are told by networks that are trained here; "
            "`stanza_folder` under `reports:` names published ones."
        )
    return notes


def _cells(config: Config) -> Iterator[ReleasedCell]:
    for paper, content in config.library.chosen.items():
        for name, table in content.tables.items():
            for spot in table.spots:
                _, row, column = spot
                results = [part.result for part in spot.parts if _measures(config, part)]
                if column.key not in row.published or len(results) < len(spot.parts):
                    continue
                untrained = [result for result in results if result is not None]
                weights = [_weights(config, result) for result in untrained]
                if None in weights:
                    continue
                lacks = [lack for each in weights for lack in each or ()]
                if lacks:
                    lacks += [x for task, _ in untrained for x in config.tasks[task].lacks]
                else:
                    lacks += cell_lacks(config, paper, name, row, column)
                if not lacks:
                    lacks += [x for task, _ in untrained for x in _replaced(config, task)]
                place = (paper, name, row.label, column.key)
                yield ReleasedCell(*place, distinct(lacks), results=tuple(untrained))


def _measures(config: Config, spot: TableCell) -> bool:
    """True if a result of ours may fill a cell."""
    if spot.result is None:
        return False
    task = config.library.tasks[spot.result[0]]
    may_count = spot.column.reason is None or task.demographics is not None
    return may_count and BENCHMARKS.measures(task.benchmark, spot.metric)


def _weights(config: Config, result: Result) -> list[Lack] | None:
    """The weights that a result lacks; None if it needs a training of ours."""
    name, model = result
    task = config.tasks[name]
    if task.benchmark.resumes or task.benchmark.training or task.benchmark.reads == "vocabularies":
        return None
    lacks: list[Lack] = []
    for each in [*([] if model is None else [model]), *config.cohorts.curators(task.cohort)]:
        sources = _sources(config, each)
        if sources is None or not task.needs <= config.models[each].recipe.offers - OF_TRAINING:
            return None
        lacks += sources
    return lacks


def _sources(config: Config, name: str) -> list[Lack] | None:
    """The weights that a model is or is made from, and that are lacking; None if it has learnt."""
    if name not in config.models:
        return None
    model = config.models[name]
    recipe = model.recipe
    if recipe.weights is not None and recipe.weights_of is None:
        new_head = model.imported and config.values.weights[name].new_token_head
        return None if new_head else [] if model.imported else [model.weights_lack]
    if recipe.kind.learns or not recipe.parents:
        return None
    parents = [_sources(config, parent) for parent in recipe.parents.values()]
    return None if None in parents else [lack for lacks in parents for lack in lacks or ()]


def _replaced(config: Config, task: str) -> list[Lack]:
    """The data sets of a task in whose place others stand."""
    name = config.tasks[task].cohort
    recipe, cohort = config.library.cohorts[name], config.cohorts[name]
    places = {
        recipe.dataset: cohort.dataset,
        recipe.images: cohort.holder,
        recipe.training: cohort.training,
    }
    return [
        Lack(f"{dataset} itself, in whose place {place} stands")
        for dataset, place in places.items()
        if dataset not in (None, place)
    ]
