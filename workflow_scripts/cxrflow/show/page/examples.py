"""Pictures of the benchmarks: example heat maps, ROC curves.

Example pictures show radiographs and their titles report text; both only go into the page where
``privacy:`` of the configuration allows it. Curves are of whole cohorts and always shown.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxr_files.atomic import read_json
from cxr_files.errors import InputError
from cxrflow.names import short_name
from cxrflow.show.page.album import Album
from cxrflow.show.page.inputs import RunFolder
from cxrflow.show.page.svg import ChartLine, line_chart

ROC_POINTS = 150
CHARTED = 4  # models of one chart: as many colours can be told apart


@dataclass(frozen=True)
class Scored:
    """The first task of a paper with a given benchmark, and its models, the leading one first.

    Tasks of several classes have no picture here.
    """

    task: str
    models: tuple[str, ...]

    @classmethod
    def of(cls, run: RunFolder, paper: str, benchmark: str) -> "Scored | None":
        """Return None if the paper shows no model in such a task."""
        results = run.scored[paper]
        recipes = run.config.library.tasks
        tasks = [
            task
            for task, model in results
            if model in run.config.models
            and recipes[task].benchmark == benchmark
            and not _of_classes(run, task)
        ]
        if not tasks:
            return None
        scored = [model for task, model in results if task == tasks[0]]
        models = [model for model in scored if model is not None and model in run.config.models]
        # The one named like its paper leads.
        models.sort(key=lambda name: name != f"{paper}/{paper}")
        return cls(tasks[0], tuple(models))


def _of_classes(run: RunFolder, task: str) -> bool:
    """True if a task is of several classes, which no single curve shows.

    It names them, or takes all of its cohort's by a published set of prompts.
    """
    settings = run.config.tasks[task].settings
    classes, prompts = (getattr(settings, name, None) for name in ("classes", "prompts"))
    return len(classes or ()) > 1 or (classes is None and prompts is not None)


def grounding_examples(run: RunFolder, scored: Scored, album: Album) -> dict[str, Any] | None:
    """Example pictures of the leading model (first seed), as many as fit into the page.

    None if it was scored and its task draws none.
    """
    name = scored.models[0]
    seed = run.config.models.seeds_of(name)[0]
    content: dict[str, Any] = {
        "model": name, "seed": seed, "pictures": [], "left_out": 0, "hidden": False,
    }  # fmt: skip
    scores = run.scores(scored.task, name, seed)
    if scores is None:
        return content
    synthetic = bool(scores["data"]["synthetic"])
    if not run.permits("images", synthetic):
        return content | {"hidden": True}
    text = run.permits("text", synthetic)
    folder = run.score_folder(scored.task, name, seed) / "figures"
    for entry in drawn_pictures(folder / "examples.json"):
        uri = album.uri(folder / entry["file"], sheet=True)
        if uri is None:
            content["left_out"] += 1
            continue
        rank = entry["caption"].split(" ", 1)[0].lower()
        content["pictures"].append(
            {
                "uri": uri,
                "title": entry["title"] if text else entry["category"],
                "caption": entry["caption"],
                "category": entry["category"],
                "rank": rank if rank in ("best", "median", "worst") else "",
            }
        )
    return content if content["pictures"] or content["left_out"] else None


def drawn_pictures(path: Path) -> list[dict[str, Any]]:
    """The pictures that a benchmark has drawn; [] if there are none."""
    if not path.is_file():
        return []
    entries = read_json(path)
    if not isinstance(entries, list):
        raise InputError(f"{path}: expected a list, found {type(entries).__name__}")
    for number, entry in enumerate(entries):
        for field in ("file", "title", "caption", "category", "cnr"):
            if field not in entry:
                raise InputError(f"{path}: entry {number}: field '{field}' is missing")
        if Path(str(entry["file"])).name != entry["file"]:
            raise InputError(
                f"{path}: entry {number}: 'file' is {entry['file']!r}, expected a bare name"
            )
    return entries


def roc_curves(run: RunFolder, scored: Scored) -> dict[str, Any] | None:
    """ROC curves of zero-shot classification: the first models in one chart (first seed)."""
    series: list[ChartLine] = []
    legend: list[dict[str, Any]] = []
    for name in scored.models:
        seed = run.config.models.seeds_of(name)[0]
        scores = run.scores(scored.task, name, seed)
        if scores is None or len(legend) == CHARTED:
            continue
        folder = run.score_folder(scored.task, name, seed)
        if "auroc" not in scores["metrics"]:
            raise InputError(f"{folder / 'metrics.json'}: field 'metrics.auroc' is missing")
        points = _roc(folder / "predictions.parquet")
        if points is None:
            continue
        xs, ys = points
        style = f"series{len(legend)}"
        series.append(ChartLine(short_name(name), style, xs, ys))
        legend.append(
            {
                "style": style,
                "name": short_name(name),
                "auroc": scores["metrics"]["auroc"],
                "prompts": [
                    *scores["protocol"].get("positive_prompts", []),
                    *scores["protocol"].get("negative_prompts", []),
                ],
            }
        )
    if not series:
        return None
    values = "; ".join(
        f"{item['name']} AUROC {item['auroc']['value']:.3f}"
        for item in legend
        if item["auroc"]["value"] is not None
    )
    chart = line_chart(
        series,
        f"ROC curves: {values}.",
        "false positive rate",
        y_label="true positive rate",
        height=286,
        x_range=(0, 1),
        y_range=(0, 1),
        diagonal=True,
    )
    return {"chart": chart, "legend": legend}


def _roc(path: Path) -> tuple[list[float], list[float]] | None:
    """False and true positive rates; None if there are several classes."""
    import numpy as np

    from cxr_files.parquet import read_table
    from cxrflow.metrics.classification import roc_curve
    from cxrflow.metrics.operating_points import operating_points

    table = read_table(path)
    if any(str(name).startswith("label/") for name in table):
        return None
    missing = {"label", "score"} - set(table)
    if missing:
        raise InputError(f"{path}: column '{min(missing)}' is missing")
    try:
        false_rate, true_rate = roc_curve(operating_points(table["label"], table["score"]))
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    if not (np.isfinite(false_rate).all() and np.isfinite(true_rate).all()):
        raise InputError(f"{path}: column 'label' holds one class; a ROC curve needs both")
    chosen = np.unique(np.linspace(0, len(false_rate) - 1, ROC_POINTS).round().astype(int))
    return false_rate[chosen].tolist(), true_rate[chosen].tolist()
