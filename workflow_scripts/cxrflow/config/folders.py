"""What lies in the folders that people fill, and what a run will train on there."""

from collections.abc import Iterator
from pathlib import Path

from cxrflow.config.configuration import Config


def opened_folders(config: Config) -> Iterator[str]:
    """Open each folder whose layout has an account of it, and say what is in it.

    Raises:
        InputError: one is of another form, or lacks what a model of the run needs.
    """
    for name in config.datasets:
        root, layout = config.data.present[name].root, config.data.layout(name)
        if root is None or layout.account is None:
            continue
        cohorts = {
            cohort: config.cohorts[cohort].recipe.settings()
            for cohort in config.whole.cohorts
            if config.cohorts[cohort].dataset == name
            and config.cohorts[cohort].recipe.kind == "pairs"
        }
        trained = [config.models[model] for model in config.whole.models]
        trained = [model for model in trained if model.trained and model.recipe.cohort in cohorts]
        compares = next((model.name for model in trained if "frames" in model.offers), None)
        learners = {
            cohort: ", ".join(m.name for m in trained if m.recipe.cohort == cohort) or "no model"
            for cohort in cohorts
        }
        described = {f"{name}, for {learners[name]}": cohorts[name] for name in cohorts}
        yield f"{name}: {root}"
        about = config.values.reports.settings(), described, compares
        yield from (f"  {line}" for line in layout.accounts(Path(root), *about))
