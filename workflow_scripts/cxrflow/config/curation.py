"""Checks of curation, in which a model chooses the image of a study (BioViL-T section 3.3).

The model has a joint space of images and texts, and its candidates are all acquisitions with their
reports. It has not learnt from studies with several images: the paper uses it "in a zero-shot
setting" and trains it on studies with one. Its start may have (BioViL's ResNet has, in the paper
too).
"""

from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.configuration import Config
from cxrflow.config.problems import WrongKey, unknown


def check_curation(config: Config) -> None:
    """Check that every curated cohort has candidates, and a model that can choose among them."""
    for name, task in config.library.tasks.items():
        counted = BENCHMARKS[task.benchmark].reads == "curation"
        if counted and config.library.cohorts[task.cohort].curation is None:
            raise WrongKey(
                ("tasks", name, "cohort"),
                f"'{task.cohort}' is not curated; {task.benchmark} needs a cohort with 'curation'",
            )
    for name, cohort in config.cohorts.items():
        curation = cohort.recipe.curation
        if curation is None:
            continue
        key = ("cohorts", name, "curation")
        for field, reference, defined in (
            ("model", curation.model, config.models),
            ("candidates", curation.candidates, config.library.cohorts),
        ):
            if reference not in defined:
                raise WrongKey((*key, field), unknown(reference, defined))
        candidates = config.cohorts.get(curation.candidates)
        if candidates is None:  # this run lacks the data, and so leaves the cohort out
            continue
        recipe, candidate_recipe = config.models[curation.model].recipe, candidates.recipe
        if "joint" not in recipe.offers:
            raise WrongKey(
                (*key, "model"),
                f"'{curation.model}' is of the program {recipe.program}; expected a model with a "
                "joint space of images and texts",
            )
        if (candidate_recipe.kind, candidate_recipe.unit) != ("pairs", "image"):
            raise WrongKey(
                (*key, "candidates"),
                f"'{curation.candidates}' is of kind {candidate_recipe.kind} with unit: "
                f"{candidate_recipe.unit}; expected kind pairs with unit: image, a row an "
                "acquisition",
            )
        if not any(
            config.data.same_patients(holder, own_holder)
            for holder in candidates.holders
            for own_holder in cohort.holders
        ):
            raise WrongKey(
                (*key, "candidates"),
                f"'{curation.candidates}' has the images of '{candidates.holder}'; expected those "
                f"of '{cohort.holder}', as the cohort that is curated",
            )
        learnt = config.cohorts.get(recipe.cohort or "")
        if (
            learnt is not None
            and learnt.recipe.acquisitions != "single"
            and any(
                config.data.same_patients(learnt_holder, candidate_holder)
                for learnt_holder in learnt.holders
                for candidate_holder in candidates.holders
            )
        ):
            raise WrongKey(
                (*key, "model"),
                f"'{curation.model}' has learnt from '{recipe.cohort}', in which studies have "
                "several acquisitions, and has seen what it chooses from; expected a model of a "
                "cohort with acquisitions: single",
            )
