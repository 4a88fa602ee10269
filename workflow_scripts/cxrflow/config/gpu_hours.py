"""What a run costs at the papers' own scale: GPU-hours, storage and memory, from its configuration.

A training takes its updates times the seconds of an update of that size, measured on one GPU
(``gpu_steps.tsv``). Its updates are its recipe's, or its epochs times the training rows that its
paper or data set counts (``cohort_rows.tsv``). A training that was not measured counts as the
measured one of its program whose settings differ least, in proportion to its batch. That is the
most: patience may end it earlier. What is expected is no more than the hours of the authors' own
training, where the paper states them (``training_hours.tsv``; their GPUs were slower).
"""

import csv
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

from cxrflow.config.configuration import Config
from cxrflow.config.models import ResolvedModel
from cxrflow.config.parts import Resources
from cxrflow.config.plan import count, planned_cells
from cxrflow.images.geometry import Geometry
from cxrflow.names import paper_of
from cxrflow.papers.table import HEADLINE, Result

FOLDER = Path(__file__).parent
GB = 1e9
FLOAT, MILLION = 4, 1e6  # bytes, parameters
MOMENTS = 2  # of an optimiser, in the state of a training beside its weights


def read_tsv(file: Path) -> list[dict[str, str]]:
    """The rows of a table whose columns are parted by tabs."""
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t"))


@cache
def read_rows(name: str) -> dict[str, list[dict[str, str]]]:
    """The rows of a table of this folder, by their first column."""
    rows: dict[str, list[dict[str, str]]] = {}
    for row in read_tsv(FOLDER / name):
        rows.setdefault(next(iter(row.values())), []).append(row)
    return rows


def updates(model: ResolvedModel) -> int | None:
    """The updates of a training that nothing ends earlier; None if nobody counts its rows."""
    training: Any = dict(model.settings)["training"]
    if training.steps is not None:
        return int(training.steps)
    counts = read_rows("cohort_rows.tsv").get(model.recipe.cohort or "")
    if counts is None or not counts[0]["training"]:
        return None
    rows = float(counts[0]["training"]) * model.recipe.share / 100
    return int(training.epochs) * max(1, int(rows) // int(training.batch_size))


class Hours(NamedTuple):
    """GPU-hours of trainings of all seeds, and the models of which nothing is known."""

    trainings: int
    most: float
    expected: float
    unknown: list[str]


class FullScale:
    """The cost of the trainings of a run at the papers' own scale."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self._steps = {name: rows[0] for name, rows in read_rows("gpu_steps.tsv").items()}
        self._stated, self._rows = read_rows("training_hours.tsv"), read_rows("cohort_rows.tsv")

    @cached_property
    def models(self) -> Mapping[str, ResolvedModel]:
        """The models of the run and the measured ones, whose papers it may not ask for."""
        library = self.config.library
        papers = [library.source(paper) for paper in library.chosen]
        papers += sorted({*map(paper_of, self._steps)} - {*library.chosen})
        values = {"papers": papers, "leave_out": []}
        return Config(self.config.values.model_copy(update=values)).models

    def alike(self, name: str, measured: Collection[str]) -> str | None:
        """The model of the same program whose settings differ least from those of a model."""
        program, facts = self.models[name].recipe.program, self._facts[name]
        same = [
            candidate for candidate in measured if self.models[candidate].recipe.program == program
        ]
        return min(same, key=lambda candidate: len(facts ^ self._facts[candidate]), default=None)

    @cached_property
    def _facts(self) -> dict[str, set[tuple[str, str]]]:
        """Settings as a set by model, without those that change no step."""
        facts = {}
        for name, model in self.models.items():
            if name in self._steps or name in self._stated or model.trainable:
                values = {**model.settings.effect(), "geometry": model.geometry}
                leaves = _leaves(values)
                facts[name] = {leaf for leaf in leaves if not leaf[0].startswith("training")}
        return facts

    def step(self, name: str) -> dict[str, str] | None:
        """The measured step that a model's counts as."""
        alike = self.alike(name, self._steps)
        return None if alike is None else self._steps[alike]

    def hours_of(self, name: str) -> tuple[float, float] | None:
        """The hours of one training of a model: at most, and expected."""
        model, step, training = self.models[name], self.step(name), self._training(name)
        length = updates(model)
        if step is None or length is None:
            return None
        seconds = float(step["seconds"]) * training.batch_size / float(step["batch"])
        most = length * seconds / 3600
        stated = self.alike(name, self._stated) if training.stopping.patience else None
        if stated is None or paper_of(stated) != paper_of(name):
            return most, most
        shares = [row for row in self._stated[stated] if float(row["pairs"]) >= model.recipe.share]
        return most, min(most, float(shares[0]["hours"]))

    def total(self, names: Iterable[str]) -> Hours:
        """The hours of the trainings of these models, each once a seed."""
        trained = [name for name in names if self.models[name].trained]
        hours = {name: self.hours_of(name) for name in trained}
        seeds = {name: len(self.models[name].seeds) for name in trained}
        counted = {name: each for name, each in hours.items() if each is not None}
        return Hours(
            sum(seeds.values()),
            sum(seeds[name] * most for name, (most, _) in counted.items()),
            sum(seeds[name] * expected for name, (_, expected) in counted.items()),
            sorted({*trained} - {*counted}),
        )

    def models_of(self, results: Iterable[Result]) -> list[str]:
        """The models behind results, with all that they are made from."""
        models = dict.fromkeys(name for _, name in results if name in self.config.models)
        return list(dict.fromkeys(n for name in models for n in self.models[str(name)].ancestors))

    def summary(self, papers: Collection[str], extent: str) -> str:
        """Describe what the trainings of papers cost, by paper and table."""
        needs = self.config.needs(*((paper, extent) for paper in papers))
        trained = [name for name in needs.models if self.models[name].trained]
        steps = {name: step for name in trained if (step := self.step(name)) is not None}
        machines = " or ".join(sorted({step["machine"] for step in steps.values()})) or "GPU"
        everything = self.total(trained)
        lines = [
            f"GPU-hours of all trainings, on one {machines} (docs/performance.md):",
            f"{'':40} trainings   at most  expected",
            _line("everything, what is shared once", everything),
        ]
        for paper in papers:
            results = self.config.results[paper]
            cells_by_table = {name: results.cells(name) for name in results.tables(extent)}
            headline = [cell for name in results.tables("headline") for cell in results.cells(name)]
            planned = planned_cells(self.config, paper, extent)
            heading = f"{paper} ({count(planned)})" if planned else paper
            lines.append(_line(heading, self.total(self.models_of(results.all(extent)))))
            for name, cells in {
                "main claim (its headline rows)": headline,
                **cells_by_table,
            }.items():
                hours = self.total(self.models_of(cells))
                lines += [_line(f"  {name.removeprefix(HEADLINE)}", hours)] * (hours.trainings > 0)
        patient = sum(self._training(name).stopping.patience is not None for name in trained)
        lines += [
            f"Measured: {sum(name in self._steps for name in trained)} of {len(trained)} models; "
            "another counts as the one of its program whose settings differ least.",
            f"Patience may end {patient} models' trainings. Expected are the hours of the authors "
            "where their paper states them, else the most.",
            "Not counted, as not measured: validation, evaluation and all that needs no GPU.",
        ]
        if everything.unknown:
            lines.append(f"Not counted, as not known: {', '.join(everything.unknown)}.")
        return "\n".join([*lines, *self._storage(needs.stores), *self._memory(steps)])

    def _storage(self, stores: Iterable[tuple[str, str]]) -> Iterator[str]:
        pixels, uncounted = 0.0, []
        for cohort, geometry in stores:
            rows = self._rows.get(cohort)
            pixels += float(rows[0]["all"]) * Geometry.parse(geometry).size ** 2 if rows else 0
            uncounted += [] if rows else [f"{cohort} at {geometry}"]
        without = f", without {', '.join(uncounted)}, whose rows nobody counts" if uncounted else ""
        yield f"Storage: images {pixels / GB:,.0f} GB{without}"

    def _memory(self, steps: Mapping[str, dict[str, str]]) -> Iterator[str]:
        """The size of models, and the largest job."""
        size = {n: FLOAT * MILLION * float(s["parameters_millions"]) for n, s in steps.items()}
        weights = sum(len(self.models[name].seeds) * size[name] * self._kept(name) for name in size)
        state = (1 + MOMENTS) * max(size.values(), default=0)
        gpu = max((float(step["memory_gb"]) for step in steps.values()), default=0)
        rules = {self.models[name].recipe.kind.rule for name in steps}
        megabytes = [self.config.values.resources.get(rule, Resources()).mem_mb for rule in rules]
        yield f"  weights {weights / GB:,.0f} GB; while one trains, its state: {state / GB:,.1f} GB"
        yield (
            f"The largest training: {gpu:,.0f} GB of a GPU's memory, "
            f"{max(megabytes, default=0) / 1000:,.0f} GB of the host's (`resources`)"
        )

    def _kept(self, name: str) -> int:
        """How many states of its weights a training leaves."""
        training, length = self._training(name), updates(self.models[name])
        if training.checkpoint_validations is None or length is None:
            return 1
        steps = training.validate_steps
        validations = length // steps if steps else training.validations
        return 1 + int(validations // training.checkpoint_validations)

    def _training(self, name: str) -> Any:
        return dict(self.models[name].settings)["training"]


def _line(name: str, hours: Hours) -> str:
    unknown = f"  + {len(hours.unknown)} models not known" if hours.unknown else ""
    return f"{name:40} {hours.trainings:9,} {hours.most:9,.0f} {hours.expected:9,.0f}{unknown}"


def _leaves(values: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Each value of nested settings, with its key."""
    if not isinstance(values, Mapping):
        yield key, str(values)
        return
    for name, value in values.items():
        yield from _leaves(value, f"{key}.{name}" if key else name)
