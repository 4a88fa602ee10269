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
        for name in MODELS
        if model in (*run.parents_of(name).values(), *run.curators(MODELS[name].recipe.cohort))
    ]


@cache
def trainings_behind(model):
    """How many trainings, one after the other, wait for this one; curation counts as one."""
    curates = int(model in run.curators(*run.cohorts_in_use))
    return 1 + max((trainings_behind(name) for name in waiting_for(model)), default=curates)


def training_priority(model):
    """Long chains first; of equal ones what more models wait for."""
    return 10 * trainings_behind(model) + min(9, len(waiting_for(model)))


# What each model learns from: vocabularies, texts, cohorts.
LEARNT_FROM = {name: RunNeeds(run, [name], []) for name in MODELS}


def urgency(learns):
    """Above that of every training that ``learns``, which is asked of its :class:`RunNeeds`."""
    reading = [training_priority(name) for name, needs in LEARNT_FROM.items() if learns(needs)]
    return 1 + max(reading, default=-1)


def cohort_priority(wildcards):
    """That of a cohort and its pixels."""
    return urgency(lambda needs: wildcards.cohort in needs.cohorts)


def vocabulary_priority(wildcards):
    """That of a vocabulary and the tokens cut with it."""
    return urgency(lambda needs: wildcards.vocabulary in needs.vocabularies)


def dataset_priority(dataset):
    """That of a data set and its text; of what is none of them, a splitter's text, the highest."""
    if dataset not in DATASETS:
        return urgency(lambda needs: True)
    return urgency(
        lambda needs: dataset in needs.corpora
        or any(dataset in run.known_cohorts[name].sources for name in needs.cohorts)
    )


def drawing_threads(wildcards):
    """Several for drawing the images that all wait for; beside others a job has one core."""
    held = layout_of(wildcards.phantom).holds if wildcards.phantom in LAYOUTS else ()
    first = dataset_priority(wildcards.phantom) == urgency(lambda needs: True)
    drawn = "images" in held and not pictures_drawn_before(wildcards)
    return need("draw_phantom").threads if first and drawn else 1


def drawing_priority(wildcards):
    """What needs several cores goes before what would keep one of them busy."""
    return dataset_priority(wildcards.phantom) + 100 * (drawing_threads(wildcards) > 1)
