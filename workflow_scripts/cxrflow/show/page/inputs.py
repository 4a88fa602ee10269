"""The inputs of the page: the configuration of a run and the products in its folder, checked.

A missing product is None, and the page says so. A product that is damaged, belongs to another model
than its path says, or has other settings than the configuration's is an InputError with its path.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from cxr_files.atomic import read_object, require_whole
from cxr_files.errors import InputError
from cxrflow.config import make_config
from cxrflow.config.configuration import Config
from cxrflow.config.needs import RunNeeds
from cxrflow.kinds import MARK
from cxrflow.metrics.record import read_metrics
from cxrflow.names import short_name
from cxrflow.papers.recipes import CohortRecipe
from cxrflow.papers.table import HEADLINE, Result
from cxrflow.show.tables.results import Results
from cxrflow.show.tables.tests import Tests, read_tests

RUN_FIELDS = (
    *("model", "seed", "program", "settings", "data", "steps", "seconds", "samples_per_second"),
    *("tokens_per_second", "peak_memory_mb", "parameters", "device"),
)
STALE = "run the workflow again, or remove the file"


def read_if_there(path: Path, fields: Sequence[str]) -> dict[str, Any] | None:
    """Read a JSON object with these fields; None if there is no file."""
    return read_object(path, fields) if path.is_file() else None


def require(path: Path, content: Any, place: str, fields: Sequence[str]) -> None:
    """Refuse a file without one of these fields in ``content``, which stands at ``place``."""
    for field in fields:
        if not isinstance(content, Mapping) or field not in content:
            raise InputError(f"{path}: field '{place}.{field}' is missing")


def expect(path: Path, content: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    """Refuse a file whose fields contradict its path."""
    for field, value in expected.items():
        if content.get(field) != value:
            raise InputError(
                f"{path}: field '{field}' is {content.get(field)!r}, expected {value!r}; {STALE}"
            )


def expect_settings(path: Path, ours: Any, theirs: Any) -> None:
    """Refuse a product that was made with other settings than the configuration's."""
    difference = first_difference(ours, theirs)
    if difference:
        raise InputError(f"{path}: {difference}; {STALE}")


def first_difference(ours: Any, theirs: Any, key: str = "settings") -> str | None:
    """The first key under which two settings differ, with both values; None when they are equal."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in sorted({*ours, *theirs}):
            if name not in ours or name not in theirs:
                side = "configuration" if name in ours else "file"
                return f"'{key}.{name}' stands in the {side} only"
            difference = first_difference(ours[name], theirs[name], f"{key}.{name}")
            if difference:
                return difference
        return None
    return None if ours == theirs else f"'{key}' is {theirs!r}, the configuration has {ours!r}"


@dataclass(frozen=True)
class Training:
    """A finished training: ``run.json`` and the lines of ``metrics.jsonl``."""

    run: dict[str, Any]
    log: list[dict[str, Any]]


@dataclass(frozen=True)
class RunFolder:
    """A run's configuration and the folder of its products."""

    config: Config
    resolved: Mapping[str, Mapping[str, Any]]  # models, cohorts, … as recorded, by whole name
    root: Path
    papers: Mapping[str, str]  # that are shown, each with its extent
    overlays: tuple[str, ...] = ()  # files laid over config.yaml, as recorded

    @classmethod
    def read(cls, record: Path, root: Path, papers: Sequence[str] = ()) -> "RunFolder":
        """Read the recorded configuration (``<results>/report/config.json``).

        ``papers`` says which are shown, as ``name=extent``; without, all as configured.
        """
        content = read_object(record, ("values", "resolved", "configfiles"))
        if not root.is_dir():
            raise InputError(f"{root}: results folder not found")
        config = make_config(content["values"], [record], check_roots=False)
        choices = papers or [f"{name}={config.values.extent}" for name in config.library.chosen]
        extents = {
            name: extent for name, _, extent in (choice.partition("=") for choice in choices)
        }
        for name, extent in extents.items():
            if name not in config.library.chosen or extent not in ("all", "headline"):
                raise InputError(
                    f"--papers: '{name}={extent}' given, expected <paper>=headline or <paper>=all "
                    f"of {', '.join(config.library.chosen)}"
                )
        overlays = tuple(file for file in content["configfiles"] if file != "config.yaml")
        return cls(config, content["resolved"], root, extents, overlays)

    @cached_property
    def needs(self) -> RunNeeds:
        """Models, tasks, cohorts, vocabularies and texts of the papers that are shown."""
        return self.config.needs(*self.papers.items())

    @cached_property
    def scored(self) -> dict[str, list[Result]]:
        """The task and model of each result of the papers that are shown, by paper."""
        return {name: self.config.results[name].all(ext) for name, ext in self.papers.items()}

    def permits(self, content: Literal["images", "text"], synthetic: bool) -> bool:
        """True if pictures and pages may hold radiographs or report text of such data."""
        return self.config.values.privacy.permits(content, synthetic)

    def flow(self, cohort: str) -> dict[str, Any] | None:
        """``flow.json`` of a cohort."""
        path = self.root / "cohorts" / cohort / "flow.json"
        fields = ("cohort", "dataset", "synthetic", "steps", "splits", "checks", "settings")
        flow = read_if_there(path, fields)
        if flow is not None:
            recorded = self.resolved["cohorts"][cohort]
            dataset = f"{MARK if self.config.selection else ''}{recorded['dataset']}"
            expect(path, flow, {"cohort": short_name(cohort), "dataset": dataset})
            places = CohortRecipe.PLACES
            settings = {key: value for key, value in recorded.items() if key not in places}
            expect_settings(path, settings, flow["settings"])
            for number, step in enumerate(flow["steps"]):
                require(path, step, f"steps[{number}]", ("name", "unit", "kept", "dropped"))
            for number, check in enumerate(flow["checks"]):
                require(path, check, f"checks[{number}]", ("name", "passed", "detail"))
        return flow

    def shared_pictures(self, cohort: str) -> dict[str, Any] | None:
        """Counts of pictures that several patients of a cohort have; None where none is stored."""
        for name, geometry in self.config.whole.stores:
            if name == cohort:
                store = read_if_there(self.root / "pixels" / name / geometry / "store.json", ())
                if store and "shared_pictures" in store:
                    counts: dict[str, Any] = store["shared_pictures"]
                    return counts
        return None

    def corpus(self, dataset: str) -> dict[str, Any] | None:
        """``corpus.json`` of a data set."""
        path = self.root / "corpus" / dataset / "corpus.json"
        content = read_if_there(path, ("dataset", "synthetic"))
        if content is not None:
            expect(path, content, {"dataset": dataset})
        return content

    def vocabulary(self, name: str) -> dict[str, Any] | None:
        """``vocabulary.json``."""
        path = self.root / "vocabulary" / name / "vocabulary.json"
        return read_if_there(path, ("size", "words", "distinct_words", "sources"))

    def tokens(self, vocabulary: str, dataset: str) -> dict[str, Any] | None:
        """``tokens.json`` of a data set cut with a vocabulary."""
        path = self.root / "tokens" / vocabulary / dataset / "tokens.json"
        content = read_if_there(path, ("vocabulary", "dataset", "documents", "tokens", "unknown"))
        if content is not None:
            expect(path, content, {"vocabulary": short_name(vocabulary), "dataset": dataset})
        return content

    def training(self, model: str, seed: int) -> Training | None:
        """A finished training; its settings must be those of the configuration.

        None if there is none yet, and for models that are not trained here.
        """
        if not self.config.models[model].trained:
            return None
        folder = self.root / "models" / model / f"seed{seed}"
        path = folder / "run.json"
        run = read_if_there(path, RUN_FIELDS)
        if run is None:
            return None
        expect(path, run, {"model": model, "seed": seed})
        require(path, run["data"], "data", ("name", "synthetic"))
        expect_settings(path, self.resolved["models"][model]["settings"], run["settings"])
        return Training(run, list(_read_log(folder / "metrics.jsonl")))

    def score_folder(self, task: str, model: str | None, seed: int) -> Path:
        """The folder of a task's result."""
        folder = self.root / "benchmarks" / task
        return folder if model is None else folder / model / f"seed{seed}"

    def scores(self, task: str, model: str | None, seed: int = 0) -> dict[str, Any] | None:
        """``metrics.json`` of a model; without a model: of the data or the vocabularies."""
        path = self.score_folder(task, model, seed) / "metrics.json"
        expected = {"task": task}
        return _metrics(
            path, expected if model is None else expected | {"model": model, "seed": seed}
        )

    def results(self, paper: str) -> Results:
        """The finished results of a paper's tables and of its controls."""
        config = self.config
        pairs = [*self.scored[paper]]
        tasks = dict.fromkeys(task for task, model in pairs if model is not None)
        pairs += [(task, model) for model in config.results[paper].controls for task in tasks]
        runs = {}
        for task, model in pairs:
            if model is not None:
                seeds = [self.scores(task, model, seed) for seed in config.models.seeds_of(model)]
                runs[task, model] = [scores for scores in seeds if scores is not None]
        return Results(runs, {})

    def tests(self, paper: str, table: str) -> Tests:
        """Intervals and comparisons of a table in the extent that this page shows."""
        cut = "" if self.papers[paper] == "all" else HEADLINE
        path = self.root / "tables" / paper / f"{cut}{table}.tests.json"
        return read_tests([path] if path.is_file() else [])

    def agreement_folder(self, dataset: str, reference: str) -> Path:
        """The folder of a comparison of report labels with reference labels."""
        return self.root / "benchmarks/label_agreement" / dataset / reference

    def agreement(self, dataset: str, reference: str) -> dict[str, Any] | None:
        """``metrics.json`` of a comparison of report labels."""
        path = self.agreement_folder(dataset, reference) / "metrics.json"
        scores = _metrics(path, {"benchmark": "label_agreement"})
        if scores is not None:
            expect(path, scores["data"], {"name": dataset})
            expect(path, scores["protocol"], {"reference": reference})
        return scores


def _metrics(path: Path, expected: Mapping[str, Any]) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    scores = read_metrics(path)
    expect(path, scores, expected)
    return scores


def _read_log(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"{path}: file not found, though its run.json is there")
    require_whole(path)
    with open(path, encoding="utf-8", errors="replace") as handle:
        for number, line in enumerate(handle, 1):
            try:
                entry = json.loads(line)
                if not {"step", "split"} <= entry.keys():
                    raise ValueError
            except (ValueError, AttributeError):
                raise InputError(
                    f"{path}: line {number} is not a JSON object with 'step' and 'split'"
                ) from None
            yield entry
