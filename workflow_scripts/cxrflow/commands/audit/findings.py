"""What is wrong in a data set, and what two of them share."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

import pandas as pd

from cxr_files.drops import EXAMPLES
from cxrflow.commands.audit.sets import AuditedSet

NO_PART = "no part"


@dataclass(frozen=True)
class Finding:
    """A count of one kind.

    Attributes:
        what: is counted.
        sets: the data set, or the two that share it.
        count, of: how many of how many (of two sets, of the first).
        parts: the count by part, or by both sets' parts.
        examples: ids, five at most.
    """

    what: str
    sets: tuple[str, ...]
    count: int
    of: int
    parts: dict[str, int] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For audit.json."""
        return asdict(self)


def findings(sets: Sequence[AuditedSet], rows: pd.DataFrame) -> list[Finding]:
    """All that there is to say of the sets and of each two of them; what is 0 is left out."""
    by_set = {each.name: rows[rows["set"] == each.name] for each in sets}
    account = [one for each in sets for one in _within(each, by_set[each.name])]
    for first, second in combinations(sets, 2):
        account += _shared(first, second, by_set[first.name], by_set[second.name])
    return [one for one in account if one.count]


def _within(each: AuditedSet, rows: pd.DataFrame) -> Iterator[Finding]:
    name = (each.name,)
    for drop in each.dropped:
        if drop.failed:
            yield Finding(
                f"rows not read: {drop.reason}", name, drop.count, len(rows) + drop.count,
                examples=[*drop.examples],
            )  # fmt: skip
    if each.pictured:
        for reason, damaged in rows.dropna(subset="reason").groupby("reason"):
            yield _of(f"images that cannot be used: {reason}", name, damaged["image"], len(rows))
    split = rows.dropna(subset=["patient", "part"])
    parts = split.groupby("patient")["part"].unique()
    torn = parts[parts.map(len) > 1]
    yield _of(
        "patients in two parts",
        name,
        torn.index,
        parts.size,
        torn.map(lambda p: " and ".join(sorted(p))),
    )
    usable = rows[rows["picture"] >= 0]
    by_picture = usable.groupby("picture")
    several = usable[by_picture["patient"].transform("nunique") > 1]
    yield _of("images whose picture another patient has", name, several["image"], len(usable))
    across = usable[by_picture["part"].transform("nunique") > 1]
    where = across.groupby("picture")["part"].transform(lambda p: " and ".join(sorted(set(p))))
    yield _of("images whose picture is in another part", name, across["image"], len(usable), where)
    patients = by_picture["patient"].transform("nunique").clip(lower=1)
    twice = by_picture["image"].transform("size") > patients
    again = usable[twice & ~usable["image"].isin(several["image"])]
    yield _of("images whose picture is there twice", name, again["image"], len(usable))


def _shared(
    one: AuditedSet, two: AuditedSet, first: pd.DataFrame, second: pd.DataFrame
) -> Iterator[Finding]:
    names = (one.name, two.name)
    alike = one.numbered is not None and one.numbered == two.numbered
    suffix = "" if alike else " (not known to be numbered in one way)"
    for what, column in (
        (f"patients with equal ids{suffix}", "patient"),
        ("images with equal ids", "image"),
    ):
        parts = [
            rows.dropna(subset=column).fillna({"part": NO_PART}).groupby(column)["part"].min()
            for rows in (first, second)
        ]
        common = parts[0].index.intersection(parts[1].index)
        pairs = parts[0][common] + " and " + parts[1][common]
        yield _of(what, names, pairs.index, len(parts[0]), pairs)
    usable = [rows[rows["picture"] >= 0] for rows in (first, second)]
    for what, column in (
        ("images that are there as the same file", "digest"),
        ("images that are there as a copy", "picture"),
    ):
        theirs = usable[1].fillna({"part": NO_PART}).groupby(column)["part"].min()
        ours = usable[0][usable[0][column].isin(theirs.index)]
        if column == "picture":  # as another file
            ours = ours[~ours["digest"].isin(usable[1]["digest"])]
        where = ours["part"].fillna(NO_PART) + " and " + ours[column].map(theirs)
        yield _of(what, names, ours["image"], len(usable[0]), where)


def _of(
    what: str,
    sets: tuple[str, ...],
    ids: pd.Index | pd.Series,
    of: int,
    parts: pd.Series | None = None,
) -> Finding:
    counts = {} if parts is None else parts.value_counts().sort_index().to_dict()
    if set(counts) <= {NO_PART, f"{NO_PART} and {NO_PART}"}:
        counts = {}
    examples = [str(each) for each in ids[:EXAMPLES]]
    return Finding(what, sets, len(ids), of, {str(k): int(v) for k, v in counts.items()}, examples)
