"""Learning-rate schedules as pure functions of the step (BioViL Appendix E.1 and E.2)."""

import math

from cxrflow.training.settings import ScheduleSettings


def learning_rate_factor(settings: ScheduleSettings, step: int, steps: int) -> float:
    """Factor on the base rate for the update numbered ``step`` (from 0) of ``steps``.

    Rises linearly over the warm-up (its first update is already above zero), then falls so that
    the update after the last would be zero.
    """
    warmup = round(settings.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    if settings.decay == "constant":
        return 1.0
    if settings.decay == "cosine":
        return 0.5 * (1 + math.cos(math.pi * progress))
    return 1.0 - progress
