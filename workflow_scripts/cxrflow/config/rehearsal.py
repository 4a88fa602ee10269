"""A rehearsal of a run: each kind of its jobs once, on a slice of its data, for a few steps.

It is the same configuration with sizes laid over it: results in a folder of their own, one seed,
short trainings, few resamples, iterations and epochs. Of models that differ in values alone
(shares, seeds, rates) one is made, and one cell of a benchmark for each program and kind of image
encoder. The sizes of its data its jobs find in the environment (:mod:`cxrflow.data.slices`).
"""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cxr_files.settings import Settings, overlay
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.settings import IntervalSettings
from cxrflow.config.configuration import Config
from cxrflow.config.models import ResolvedModel, Selection
from cxrflow.config.parts import RULES, Rehearsal, Resources
from cxrflow.data.cohorts.settings import Sizes
from cxrflow.images.geometry import Geometry
from cxrflow.names import is_reference
from cxrflow.training.settings import TrainingSettings

REPLICATES = 100
# Lengths of what is fitted in a benchmark, by the names of their settings.
LENGTHS = {"epochs": 1, "max_iterations": 50, "validate_steps": 2, "warmup_steps": 1}
SEEDS = ("run_seeds", "probe_seeds", "seeds")  # of what is fitted in a benchmark; two are kept
FOLDER = "rehearsal"  # below the results


def rehearsal_of(config: Config) -> Config:
    """The rehearsal of a run where its configuration asks for it; else the run itself."""
    values, rehearsal = config.values, config.values.rehearsal
    if rehearsal is None:
        return config
    selection = representatives(config)
    models, tasks = dict(values.models), dict(values.tasks)
    for name in selection.models:
        model = config.models[name]
        if not model.imported:
            models[name] = overlay(models.get(name, {}), _short_model(model, rehearsal))
    for name in config.whole.tasks:
        task = config.tasks[name]
        short = dict(_short(task.settings, rehearsal))
        if task.benchmark.of_task:  # of each checkpoint
            inner = dict(task.settings)
            settings = BENCHMARKS[inner["benchmark"]].settings.model_validate(inner["settings"])
            short["settings"] = dict(_short(settings, rehearsal))
        tasks[name] = overlay(tasks.get(name, {}), short)
    fewer, once = {"replicates": REPLICATES}, {"retries": 0}
    resources = {**dict.fromkeys(RULES, Resources()), **values.resources}
    agreement = values.label_agreement
    changes = {
        "models": models,
        "tasks": tasks,
        "extent": "all",
        "seeds": (values.seeds or [0])[:1],
        "runs": {},
        "shared_models": "once",
        "paired_tests": values.paired_tests.model_copy(update=fewer),
        "label_agreement": agreement.model_copy(
            update={"intervals": agreement.intervals.model_copy(update=fewer)}
        ),
        # What fails is said, not tried again; of evaluations `evaluate` says it.
        "resources": {
            name: each.model_copy(update=once) if name in RULES else each
            for name, each in resources.items()
        },
        "pathvars": {"results": str(Path(values.results, FOLDER))},
    }
    return Config(values.model_copy(update=changes), selection)


def sizes(config: Config) -> Sizes:
    """How much of the data the jobs of a rehearsal read: a batch of each training at least."""
    rehearsal = config.values.rehearsal
    assert rehearsal is not None
    training: dict[str, int] = {}
    for name in config.whole.models:
        model = config.models[name]
        if model.trained and model.recipe.cohort is not None:
            rows = _training(model.settings).batch_size / (model.recipe.share / 100)
            cohort = model.recipe.cohort
            training[cohort] = max(training.get(cohort, rehearsal.samples), round(rows))
    reports = max(rehearsal.reports, *(4 * rows for rows in training.values()), 0)
    return Sizes(reports=reports, samples=rehearsal.samples, training=training)


# --- sizes ----------------------------------------------------------------------------------------


def _training(settings: Any) -> TrainingSettings:
    training: TrainingSettings = settings.training
    return training


def _short_model(model: ResolvedModel, rehearsal: Rehearsal) -> dict[str, Any]:
    """What is laid over the settings of a training, and the geometry of its pixels."""
    settings, geometry = model.settings, model.geometry
    short = dict(_short(settings, rehearsal))
    ghost = getattr(settings, "ghost_batch", None)
    if ghost is not None and short["training"]["batch_size"] % ghost:
        short["ghost_batch"] = short["training"]["batch_size"]
    if getattr(settings, "written_validation", 0):
        short["written_validation"] = min(rehearsal.samples, short["training"]["batch_size"])
    # The positions of a vision transformer are of its own grid.
    if geometry is not None and not hasattr(getattr(settings, "encoder", None), "grid"):
        short["geometry"] = _small(geometry, rehearsal)
        augmentation = getattr(settings, "augmentation", None)
        size = getattr(augmentation, "size", None)
        if augmentation is not None and size is not None:
            edges = Geometry.parse(geometry).size, Geometry.parse(short["geometry"]).size
            values = augmentation.model_dump(mode="json")
            short["augmentation"] = {**values, "size": size * edges[1] // edges[0]}
    return short


def _small(geometry: str, rehearsal: Rehearsal) -> str:
    """A geometry whose edge is no longer than is asked for, and its crop in proportion."""
    edge, image = Geometry.parse(geometry).size, rehearsal.image
    if image is None or edge <= image:
        return geometry
    return re.sub(r"\d+", lambda number: str(int(number[0]) * image // edge), geometry)


def _short(settings: Settings, rehearsal: Rehearsal) -> Iterator[tuple[str, Any]]:
    """Yield what is laid over settings, by field; of inner ones all, as they may be defaults."""
    for name in type(settings).model_fields:
        value = getattr(settings, name)
        if isinstance(value, Settings):
            inner = dict(_short(value, rehearsal))
            if isinstance(value, TrainingSettings):
                inner = _short_training(value, rehearsal)
            elif isinstance(value, IntervalSettings):
                inner = {"replicates": REPLICATES}
            if inner:
                yield name, overlay(value.model_dump(mode="json"), inner)
        elif name in LENGTHS and isinstance(value, int):
            yield name, min(value, LENGTHS[name])
        elif name in SEEDS:
            yield name, value[:2]
        elif name == "geometry" and value is not None:
            yield name, _small(value, rehearsal)


def _short_training(training: TrainingSettings, rehearsal: Rehearsal) -> dict[str, Any]:
    batch = min(training.batch_size, rehearsal.batch or training.batch_size)
    short: dict[str, Any] = {
        "epochs": None,
        "steps": rehearsal.steps,
        "validate_steps": rehearsal.steps,
        "validation_batches": 1,
        "log_steps": 1,
        "batch_size": batch,
        "accumulate": min(training.accumulate, batch),
    }
    if training.sampler.shares is not None:
        short["sampler"] = {"shares": min(training.sampler.shares, batch)}
    if training.checkpoint_validations is not None:
        # A series of them is scored, which wants three.
        short |= {"checkpoint_validations": 1, "validate_steps": 1}
    return short


# --- which models and cells -----------------------------------------------------------------------


def representatives(config: Config) -> Selection:
    """One model of each kind, with its ancestors, and one cell of each kind; each cohort once."""
    chosen: dict[str, None] = {}
    kinds: set[Any] = set()

    def choose(name: str) -> None:
        for ancestor in config.models[name].ancestors:
            chosen[ancestor] = None
            kinds.add(kind_of(config.models[ancestor]))

    for name in config.whole.models:
        if kind_of(config.models[name]) not in kinds:
            choose(name)
    cells: dict[Any, tuple[str, str]] = {}
    for task, row in config.cells:
        if row is None:
            continue
        benchmark = config.library.tasks[task].benchmark
        if row not in config.models:
            cells.setdefault((benchmark if is_reference(row) else task, row), (task, row))
            continue
        model = config.models[row]
        for key in ((task,), (benchmark, _compared(model))):
            # A model that is made anyhow rather than another one.
            if key not in cells or (cells[key][1] not in chosen and row in chosen):
                cells[key] = (task, row)
    for _, row in cells.values():
        if row in config.models:
            choose(row)
    read = {config.models[name].recipe.cohort for name in chosen}
    for name in config.whole.models:
        cohort = config.models[name].recipe.cohort
        if cohort is not None and cohort not in read:
            choose(name)
            read.add(cohort)
    names = [name for name in config.models if name in chosen]
    return Selection(names, frozenset(cells.values()))


def kind_of(model: ResolvedModel) -> Any:
    """What tells a model from others that differ in values alone."""
    settings = model.settings.model_dump(mode="json")
    structure = {name: settings.get(name) for name in ("encoder", "decoder", "terms")}
    return model.recipe.program, model.imported and model.name, _shape(structure)


def _compared(model: ResolvedModel) -> Any:
    """What a benchmark meets: a program's model, by its image encoder, projections, similarity."""
    encoder = getattr(model.settings, "encoder", None)
    head = getattr(getattr(encoder, "projection_head", None), "kind", None)
    similarity = getattr(getattr(model.settings, "terms", None), "similarity", None)
    return model.recipe.program, getattr(encoder, "kind", None), head, str(similarity)


def _shape(value: Any) -> Any:
    """Which keys have a value, and the kinds that are named; no other value."""
    if isinstance(value, dict):
        return tuple(
            (key, inner if key == "kind" else _shape(inner)) for key, inner in sorted(value.items())
        )
    return value is not None


def targets(config: Config) -> Iterable[str]:
    """What Snakemake is asked for in a rehearsal."""
    yield from ("all", "labels")
    for name in config.whole.models:
        for seed in config.models[name].seeds:
            yield f"{config.values.results}/models/{name}/seed{seed}/run.json"
