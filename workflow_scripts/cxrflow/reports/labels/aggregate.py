"""From assertions to a report's 14 labels (the CheXpert labeller's third stage).

Per observation positive outranks uncertain outranks negative; an observation that is nowhere
mentioned stays blank. Heart failure, positive or uncertain, makes Cardiomegaly at least uncertain.
No Finding is 1 when nothing but support devices is positive or uncertain, other findings
(emphysema, hernia, granuloma …) included, and is otherwise blank, never 0 or -1.
"""

from collections.abc import Iterable

from cxrflow.reports.labels.observations import (
    BLANK,
    NEGATIVE,
    OBSERVATIONS,
    OTHER_FINDING,
    POSITIVE,
    UNCERTAIN,
)

RANK = {NEGATIVE: 0, UNCERTAIN: 1, POSITIVE: 2}


def aggregate(values: Iterable[tuple[str, int]], unread: int = 0) -> tuple[float, ...]:
    """From (observation, value) pairs the 14 labels, in the order of ``OBSERVATIONS``.

    With ``unread`` sentences nobody knows that there is no finding: No Finding stays blank.
    """
    best: dict[str, int] = {}
    for observation, value in values:
        if observation not in best or RANK[value] > RANK[best[observation]]:
            best[observation] = value
    ignored = ("Support Devices", "No Finding")
    if not unread and not any(v != NEGATIVE for o, v in best.items() if o not in ignored):
        best["No Finding"] = POSITIVE
    best.pop(OTHER_FINDING, None)
    return tuple(float(best[o]) if o in best else BLANK for o in OBSERVATIONS)
