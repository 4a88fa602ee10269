"""How often forecasts of twice the pairs hold what then comes (docs/inference.md).

    python -m simulations.forecast --curves 200

Curves of each family, and of one that is not fitted, rise by 0.03 to 0.3 from the smallest share to
all of 3,000 pairs; seeds spread by 0.004 to 0.02, sets of pairs by `set` times as much. What comes
is the mean of as many trainings on another set of twice the pairs.
"""

import argparse
from collections.abc import Callable

import numpy as np

from cxrflow.metrics.forecast import FARTHEST, doubt, fit

PAIRS = 3000
Course = Callable[[np.ndarray], np.ndarray]


def course(rng: np.random.Generator, family: str) -> Course:
    """A curve over the ratio of pairs to all of them, up to its place and height."""
    if family == "power law":
        exponent = rng.uniform(0.1, 1.5)
        return lambda r: -(r**-exponent)
    if family == "logarithm":
        return np.log
    if family == "exponential":
        rate = np.exp(rng.uniform(np.log(1.5), np.log(15)))
        return lambda r: -np.exp(-rate * r)
    least, most, steepest = {
        "logistic": (0.1, 1.0, 2.5),
        "late logistic": (1.0, 2.5, 3.0),
        "Gompertz": (0.05, 0.6, 2.0),  # of none of the fitted families
    }[family]
    middle = np.exp(rng.uniform(np.log(least), np.log(most)))
    steepness = rng.uniform(0.8, steepest)
    if family == "Gompertz":
        return lambda r: np.exp(-((r / middle) ** -steepness))
    return lambda r: 1 / (1 + (r / middle) ** -steepness)


FAMILIES = (
    "power law", "logarithm", "exponential", "logistic", "late logistic", "Gompertz",
)  # fmt: skip


def simulate(
    rng: np.random.Generator,
    family: str,
    effect: float,
    subsets: str,
    shares: list[float],
    seeds: int,
) -> tuple[str | None, bool]:
    """Whether a curve says what twice the pairs give, and whether its interval holds it."""
    share_P = np.repeat(shares, seeds)
    of_seed = np.tile(np.arange(seeds), len(shares)) * ((share_P < 1) & (subsets == "each"))
    sets = list(zip(share_P.tolist(), of_seed.tolist(), strict=True))
    rise, spread = rng.uniform(0.03, 0.3), rng.uniform(0.004, 0.02)
    form, top = course(rng, family), rng.uniform(0.7, 0.95)
    first, last, twice = (form(np.float64(r)) for r in (min(shares), 1.0, FARTHEST))
    effects = {name: effect * spread * rng.normal() for name in dict.fromkeys(sets)}
    score_P = top + rise * (form(share_P) - last) / (last - first) + [effects[s] for s in sets]
    score_P = score_P + spread * rng.normal(size=len(share_P))
    comes = top + rise * (twice - last) / (last - first)
    comes += spread * (effect * rng.normal() + rng.normal() / seeds**0.5)
    curve = fit(PAIRS * share_P, score_P, sets)
    reason = doubt(curve, seeds, advice=False)
    if reason is not None:
        return reason, False
    expected = curve.expected(FARTHEST * PAIRS, seeds)
    return None, expected.low <= comes <= expected.high


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m simulations.forecast", description=__doc__)
    parser.add_argument("--curves", type=int, default=200, help="of each line (default: 200)")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.1, 0.2, 0.5, 1])
    parser.add_argument("--seeds", type=int, default=3, help="trainings a share (default: 3)")
    options = parser.parse_args()
    print("| subsets | set | family | says | holds |\n| --- | --- | --- | --- | --- |")
    for subsets in ("each", "shared"):
        for effect in (0.0, 0.5, 1.0):
            for number, family in enumerate(FAMILIES):
                rng = np.random.default_rng([number, int(2 * effect)])
                setting = (family, effect, subsets, options.shares, options.seeds)
                curves = [simulate(rng, *setting) for _ in range(options.curves)]
                holds = [inside for reason, inside in curves if reason is None]
                share = f"{np.mean(holds):.3f}" if holds else "-"
                says = len(holds) / options.curves
                print(f"| {subsets} | {effect:g} | {family} | {says:.2f} | {share} |", flush=True)


if __name__ == "__main__":
    main()
