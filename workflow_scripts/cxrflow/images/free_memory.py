"""How much memory can be had for images: on a GPU, or on the host within the limits of a job."""

import os
from collections.abc import Iterator
from pathlib import Path

import torch


def free_memory(device: torch.device) -> int:
    """Bytes that can be had on ``device``: what the driver has free, or the host's (Linux).

    Processes that torchrun started on one machine have an equal share of the host's memory each.
    """
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return host_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", 1))


def host_memory(root: Path = Path("/")) -> int:
    """Bytes that Linux can give without swapping, in the limits of this process's control groups.

    A batch system sets such limits; who takes more is killed. ``root`` is where /proc and /sys are.
    """
    rooms = [_numbers(root / "proc/meminfo")["MemAvailable:"] * 1024]
    for folder in _memory_groups(root):
        # Version 2 of control groups, then version 1. Files kept in memory count as used, but make
        # room when it is asked for.
        for limit, usage, files in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most = (folder / limit).read_text().strip() if (folder / limit).is_file() else "max"
            if most != "max":  # no limit
                cached = _numbers(folder / "memory.stat").get(files, 0)
                rooms.append(int(most) - int((folder / usage).read_text()) + cached)
    return max(0, min(rooms))


def _memory_groups(root: Path) -> Iterator[Path]:
    """The folders of the control groups that this process is in, from the innermost outwards."""
    groups = root / "proc/self/cgroup"
    for line in groups.read_text().splitlines() if groups.is_file() else ():
        _, controllers, path = line.split(":", 2)
        if controllers in ("", "memory"):
            top = root / "sys/fs/cgroup" / controllers
            # In a container the inner folders may be out of sight.
            inner = top / path.lstrip("/")
            yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(top))


def _numbers(path: Path) -> dict[str, int]:
    """The first number after each name in a file with a name and numbers in a line."""
    lines = [line.split() for line in path.read_text().splitlines()]
    return {line[0]: int(line[1]) for line in lines if len(line) > 1}
