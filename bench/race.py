"""A race: two or more ways to do the same work, compared first, then timed turn by turn."""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

Work = Callable[[], Any]


@dataclass(frozen=True)
class Race:
    """``ours`` against each of ``peers``, all on the same inputs.

    ``check(ours, peer)`` gets what the two returned and raises :class:`AssertionError` when that is
    not the same; it runs before any timing. ``gate`` is the ratio peer / ours that the project
    holds itself to, by peer; a peer without a gate is shown for orientation. ``amount`` of ``unit``
    is what one turn does, for the rate.
    """

    name: str
    what: str
    ours: Work
    peers: Mapping[str, Work]
    check: Callable[[Any, Any], None]
    gates: Mapping[str, float] = field(default_factory=dict)
    amount: float = 1.0
    unit: str = "turn"
    notes: Sequence[str] = ()


def synchronise() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(work: Work) -> float:
    synchronise()
    start = time.perf_counter()
    work()
    synchronise()
    return time.perf_counter() - start


def processor() -> str:
    """The processor's name, which Python itself does not give on Linux."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine() -> dict[str, Any]:
    """What the times were taken on."""
    return {
        "cpu": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def run(race: Race, rounds: int) -> dict[str, Any]:
    """Compare, warm up, then time ``rounds`` rounds in which every runner has one turn."""
    runners = {"ours": race.ours, **race.peers}
    result = race.ours()
    for peer in race.peers.values():
        race.check(result, peer())
    del result
    times: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, work in runners.items():
            times[name].append(seconds_of(work))
    medians = {name: statistics.median(values) for name, values in times.items()}
    ratios = {name: medians[name] / medians["ours"] for name in race.peers}
    return {
        "race": race.name,
        "what": race.what,
        "machine": machine(),
        "rounds": rounds,
        "seconds": times,
        "median_seconds": medians,
        "rate": {"unit": f"{race.unit}/s", **{n: race.amount / m for n, m in medians.items()}},
        "ratio": ratios,
        "gate": dict(race.gates),
        "reached": {name: ratios[name] >= gate for name, gate in race.gates.items()},
        "notes": list(race.notes),
    }


def write(result: Mapping[str, Any], folder: Path) -> Path:
    """``<folder>/<race>.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['race']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path
