"""What comes first: what the longest chain of trainings waits for, data before what reads them.

Evaluations, tables and pages have no priority, nor have data that nothing learns from.
"""

from functools import cache

from cxrflow.config.needs import RunNeeds


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


def training_priority(model):
    """Long chains first; of equal ones what more models wait for."""
    return 10 * trainings_behind(model) + min(9, len(waiting_for(model)))


# What each model learns from: vocabularies, texts, cohorts.
LEARNT_FROM = {name: RunNeeds(run.tasks, [name]) for name in run.whole.models}


def urgency(learns):
    """Above that of every training that ``learns``, which is asked of its :class:`RunNeeds`."""
    reading = [training_priority(name) for name, needs in LEARNT_FROM.items() if learns(needs)]
    return 1 + max(reading, default=-1)


def cohort_priority(wildcards):
    """That of a cohort and its pixels."""
    return urgency(lambda needs: wildcards.cohort in needs.cohorts)


def building_priority(wildcards):
    """That of a cohort alone: of real data above every training, as it may lack what is asked."""
    if run.cohorts.drawn(wildcards.cohort):
        return cohort_priority(wildcards)
    return urgency(lambda needs: True)


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
