"""What must hold where a model decides which image stands for a study (BioViL-T section 3.3).

It has a joint space of images and texts, is given all acquisitions beside their reports, and has
not learnt from studies with several: the paper asks it "in a zero-shot setting" and trains it on
studies with one. What it starts from may have (BioViL's ResNet has, as the paper's own).
"""

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.configuration import Config
from cxrflow.config.models import unknown
from cxrflow.config.problems import WrongKey


def check_curation(config: Config) -> None:
    """Every curated cohort has candidates to choose from and a model that can choose."""
    for name, task in config.library.tasks.items():
        counted = BENCHMARKS[task.benchmark].reads == "curation"
        if counted and config.library.cohorts[task.cohort].curation is None:
            raise WrongKey(
                ("tasks", name, "cohort"),
                f"'{task.cohort}' is not curated; {task.benchmark} needs a cohort with 'curation'",
            )
    for name, cohort in config.known_cohorts.items():
        curation = cohort.recipe.curation
        if curation is None:
            continue
        key = ("cohorts", name, "curation")
        for part, given, known in (
            ("model", curation.model, config.recipes),
            ("candidates", curation.candidates, config.library.cohorts),
        ):
            if given not in known:
                raise WrongKey((*key, part), unknown(given, known))
        candidates = config.known_cohorts.get(curation.candidates)
        if candidates is None:  # this run lacks the data, and so leaves the cohort out
            continue
        recipe, shown = config.recipes[curation.model], candidates.recipe
        if "joint" not in recipe.offers:
            raise WrongKey(
                (*key, "model"),
                f"'{curation.model}' is of the program {recipe.program}; expected a model with a "
                "joint space of images and texts",
            )
        if (shown.kind, shown.unit) != ("pairs", "image"):
            raise WrongKey(
                (*key, "candidates"),
                f"'{curation.candidates}' is of kind {shown.kind} with unit: {shown.unit}; "
                "expected kind pairs with unit: image, a row an acquisition",
            )
        if not config.data.same_patients(candidates.holder, cohort.holder):
            raise WrongKey(
                (*key, "candidates"),
                f"'{curation.candidates}' has the images of '{candidates.holder}'; expected those "
                f"of '{cohort.holder}', as the cohort that is curated",
            )
        learnt = config.known_cohorts.get(recipe.cohort or "")
        if (
            learnt is not None
            and learnt.recipe.acquisitions != "single"
            and config.data.same_patients(learnt.holder, candidates.holder)
        ):
            raise WrongKey(
                (*key, "model"),
                f"'{curation.model}' has learnt from '{recipe.cohort}', in which studies have "
                "several acquisitions, and has seen what it chooses from; expected a model of a "
                "cohort with acquisitions: single",
            )
