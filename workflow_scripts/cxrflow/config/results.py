"""The tables and figures of a paper in a run, and the results (task, model) that fill them."""

from functools import cache, cached_property
from typing import Any

from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.config.tasks import Tasks
from cxrflow.names import paper_of, short_name
from cxrflow.papers import Paper
from cxrflow.papers.figures import Figure
from cxrflow.papers.table import HEADLINE, Result, Table, cells_of
from cxrflow.text.settings import EasyAugmentationSettings

SYNONYMS = (
    "The augmented texts of {models} have synonyms of a short list of ours, where the published "
    "code takes WordNet's: `text_augmentation: {{wordnet: folder}}` of each (docs/low_data.md)."
)


class PaperResults:
    """What this run measures of a paper's tables and figures.

    ``extent``: all of them, or cut to the paper's headline. Where none is given, the run's.
    """

    def __init__(self, paper: Paper, tasks: Tasks) -> None:
        self._tasks, self._models = tasks, tasks.models
        self._source = paper
        # A dry run asks for each some twenty times.
        self._cells, self._shown = cache(self._measured_cells), cache(self._measured_shown)
        self.paper = paper.with_models(tasks.models.same, tasks.models.stand_ins)

    def tables(self, extent: str | None = None) -> list[str]:
        """The names of the tables; all if this run measures nothing of the headline."""
        tables = [name for name in self.paper.tables if not self._left_out(name)]
        if (extent or self._models.choices.extent) == "all":
            return tables
        cuts = [entry.table for entry in self.paper.headline if not self._left_out(entry.table)]
        cut = dict.fromkeys(f"{HEADLINE}{name}" for name in cuts)
        return list(cut) if any(map(self.cells, cut)) else tables

    def _left_out(self, table: str) -> bool:
        return f"{self.paper.name}/{table}" in self._models.choices.leave_out

    def table(self, name: str) -> Table:
        """A table by its name, with or without the prefix of a headline table."""
        return self.paper.tables[name.removeprefix(HEADLINE)]

    def cells(self, name: str) -> list[Result]:
        """The (task, model) pairs of a table that this run measures."""
        return list(self._cells(name))

    def _measured_cells(self, name: str) -> list[Result]:
        table = self.table(name)
        if self._left_out(name.removeprefix(HEADLINE)):
            return []
        results = table.results()
        if name.startswith(HEADLINE):
            cuts = [cut for cut in self.paper.headline if f"{HEADLINE}{cut.table}" == name]
            results = [cell for cut in cuts for cell in table.results(cut.rows, cut.columns, True)]
        return [cell for cell in dict.fromkeys(results) if self._measured(cell)]

    def _measured(self, result: Result) -> bool:
        task, model = result
        return self._tasks[task].scores(model)

    @cached_property
    def _headline(self) -> set[Result]:
        """All that the tables of the headline show."""
        return set(cells_of(self.paper.tables, self.paper.headline))

    def comparisons(self, name: str) -> list[PairedComparison]:
        """The tests of a table between cells that this run measures, in the table's order."""
        cells = set(self.cells(name))
        # Claims may name cells of other tables; of a headline's, those that it has as well.
        elsewhere = None if not name.startswith(HEADLINE) else self._headline
        return [
            comparison
            for comparison in self.paper.comparisons(name.removeprefix(HEADLINE))
            if all(
                result in cells
                or (self._measured(result) and (elsewhere is None or result in elsewhere))
                for result in comparison.results()
            )
            and self._tasks[comparison.task].benchmark.statistic_module is not None
        ]

    def compared(self, name: str) -> list[Result]:
        """The results of a table that are compared, or have an interval over seeds and samples."""
        pairs = [result for comparison in self.comparisons(name) for result in comparison.results()]
        several = self._tasks.of_several_seeds(self.cells(name))
        return list(dict.fromkeys([*pairs, *several]))

    def figures(self, extent: str = "all") -> dict[str, Figure]:
        """The figures that this run can draw; in the headline those that need no further result."""
        headline = None if extent == "all" else self.paper.headline
        results = {*cells_of(self.paper.tables, headline)}
        return {
            name: figure
            for name, figure in self.paper.figures.items()
            if self.shown_in(name)
            and (headline is None or results.issuperset(figure.results(self.paper.tables)))
        }

    def shown_in(self, name: str) -> list[Result]:
        """The (task, model) pairs of a figure that this run measures; none if it is not drawn."""
        return list(self._shown(name))

    def _measured_shown(self, name: str) -> list[Result]:
        figure = self.paper.figures[name]
        results = figure.results(self.paper.tables)
        measured = [result for result in results if self._measured(result)]
        if figure.READS:  # it shows what a model made of the pixels here
            external = self._models.library.external
            measured = [result for result in measured if result[1] not in external]
        if not measured or not set(figure.requires(results)) <= set(measured):
            return []
        task = self._tasks[measured[0][0]]  # of a figure that shows data there is one
        if figure.of_pictures and not task.pictures:
            return []
        return measured if all(map(task.shows, figure.SHOWS)) else []

    def all(self, extent: str) -> list[Result]:
        """The (task, model) pairs of its tables and figures that this run measures."""
        results = [self.cells(name) for name in self.tables(extent)]
        results += [self.shown_in(name) for name in self.figures(extent)]
        return list(dict.fromkeys(result for group in results for result in group))

    @property
    def controls(self) -> list[str]:
        """The controls of the paper that this run can train."""
        models = [
            model for model in self._models.values() if paper_of(model.name) == self.paper.name
        ]
        trained = [model for model in models if model.recipe.control and model.trainable]
        return [model.name for model in trained if model.name not in self._models.same]

    @property
    def stand_ins(self) -> dict[str, str]:
        """The models and vocabularies of its tables with stand-ins, and of what weights."""
        spots = [spot for table in self.paper.tables.values() for spot in table.spots]
        names = {name for spot in spots for name in (spot.model, spot.row.vocabulary)}
        return {n: weights for n, weights in self._models.stand_ins.items() if n in names}

    def own_synonyms(self, name: str) -> list[str]:
        """A sentence about the models of a table that read texts augmented without WordNet."""
        read = []
        for _, model in self.cells(name):
            if model is None or model not in self._models:
                continue
            settings: Any = self._models[model].settings
            texts = getattr(settings, "text_augmentation", None)
            is_read = texts is not None and "augmented" in settings.terms.needs.texts
            if is_read and isinstance(texts, EasyAugmentationSettings) and texts.wordnet is None:
                read.append(short_name(self._models.library.whole(model) or model))
        return [SYNONYMS.format(models=", ".join(dict.fromkeys(read)))] if read else []

    def one_training(self, name: str) -> list[str]:
        """Sentences about the models of a table that are another's training."""
        source = self._source.tables[name.removeprefix(HEADLINE)]
        pairs = [(source.model_of(s.row, s.column), s.model) for s in self.table(name).spots]
        return [
            f"{short_name(model)} and {short_name(stands)} are one training: their settings do the "
            "same."
            for model, stands in dict.fromkeys(pairs)
            if model is not None and stands is not None and model != stands
        ]
