"""What a training needs of its cohort and of the models that it starts from."""

from cxrflow.config.configuration import Config
from cxrflow.config.models import ResolvedModel
from cxrflow.config.problems import WrongKey


def check_training(config: Config, model: ResolvedModel) -> None:
    """Check that a model's training can read what its recipe names."""
    _check_kinds(config, model)
    _check_share(config, model)
    _check_labels(config, model)


def _check_kinds(config: Config, model: ResolvedModel) -> None:
    """Check that its cohort is of a kind that its program reads, and its parents have encoders."""
    recipe, program = model.recipe, model.recipe.kind
    if recipe.cohort is not None and not model.imported:
        kind = config.cohorts[recipe.cohort].recipe.kind
        if kind not in program.cohorts:
            raise WrongKey(
                ("models", model.name),
                f"cohort '{recipe.cohort}' is of kind {kind}, but the program {recipe.program} "
                f"reads {' or '.join(program.cohorts)}",
            )
    encoder = {"start": "text" if program.rule == "pretrain_text" else "image"}
    for option, parent in model.parents.items():
        needed = encoder.get(option, option)
        if needed not in config.models[parent].offers:
            raise WrongKey(
                ("models", model.name),
                f"{option} is '{parent}', which has no {needed} encoder; expected a model with one",
            )


def _check_share(config: Config, model: ResolvedModel) -> None:
    """Check that a model that is trained on a share has a cohort whose rows have shares."""
    share = getattr(model.settings, "training_share", 1)
    cohort = model.recipe.cohort
    if share < 1 and cohort and config.cohorts[cohort].recipe.share_unit is None:
        raise WrongKey(
            ("models", model.name, "settings", "training_share"),
            f"is {share:g}, but rows of cohort '{cohort}' have no share; expected its `share_unit`",
        )


def _check_labels(config: Config, model: ResolvedModel) -> None:
    """Check that a model with a term that reads labels of pairs has a cohort with labels."""
    terms = getattr(model.settings, "terms", None)
    cohort = model.recipe.cohort
    if terms is None or cohort is None:
        return
    recipe = config.cohorts[cohort].recipe
    if recipe.kind != "pairs" or recipe.labels is not None:
        return
    for term, settings in terms.named().items():
        if settings.needs.labels:
            raise WrongKey(
                ("models", model.name, "settings", "terms", term),
                f"reads labels, but cohort '{cohort}' has none; expected `labels: published` or "
                "`labels: reports` of the cohort",
            )
