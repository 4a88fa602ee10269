"""What a machine does to a job: the faults of the laboratory, by name."""

import errno
import os
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from random import Random
from typing import NamedTuple

from faults.calls import GROWING, MOVING, Answer, Call, Decide, Kill, Refuse, Shorten

YEAR = 365 * 24 * 3600  # seconds
ODD = 'it\'s a "folder"\nof two lines'
MEBIBYTE = 2**20


class Draw(NamedTuple):
    """What a fault is drawn from: of the undisturbed job, its calls and its largest file."""

    random: Random
    calls: int
    largest: int  # bytes


def _nothing() -> None:
    """A machine at peace."""


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        meaning: what happens, in a line.
        answered: by a draw, the answers to the job's calls; None where they are left alone.
        entered: by a draw, what the forked process does to itself before the job begins.
        laid: makes another folder of a copy of the run, in which the job then works.
        together: two of the same job begin at once.
        stops: the fault may keep the job from its end; else it must succeed.
    """

    meaning: str
    answered: Callable[[Draw], Decide] | None = None
    entered: Callable[[Draw], Callable[[], None]] = lambda draw: _nothing
    laid: Callable[[Path], Path] = lambda folder: folder
    together: bool = False
    stops: bool = True


def _at_a_call(answer: Answer, kinds: set[str] | None = None) -> Callable[[Draw], Decide]:
    """``answer`` from a call on that is drawn, to the calls of some kinds alone."""

    def of(draw: Draw) -> Decide:
        first = draw.random.randint(1, max(1, draw.calls))

        def decide(call: Call) -> Answer:
            hit = call.number >= first and (kinds is None or call.name in kinds)
            return answer if hit else None

        return decide

    return of


def _limited(kind: int, draw_limit: Callable[[Draw], int]) -> Callable[[Draw], Callable[[], None]]:
    def of(draw: Draw) -> Callable[[], None]:
        room = draw_limit(draw)

        def enter() -> None:
            limit = _limit(kind, room)
            resource.setrlimit(kind, (limit, limit))

        return enter

    return of


def _limit(kind: int, room: int) -> int:
    """The limit that leaves ``room`` beside what this process has, with all libraries."""
    if kind == resource.RLIMIT_AS:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return room + pages * resource.getpagesize()
    if kind == resource.RLIMIT_NOFILE:
        taken = set(map(int, os.listdir("/proc/self/fd")))  # a number far above others leaves holes
        return next(islice((number for number in count() if number not in taken), room, None))
    return room


def _clock_back(draw: Draw) -> Callable[[], None]:
    """Each look at the clock shows an earlier time than the one before."""
    shown = time.time() - YEAR

    def earlier() -> float:
        nonlocal shown
        shown -= 60
        return shown

    def enter() -> None:
        time.time = earlier
        time.time_ns = lambda: int(earlier() * 10**9)

    return enter


def _from_the_future(folder: Path) -> Path:
    """All files are of next year, as where the clock was moved back after they were written."""
    then = time.time() + YEAR
    for path in folder.rglob("*"):
        os.utime(path, (then, then), follow_symlinks=False)
    return folder


def _linked(folder: Path) -> Path:
    """The results lie elsewhere; a link leads to them."""
    elsewhere = folder.with_name("elsewhere")
    os.rename(folder / "results", elsewhere)
    os.symlink(elsewhere, folder / "results")
    return folder


def _odd_path(folder: Path) -> Path:
    """The whole checkout lies in a folder with quotes, a blank and a new line in its name."""
    return folder.rename(folder.with_name(ODD))


FAULTS: dict[str, Fault] = {
    "kill": Fault("SIGKILL at a moment that changes files", _at_a_call(Kill())),
    "disk full": Fault(
        "no space left (ENOSPC) from a moment on", _at_a_call(Refuse(errno.ENOSPC), GROWING)
    ),
    "disk broken": Fault(
        "writes and flushes fail (EIO) from a moment on", _at_a_call(Refuse(errno.EIO), MOVING)
    ),
    "short writes": Fault(
        "a write takes half of its bytes", lambda draw: lambda call: Shorten(), stops=False
    ),
    "file too large": Fault(
        "files end at a size (EFBIG, after a short write)",
        entered=_limited(resource.RLIMIT_FSIZE, lambda d: d.random.randint(1, max(2, d.largest))),
    ),
    "read-only": Fault(
        "the folder takes no change (EROFS)", lambda draw: lambda call: Refuse(errno.EROFS)
    ),
    "clock back": Fault(
        "files are of next year, and time runs backwards",
        entered=_clock_back,
        laid=_from_the_future,
        stops=False,
    ),
    "two at once": Fault("the same job begins twice", together=True),
    "linked": Fault("results/ is a link to where they were moved", laid=_linked, stops=False),
    "odd path": Fault("quotes and a new line in the path", laid=_odd_path, stops=False),
    "umask 077": Fault(
        "new files are the owner's alone", entered=lambda draw: lambda: _umask(), stops=False
    ),
    "few files": Fault(
        "hardly any file can be opened (EMFILE)",
        entered=_limited(resource.RLIMIT_NOFILE, lambda d: d.random.randint(1, 6)),
    ),
    "little memory": Fault(
        "hardly any memory (ENOMEM)",
        entered=_limited(resource.RLIMIT_AS, lambda d: d.random.randint(0, 24) * MEBIBYTE),
    ),
}


def _umask() -> None:
    os.umask(0o077)
