"""Run races and write their results: ``python -m bench [race ...]``; without names, all of them."""

import argparse
import importlib
import pkgutil
from pathlib import Path

import torch

from bench import races
from bench.race import run, write


def main() -> None:
    names = sorted(module.name for module in pkgutil.iter_modules(races.__path__))
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("races", nargs="*", metavar="race", help=f"of: {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each runner")
    parser.add_argument("--threads", type=int, default=2, help="of torch, for all alike")
    parser.add_argument("--output", type=Path, default=Path("results/bench"))
    options = parser.parse_args()
    unknown = sorted(set(options.races) - set(names))
    if unknown:
        parser.error(f"no such race: {', '.join(unknown)}; there are {', '.join(names)}")
    torch.set_num_threads(options.threads)
    for name in options.races or names:
        for race in importlib.import_module(f"bench.races.{name}").races():
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
