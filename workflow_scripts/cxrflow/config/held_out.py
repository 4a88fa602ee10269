"""Whether models have learnt from patients that they are scored on (BioViL section 4.1).

Images of such patients are refused, with or without texts. A text encoder that has read their
reports alone is allowed where the recipe of the model that is scored says ``overlap: reports``
(Windsor et al. 2023 start from CXR-BERT, which has read all of MIMIC-CXR's reports); a note below
every table with such a model says so.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from cxrflow.config.configuration import Config
from cxrflow.config.problems import WrongKey
from cxrflow.config.tasks import ResolvedTask
from cxrflow.data.cohorts.settings import PART_NAMES, SPLITS, CohortSettings
from cxrflow.data.layouts import layout
from cxrflow.data.layouts.overlap import CohortRows, comparable, overlap
from cxrflow.images.compared import Compared
from cxrflow.names import name_of_share, paper_of, short_name
from cxrflow.papers.table import Result

TRAINED = frozenset(("train",))  # the part that is learnt from; others choose weights


class Leak(NamedTuple):
    """Training rows of ``learners`` whose patients are among the ``evaluated`` rows."""

    rows: CohortRows
    evaluated: CohortRows
    learners: list[str]


def check_held_out(config: Config) -> None:
    """Check that no model is scored on patients it can have learnt from.

    This covers every model and task of the tables and figures, and the controls.
    """
    for paper in config.library.chosen:
        for task, model in config.results[paper].all("all"):
            if model is not None and model in config.models:
                _check_pair(config, model, task)
        for model in config.results[paper].controls:
            for task in config.tasks.of_model(model):
                if task != config.models[model].recipe.selection:
                    _check_pair(config, model, task)


def overlap_notes(config: Config, paper: str, table: str) -> list[str]:
    """Sentences about models whose text encoders have read reports of scored patients."""
    readers: dict[tuple[tuple[str, ...], bool], list[str]] = {}
    for task, model in config.results[paper].cells(table):
        if model is None or model not in config.models:
            continue
        if config.models[model].recipe.overlap is None:
            continue
        learners = [name for leak in _leaks(config, model, task) for name in leak.learners]
        imported = [
            name
            for name in config.models[model].ancestors
            if config.models[name].imported and "text" in config.models[name].recipe.kind.offers
        ]
        for names, published in ((learners, False), (imported, True)):
            if names:
                key = tuple(dict.fromkeys(names)), published
                of_share = name_of_share("", config.models[model].recipe.share)
                readers.setdefault(key, []).append(short_name(model).removesuffix(of_share))
    return [_note(*key, models) for key, models in readers.items()]


def learners(config: Config, cohort: str, results: Iterable[Result]) -> dict[str, list[str]]:
    """Cohorts of other data sets, with the models that learn from them.

    They, or models that start from them, are scored on a cohort, by these results.
    """
    own_datasets, models = _datasets(config, cohort), dict[str, list[str]]()
    scored = [name for task, name in results if config.library.tasks[task].cohort == cohort]
    for name in dict.fromkeys(scored):
        if name is None or name not in config.models:
            continue
        for ancestor in config.models[name].ancestors:
            learnt = (
                None if config.models[ancestor].imported else config.models[ancestor].recipe.cohort
            )
            if learnt is not None and _datasets(config, learnt) != own_datasets:
                models.setdefault(learnt, [])
                models[learnt] += [ancestor] * (ancestor not in models[learnt])
    return models


def compared_cohorts(config: Config, results: Iterable[Result]) -> list[Compared]:
    """The cohorts of two real data sets whose pictures these results ask to compare."""
    results = list(results)
    scored = dict.fromkeys(config.library.tasks[task].cohort for task, _ in results)
    return [
        Compared(cohort, learnt, names)
        for cohort in scored
        for learnt, names in learners(config, cohort, results).items()
        if not config.data.drawn(*_datasets(config, cohort))
        and not config.data.drawn(*_datasets(config, learnt))
    ]


def _datasets(config: Config, cohort: str) -> list[str]:
    """The data sets that a cohort's rows are made from."""
    return [each.dataset for each in config.cohorts[cohort].of_one_set]


def _note(learners: tuple[str, ...], published: bool, models: list[str]) -> str:
    verb = "may have" if published else "has" if len(learners) == 1 else "have"
    return (
        f"{' and '.join(learners)}, from which {', '.join(dict.fromkeys(models))} started, {verb} "
        "read reports of patients that are scored here, never with their images"
        f"{' (published weights)' if published else ''}."
    )


def external_notes(config: Config, paper: str, table: str) -> list[str]:
    """Sentences about models that were run elsewhere: what and whom they have learnt from."""
    rows, external = config.results[paper].table(table).rows, config.library.external
    labels = {name: row.label for row in rows for name in row.named}
    scored: dict[str, dict[str, None]] = {}  # data sets by model
    for task, model in config.results[paper].cells(table):
        if model in external:
            datasets = _datasets(config, config.library.tasks[task].cohort)
            scored.setdefault(model, {}).update(dict.fromkeys(datasets))
    return [
        f"“{labels[model]}” was run elsewhere. Trained on: {external[model].trained_on}. "
        f"{' '.join(_shared_people(config, model, dataset) for dataset in datasets)}"
        for model, datasets in scored.items()
    ]


def _shared_people(config: Config, model: str, dataset: str) -> str:
    if config.data.drawn(dataset):
        return f"The people of {dataset} are drawn, and so in no other data set."
    people = config.data.layout(dataset).people
    shared = [
        name for name in config.library.external[model].people if layout(name).people & people
    ]
    if shared:
        return f"It has learnt from people of {', '.join(shared)}, who may be those of {dataset}."
    return f"It has learnt from no data set, as far as stated, with people of {dataset}."


def _check_pair(config: Config, model: str, task: str) -> None:
    for rows, evaluated, learners in _leaks(config, model, task):
        if rows.parts != TRAINED:
            selection = config.models[learners[0]].recipe.selection
            raise WrongKey(
                ("models", learners[0], "selection"),
                f"is '{selection}', by which weights are chosen on "
                f"images of '{rows.dataset}' on which {task} scores {model}; expected a task on a "
                "part that no table tests on",
            )
        pictured = [name for name in learners if "image" in config.models[name].recipe.kind.offers]
        allowed = config.models[model].recipe.overlap is not None
        if allowed and not pictured:
            continue
        instead = "" if pictured else ", or `overlap: reports` in its recipe"
        if allowed:
            instead = f"; `overlap: reports` allows no images, which {pictured[0]} is trained on"
        same_set = {rows.dataset, rows.images} & {evaluated.dataset, evaluated.images}
        if not same_set and not comparable(rows, evaluated):
            stated = evaluated if rows.stated is None else rows
            raise WrongKey(
                ("datasets", stated.dataset, "ids"),
                f"'{rows.dataset}', on which {learners[0]} is trained, and '{evaluated.dataset}', "
                f"on which {task} scores {model}, have the same people, numbered as {rows.ids} and "
                f"as {evaluated.ids}, so that none can be held out; expected the same ids",
            )
        if rows.dataset == evaluated.dataset:
            raise WrongKey(
                ("cohorts", rows.cohort),
                f"{task} scores {model} on '{evaluated.dataset}', which {evaluated.cohort} splits "
                f"in another way; expected the same held_out and splits{instead}",
            )
        raise WrongKey(
            ("cohorts", rows.cohort, "held_out"),
            f"'{evaluated.dataset}', on which {task} scores {model}, has patients of "
            f"'{rows.dataset}', on which it is trained; expected it in this list{instead}",
        )


def _leaks(config: Config, model: str, task: str) -> Iterator[Leak]:
    scored = config.tasks[task]
    if scored.benchmark.of_training:
        return
    learners: dict[CohortRows, list[str]] = {}  # by what they were trained on, or chosen by
    for start in (model, *config.cohorts.curators(scored.task.cohort)):
        for rows, learner in _trained_on(config, start):
            learners.setdefault(rows, []).append(learner)
    for evaluated in _rows(config, scored.task.cohort, *_parts(scored)):
        for rows in overlap(learners, evaluated):
            yield Leak(rows, evaluated, learners[rows])


def _parts(task: ResolvedTask) -> list[str]:
    """The parts of its cohort that a task scores."""
    split = task.scored_by.get("split")
    return [split] if split else list(SPLITS)


def _trained_on(config: Config, model: str) -> Iterator[tuple[CohortRows, str]]:
    """The rows on which a model and its ancestors were trained or chosen, each with that model."""
    for name in config.models[model].ancestors:
        if config.models[name].imported:
            continue
        cohort, selection = config.models[name].recipe.cohort, config.models[name].recipe.selection
        read: list[tuple[str, Collection[str]]] = []
        if cohort is not None:
            read.append((cohort, TRAINED))
        if selection is not None:
            chosen = config.tasks[selection]
            thresholds = getattr(chosen.settings, "threshold_part", None)
            read.append((chosen.task.cohort, [*_parts(chosen), *filter(None, [thresholds])]))
        for dataset in config.models[name].corpora:
            documents = config.texts.cohort(dataset, paper_of(config.models[name].vocabulary))
            if documents is not None:
                read.append((documents, TRAINED))
        for cohort, splits in read:
            yield from ((rows, name) for rows in _rows(config, cohort, *splits))


def _rows(config: Config, name: str, *splits: str) -> Iterator[CohortRows]:
    """The rows of some parts of a cohort, by the data set that they are made from.

    Of a progression with a data set for training all parts but test are of that one, without the
    patients that are tested on.
    """
    for cohort in config.cohorts[name].of_one_set:
        parts_by_dataset: dict[tuple[str, bool], set[str]] = {}
        for split in splits:
            is_silver = cohort.recipe.kind == "progression" and split != "test"
            dataset = (is_silver and cohort.training) or cohort.dataset
            parts_by_dataset.setdefault((dataset, is_silver), set()).add(split)
        for (dataset, is_silver), parts in parts_by_dataset.items():
            held_out = dict(cohort.held_out) | dict.fromkeys({cohort.dataset} - {dataset}, ())
            yield CohortRows(
                name,
                dataset,
                config.data.layout(dataset).name,
                config.data.drawn(dataset),
                cohort.holder,
                _stated(config, dataset),
                frozenset(
                    (name_of_set, frozenset(PART_NAMES.get(part, part) for part in of_set))
                    for name_of_set, of_set in held_out.items()
                ),
                cohort.recipe.split_rule,
                frozenset(parts),
                _published(cohort.recipe, parts),
                is_silver,
            )


def _stated(config: Config, dataset: str) -> tuple[frozenset[str], str | None] | None:
    """Whose patients a data set's are, and how they are numbered, where it says so itself."""
    described = config.data.layout(dataset)
    says = config.data.present[dataset].says_people
    return (described.people, described.ids) if says else None


def _published(settings: CohortSettings, split_names: Collection[str]) -> frozenset[str] | None:
    """The publisher's parts from which a cohort's own are taken, if they are."""
    if settings.split_method != "official":
        return None
    splits = settings.splits
    names = set(split_names)
    if splits.validation is not None and "validate" in names:
        names.add("train")  # from which it is drawn
    if splits.parts is None:
        return frozenset(names)
    return frozenset(
        PART_NAMES.get(name, name) for name, split in splits.parts.items() if split in names
    )
