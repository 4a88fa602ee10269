"""What must hold between a configuration's parts and its papers, beyond the types of values.

No patient that a task scores is trained on, every set of reports is split by patient, names refer
to something. Each check raises a ``ValueError`` whose text begins with the key and a colon.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from cxrflow.config.label_comparisons import KEY, label_comparisons
from cxrflow.config.weights import check_weights
from cxrflow.data.layouts import holders
from cxrflow.data.layouts.overlap import Rows, overlap
from cxrflow.data.settings import SPLITS

if TYPE_CHECKING:
    from cxrflow.config.schema import Config


def check_all(config: "Config") -> None:
    """Every check, names first."""
    check_names(config)
    check_texts(config)
    check_task_cohorts(config)
    check_demographics(config)
    check_label_comparisons(config)
    check_weights(config)
    check_held_out(config)


def check_names(config: "Config") -> None:
    """Every name that the configuration lays something over exists in its papers."""
    library = config.library
    _known("models", config.models, library.models)
    _known("tasks", config.tasks, library.tasks)
    _known("cohorts", config.cohorts, library.cohorts)
    _known("vocabularies", config.vocabularies, library.vocabularies)
    scales = {
        "paper",
        *(scale for recipe in library.models.values() for scale in recipe.scales),
    }
    _known("scale", [config.scale], scales)
    if len(set(config.seeds)) != len(config.seeds):
        raise ValueError(f"seeds: {config.seeds} names a seed twice")


def _known(key: str, names: Iterable[str | None], known: Any) -> None:
    for name in names:
        if name is not None and name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise ValueError(f"{key}: '{name}' is not known; there are {there}")


def check_texts(config: "Config") -> None:
    """What is read as text has text, and a set of reports has a cohort that splits its patients."""
    for name in config.all_needs.text_datasets:
        layout = config.data.layout(name)
        if not (layout.reports or layout.documents):
            readable = ", ".join(holders("reports", "documents"))
            raise ValueError(
                f"datasets.{name}: has the layout {layout.name}, which has no text, but a paper "
                f"reads it as text; expected one of {readable}"
            )
    for name, paper in config.all_needs.documents:
        if config.data.layout(name).reports and not config.document_cohort(name, paper):
            raise ValueError(
                f"cohorts: '{name}' is a set of reports that {paper} reads as text, but none of "
                "its cohorts of kind pairs splits it by patient"
            )


def check_task_cohorts(config: "Config") -> None:
    """A task's cohorts are of the kind that its benchmark measures."""
    for name in config.tasks_in_use:
        task = config.task(name)
        for cohort in (task.task.cohort, task.task.training):
            kind = config.known_cohorts[cohort].recipe.kind if cohort else task.benchmark.kind
            if kind != task.benchmark.kind:
                raise ValueError(
                    f"tasks.{name}: cohort '{cohort}' is of kind {kind}, but "
                    f"{task.task.benchmark} needs one of kind {task.benchmark.kind}"
                )


def check_held_out(config: "Config") -> None:
    """No model is scored on patients it can have learnt from (BioViL section 4.1).

    Asked for each model and each task that a table puts it to.
    """
    for paper in config.chosen:
        for table in config.chosen[paper].tables:
            for task, model in config.table_cells(paper, table):
                if model is not None:
                    _check_pair(config, model, task)


def _check_pair(config: "Config", model: str, task: str) -> None:
    cohorts = {
        config.recipes[name].cohort for name in config.ancestors(model) if not config.imported(name)
    }
    trained = [_rows(config, name, "train") for name in cohorts if name is not None]
    scored = config.task(task)
    part = getattr(scored.settings, "split", None)
    evaluated = _rows(config, scored.task.cohort, *([part] if part else SPLITS))
    for rows in overlap(trained, evaluated).leaking:
        raise ValueError(
            f"cohorts.{rows.cohort}.held_out: '{evaluated.dataset}', on which {task} scores "
            f"{model}, has patients of '{rows.dataset}', on which it is trained; expected "
            f"'{evaluated.dataset}' in this list"
        )


def _rows(config: "Config", name: str, *parts: str) -> Rows:
    cohort = config.known_cohorts[name]
    return Rows(
        name,
        cohort.dataset,
        config.data.layout(cohort.dataset).name,
        config.data.drawn(cohort.dataset),
        cohort.holder,
        frozenset(cohort.held_out),
        cohort.recipe.split_rule,
        frozenset(parts),
    )


def check_demographics(config: "Config") -> None:
    """Demographics are MIMIC-IV's, and invented for invented patients only."""
    for name in config.tasks_in_use:
        recipe = config.library.tasks[name]
        place = config.data.at(recipe.demographics)
        if place is None:
            continue
        key = f"tasks.{name}.demographics"
        layout = config.data.layout(place)
        if "demographics" not in layout.holds:
            raise ValueError(
                f"{key}: '{place}' has the layout {layout.name}; expected one of "
                f"{', '.join(holders('demographics'))}"
            )
        annotated = config.known_cohorts[recipe.cohort].dataset
        drawn = [config.data.drawn(name) for name in (place, annotated)]
        if drawn[0] != drawn[1]:
            kinds = ("real", "synthetic")
            raise ValueError(
                f"datasets.{place}: is {kinds[drawn[0]]}, but the patients of '{annotated}' are "
                f"{kinds[drawn[1]]}; expected both alike, or null"
            )


def check_label_comparisons(config: "Config") -> None:
    """Report labels are compared on data sets of reports, with labels that have a place."""
    reports = sorted(name for name in config.data.present if config.data.layout(name).reports)
    for one in config.label_agreement.comparisons or ():
        if one.dataset not in reports:
            raise ValueError(
                f"{KEY}: '{one.dataset}' is no data set of reports; "
                f"there are {', '.join(reports) or 'none'}"
            )
    label_comparisons(config)
