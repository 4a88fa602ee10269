"""How often forecasts of twice the pairs hold what trainings on twice the pairs then give.

    python -m simulations.trained_curves --grid short

A set of trainings is of one recipe on pairs of one synthetic hospital: shares of N pairs with
several seeds, and at least five other seeds on twice the pairs, which hold the N. Of a share below
100 % each seed reads its own pairs, by the rule of `training_subset: each`. Each set gives a curve
of each metric, and `beyond` of the page says what it says of it. The grid `short` has the shares
and seeds of `learning_curve.yaml`; `long` trains for longer, on shares that lie further apart;
`eight` does so with eight seeds. Which recipe a set has follows from grid and number alone
(`recipe`).

An interval is of the mean of as many trainings on twice the pairs as there are seeds. So it holds
what comes where it holds the mean of as many: their own spread is part of what it promises. The
mean of all (five, where seeds are three) is nearer to the truth, and is counted beside it. A miss
is *clear* where the interval lies beyond the 95 % interval of that mean (Student's t), too.

Sets that are in the file are not trained again. `--first 72` goes on with other recipes on other
hospitals.
"""

import argparse
import json
import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from cxrflow.metrics.crossed import over_trainings
from cxrflow.metrics.forecast import fit
from cxrflow.metrics.twins import TWINS, twin_p
from cxrflow.show.figures.curve import beyond
from cxrflow.show.tables.cells import Cell
from simulations.small_trainings import (
    METRICS,
    TEST,
    VALIDATION,
    Hospital,
    Recipe,
    Study,
    draw_hospital,
)

REFUSED = "wider than the rise"
LATER = 5  # trainings on twice the pairs, at least
TEXTS = ("words", "mean")
OF_HOSPITAL, MOST_PAIRS = 18, 1536  # sets of a hospital; N of the largest curves

Record = dict[str, Any]  # a line of the file


class Grid(NamedTuple):
    """Of what recipes are drawn; ``lengths`` are in steps and in epochs."""

    shares: tuple[float, ...]
    seeds: int
    lengths: tuple[tuple[int, int], tuple[int, int]]
    rates: tuple[float, ...]
    pairs: tuple[int, ...]
    images: tuple[str, ...]


GRIDS = {
    "short": Grid(
        (10, 20, 50, 100),
        3,
        ((150, 300), (4, 8)),
        (1e-3, 2e-3, 5e-3),
        (512, 1024, 1536),
        (*("pixels", "frozen", "layers") * 2, "CNN"),
    ),
    "long": Grid(
        (6.25, 12.5, 25, 50, 100),
        3,
        ((300, 500), (8, 16)),
        (2e-3, 5e-3),
        (1024, 1536),
        (*("pixels", "frozen", "layers") * 4, "CNN"),
    ),
}
GRIDS["eight"] = GRIDS["long"]._replace(seeds=8, images=("pixels", "frozen", "layers"))


def recipe(grid: Grid, number: int) -> Recipe:
    """Encoders in turn, all else by chance."""
    rng = np.random.default_rng([58, number])
    kind, length = divmod(rng.integers(4), 2)
    steps, epochs = (
        (grid.lengths[0][length], None) if kind == 0 else (None, grid.lengths[1][length])
    )
    temperature = (None, 0.07, 0.2, 0.5)[rng.integers(4)]
    of_images, rate = (0.5, 0.75)[rng.integers(2)], grid.rates[rng.integers(len(grid.rates))]
    hospital, pairs = 5800 + number // OF_HOSPITAL, grid.pairs[rng.integers(len(grid.pairs))]
    encoders = grid.images[number % len(grid.images)], TEXTS[number % len(TEXTS)]
    return Recipe(
        hospital,
        grid.shares,
        grid.seeds,
        *encoders,
        pairs,
        temperature,
        of_images,
        rate,
        steps,
        epochs,
    )


def trained_set(of: Recipe, hospital: Hospital, number: int) -> Record:
    """All trainings of a set: scores by metric and share, and how many have not learnt."""
    begun, study = time.process_time(), Study(of, hospital, number)
    shares, seeds = of.shares, range(of.seeds)
    later = range(of.seeds, of.seeds + max(LATER, of.seeds))
    trainings = [(share, seed) for share in shares for seed in seeds]
    trainings += [(200, seed) for seed in later]
    scores: dict[tuple[float, int], dict[str, float]] = {}
    trained: list[float] = []
    for steps in sorted({study.steps(share) for share, _ in trainings}):
        together = [each for each in trainings if study.steps(each[0]) == steps]
        weights = study.fit(together, steps)
        scores |= zip(together, study.scores(weights), strict=True)
        ranked = zip(together, study.ranks(weights), strict=True)
        trained += [rank for (share, _), rank in ranked if share == shares[-1]]
    twins = study.ranks(study.starts(range(1000, 1000 + TWINS)))
    learnt = [twin_p([rank], [twins]) <= 1 / (TWINS + 1) for rank in trained]
    return {
        "number": number,
        "recipe": of._asdict(),
        "scores": {
            metric: [[scores[share, seed][metric] for seed in seeds] for share in shares]
            for metric in METRICS
        },
        "later": {metric: [scores[200, seed][metric] for seed in later] for metric in METRICS},
        "unlearnt": learnt.count(False),
        "seconds": round(time.process_time() - begun, 1),
    }


class Judged(NamedTuple):
    """A curve; a ``doubt`` withholds its interval. ``holds``: the mean of as many, that of all."""

    kinds: dict[str, str]
    doubt: str | None
    holds: tuple[bool, bool]
    clear: bool  # a miss beyond the error of the mean of all
    width: float


def judge(record: Record, metric: str) -> Judged:
    """What the page says of a curve, beside what came."""
    recipe, later = record["recipe"], record["later"][metric]
    shares, seeds, of_share = recipe["shares"], recipe["seeds"], record["scores"][metric]
    kinds = {"set": str(record["number"]), "metric": metric}
    kinds |= {name: str(recipe[name]) for name in ("hospital", "image", "text", "pairs")}
    kinds["length"] = "epochs" if recipe["steps"] is None else "steps"
    cells = [Cell("", "", by_seed=dict(enumerate(scores))) for scores in of_share]
    cells[-1] = replace(cells[-1], unlearnt=record["unlearnt"])
    more = beyond(shares, cells, 1.0, [share < 100 for share in shares])
    if more["doubt"] is None:
        kinds["families"] = ", ".join(more["families"])
        low, high = (more["points"][-1][end] for end in ("low", "high"))
    else:  # the same interval, which the page withholds
        sets = [(share, seed * (share < 100)) for share in shares for seed in range(seeds)]
        curve = fit([share for share, _ in sets], sum(of_share, []), sets)
        if not curve.families:
            return Judged(kinds, more["doubt"], (False, False), False, math.inf)
        expected = curve.expected(2 * shares[-1], seeds)
        low, high = expected.low, expected.high
    as_many, every = (bool(low <= np.mean(part) <= high) for part in (later[:seeds], later))
    truth_low, truth_high, _ = over_trainings(later, 0.95)
    clear = bool(truth_high < low or truth_low > high)
    return Judged(kinds, more["doubt"], (as_many, every), clear, high - low)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n, at 95 % (1927, J Am Stat Assoc 22:209)."""
    z2 = 1.96**2
    centre, half = share + z2 / (2 * n), (z2 * share * (1 - share) / n + z2**2 / (4 * n**2)) ** 0.5
    return (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)


def row(name: str, curves: Sequence[Judged]) -> str:
    """A line of the table; its interval counts the curves of a set, of equal pairs, as one."""
    says = [curve for curve in curves if curve.doubt is None]
    withheld = [curve for curve in curves if curve.doubt is not None and REFUSED in curve.doubt]
    cells = [name, str(len(curves)), str(len(says))]
    if says:
        as_many, every = np.mean([curve.holds for curve in says], axis=0)
        low, high = wilson(float(as_many), len({curve.kinds["set"] for curve in says}))
        width = np.median([curve.width for curve in says])
        cells += [f"{as_many:.3f} ({low:.2f} to {high:.2f})", f"{every:.3f}"]
        cells += [str(sum(curve.clear for curve in says)), f"{width:.3f}"]
    else:
        cells += ["-"] * 4
    would = f"{np.mean([curve.holds[0] for curve in withheld]):.3f}" if withheld else "-"
    return f"| {' | '.join([*cells, str(len(withheld)), would])} |"


def report(records: Sequence[Record]) -> list[str]:
    """The tables of coverage, all in one and by kind, and of why curves say nothing."""
    curves = [judge(record, metric) for record in records for metric in METRICS]
    head = [
        *("curves of", "number", "say it", "hold the mean of as many", "of all", "clear misses"),
        *("width", REFUSED, "would hold it"),
    ]
    lines = [f"| {' | '.join(head)} |", "| --- " * len(head) + "|", row("all", curves)]
    for kind in ("metric", "image", "text", "pairs", "length", "hospital", "families"):
        of_kind: dict[str, list[Judged]] = {}
        for curve in curves:
            if kind in curve.kinds:
                of_kind.setdefault(curve.kinds[kind], []).append(curve)
        lines += [row(f"{kind} {name}", of_kind[name]) for name in sorted(of_kind)]
    reasons = (REFUSED, "not learnt", "lie on no curve")
    doubts = Counter(
        next((known for known in reasons if known in curve.doubt), curve.doubt)
        for curve in curves
        if curve.doubt is not None
    )
    lines += [f"{times} curves say nothing: {reason}" for reason, times in doubts.most_common()]
    seconds = sum(record["seconds"] for record in records)
    return [*lines, f"{len(records)} sets of trainings in {seconds / 60:.1f} minutes of a core"]


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m simulations.trained_curves", description=__doc__
    )
    parser.add_argument("--grid", choices=GRIDS, default="long", help="(default: long)")
    parser.add_argument("--sets", type=int, default=72, help="of trainings (default: 72)")
    parser.add_argument("--first", type=int, default=0, help="number of the first (default: 0)")
    folder = Path("build/trained_curves")
    parser.add_argument(
        "--output", type=Path, default=folder, help=f"of scores and hospitals (default: {folder})"
    )
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    file = options.output / f"{options.grid}.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    records = {record["number"]: record for record in map(json.loads, lines)}
    for record in records.values():
        record["recipe"]["shares"] = tuple(record["recipe"]["shares"])
    numbers = range(options.first, options.first + options.sets)
    for number in numbers:
        of = recipe(GRIDS[options.grid], number)
        if number in records and Recipe(**records[number]["recipe"]) != of:
            parser.error(f"{file}: set {number} is of another recipe; expected {of}")
        if number not in records:
            hospital = kept_hospital(options.output, of.hospital)
            records[number] = trained_set(of, hospital, number)
            with file.open("a", encoding="utf-8") as lines_of_sets:
                lines_of_sets.write(json.dumps(records[number]) + "\n")
    print("\n".join(report([records[number] for number in numbers])))


@lru_cache(maxsize=1)
def kept_hospital(folder: Path, seed: int) -> Hospital:
    """A hospital of as many patients as the largest curve needs, drawn once."""
    file = folder / f"hospital_{seed}.pt"
    if not file.is_file():
        part = file.with_suffix(".part")
        torch.save(draw_hospital(seed, 2 * MOST_PAIRS + VALIDATION + TEST)._asdict(), part)
        os.replace(part, file)
    return Hospital(**torch.load(file))


if __name__ == "__main__":
    main()
