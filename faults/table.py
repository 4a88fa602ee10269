"""Outcomes as a table: stages by faults, and each outcome on a line."""

from collections import Counter
from collections.abc import Sequence

from faults.faults import FAULTS
from faults.trial import Kind, Outcome

#: From the best to the worst, as a cell shows the worst of its draws.
KINDS: tuple[Kind, ...] = ("whole", "refused", "ended", "traceback", "stuck", "SILENT")


def table(outcomes: Sequence[Outcome]) -> str:
    """Stage by fault, the worst outcome of each, and below it the counts."""
    worst: dict[tuple[str, str], Kind] = {}
    for outcome in outcomes:
        place = outcome.stage, outcome.fault
        worst[place] = max(worst.get(place, "whole"), outcome.kind, key=KINDS.index)
    faults = [name for name in FAULTS if any(fault == name for _, fault in worst)]
    width = max((len(stage) for stage, _ in worst), default=0)
    lines = [f"{'':{width}}  " + "  ".join(faults)]
    for stage in dict.fromkeys(stage for stage, _ in worst):
        cells = (f"{worst.get((stage, fault), ''):{len(fault)}}" for fault in faults)
        lines.append(f"{stage:{width}}  " + "  ".join(cells))
    counts = Counter(outcome.kind for outcome in outcomes)
    lines.append(", ".join(f"{counts[kind]} {kind}" for kind in KINDS))
    return "\n".join(lines)


def lines(outcomes: Sequence[Outcome]) -> str:
    """One line an outcome, fields apart by tabs."""
    rows = (map(str, outcome) for outcome in outcomes)
    texts = ["\t".join(" ".join(field.split()) for field in row) for row in rows]
    return "\n".join(["\t".join(Outcome._fields), *texts]) + "\n"
