"""The published cells that need no training of ours: what the target ``released`` measures.

The model of such a cell is published weights, or made from them without learning; the data
themselves need no model. The benchmark learns nothing by gradient: it has no state to resume and no
second cohort to learn from. A probe in closed form, which the papers fit as well, is no training.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from cxr_files.errors import InputError
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.configuration import Config
from cxrflow.papers.table import Result, TableCell

OF_TRAINING = {"guided", "checkpoints", "run"}  # abilities that published weights come without


@dataclass(frozen=True)
class ReleasedCell:
    """A published cell: the results that fill it (several of a mean), and what this run lacks."""

    place: str
    results: tuple[Result, ...]
    weights: tuple[str, ...]  # lines of configuration that name them
    data: tuple[str, ...]  # in words


def released_cells(config: Config) -> list[ReleasedCell]:
    """All such cells of the chosen papers; those on drawn data only where no other is measured."""
    cells = list(_cells(config))
    real = [cell for cell in cells if not any(_drawn(config, result) for result in cell.results)]
    return real if any(not cell.weights and not cell.data for cell in real) else cells


def released_results(config: Config) -> list[Result]:
    """The (task, model) pairs that fill them in this run, each once.

    Raises:
        InputError: it has no weights of a model whose cells these are; with the lines that name
            them.
    """
    cells = released_cells(config)
    whole = [cell for cell in cells if not cell.weights and not cell.data]
    results = list(dict.fromkeys(result for cell in whole for result in cell.results))
    if not any(model for _, model in results):
        lacks = _lacks(cells).most_common()
        lines = "\n".join(f"  {lack}  ({number} cells)" for lack, number in lacks)
        raise InputError(
            "released: this run measures no model that is published weights; expected some of "
            f"these in the configuration, and the data of its tasks\n{lines}"
        )
    return results


def _lacks(cells: list[ReleasedCell]) -> Counter[str]:
    """What the cells lack, with how many of them lack it."""
    return Counter(lack for cell in cells for lack in (*cell.weights, *cell.data))


def released_notes(config: Config) -> list[str]:
    """Sentences about the cells that are not measured here, and about what is not the papers'."""
    lacks = _lacks(released_cells(config)).most_common()
    notes = [f"More published cells ({number}) need {lack}" for lack, number in lacks]
    scale, reports = config.values.scale, config.values.reports
    if scale != "paper":
        notes.append(f"The settings are of the scale `{scale}`, not the papers' own")
    if reports.splitter == "stanza" and None in (
        reports.stanza_folder,
        reports.entities.stanza_folder,
    ):
        notes.append(
            "Sentences or entities of reports are found by networks that are trained here; "
            "`stanza_folder` under `reports:` names the published ones"
        )
    return notes


def _drawn(config: Config, result: Result) -> bool:
    return config.cohorts.drawn(config.tasks[result[0]].cohort)


def _cells(config: Config) -> Iterator[ReleasedCell]:
    for paper, content in config.library.chosen.items():
        for name, table in content.tables.items():
            for row in table.rows:
                for column in table.columns:
                    if column.key not in row.published:
                        continue
                    place = f"{paper}, {name}, {row.label}, {column.key}"
                    cell = _cell(config, place, TableCell(table, row, column))
                    if cell is not None:
                        yield cell


def _cell(config: Config, place: str, spot: TableCell) -> ReleasedCell | None:
    """A cell, if it needs no training."""
    results: dict[Result, None] = {}
    weights: dict[str, None] = {}
    data: dict[str, None] = {}
    for part in spot.parts:
        if part.result is None:
            return None
        benchmark = config.library.tasks[part.result[0]].benchmark
        lines = _weights(config, part.result)
        if lines is None or not BENCHMARKS.measures(benchmark, part.row.metric_of(part.column)):
            return None
        results[part.result] = None
        weights |= dict.fromkeys(lines)
        data |= dict.fromkeys(_data(config, part.result))
    return ReleasedCell(place, tuple(results), tuple(weights), tuple(data))


def _weights(config: Config, result: Result) -> list[str] | None:
    """The lines that name what weights a result lacks; None if it needs a training of ours."""
    name, model = result
    task = config.tasks[name]
    if task.benchmark.resumes or task.benchmark.training or task.benchmark.reads == "vocabularies":
        return None
    models = [*([] if model is None else [model]), *config.cohorts.curators(task.cohort)]
    lines: list[str] = []
    for each in models:
        sources = _sources(config, each)
        if sources is None or not task.needs <= config.models[each].recipe.offers - OF_TRAINING:
            return None
        lines += sources
    return lines


def _sources(config: Config, name: str) -> list[str] | None:
    """The lines that name the weights that a model is or is made from; None if it has learnt."""
    if name not in config.models:
        return None
    model = config.models[name]
    recipe = model.recipe
    if recipe.weights is not None and recipe.weights_of is None:
        named = config.values.weights.get(name)
        if named is None:
            return [f"weights: {{{name}: {recipe.weights_name}}}  # {recipe.weights_from}"]
        return None if named.new_token_head else []
    if recipe.kind.learns or not recipe.parents:
        return None
    parents = [_sources(config, parent) for parent in recipe.parents.values()]
    return None if None in parents else [line for lines in parents for line in lines or ()]


def _data(config: Config, result: Result) -> list[str]:
    """What data a result lacks, in words."""
    task = config.tasks[result[0]]
    if not task.available:
        return [f"the data of {task.name}"]
    cohort = config.cohorts[task.cohort]
    if cohort.dataset != cohort.recipe.dataset:
        return [f"{cohort.recipe.dataset} itself, in whose place {cohort.dataset} stands"]
    return []
