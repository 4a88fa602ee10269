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
class Measured:
    """What a turn may return when its memory counts too: ``check`` gets ``value`` alone."""

    value: Any
    peak_mb: float


@dataclass(frozen=True)
class Race:
    """``ours`` against each of ``peers``, all on the same inputs.

    ``check(ours, peer)`` gets what the two returned and raises :class:`AssertionError` when that is
    not the same; it runs before any timing. ``gate`` is the ratio peer / ours that the project
    holds itself to, by peer; a peer without a gate is shown for orientation. A peer with a share of
    the work in ``shares`` does only that in a turn; its seconds are divided by it. ``amount`` of
    ``unit`` is what one turn does, for the rate. Where turns return :class:`Measured`,
    ``memory_gates`` are the largest ratios ours / peer of their median peak memory. ``most_rounds``
    keeps a long race short, whatever is asked for.
    """

    name: str
    what: str
    ours: Work
    peers: Mapping[str, Work]
    check: Callable[[Any, Any], None]
    gates: Mapping[str, float] = field(default_factory=dict)
    memory_gates: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    amount: float = 1.0
    unit: str = "turn"
    notes: Sequence[str] = ()
    most_rounds: int | None = None


def synchronise() -> None:
    """Wait for the GPU, where there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def timed(work: Work) -> tuple[float, Any]:
    """Seconds a turn took, and what it returned."""
    synchronise()
    start = time.perf_counter()
    result = work()
    synchronise()
    return time.perf_counter() - start, result


def memory(race: Race, peaks: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Peak memory of every runner (MB) and ours / peer; nothing where it was not measured."""
    if not any(peaks.values()):
        return {}
    medians = {name: statistics.median(values) for name, values in peaks.items()}
    ratios = {name: medians["ours"] / medians[name] for name in race.peers}
    return {
        "peak_mb": medians,
        "ratio": ratios,
        "gate": dict(race.memory_gates),
        "reached": {name: ratios[name] <= gate for name, gate in race.memory_gates.items()},
    }


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
    rounds = min(rounds, race.most_rounds or rounds)
    runners = {"ours": race.ours, **race.peers}
    results = {name: work() for name, work in runners.items()}
    values = {n: r.value if isinstance(r, Measured) else r for n, r in results.items()}
    for name in race.peers:
        race.check(values["ours"], values[name])
    del results, values
    times: dict[str, list[float]] = {name: [] for name in runners}
    peaks: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name, work in runners.items():
            seconds, result = timed(work)
            times[name].append(seconds / race.shares.get(name, 1))
            if isinstance(result, Measured):
                peaks[name].append(result.peak_mb)
    medians = {name: statistics.median(taken) for name, taken in times.items()}
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
        "memory": memory(race, peaks),
        "notes": list(race.notes),
    }


def write(result: Mapping[str, Any], folder: Path) -> Path:
    """``<folder>/<race>.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result['race']}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path
