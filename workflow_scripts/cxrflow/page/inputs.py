"""What the report page reads, checked: the configuration of a run and the products in its folder.

A product that is not there is None: the page says so. One that is damaged, of another model than
its place says, or made with other settings than the configuration's is an InputError naming it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxrflow.config import make_config
from cxrflow.config.schema import BENCHMARK_ROLES, Config
from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.page.privacy import Privacy

RUN_FIELDS = (
    *("model", "seed", "program", "settings", "data", "steps", "seconds", "samples_per_second"),
    *("tokens_per_second", "peak_memory_mb", "parameters", "device"),
)
STALE = "run the workflow again, or remove the file"


def read_if_there(path: Path, fields: Sequence[str]) -> dict[str, Any] | None:
    """A JSON object with these fields, or None where there is no file."""
    return read_object(path, fields) if path.is_file() else None


def _need(path: Path, found: Any, place: str, fields: Sequence[str]) -> None:
    for field in fields:
        if not isinstance(found, Mapping) or field not in found:
            raise InputError(f"{path}: field '{place}.{field}' is missing")


def expect(path: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse a file whose fields are not those its place promises."""
    for field, value in wanted.items():
        if found.get(field) != value:
            raise InputError(
                f"{path}: field '{field}' is {found.get(field)!r}, expected {value!r}; {STALE}"
            )


def first_difference(ours: Any, theirs: Any, key: str = "settings") -> str | None:
    """The first key under which two settings differ, with both values; None when they are equal."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in sorted({*ours, *theirs}):
            if name not in ours or name not in theirs:
                side = "configuration" if name in ours else "file"
                return f"'{key}.{name}' stands in the {side} only"
            found = first_difference(ours[name], theirs[name], f"{key}.{name}")
            if found:
                return found
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
    models: Mapping[str, Mapping[str, Any]]  # as recorded: recipe and complete settings
    root: Path
    overlays: tuple[str, ...] = ()  # files laid over config.yaml, as recorded

    @classmethod
    def read(cls, config: Path, root: Path) -> "RunFolder":
        """Read the recorded configuration (``<results>/report/config.json``)."""
        fields = ("scale", "seeds", "papers", "datasets", "models", "privacy", "configfiles")
        values = read_object(config, fields)
        if not root.is_dir():
            raise InputError(f"{root}: results folder not found")
        # The record holds resolved models where a configuration holds what the user changed.
        files = values.pop("configfiles")
        plain = make_config({**values, "models": {}}, [config], check_roots=False)
        described = {name: values["models"].get(name) for name in plain.recipes}
        known = {name: made for name, made in described.items() if made is not None}
        return cls(plain, known, root, tuple(file for file in files if file != "config.yaml"))

    @property
    def privacy(self) -> Privacy:
        """What may be shown."""
        return Privacy(self.config.privacy.show_images, self.config.privacy.show_text)

    def corpus_names(self) -> list[str]:
        """Data sets whose text was processed: the corpora, the reports, other pair cohorts'."""
        config = self.config
        cohorts = [config.cohorts[name] for name in config.cohorts_in_use()]
        pairs = [cohort.dataset for cohort in cohorts if cohort.kind == "pairs"]
        return list(dict.fromkeys([*config.text_datasets(), *pairs]))

    def flow(self, cohort: str) -> dict[str, Any] | None:
        """``flow.json`` of a cohort."""
        path = self.root / "cohorts" / cohort / "flow.json"
        fields = ("cohort", "dataset", "synthetic", "steps", "splits", "checks", "settings")
        found = read_if_there(path, fields)
        if found is not None:
            wanted = self.config.cohorts[cohort]
            expect(path, found, {"cohort": cohort, "dataset": wanted.dataset})
            other = first_difference(wanted.settings(), found["settings"])
            if other:
                raise InputError(f"{path}: {other}; {STALE}")
            for number, step in enumerate(found["steps"]):
                _need(path, step, f"steps[{number}]", ("name", "unit", "kept", "dropped"))
            for number, check in enumerate(found["checks"]):
                _need(path, check, f"checks[{number}]", ("name", "passed", "detail"))
        return found

    def corpus(self, dataset: str) -> dict[str, Any] | None:
        """``corpus.json`` of a data set."""
        path = self.root / "corpus" / dataset / "corpus.json"
        found = read_if_there(path, ("dataset", "synthetic"))
        if found is not None:
            expect(path, found, {"dataset": dataset})
        return found

    def vocabulary(self, name: str) -> dict[str, Any] | None:
        """``vocabulary.json``."""
        path = self.root / "vocabulary" / name / "vocabulary.json"
        return read_if_there(path, ("size", "words", "distinct_words", "sources"))

    def tokens(self, vocabulary: str, dataset: str) -> dict[str, Any] | None:
        """``tokens.json`` of a data set cut with a vocabulary."""
        path = self.root / "tokens" / vocabulary / dataset / "tokens.json"
        found = read_if_there(path, ("vocabulary", "dataset", "documents", "tokens", "unknown"))
        if found is not None:
            expect(path, found, {"vocabulary": vocabulary, "dataset": dataset})
        return found

    def training(self, model: str, seed: int) -> Training | None:
        """A finished training; its settings must be those of the configuration.

        None where there is none yet, and for imported models, which nobody trains here.
        """
        if self.config.imported(model):
            return None
        folder = self.root / "models" / model / f"seed{seed}"
        path = folder / "run.json"
        found = read_if_there(path, RUN_FIELDS)
        if found is None:
            return None
        expect(path, found, {"model": model, "seed": seed})
        _need(path, found["data"], "data", ("name", "synthetic"))
        other = first_difference(self.models[model]["settings"], found["settings"])
        if other:
            raise InputError(f"{path}: {other}; {STALE}")
        return Training(found, list(_read_log(folder / "metrics.jsonl")))

    def benchmarks(self) -> list[str]:
        """The benchmarks this run has data for, those of models before that of vocabularies."""
        return [name for name in BENCHMARK_ROLES if self.config.available(name)]

    def score_folder(self, benchmark: str, model: str | None, seed: int) -> Path:
        """Where the result of a benchmark lies."""
        folder = self.root / "benchmarks" / benchmark
        return folder if model is None else folder / model / f"seed{seed}"

    def scores(self, benchmark: str, model: str | None, seed: int = 0) -> dict[str, Any] | None:
        """``metrics.json``; without a model that of the comparison of vocabularies."""
        path = self.score_folder(benchmark, model, seed) / "metrics.json"
        wanted = {"benchmark": benchmark}
        return _metrics(path, wanted if model is None else wanted | {"model": model, "seed": seed})

    def agreement_folder(self, dataset: str, reference: str) -> Path:
        """Where a comparison of report labels with given ones lies."""
        return self.root / "benchmarks/label_agreement" / dataset / reference

    def agreement(self, dataset: str, reference: str) -> dict[str, Any] | None:
        """``metrics.json`` of such a comparison."""
        path = self.agreement_folder(dataset, reference) / "metrics.json"
        found = _metrics(path, {"benchmark": "label_agreement"})
        if found is not None:
            expect(path, found["data"], {"name": dataset})
            expect(path, found["protocol"], {"reference": reference})
        return found

    def all_scores(self, benchmark: str, model: str) -> list[dict[str, Any]]:
        """The results of every seed of a model that are there."""
        seeds = self.config.seeds_of(model)
        found = [self.scores(benchmark, model, seed) for seed in seeds]
        return [one for one in found if one is not None]


def _metrics(path: Path, wanted: Mapping[str, Any]) -> dict[str, Any] | None:
    found = read_if_there(path, ("benchmark", "model", "seed", "data", "protocol", "metrics"))
    if found is not None:
        expect(path, found, wanted)
        _need(path, found["data"], "data", ("name", "synthetic"))
        for name, entry in found["metrics"].items():
            _need(path, entry, f"metrics.{name}", ("value", "low", "high", "n"))
    return found


def _read_log(path: Path) -> Iterator[dict[str, Any]]:
    if not path.is_file():
        raise InputError(f"{path}: file not found, though its run.json is there")
    with open(path, encoding="utf-8") as handle:
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
