"""Trainings: what started from what, what each took, and its curves."""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from cxr_files.atomic import fingerprint
from cxrflow.models.run_record import beside_twins, learnt
from cxrflow.pretrain.registry import TERMS
from cxrflow.show.page.inputs import RunFolder, Training
from cxrflow.show.page.svg import ChartLine, line_chart

POINTS = 64  # of a training curve; more are averaged in equal groups
NOT_TERMS = {"step", "split", "epoch", "time", "data_wait", "learning_rate"}


def thinned(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[float], list[float]]:
    """At most ``POINTS`` points: means of equal groups of neighbours, placed at their last x."""
    size = max(1, math.ceil(len(xs) / POINTS))
    groups = range(0, len(xs), size)
    return (
        [xs[min(start + size, len(xs)) - 1] for start in groups],
        [sum(ys[start : start + size]) / len(ys[start : start + size]) for start in groups],
    )


def term_names(logs: Iterable[Sequence[Mapping[str, Any]]]) -> list[str]:
    """The objective and its terms; a single term that is the objective is not shown twice.

    What a term logs beside its loss (``cutmix/mixed``) is no term.
    """
    entries = [entry for log in logs for entry in log]
    names = dict.fromkeys(name for entry in entries for name in entry if name not in NOT_TERMS)
    terms = [name for name in names if name != "loss" and "/" not in name]
    same = all(
        math.isclose(entry["loss"], entry[terms[0]], rel_tol=1e-6)
        for entry in entries
        if len(terms) == 1 and "loss" in entry and terms[0] in entry
    )
    return terms if len(terms) == 1 and same else ["loss", *terms]


def _values(
    log: Sequence[Mapping[str, Any]], split: str, term: str
) -> tuple[list[float], list[float]]:
    """Steps and finite values: a loss of the validation may be infinite, and has no place."""
    rows = [
        entry
        for entry in log
        if entry["split"] == split and math.isfinite(entry.get(term, math.nan))
    ]
    return [row["step"] for row in rows], [row[term] for row in rows]


def _best(training: Training, term: str) -> Callable[[Iterable[float]], float]:
    """Return what picks the best of a term's values: the least, or the most of a watched score."""
    stopping = training.run.get("settings", {}).get("training", {}).get("stopping", {})
    return max if (stopping.get("monitor"), stopping.get("mode")) == (term, "max") else min


def curve(trainings: Mapping[int, Training], term: str) -> dict[str, Any] | None:
    """A chart of one term, all seeds, and its numbers in words and rows."""
    series, rows = [], []
    for seed, training in trainings.items():
        ys_of: dict[str, list[float]] = {}
        for split in ("train", "validate"):
            xs, ys = _values(training.log, split, term)
            if xs:
                ys_of[split] = ys
                if split == "train":
                    xs, ys = thinned(xs, ys)
                dots = split == "validate"
                series.append(ChartLine(f"{split}, seed {seed}", split, xs, ys, dots))
        train, validated = ys_of.get("train"), ys_of.get("validate")
        untrained = {name: ranks for name, _, ranks, _ in beside_twins(training.run)}
        rows.append(
            {
                "seed": seed,
                "permuted": learning(training).get(term, {}).get("permuted"),
                "rank": learning(training).get(term, {}).get("rank"),
                "untrained": untrained.get(term),
                "first": train and train[0],
                "last": train and train[-1],
                "validate": validated and validated[-1],
                "best": validated and _best(training, term)(validated),
            }
        )
    if not series:
        return None
    name = term_title(term)
    summary = "; ".join(
        f"seed {row['seed']}: training from {_short(row['first'])} to {_short(row['last'])}, "
        f"validation at the end {_short(row['validate'])}"
        for row in rows
    )
    kept_steps = {training.run.get("kept_step") for training in trainings.values()}
    marker = kept_steps.pop() if len(kept_steps) == 1 else None
    chart = line_chart(series, f"{name} by step: {summary}.", "step", marker=marker)
    return {"name": name, "chart": chart, "rows": rows}


def term_title(name: str) -> str:
    """Return the page's name of a term, the objective (``loss``) or a validation value."""
    if name in TERMS:
        return TERMS[name].title
    return "Objective" if name == "loss" else name.replace("_", " ")


def _short(value: float | None) -> str:
    return "not measured" if value is None else f"{value:.3g}"


def learning(training: Training) -> dict[str, Any]:
    """Return what a training says of each term and its pairs; empty if not assessed."""
    terms: dict[str, Any] = training.run.get("permuted_pairs", {}).get("terms", {})
    return terms


def unlearnt(trainings: Mapping[int, Training]) -> list[str]:
    """Name the terms of each seed that has not learnt and how they were judged, in words."""
    words = []
    for seed, training in trainings.items():
        beside = {
            name: f"{term_title(name)} (rank of the true pair {rank:.3f}; of untrained starts "
            f"{min(untrained):.3f} to {max(untrained):.3f}, p = {p:.2g})"
            for name, rank, untrained, p in beside_twins(training.run)
        }
        permuted = {
            name: f"{term_title(name)} ({term['loss']:.4g}; of permuted pairs one in twenty is "
            f"below {term['permuted']['low']:.4g}, p = {term['p']:.2g})"
            for name, term in learning(training).items()
            if term["p"] is not None
        }
        if learnt(training.run) is False:
            words.append(f"seed {seed}: {', '.join((permuted | beside).values())}")
    return words


def resting(trainings: Mapping[int, Training]) -> list[str]:
    """Name the terms of each seed that were 0 at every step, and classes without a mixed pair.

    Named too are terms that begin later than the weights that were kept.
    """
    words = []
    for seed, training in trainings.items():
        steps = [line for line in training.log if line["split"] == "train"]
        names = dict.fromkeys(name for line in steps for name in line if name not in NOT_TERMS)
        zero = [name for name in names if not any(line.get(name) for line in steps)]
        terms = [term_title(name) for name in zero if "/" not in name]
        classes = [name.rpartition("/")[2] for name in zero if "/pairs/" in name]
        if terms:
            words.append(f"seed {seed}: {', '.join(terms)} was 0 at every step")
        elif classes:
            words.append(f"seed {seed}: no pair of {', '.join(classes)}")
        words += [f"seed {seed}: {late}" for late in _begun_late(training)]
    return words


def _begun_late(training: Training) -> list[str]:
    """Say which terms begin after the step whose weights were kept, as the best of a score."""
    step = training.run.get("kept_step")
    epoch = next((line["epoch"] for line in training.log if line["step"] == step), None)
    terms = training.run.get("settings", {}).get("terms", {})
    return [
        f"the weights that were kept are of epoch {epoch:g}, and {term_title(name)} begins after "
        f"epoch {term['warmup_epochs']}: they are those of a training without it"
        for name, term in terms.items()
        if epoch is not None and (term or {}).get("warmup_epochs", 0) >= epoch
    ]


def model(
    run: RunFolder, name: str, trainings_by_model: Mapping[str, Mapping[int, Training]]
) -> dict[str, Any]:
    """A model's curves and settings; ``trainings_by_model`` lacks it where it was not trained."""
    recipe, trainings = run.config.models[name].recipe, trainings_by_model.get(name, {})
    parents = list(run.config.models[name].parents.values())
    terms = term_names([training.log for training in trainings.values()]) if trainings else []
    curves = [curve(trainings, term) for term in terms]
    return {
        "name": name,
        "kind": recipe.kind.title,
        "control": recipe.control,
        "parents": parents,
        "unlearnt": unlearnt(trainings),
        "resting": resting(trainings),
        "assessed": all(map(learning, trainings.values())),
        "unlearnt_parents": [
            parent for parent in parents if unlearnt(trainings_by_model.get(parent, {}))
        ],
        "imported": run.config.models[name].imported,
        "notice": next(
            (training.run["data"].get("notice") for training in trainings.values()), None
        ),
        "curves": [each for each in curves if each is not None],
        "trained": bool(trainings),
        "seconds": sum(training.run["seconds"] for training in trainings.values()),
        "samples": next(
            (training.run["data"].get("train_samples") for training in trainings.values()), None
        ),
        "settings": run.resolved["models"][name]["settings"],
        "fingerprint": fingerprint(run.resolved["models"][name]["settings"]),
    }


def _rate(value: float) -> str:
    """A rate as text; models of images have none in tokens."""
    return "–" if not value else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def speed(run: Mapping[str, Any]) -> dict[str, Any]:
    """Speed as ``run.json`` records it (docs/performance.md); None where it records none."""
    flops = run.get("flops_per_second")
    return {
        "samples_rate": _rate(run["samples_per_second"]),
        "tokens_rate": _rate(run["tokens_per_second"]),
        "gigaflops_rate": _rate(0 if flops is None else flops / 1e9),
        **{name: run.get(name) for name in ("mfu", "data_wait_share", "precision")},
    }


def run_rows(trainings: Mapping[str, Mapping[int, Training]]) -> list[dict[str, Any]]:
    """One row a training, for the tables of runs."""
    return [
        {"model": name, "seed": seed} | training.run | speed(training.run)
        for name, seeds in trainings.items()
        for seed, training in seeds.items()
    ]


def outline(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Models, each after and one step to the right of the parent with the longest way to it."""
    depths: dict[str, int] = {}

    def depth(name: str) -> int:
        if name not in depths:
            depths[name] = 1 + max(
                (depth(parent) for parent in parents[name] if parent in parents), default=-1
            )
        return depths[name]

    above = {name: max((p for p in ps if p in parents), key=depth, default=None)
             for name, ps in parents.items()}  # fmt: skip
    ordered: dict[str, int] = {}

    def visit(parent: str | None) -> None:
        for name, deepest in above.items():
            if deepest == parent:
                ordered[name] = depth(name)
                visit(name)

    visit(None)
    return ordered


def models(
    run: RunFolder,
    names: Sequence[str],
    trainings_by_model: Mapping[str, Mapping[int, Training]],
    shown_models: Collection[str],
) -> list[dict[str, Any]]:
    """The models of a paper as an outline of what started from what, less what is shown already."""
    new_names = [name for name in names if name not in shown_models]
    depths = outline({name: list(run.config.models[name].parents.values()) for name in new_names})
    return [
        model(run, name, trainings_by_model) | {"depth": depth} for name, depth in depths.items()
    ]
