"""What the settings of several training programs must be; ValueErrors of validators."""

from collections.abc import Iterable
from typing import Any

from cxr_files.settings import SettingsT
from cxrflow.training.settings import TrainingSettings


def require_monitored(
    training: TrainingSettings, values: Iterable[str], why: str = "", alternatives: str = ""
) -> None:
    """The monitored value is one that a validation gives. ``alternatives``: what else it may be."""
    monitor = training.stopping.monitor
    if monitor not in values:
        raise ValueError(
            f"training.stopping.monitor is {monitor!r}{why}; expected one of "
            f"{', '.join(values)}{alternatives}"
        )


def require_whole_batches(settings: SettingsT, training: TrainingSettings) -> SettingsT:
    """A batch of samples is not computed in parts: contrastive terms compare all of it."""
    if training.accumulate != 1:
        raise ValueError(
            f"training.accumulate is {training.accumulate}; expected 1: only packed corpora are "
            "computed in parts"
        )
    return settings


def require_uneven_batches(
    training: TrainingSettings, ghost_batch: int | None, remedy: str = ""
) -> None:
    """Nothing is set that needs as many images in every batch as in the others."""
    require_with_priors("training.compile", training.compile, False, remedy)
    require_with_priors("ghost_batch", ghost_batch, None, remedy)


def require_with_priors(key: str, value: Any, expected: Any, remedy: str = "") -> None:
    """A setting has the value that prior images need."""
    if value != expected:
        raise ValueError(
            f"{key} is {value}; with prior images, of which a batch has one number or another, "
            f"expected {expected}{remedy}"
        )
