"""Race this project against other software at the same work; without names, run all races.

What each race compares: docs/performance.md.
"""

import argparse
import importlib
import pkgutil
from pathlib import Path

import torch

from speed import races
from speed.race import run, write


def main() -> None:
    names = sorted(module.name for module in pkgutil.iter_modules(races.__path__))
    parser = argparse.ArgumentParser(prog="python -m speed", description=__doc__)
    parser.add_argument("races", nargs="*", metavar="race", help=f"one of {', '.join(names)}")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often each side runs (default: 5)"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=2,
        help="threads of torch, the same for all sides (default: 2)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/bench"),
        help="folder of the results, a JSON file a race (default: results/bench)",
    )
    options = parser.parse_args()
    unknown = sorted(set(options.races) - set(names))
    if unknown:
        parser.error(f"no such race: {', '.join(unknown)}; there are {', '.join(names)}")
    torch.set_num_threads(options.threads)
    for name in options.races or names:
        for race in importlib.import_module(f"speed.races.{name}").races():
            result = run(race, options.rounds)
            write(result, options.output)
            for peer, ratio in result["ratio"].items():
                gate = result["gate"].get(peer)
                aim = f", to reach {gate:g}" if gate else ""
                print(f"{race.name}: {ratio:.2f} times as fast as {peer}{aim}")
            memory = result["memory"]
            for peer, ratio in memory.get("ratio", {}).items():
                most = memory["gate"].get(peer)
                aim = f", at most {most:g} wanted" if most else ""
                print(f"{race.name}: {ratio:.2f} times the memory of {peer}{aim}")


if __name__ == "__main__":
    main()
