"""Learning-rate schedules as pure functions of the step (BioViL Appendix E.1 and E.2)."""

import math

from cxrflow.training.settings import ScheduleSettings


def learning_rate_factor(
    settings: ScheduleSettings, step: int, steps: int, plateaus: int = 0
) -> float:
    """Factor on the base rate for the update numbered ``step`` (from 0) of ``steps``.

    Rises linearly over the warm-up (its first update is already above zero), then, if linear or
    cosine, falls so that the update after the last would be zero. ``plateaus``: how often
    validation has found one (training/monitor.py).
    """
    warmup = settings.warmup_steps
    if warmup is None:
        warmup = round(settings.warmup * steps)
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    match settings.decay:
        case "linear":
            return 1.0 - progress
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * progress))
        case "plateau":
            return settings.factor**plateaus
        case "multistep":
            passed = sum(step >= round(share * steps) for share in settings.milestones)
            return settings.factor**passed
        case "noam":
            return math.sqrt(max(warmup, 1) / (step + 1))
        case "constant":
            return 1.0
