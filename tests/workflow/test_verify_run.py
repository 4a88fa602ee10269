"""One flipped bit in any product of a run is found by `cxrflow verify`, which names the file."""

from itertools import islice
from pathlib import Path
from random import Random

import pytest

from cxr_files.atomic import CHECKSUMS
from cxr_files.errors import InputError
from cxrflow.commands.verify_results import verify_results

from .conftest import Checkout

pytestmark = pytest.mark.slow

#: Below results/: what is drawn again or read by no later job.
PASSING = ("logs", "phantom", "report", "state", "timings")
#: What a store keeps for resuming, the mark of a folder, and CSVs, which are made again from the
#: scores (tests/unit/commands/test_verify_results.py).
OTHERWISE = (".cxrflow", "likeness.npz")


def kinds(results: Path) -> dict[tuple[str, str], Path]:
    """A file of each kind: the folder below results/, and its name, or its ending in tables."""
    found = {}
    for path in sorted(path for path in results.rglob("*") if path.is_file()):
        place = path.relative_to(results).parts[0]
        shard = place == "pixels" and path.name.startswith("shard-") and path.suffix == ".json"
        table = place in ("tables", "figures")
        if place in PASSING or path.name in OTHERWISE or shard or (table and path.suffix == ".csv"):
            continue
        curves = "tfevents" in path.name  # which the time names
        found.setdefault((place, path.suffix if table or curves else path.name), path)
    return found


def test_verify_names_the_first_flipped_file(finished_copy: Checkout) -> None:
    results, random = finished_copy.folder / "results", Random(61)
    chosen = kinds(results)
    assert len(chosen) > 60
    assert len(list(islice(verify_results(results, 2), 2))) == 2
    silent = []
    for path in chosen.values():
        content = path.read_bytes()
        damaged, bit = bytearray(content), random.randrange(8 * len(content))
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            list(islice(verify_results(results, 2), 2))
            silent.append(path)
        except InputError as error:
            # A flipped digest in a list is found in the file that it is of.
            place = path.parent if path.name == CHECKSUMS else path
            assert str(error).startswith(f"{place}"), error
        path.write_bytes(content)
    assert silent == []
