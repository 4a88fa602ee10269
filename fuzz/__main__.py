"""Give damaged files to the programs that read them; exit code 1 where one did not hold.

What must hold: what cannot be used is refused in one line or counted by name, without a traceback,
in little time and memory. Without names, all kinds of files are tried.
"""

import argparse
import importlib
import sys
import tempfile
import time
from pathlib import Path

from fuzz import KINDS
from fuzz.trial import Trial


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("kinds", nargs="*", metavar="kind", help=f"one of {', '.join(KINDS)}")
    parser.add_argument(
        "--seed", type=int, required=True, help="of the damage: the same seed, the same files"
    )
    parser.add_argument("--count", type=int, help="inputs of each kind (default: its own number)")
    parser.add_argument(
        "--workers", type=int, default=2, help="processes that read the inputs (default: 2)"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/fuzz"),
        help="folder that keeps the inputs of faults",
    )
    options = parser.parse_args()
    unknown = sorted(set(options.kinds) - set(KINDS))
    if unknown:
        parser.error(f"no such kind: {', '.join(unknown)}; there are {', '.join(KINDS)}")
    failed = 0
    for kind in options.kinds or KINDS:
        module = importlib.import_module(f"fuzz.{kind}")
        begun = time.monotonic()
        count = options.count or module.COUNT
        trial = Trial(kind, options.seed, count, options.output / kind, options.workers)
        with tempfile.TemporaryDirectory(prefix=f"cxrflow-fuzz-{kind}-") as work:
            module.run(trial, Path(work))
        outcomes = ", ".join(f"{n} {name}" for name, n in sorted(trial.outcomes.items()))
        seconds = time.monotonic() - begun
        print(f"{kind}: {count} tried in {seconds:.0f} s: {outcomes}; {len(trial.faults)} faults")
        print(*trial.faults, sep="\n", end="\n" * bool(trial.faults))
        failed += len(trial.faults)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
