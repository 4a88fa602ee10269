"""What comes first: what the next table waits for; within that long chains, data before readers.

Tables are made one after the other, so that a reader sees the first early: next is always the one
that takes the fewest further trainings. What a table waits for has its place; there its scores come
before trainings, which would otherwise keep them waiting. Figures and pages have no priority.
"""

from functools import cache

from cxrflow.config.cost import read_table
from cxrflow.config.needs import RunNeeds

STEP = 1000  # between tables; within a table all priorities are below it
SCORE = 500  # above every training of the same table, and its data
LONG = 60  # seconds of the demonstration
RECORDED = read_table()  # seconds of its jobs


def tables_in_order(extent):
    """(paper, table) of each table that has something of ours, and what it needs, in order."""
    waiting = {
        (paper, table): run.needs_of(results.cells(table))
        for paper, results in run.results.items()
        for table in results.tables(extent)
        if results.cells(table)
    }
    trained, ordered = set(), {}
    further = lambda name: {m for m in waiting[name].models if run.models[m].trained} - trained
    while waiting:
        name = min(waiting, key=lambda name: len(further(name)))
        trained |= further(name)
        ordered[name] = waiting.pop(name)
    return ordered


# The tables of this run, then those that are asked for by name alone.
TABLES = tables_in_order(run.values.extent)
TABLES |= {name: n for name, n in tables_in_order("all").items() if name not in TABLES}


def place(waits):
    """The priority of what the first table waits for, of (name, needs) of which ``waits`` holds."""
    tables = enumerate(TABLES.items())
    first = next((number for number, (name, needs) in tables if waits(name, needs)), len(TABLES))
    return STEP * (len(TABLES) - first)


@cache
def waiting_for(model):
    """The models that are made from this one."""
    return [
        name
        for name in run.whole.models
        if model in run.models[name].parents.values()
        or model in run.cohorts.curators(run.models[name].recipe.cohort)
    ]


@cache
def trainings_behind(model):
    """How many trainings, one after the other, wait for this one; curation counts as one."""
    curates = int(model in run.cohorts.curators(*run.whole.cohorts))
    return 1 + max((trainings_behind(name) for name in waiting_for(model)), default=curates)


@cache
def training_priority(model):
    """Of a table's trainings long chains first; of equal ones what more models wait for."""
    chain = 10 * trainings_behind(model) + min(9, len(waiting_for(model)))
    return place(lambda name, needs: model in needs.models) + chain


# What each model learns from: vocabularies, texts, cohorts.
LEARNT_FROM = {name: RunNeeds(run.tasks, [name]) for name in run.whole.models}


def urgency(reads):
    """Above that of every training that ``reads``, which is asked of its :class:`RunNeeds`.

    What only scores read has the place of their table.
    """
    reading = [training_priority(name) for name, needs in LEARNT_FROM.items() if reads(needs)]
    return 1 + max([*reading, place(lambda name, needs: reads(needs))])


def cohort_priority(wildcards):
    """That of a cohort and its pixels."""
    return urgency(lambda needs: wildcards.cohort in needs.cohorts)


def building_priority(wildcards):
    """That of a cohort alone: of real data above every training, as it may lack what is asked."""
    if run.cohorts.drawn(wildcards.cohort):
        return cohort_priority(wildcards)
    return urgency(lambda needs: True)


def curation_priority(wildcards):
    """Above the trainings of a table, and below its scores."""
    return SCORE // 2 + place(lambda name, needs: wildcards.cohort in needs.cohorts)


def vocabulary_priority(wildcards):
    """That of a vocabulary and the tokens cut with it."""
    return urgency(lambda needs: wildcards.vocabulary in needs.vocabularies)


def dataset_priority(dataset):
    """That of a data set and its text; of what is none of them, a splitter's text, the highest."""
    if dataset not in run.datasets:
        return urgency(lambda needs: True)
    return urgency(
        lambda needs: dataset in needs.corpora
        or any(dataset in run.cohorts[name].sources for name in needs.cohorts)
    )


def features_priority(wildcards):
    """That of a model's features of a cohort."""
    model, cohort = wildcards.model, wildcards.cohort
    return SCORE + place(lambda name, needs: model in needs.models and cohort in needs.cohorts)


def score_priority(wildcards):
    """That of a result of a task; last, if it takes minutes, in which a training would wait."""
    of_model = (
        "{task}/{model}.seed{seed}".format(**wildcards) if "model" in wildcards.keys() else ""
    )
    if RECORDED.get(("evaluate", of_model), 0) > LONG:
        return 0
    return SCORE + place(lambda name, needs: wildcards.task in needs.tasks)


def table_priority(wildcards):
    """That of a table and its tests."""
    return SCORE + place(lambda name, needs: name == (wildcards.paper, wildcards.table))
