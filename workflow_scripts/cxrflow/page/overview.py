"""The top of the page: which data, what was run, and the few numbers people look for first."""

import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cxrflow import __version__
from cxrflow.page.inputs import RunFolder, Training

# Fewer training pairs than this show that the path works, not how well the method does: published
# models were trained on a hundred thousand and more.
FEW_PAIRS = 5000


@dataclass(frozen=True)
class Headline:
    """A number to begin with: which benchmark, which metric, how it is printed."""

    benchmark: str
    metric: str
    label: str
    meaning: str
    scale: float = 1.0
    digits: int = 2
    unit: str = ""


HEADLINES = (
    Headline(
        "zero_shot_classification", "auroc", "Zero-shot AUROC",
        "pneumonia from two sentences; 0.5 is chance",
    ),
    Headline(
        "phrase_grounding", "cnr", "Mean CNR",
        "phrase grounding: contrast of the boxes to the rest, without its sign: chance is above 0",
    ),
    Headline(
        "phrase_grounding", "miou", "Mean IoU",
        "phrase grounding: overlap of similarity map and boxes", digits=3,
    ),
    Headline(
        "mask_prediction", "mask_accuracy", "Masked tokens right",
        "top-1, in reports never trained on", scale=100, digits=1, unit=" %",
    ),
)  # fmt: skip


def data_kinds(run: RunFolder, flows: Mapping[str, dict[str, Any] | None]) -> dict[str, bool]:
    """Whether each data set in use is synthetic: as its products say, else the configuration."""
    kinds = {name: run.config.datasets[name].synthetic for name in run.config.datasets_in_use()}
    for name in run.corpus_names():
        corpus = run.corpus(name)
        if corpus is not None:
            kinds[name] = bool(corpus["synthetic"])
    for flow in flows.values():
        if flow is not None:
            kinds[flow["dataset"]] = bool(flow["synthetic"])
    return kinds


def training_pairs(run: RunFolder, flows: Mapping[str, dict[str, Any] | None]) -> int | None:
    """Training studies of the cohort that the last stage learns from."""
    flow = flows.get(run.config.roles.pairs or run.config.roles.reports)
    return None if flow is None else flow["splits"].get("train", {}).get("studies")


def shown_model(run: RunFolder) -> str | None:
    """The model whose numbers lead: the one named like its paper, else its last joint one."""
    for paper in run.config.papers:
        candidates = [
            name
            for name in run.config.models_of(paper)
            if run.config.recipes[name].program == "joint"
        ]
        if paper in candidates:
            return paper
        if candidates:
            return candidates[-1]
    return None


def headline_cards(run: RunFolder) -> list[dict[str, Any]]:
    """Each headline with its value, interval and the same number of other models."""
    leading = shown_model(run)
    cards = []
    for headline in HEADLINES:
        if not run.config.available(headline.benchmark):
            continue
        found = {
            name: _value(headline, run.all_scores(headline.benchmark, name))
            for name in run.models
            if headline.benchmark in run.config.benchmarks_of(name)
        }
        known = {name: value for name, value in found.items() if value is not None}
        if not known:
            continue
        first = leading if leading in known else next(iter(known))
        cards.append(
            {
                "headline": headline,
                "model": first,
                "shown": known.pop(first),
                "others": [
                    {
                        "model": name,
                        "control": run.config.recipes[name].control,
                        "value": value["value"],
                    }
                    for name, value in known.items()
                ],
            }
        )
    return cards


def _value(headline: Headline, scores: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Mean over seeds as text; the interval is the mean of the seeds' ends, as in the tables."""
    entries = [one["metrics"].get(headline.metric) for one in scores]
    entries = [entry for entry in entries if entry and entry["value"] is not None]
    if not entries:
        return None

    def text(value: float) -> str:
        return f"{value * headline.scale:.{headline.digits}f}".replace("-", "−")

    values = [entry["value"] for entry in entries]
    ends = [[e[end] for e in entries if e.get(end) is not None] for end in ("low", "high")]
    return {
        "value": text(statistics.mean(values)) + headline.unit,
        "spread": text(statistics.stdev(values)) if len(values) > 1 else None,
        "interval": " to ".join(text(statistics.mean(end)) for end in ends) if all(ends) else None,
        "seeds": len(values),
        "n": entries[0].get("n"),
        "data": scores[0]["data"]["name"],
    }


def overview(
    run: RunFolder,
    flows: Mapping[str, dict[str, Any] | None],
    trainings: Mapping[str, Mapping[int, Training]],
) -> dict[str, Any]:
    """Everything above the first chapter."""
    kinds = data_kinds(run, flows)
    pairs = training_pairs(run, flows)
    runs = [found.run for seeds in trainings.values() for found in seeds.values()]
    versions = sorted({str(one.get("code_version", "not recorded")) for one in runs})
    finished = max((str(one["finished"]) for one in runs if one.get("finished")), default=None)
    synthetic = sorted(name for name, drawn in kinds.items() if drawn)
    real = sorted(name for name, drawn in kinds.items() if not drawn)
    return {
        "papers": [
            {"name": name, "tables": len(run.config.tables(name))} for name in run.config.papers
        ],
        "synthetic": synthetic,
        "real": real,
        "pairs": pairs,
        "few": bool(real) and pairs is not None and pairs < FEW_PAIRS,
        "reveals": [
            what
            for what, allowed in (
                ("radiographs", run.privacy.images(False)),
                ("report text", run.privacy.text(False)),
            )
            if real and allowed
        ],
        "scale": run.config.scale,
        "seeds": run.config.seeds,
        "finished": finished,
        "versions": versions or [__version__],
        "seconds": sum(float(one.get("seconds", 0)) for one in runs),
        "trained": len(runs),
        "cards": headline_cards(run),
    }
