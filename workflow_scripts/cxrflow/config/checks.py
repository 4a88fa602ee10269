"""Checks between the keys of a configuration and its papers, beyond the types of values.

Names refer to something, sets of reports are split by patient, no patient that a task scores is
trained on. Each check raises :class:`WrongKey`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.configuration import Config
from cxrflow.config.curation import check_curation
from cxrflow.config.held_out import check_held_out
from cxrflow.config.parts import RULES, Resources
from cxrflow.config.problems import Key, WrongKey, unknown
from cxrflow.config.trainings import check_training
from cxrflow.data.layouts import holders, layout
from cxrflow.names import REFERENCE, paper_of, short_name
from cxrflow.papers import load_paper, paper_names

# Where a paper's name stands, something else has these: folders, targets, the page of all papers,
# rules that ask for resources under another's name.
RESERVED = {REFERENCE, "label_agreement", "benchmarks", "index"}
RESERVED |= {"all", "labels", "controls", "released"}
RESERVED |= {"build_retrieval", "build_samples", "compare_labels", "join_pairs", "join_samples"}
ORDERINGS = "orderings"
# Of cohorts and vocabularies: what names data sets.
NAMING_FIELDS = ("dataset", "images", "held_out", "training", "documents")
CLASS_FIELDS = ("classes", "without", "class_prompts", "uncertain")  # of tasks
MOST_LISTED = 30  # classes in a message
OF_A_PAPER = "; a new one stands in a paper of yours (docs/extending.md)"


def check_all(config: Config) -> None:
    """Run every check, names first, and resolve every model that this run can train."""
    check_names(config)
    check_datasets(config)
    check_curation(config)
    check_weights(config)
    check_texts(config)
    check_task_cohorts(config)
    check_classes(config)
    check_metrics(config)
    check_demographics(config)
    check_held_out(config)
    check_folders(config)
    config.label_comparisons()
    for model in config.models.values():
        if model.trainable:
            check_training(config, model)


def check_names(config: Config) -> None:
    """Check that every overridden name exists in the chosen papers.

    Names of our other papers are allowed: one file of overrides serves several choices of papers.
    """
    for name, paper in config.library.chosen.items():
        if name in RESERVED or name in RULES:
            raise WrongKey(("papers",), f"'{name}' means something else in the workflow")
        if ORDERINGS in paper.tables:
            raise WrongKey(("papers",), f"a table of '{name}' is called '{ORDERINGS}', as another")
    library = config.library
    for key in ("models", "tasks", "cohorts", "vocabularies"):
        names = (name for name in getattr(config.values, key) if not _of_another_paper(key, name))
        _check_defined(key, names, getattr(library, key), OF_A_PAPER)
    weights = (n for n in config.values.weights if not _of_another_paper("models", n))
    _check_defined("weights", weights, library.models)
    scales = {scale for recipe in library.models.values() for scale in recipe.scales}
    if library.models:  # of files from elsewhere alone any scale is the same
        _check_defined("scale", [config.values.scale], {"paper", *scales})
    benchmarks = {*BENCHMARKS, *(task.benchmark for task in library.tasks.values())}
    entries = {n: entry for n, entry in config.values.resources.items() if "/" not in n}
    _check_defined("resources", entries, {*RULES, *benchmarks})
    _check_trainings(config)
    for name in benchmarks & config.values.resources.keys():
        if config.values.resources[name].retries != Resources().retries:
            rule = "evaluate" if BENCHMARKS[name].needs else "measure_data"
            why = f"its jobs are tried again as often as 'resources.{rule}.retries' says"
            raise WrongKey(("resources", name, "retries"), f"{why}; expected it there alone")
    for name, resources in entries.items():
        if not name.startswith("pretrain_") and (resources.processes, resources.nodes) != (1, 1):
            key = "nodes" if resources.nodes > 1 else "processes"
            raise WrongKey(("resources", name, key), "only trainings, pretrain_*, have several")
    check_left_out(config)
    _check_defined("runs", config.values.runs, {*library.chosen, *paper_names()})
    seeds = config.values.seeds or []
    if len(set(seeds)) != len(seeds):
        raise WrongKey(("seeds",), f"{seeds} names a seed twice")


def _check_trainings(config: Config) -> None:
    """Check what trainings ask for by their own names."""
    models = config.library.models
    for name, resources in config.values.resources.items():
        if "/" not in name or (name not in models and _of_another_paper("models", name)):
            continue
        _check_defined("resources", [name], models)
        rule = models[name].kind.rule
        if not rule.startswith("pretrain_"):
            raise WrongKey(("resources", name), f"is no training; its jobs ask as '{rule}' says")
        for key in {"retries", "nodes"} & resources.model_fields_set:
            raise WrongKey(
                ("resources", name, key), f"is said for all, by 'resources.{rule}.{key}'"
            )


def check_left_out(config: Config) -> None:
    """Check that ``leave_out`` names what is there."""
    library = config.library
    papers = {Path(source).stem for source in config.values.papers}
    names = {*papers, *library.models, *library.tasks}
    names |= {f"{name}/{table}" for name, paper in library.chosen.items() for table in paper.tables}
    for number, name in enumerate(config.values.leave_out):
        kinds = ("models", "tasks", "tables")
        if name not in names and not any(_of_another_paper(kind, name) for kind in kinds):
            raise WrongKey(
                ("leave_out", number),
                f"is '{name}', which is not there; expected a paper, or paper/name of a model, a "
                f"task or a table; papers are {', '.join(sorted(papers))}",
            )
    if not library.chosen:
        raise WrongKey(("leave_out",), "names all papers; expected one that is made")


def _of_another_paper(key: str, name: str) -> bool:
    """True if a name belongs to one of our papers, which this run may not include."""
    paper = paper_of(name)
    return paper in paper_names() and short_name(name) in getattr(load_paper(paper), key)


def _check_defined(
    key: str, names: Iterable[str], defined: Collection[str], hint: str = ""
) -> None:
    for name in names:
        if name not in defined:
            raise WrongKey((key,), unknown(name, defined) + hint)


def check_datasets(config: Config) -> None:
    """Check that every data set named by papers or overrides is under ``datasets``."""
    for dataset, key, file in _overlaid(config):
        if dataset not in config.data.known:
            raise WrongKey(key, unknown(dataset, config.data.known), file)
    for dataset, user in config.library.datasets():
        if dataset not in config.data.known:
            message = f"{user} reads {unknown(dataset, config.data.known)}"
            raise WrongKey(("datasets",), message)
    datasets = {dataset for dataset, _ in config.library.datasets()}
    by_place: dict[tuple[str, Path], str] = {}
    for name, data in config.data.present.items():
        if data.root is not None:
            place = config.data.layout(name).name, Path(data.root).resolve()
            first = by_place.setdefault(place, name)
            if first != name:  # its patients would be nobody else's, and yet be trained on
                message = f"is {data.root!r}, which is that of '{first}'; expected one name for it"
                raise WrongKey(("datasets", name, "root"), message)
        # A place that only papers which are not chosen name stands under `datasets`.
        for unnamed in sorted({*data.places} - datasets - {*config.values.datasets}):
            raise WrongKey(
                ("datasets", name, "in_place_of"),
                f"no paper names '{unnamed}'; they name {', '.join(sorted(datasets))}",
            )


def _overlaid(config: Config) -> Iterator[tuple[str, Key, Path | None]]:
    """The data sets that overrides and scales name, with the key and, of a scale, its file."""
    for kind in ("cohorts", "vocabularies"):
        for name, values in getattr(config.values, kind).items():
            for dataset, field in _named(values or {}):
                yield dataset, (kind, name, field), None
        for name, recipe in getattr(config.library, kind).items():
            for scale, sizes in recipe.scales.items():
                for dataset, field in _named(sizes):
                    place = (kind, short_name(name), "scales", scale, field)
                    file, key = config.library.place(paper_of(name), *place)
                    yield dataset, key, file


def _named(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The data sets that values of a cohort or a vocabulary name, each with its field."""
    for field in NAMING_FIELDS:
        names = values.get(field)
        for name in names if isinstance(names, list | dict) else [names]:
            if isinstance(name, str):
                yield name, field


def check_weights(config: Config) -> None:
    """Check that published weights stand for models that can be imported."""
    for name, weights in config.models.weights.items():
        kind = config.models[name].recipe.weights
        if kind is None:
            able = [n for n, model in config.models.items() if model.recipe.weights is not None]
            raise WrongKey(
                ("weights",),
                f"no published weights are known for '{name}' (its recipe has no 'weights'); "
                f"there are some for {', '.join(able) or 'no model'}",
            )
        try:
            weights.places(kind)
        except ValueError as error:
            raise WrongKey(("weights", name), str(error)) from None
    for name, model in config.models.items():
        imported = model.vocabulary_model if model.recipe.corpora else None
        if imported not in (None, name):
            raise WrongKey(
                ("weights",),
                f"'{name}' is trained on packed corpora from the imported '{imported}', whose "
                "vocabulary the corpora are not cut with",
            )


def check_texts(config: Config) -> None:
    """Check that text comes from data sets with text, and that a cohort splits the reports."""
    for name, paper in config.whole.documents:
        layout = config.data.layout(name)
        if not (layout.reports or layout.documents):
            readable = ", ".join(holders("reports", "documents"))
            raise WrongKey(
                ("datasets", name),
                f"has the layout {layout.name}, which has no text, but {paper} reads it as text; "
                f"expected one of {readable}",
            )
        if layout.reports and not config.texts.cohort(name, paper):
            raise WrongKey(
                ("cohorts",),
                f"'{name}' is a set of reports that {paper} reads as text, but no cohort of kind "
                "pairs splits it by patient",
            )


def check_task_cohorts(config: Config) -> None:
    """Check that a task's cohorts are of the kind that its benchmark measures."""
    for name in config.tasks.available:
        task = config.tasks[name]
        split = task.scored_by.get("split")
        recipe = config.cohorts[task.task.cohort].recipe
        if recipe.split_method == "all" and split not in (None, "test"):
            raise WrongKey(
                ("tasks", name, "split"),
                f"is '{split}', but all of cohort '{task.task.cohort}' is test",
            )
        of_cohort = getattr(task.settings, "label_source", None) == "cohort"
        if of_cohort and recipe.kind == "pairs" and recipe.labels is None:
            raise WrongKey(
                ("tasks", name, "label_source"),
                f"is 'cohort', but cohort '{task.task.cohort}' has no labels; expected reports, or "
                "`labels: published` of the cohort",
            )
        kinds = {task.task.cohort: task.benchmark.kind}
        if task.task.training is not None:
            kinds[task.task.training] = task.benchmark.training or "pairs"
        for cohort, expected in kinds.items():
            kind = config.cohorts[cohort].recipe.kind
            if expected is not None and kind != expected:
                raise WrongKey(
                    ("tasks", name),
                    f"cohort '{cohort}' is of kind {kind}, but {task.task.benchmark} needs one of "
                    f"kind {expected}",
                )


def check_classes(config: Config) -> None:
    """Check that tasks name classes that their labels have, as far as these are known."""
    for name in config.tasks.available:
        settings = config.tasks[name].settings
        classes, whose = _known_classes(config, name)
        for field in CLASS_FIELDS:
            values = getattr(settings, field, None)
            strange = [each for each in values or () if classes and each not in classes]
            if isinstance(values, str) or not strange:
                continue
            key: Key = ("tasks", name, field)
            file = None
            if field not in (config.values.tasks.get(name) or {}):
                place = ("tasks", short_name(name), "settings", field)
                file, key = config.library.place(paper_of(name), *place)
            some = f"{len(classes)} classes" if len(classes) > MOST_LISTED else ", ".join(classes)
            raise WrongKey(key, f"names '{strange[0]}'; expected some of {whose} {some}", file)


def _known_classes(config: Config, name: str) -> tuple[tuple[str, ...], str]:
    """The classes of a task's labels, and whose they are; () where only the files know them."""
    task = config.tasks[name]
    source = getattr(task.settings, "label_source", None)
    cohort = config.cohorts[task.task.cohort]
    if source == "reports" or cohort.recipe.kind == "pairs":
        return layout("chexpert").classes, "CheXpert's"
    dataset = cohort.of_one_set[0].dataset  # those that are joined have the same
    published = config.data.layout(dataset)
    return published.classes or published.listed, f"{dataset}'s"


def check_metrics(config: Config) -> None:
    """Check that each column of a table reads a metric that a task of it measures.

    Rows of a table may have tasks that measure different things; such cells stay empty.
    """
    for paper, content in config.library.chosen.items():
        for name, table in content.tables.items():
            for number, column in enumerate(table.columns):
                tasks = dict.fromkeys(table.task_of(row, column) for row in table.rows)
                benchmarks = dict.fromkeys(
                    config.library.tasks[task].benchmark
                    for task in tasks
                    if task in config.library.tasks  # else no row of ours reads it
                )
                metric = column.metric or ""
                if (
                    not metric
                    or not benchmarks
                    or any(BENCHMARKS.measures(each, metric) for each in benchmarks)
                ):
                    continue
                choices = "; ".join(
                    f"{each} measures {', '.join(BENCHMARKS.metrics_of(each) or ())}"
                    for each in benchmarks
                )
                place = ("tables", name, "columns", number, "metric")
                file, key = config.library.place(paper, *place)
                raise WrongKey(key, f"is '{metric}', but {choices}", file)


def check_folders(config: Config) -> None:
    """Check that a cohort which is split by MIMIC-CXR's folders has patients with its numbers."""
    for name in config.whole.cohorts:
        cohort = config.cohorts[name]
        if cohort.joined:  # checked one by one
            continue
        layout = config.data.layout(cohort.dataset)
        if cohort.recipe.split_method == "folders" and layout.ids != "mimic":
            raise WrongKey(
                ("cohorts", name, "splits", "method"),
                "is folders, which are MIMIC-CXR's, but the patients of "
                f"'{cohort.dataset}' (layout {layout.name}) are not numbered as its; expected "
                f"another, such as `cohorts: {{{name}: {{splits: {{method: patients}}}}}}`",
            )


def check_demographics(config: Config) -> None:
    """Check that demographics come from MIMIC-IV, synthetic ones for synthetic patients only."""
    for name in config.tasks.available:
        task = config.library.tasks[name]
        place = config.data.at(task.demographics)
        if place is None:
            continue
        layout = config.data.layout(place)
        if "demographics" not in layout.holds:
            raise WrongKey(
                ("tasks", name, "demographics"),
                f"'{place}' has the layout {layout.name}; expected one of "
                f"{', '.join(holders('demographics'))}",
            )
        annotated = config.cohorts[task.cohort].dataset
        kinds = [
            "synthetic" if config.data.drawn(dataset) else "real" for dataset in (place, annotated)
        ]
        if kinds[0] != kinds[1]:
            raise WrongKey(
                ("datasets", place),
                f"is {kinds[0]}, but the patients of '{annotated}' are {kinds[1]}; expected both "
                "alike, or null",
            )
