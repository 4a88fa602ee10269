"""One kind of input under trial: what it draws from, where it writes, what did not hold."""

import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from cxr_files.errors import InputError
from cxr_files.parallel import guarded_map

SECONDS = 10.0  # for one input
MEMORY = 2 << 30  # bytes of one process

_ROOT = Path(__file__).parents[1]
_EVERY = 0.05  # seconds between two looks at the memory
CaseT = TypeVar("CaseT")


class Ended(NamedTuple):
    """How a program ended; ``memory``: bytes of the largest of its processes, at most."""

    code: int
    words: str  # the standard error
    seconds: float
    memory: int


@dataclass
class Trial:
    """What a kind's ``run`` is given; inputs that a fault names are kept in ``folder/faults``."""

    kind: str
    seed: int
    count: int
    folder: Path
    workers: int = 2
    faults: list[str] = field(default_factory=list)
    outcomes: dict[str, int] = field(default_factory=dict)

    def random(self, number: int) -> random.Random:
        """What input ``number`` is drawn from: it alone can be drawn again."""
        return random.Random(f"{self.kind}/{self.seed}/{number}")

    def outcome(self, name: str, count: int = 1) -> None:
        """Count what became of inputs, for the summary."""
        self.outcomes[name] = self.outcomes.get(name, 0) + count

    def fault(self, case: object, what: str) -> None:
        """Note that something did not hold for an input, and keep it where it is a file."""
        kept = case
        if isinstance(case, Path) and case.is_file():
            (self.folder / "faults").mkdir(parents=True, exist_ok=True)
            kept = shutil.copy(case, self.folder / "faults" / case.name)
        self.faults.append(f"{self.kind}: {kept}: {what}")

    def attempt(self, function: Callable[[CaseT], object], cases: Iterable[CaseT]) -> None:
        """Call ``function``, an importable one, with each case in processes of their own.

        A return and an :class:`InputError` hold; any other exception, a death, more than
        ``SECONDS`` or ``MEMORY`` does not.
        """
        cases = list(cases)
        work = partial(_attempt, function)
        lost = partial(_lost)
        with closing(guarded_map(work, cases, self.workers, lost, SECONDS)) as answers:
            for case, (held, what) in zip(cases, answers, strict=True):
                if held:
                    self.outcome(what)
                else:
                    self.outcome("fault")
                    self.fault(case, what)

    def program(self, arguments: Sequence[object], seconds: float) -> Ended:
        """Run ``python -m`` with arguments; a traceback, a hang or too much memory is a fault.

        So is an exit code besides 0 and 2, which is that of an error told in one line.
        """
        name = " ".join(map(str, arguments))
        ended = _run(arguments, seconds)
        if ended.code not in (0, 2):
            what = "still ran" if ended.seconds >= seconds else f"exit code {ended.code}"
            self.fault(name, f"{what} after {ended.seconds:.0f} s: {ended.words[-1000:]}")
        elif "Traceback" in ended.words:
            self.fault(name, ended.words[ended.words.index("Traceback") :][-2000:])
        if ended.memory > MEMORY:
            self.fault(name, f"a process took {ended.memory / 2**30:.1f} GiB")
        return ended


def _attempt(function: Callable[[CaseT], object], case: CaseT) -> tuple[bool, str]:
    before = _peak()
    try:
        function(case)
        held, what = True, "accepted"
    except InputError:
        held, what = True, "refused"
    except MemoryError:
        held, what = False, "MemoryError"
    except Exception:
        held, what = False, traceback.format_exc()
    after = _peak()
    if after > MEMORY and after > before:
        held, what = False, f"took {after / 2**30:.1f} GiB"
    return held, what


def _lost(case: object, reason: str) -> tuple[bool, str]:
    return False, reason


def _peak() -> int:
    """Bytes that this process has ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _run(arguments: Sequence[object], seconds: float) -> Ended:
    paths = [str(_ROOT / "workflow_scripts"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    begun = time.monotonic()
    memory = 0
    # A pipe that fills up would stop the program.
    with tempfile.TemporaryFile("w+", errors="replace") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=words,
        )
        while process.poll() is None:
            memory = max(memory, _largest(process.pid))
            if time.monotonic() - begun > seconds:
                process.kill()
            time.sleep(_EVERY)
        words.seek(0)
        return Ended(process.returncode, words.read(), time.monotonic() - begun, memory)


def _largest(process: int) -> int:
    """Bytes that a process or one of its descendants has held at most, by Linux's account."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        threads = list(Path(f"/proc/{process}/task").iterdir())
        children = [int(c) for t in threads for c in (t / "children").read_text().split()]
    except OSError:  # it has ended
        return 0
    peaks = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")]
    return max([0, *peaks, *map(_largest, children)])
