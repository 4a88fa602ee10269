"""The papers of a run and all that they use: cohorts, vocabularies, models and tasks by full name.

An entry taken from another paper comes with the entries that it is made from.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cxr_files.errors import InputError
from cxr_files.settings import SettingsT, overlay
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.problems import WrongKey, defines
from cxrflow.names import is_reference, name_of_share, paper_of, short_name
from cxrflow.papers import Paper, load_paper, paper_entries, paper_file, paper_names
from cxrflow.papers.entries import Key, Overlay
from cxrflow.papers.figures import CurveFigure
from cxrflow.papers.recipes import CohortRecipe, ExternalModel, Recipe, Task, VocabularyRecipe
from cxrflow.papers.table import cells_of


def laid_over(kind: type[SettingsT], *overlays: Overlay) -> SettingsT:
    """Lay each of ``overlays`` over those before it, and validate the result.

    Raises:
        WrongKey: with the file and the key where the wrong value is written.
    """
    values: dict[str, Any] = {}
    for above in overlays:
        values = overlay(values, above.values)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        item = error.errors()[0]
        key = item["loc"]
        # What names a kind is to blame for it, not a scale that lays sizes over it.
        keys = [(*key, "kind"), key] if item["type"] == "kind" else [key]
        defining = (above for k in keys for above in reversed(overlays) if defines(above.values, k))
        source = next(defining, overlays[0])
        file, key = None, (*source.key, *key)
        if source.entries is not None:
            file, key = source.entries.place(key)
        raise WrongKey(key, item["msg"], file, item) from None


class Library:
    """The chosen papers, and the entries of other papers that they use."""

    def __init__(self, sources: list[str]) -> None:
        self.chosen: dict[str, Paper] = {}
        self._sources: dict[str, str] = {}
        for source in sources:
            try:
                paper = load_paper(source)
            except InputError as error:
                raise WrongKey(("papers",), str(error)) from None
            if paper.name in self.chosen:
                raise WrongKey(("papers",), f"two are called '{paper.name}'")
            self.chosen[paper.name] = paper
            self._sources[paper.name] = source
        self._add_rows()
        self.models: dict[str, Recipe] = {}
        self.external: dict[str, ExternalModel] = {}
        self.tasks: dict[str, Task] = {}
        self.cohorts: dict[str, CohortRecipe] = {}
        self.vocabularies: dict[str, VocabularyRecipe] = {}
        for paper in self.chosen.values():
            for short in paper.models:
                self._add_model(f"{paper.name}/{short}", paper.name)
            for short in paper.tasks:
                self._add_task(f"{paper.name}/{short}", paper.name)
            for short in paper.vocabularies:
                self._add_vocabulary(f"{paper.name}/{short}", paper.name)
            self._add_external(paper)
            self._check_shares(paper)
            self._check_curves(paper)
            results = cells_of(paper.tables, None)
            for figure in paper.figures.values():
                results += figure.results(paper.tables)
            for task, model in results:
                self._add_task(task, f"a table or figure of {paper.name}")
                if model is not None and is_reference(model):
                    self._check_reference(model, task, paper.name)
                elif model is not None and model not in self.external:
                    self._add_model(model, f"a table or figure of {paper.name}")
            self._check_ceilings(paper)

    def _add_rows(self) -> None:
        """Put the rows that papers have beside those of others into the others' tables."""
        for paper in self.chosen.values():
            for name in paper.beside:
                if paper_of(name) not in {*self.chosen, *paper_names()}:
                    message = f"{paper.name}: beside.{name}: there is no paper '{paper_of(name)}'"
                    raise WrongKey(("papers",), message)
        try:
            self.chosen = {n: p.with_rows_of(self.chosen.values()) for n, p in self.chosen.items()}
        except ValueError as error:
            message = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
            raise WrongKey(("papers",), f"rows beside those of a table: {message}") from None

    def beside(self, paper: str) -> list[str]:
        """The papers that have rows in tables of this one, as the key ``papers`` names them."""
        return [
            self.source(other.name)
            for other in self.chosen.values()
            if any(paper_of(name) == paper for name in other.beside)
        ]

    def source(self, paper: str) -> str:
        """A paper as the key ``papers`` names it: by its name, or by the path of its file."""
        return self._sources.get(paper, paper)

    def file(self, paper: str) -> Path:
        """The YAML of a paper."""
        return paper_file(self.source(paper))

    def runs(self, name: str, scale: str) -> int:
        """How many runs the authors of an entry's paper made at a scale."""
        return self._paper(paper_of(name)).runs.get(scale, 1)

    def _paper(self, name: str) -> Paper:
        return self.chosen.get(name) or load_paper(self.source(name))

    def whole(self, name: str) -> str | None:
        """The model with `shares` of which a model is one, if it is."""
        paper = paper_of(name)
        models = self._paper(paper).models
        for short, recipe in models.items():
            shares = (share for share in recipe.shares or () if share < 100)
            if any(name_of_share(short, share) == short_name(name) for share in shares):
                return f"{paper}/{short}"
        return None

    def overlay(self, kind: str, name: str, values: Mapping[str, Any], *below: str) -> Overlay:
        """A paper's ``values`` of an entry, or of the keys ``below`` it, as an overlay."""
        entries = paper_entries(self.file(paper_of(name)))
        return Overlay(values, (kind, short_name(name), *below), entries)

    def place(self, paper: str, *key: str | int) -> tuple[Path, Key]:
        """The file and the key where a value of a paper is written."""
        return paper_entries(self.file(paper)).place(key)

    def datasets(self) -> Iterator[tuple[str, str]]:
        """Yield each data set that the papers read, and the entry that names it."""
        for name, cohort in self.cohorts.items():
            for dataset in (cohort.dataset, cohort.images, *cohort.held_out, cohort.training):
                if dataset is not None:
                    yield dataset, f"cohort {name}"
        for name, vocabulary in self.vocabularies.items():
            yield from ((dataset, f"vocabulary {name}") for dataset in vocabulary.documents)
        for name, model in self.models.items():
            yield from ((dataset, f"model {name}") for dataset in model.corpora)
        for name, task in self.tasks.items():
            if task.demographics is not None:
                yield task.demographics, f"task {name}"

    def _entry(self, kind: str, name: str, user: str) -> Any:
        """The entry of this full name; an error says that ``user`` names it."""
        paper = paper_of(name)
        try:
            entries = getattr(self.chosen.get(paper) or load_paper(paper), kind)
        except InputError as error:
            raise WrongKey(("papers",), f"{user} names '{name}': {error}") from None
        if short_name(name) not in entries:
            names = ", ".join(sorted(entries)) or "none"
            raise WrongKey(
                ("papers",),
                f"{user} names '{name}', which is not known; {kind} of {paper} are {names}",
            )
        return entries[short_name(name)]

    def _check_shares(self, paper: Paper) -> None:
        """Check that models have the shares of pairs that tables name."""
        for name, table in paper.tables.items():
            for (row_place, row), (column_place, column) in product(
                enumerate(table.rows), enumerate(table.columns)
            ):
                by_row = row.pairs is not None
                model = row.models.get(column.key, row.model)
                share = row.pairs if by_row else column.pairs
                if model is None or share is None or row.is_external or is_reference(model):
                    continue
                if column.key in row.blank and not by_row:
                    continue
                line = ("rows", row_place) if by_row else ("columns", column_place)
                file, key = self.place(paper.name, "tables", name, *line, "pairs")
                doubled = by_row and column.pairs is not None
                if doubled and column.key not in row.blank:
                    message = f"is {share:g}, but column '{column.key}' has pairs too; expected one"
                    raise WrongKey(key, f"{message} of them", file)
                recipe = self._entry("models", model, f"a table of {paper.name}")
                shares = sorted({*(recipe.shares or ()), 100})
                if share in shares:
                    continue
                expected = ", ".join(format(value, "g") for value in shares)
                message = f"is {share:g}; expected a share of {model}, {expected} per cent"
                raise WrongKey(key, message, file)

    def _check_curves(self, paper: Paper) -> None:
        """Check that models stand where a forecast is made at their share of the pairs."""
        for name, figure in paper.figures.items():
            if not isinstance(figure, CurveFigure) or not figure.forecast:
                continue
            for number, line in enumerate(figure.series):
                cells = figure.cells(line)
                if len(cells) == 1:  # the same at every share
                    continue
                for x, place in zip(figure.x.values, cells, strict=True):
                    spot = paper.spot(place)
                    model = spot.model
                    if model is None or spot.row.is_external or is_reference(model):
                        continue
                    share = self._entry("models", model, f"a figure of {paper.name}").share
                    if share != x:
                        raise WrongKey(
                            ("figures", name, "series", number),
                            f"has '{place.row}' ({place.column}) at {x:g}, but {model} is trained "
                            f"on {share:g} % of the pairs; expected it there",
                            self.file(paper.name),
                        )

    def _check_ceilings(self, paper: Paper) -> None:
        """Check that tables call a row that must succeed a ceiling, and no other."""
        for name, table in paper.tables.items():
            for row in table.rows:
                for task, model in table.results([row.key]) if row.is_reference else ():
                    ceilings = BENCHMARKS[self.tasks[task].benchmark].ceilings
                    if row.ceiling != (short_name(model or "") in ceilings):
                        expected = str(not row.ceiling).lower()
                        raise WrongKey(
                            ("papers",),
                            f"table {name} of {paper.name} shows '{model}' in {task} as "
                            f"'{row.key}'; expected `ceiling: {expected}`: ceilings of its "
                            f"benchmark are {', '.join(ceilings) or 'none'}",
                        )

    def _check_reference(self, name: str, task: str, paper: str) -> None:
        references = BENCHMARKS[self.tasks[task].benchmark].references
        if short_name(name) not in references:
            raise WrongKey(
                ("papers",),
                f"a table of {paper} shows '{name}' in {task}, which is not known; reference rows "
                f"of {self.tasks[task].benchmark} are {', '.join(references) or 'none'}",
            )

    def _add_external(self, paper: Paper) -> None:
        """Add the models that were run elsewhere and that a paper's tables show.

        Raises:
            WrongKey: a row of another kind names such a model, a row of this kind another, or it
                has a file for a task that scores none.
        """
        user = f"a table of {paper.name}"
        ours = {f"{paper.name}/{short}" for short in paper.external}
        pairs = [(row, name) for t in paper.tables.values() for row in t.rows for name in row.named]
        for row, name in pairs:
            if not row.is_external and name in ours:
                message = f"{user} shows '{name}' in row '{row.label}', which is no model of ours"
                raise WrongKey(("papers",), f"{message}; expected `kind: external` there")
            if row.is_external and name not in self.external:
                self.external[name] = self._entry("external", name, user)
                for task in self.external[name].files:
                    self._check_external(name, task)

    def _check_external(self, name: str, task: str) -> None:
        scored: Task = self._entry("tasks", task, f"external {name}")
        if not BENCHMARKS[scored.benchmark].external:
            able = ", ".join(benchmark for benchmark, entry in BENCHMARKS.items() if entry.external)
            raise WrongKey(
                ("papers",),
                f"external {name} has a file for {task}, but {scored.benchmark} scores none; "
                f"expected a task of {able}",
            )

    def _add_model(self, name: str, user: str, *waiting: str) -> None:
        if name in waiting:
            circle = " -> ".join((*waiting[waiting.index(name) :], name))
            message = f"models are made from each other: {circle}, which {user} names"
            raise WrongKey(("papers",), message)
        if name in self.models:
            return
        recipe: Recipe = self._entry("models", name, user)
        user = f"model {name}"
        parents = [p for scale in ("", *recipe.scales) for p in recipe.at(scale).parents.values()]
        parents += [recipe.shuffled_twins] if recipe.shuffled_twins is not None else []
        for parent in dict.fromkeys(parents):
            self._add_model(parent, user, *waiting, name)
        if recipe.cohort is not None:
            self._add_cohort(recipe.cohort, user, *waiting, name)
        self.models[name] = recipe
        if recipe.vocabulary is not None:
            self._add_vocabulary(recipe.vocabulary, user)
        if recipe.selection is not None:
            self._add_task(recipe.selection, user)

    def _add_task(self, name: str, user: str) -> None:
        if name in self.tasks:
            return
        task: Task = self._entry("tasks", name, user)
        if task.of is not None:
            checked: Task = self._entry("tasks", task.of, f"task {name}")
            if checked.of is not None:
                raise WrongKey(("papers",), f"task {name} is of '{task.of}', which is of another")
            self._add_task(task.of, f"task {name}")
        self.tasks[name] = task
        for cohort in (task.cohort, task.training):
            if cohort is not None:
                self._add_cohort(cohort, f"task {name}")

    def _add_cohort(self, name: str, user: str, *waiting: str) -> None:
        if name in self.cohorts:
            return
        recipe: CohortRecipe = self._entry("cohorts", name, user)
        if recipe.curation is not None:
            user, candidates = f"curation of {name}", recipe.curation.candidates
            acquisitions: CohortRecipe = self._entry("cohorts", candidates, user)
            if acquisitions.unit == "image":  # and so not curated itself; another is refused later
                self._add_cohort(candidates, user)
            self._add_model(recipe.curation.model, user, *waiting)
        self.cohorts[name] = recipe

    def _add_vocabulary(self, name: str, user: str) -> None:
        if name not in self.vocabularies:
            self.vocabularies[name] = self._entry("vocabularies", name, user)
