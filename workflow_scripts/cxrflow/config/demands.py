"""What the trainings and evaluations of a run ask of its cohorts, as the configuration says it."""

import json
from collections.abc import Iterable
from typing import Any

from cxrflow.config.configuration import Config

# Values of a training that have no say in which rows it reads.
APART = frozenset(
    {"attention_dropout", "augmentation", "dropout", "frozen_layers", "length", "text_augmentation"}
)
READ = ("batch_size", "sampler")  # of `training`


def asked_rows(
    config: Config, models: Iterable[str], tasks: Iterable[str]
) -> dict[str, list[dict[str, Any]]]:
    """By cohort, the fields of :class:`cxrflow.data.cohorts.demands.Demand`; equal ones once."""
    by_cohort: dict[str, dict[str, dict[str, Any]]] = {}

    def ask(
        cohort: str, asker: str, room: str, name: str, settings: dict[str, Any], **more: Any
    ) -> None:
        deciding = {key: value for key, value in settings.items() if key not in APART}
        if "training" in deciding:
            deciding["training"] = {key: settings["training"].get(key) for key in READ}
        key = json.dumps([room, name, deciding, more], sort_keys=True)
        demand = {"room": room, "name": name, "settings": settings, "askers": [], "more": more}
        askers = by_cohort.setdefault(cohort, {}).setdefault(key, demand)["askers"]
        if asker not in askers:
            askers.append(asker)

    def ask_task(asker: str, name: str) -> None:
        task = config.tasks[name]
        scoring = task.computed[-1]  # of a series of checkpoints, what scores each of them
        benchmark = dict(task.settings)["benchmark"] if task.benchmark.of_task else None
        benchmark, settings = benchmark or task.task.benchmark, task.settings
        values = task.scored_by if task.benchmark.of_task else settings.model_dump(mode="json")
        if scoring.needs:
            ask(task.cohort, asker, "benchmarks", benchmark, values)
        if scoring.training and task.task.training:
            ask(task.task.training, asker, "benchmarks", benchmark, values, learnt=True)

    for name in models:
        model = config.models[name]
        if not model.trained:
            continue
        if model.recipe.cohort is not None:
            values = model.settings.model_dump(mode="json")
            more: dict[str, Any] = {"packed": bool(model.corpora)}
            if values.get("training_subset", "shared") == "each":
                more["seeds"] = model.seeds
            # With it what shares its training would be left out, as another would take its place.
            for asker in (name, *(n for n, first in config.models.same.items() if first == name)):
                ask(
                    model.recipe.cohort,
                    asker,
                    "pretrain",
                    model.recipe.program,
                    values,
                    **more,
                )
        if model.selecting_cohort is not None and model.recipe.selection is not None:
            ask_task(name, model.recipe.selection)
    for name in tasks:
        ask_task(name, name)
    return {cohort: list(demands.values()) for cohort, demands in by_cohort.items()}
