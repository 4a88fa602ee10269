"""A job under a fault: what it leaves, compared with what it makes undisturbed."""

import importlib
import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from cxr_files.atomic import CHECKSUMS
from cxr_files.outputs import MARK, UNFINISHED
from faults.calls import Ended, begun, ended, ran
from faults.faults import FAULTS, Draw, Fault
from faults.stages import Job

Kind = Literal["whole", "refused", "ended", "traceback", "stuck", "SILENT"]
#: What must not happen, whatever the machine does.
DEFECTS: tuple[Kind, ...] = ("traceback", "stuck", "SILENT")
SECONDS = 600.0  # of one job
# A run without results is of no use, but what the workflow notes of itself is not read by a job.
LEFT_OUT = (".snakemake", "workflow_scripts", "logs", "timings", "rules", "envs", "slurm")
#: Fields of records that are other in each run.
OF_THE_MACHINE = {"data_wait", "data_wait_share", "finished", "flops_per_second", "mfu", "seconds"}
OF_THE_MACHINE |= {"peak_memory_mb", "samples_per_second", "time", "tokens_per_second"}
OF_THE_MACHINE |= {"plan"}  # of a shard: a hash of the times of its images
CURVES = "tfevents"  # TensorBoard's, named by the time
PASSING = "results/state/"  # states come and go


class Outcome(NamedTuple):
    """What became of a job under a fault; ``words``: the error that it told, or what is wrong."""

    stage: str
    fault: str
    draw: int
    kind: Kind
    code: int
    words: str


@dataclass
class Undisturbed:
    """What a job makes: its files by name, twice, its calls, its largest file in bytes."""

    first: dict[str, bytes]
    second: dict[str, bytes]
    calls: int
    largest: int
    problems: list[str] = field(default_factory=list)

    def differences(self, files: dict[str, bytes]) -> list[str]:
        """Names of files that are missing, or other than undisturbed."""
        return sorted(
            name
            for name in self.first
            if name not in files or not _equal(name, self.first[name], self.second[name], files)
        )


class Bench:
    """Tries one job of a finished checkout, in copies below ``work``."""

    def __init__(self, job: Job, finished: Path, work: Path) -> None:
        self.job, self.finished, self.work = job, finished, work
        importlib.import_module(job.module)  # once, and not in every fork
        self.undisturbed = self._undisturbed()

    def trial(self, name: str, draw: int = 0) -> Outcome:
        """The job under a fault, then without it in the same place."""
        fault = FAULTS[name]
        random = Random(f"{self.job.stage}/{name}/{draw}")
        drawn = Draw(random, self.undisturbed.calls, self.undisturbed.largest)
        folder = fault.laid(self._copy())
        before = _others(folder, self._products(folder))
        outcome: tuple[Kind, int, str]
        try:
            outcome = self._judged(fault, self._under(fault, drawn, folder), folder, before)
        except TimeoutError as error:
            outcome = "stuck", -signal.SIGKILL, str(error)
        return Outcome(self.job.stage, name, draw, *outcome)

    def _under(self, fault: Fault, drawn: Draw, folder: Path) -> list[Ended]:
        main = self.job.main(folder, fault.entered(drawn))
        if fault.together:
            both = [begun(main, filtered=False) for _ in range(2)]
            return [ended(child, words, None, SECONDS) for child, words, _ in both]
        answers = None if fault.answered is None else fault.answered(drawn)
        return [ran(main, folder, answers, SECONDS)]

    def _judged(
        self, fault: Fault, ends: list[Ended], folder: Path, before: dict[str, tuple[int, int]]
    ) -> tuple[Kind, int, str]:
        failed = [end for end in ends if end.code != 0]
        code, words = (failed[0].code, _error(failed[0])) if failed else (0, "")
        files = self._files(folder)
        there = [name for name in self.undisturbed.first if name in files]
        other = [name for name in self.undisturbed.differences(files) if name in there]
        if len(failed) < len(ends) and (wrong := self.undisturbed.differences(files)):
            return "SILENT", 0, f"exit code 0, but other or missing: {', '.join(wrong)}"
        if declared := [name for name in other if name in self.job.outputs]:
            return "SILENT", code, f"looks finished: {', '.join(declared)}; {words}"
        if harmed := _changed(before, _others(folder, self._products(folder))):
            return "SILENT", code, f"other products changed: {', '.join(harmed)}; {words}"
        if failed and not fault.stops:
            return "stuck", code, f"does not work: {words}"
        again = ran(self.job.main(folder, lambda: None), folder, None, SECONDS)
        wrong = self.undisturbed.differences(self._files(folder))
        if again.code != 0 or wrong:
            return "stuck", again.code, f"after {words!r}: {_error(again)} {', '.join(wrong)}"
        left = [str(path) for path in folder.rglob("*") if _unfinished(path)]
        if left:
            return "stuck", code, f"left behind: {', '.join(left)}"
        tracebacks = [end for end in failed if "Traceback" in end.words]
        if tracebacks:
            return "traceback", code, tracebacks[0].words.strip().splitlines()[-1]
        if not failed:
            return "whole", 0, ""
        return ("ended" if code < 0 else "refused"), code, words

    def _undisturbed(self) -> Undisturbed:
        runs = []
        for _ in range(2):
            folder = self._copy()
            end = ran(self.job.main(folder, lambda: None), folder, lambda call: None, SECONDS)
            if end.code != 0:
                raise RuntimeError(f"{self.job.stage} fails undisturbed: {end.words[-2000:]}")
            runs.append((self._files(folder), end.calls))
        (first, calls), (second, _) = runs
        return Undisturbed(first, second, calls, max(map(len, first.values())))

    def _copy(self) -> Path:
        """A copy of the finished run without the product of this job."""
        shutil.rmtree(self.work, ignore_errors=True)
        folder = self.work / "run"
        ignore = shutil.ignore_patterns(*LEFT_OUT)
        shutil.copytree(self.finished, folder, symlinks=True, ignore=ignore)
        for product in self._products(folder):
            shutil.rmtree(product) if product.is_dir() else product.unlink(missing_ok=True)
        for output in self.job.outputs:  # as Snakemake does
            (folder / output).parent.mkdir(parents=True, exist_ok=True)
        return folder

    def _products(self, folder: Path) -> set[Path]:
        """The files that the job makes; a folder that is marked as a product is one whole."""
        outputs = [folder / output for output in self.job.outputs]
        marked = [self.finished / output for output in self.job.outputs]
        return {
            output.parent if (place.parent / MARK).is_file() else output
            for output, place in zip(outputs, marked, strict=True)
        }

    def _files(self, folder: Path) -> dict[str, bytes]:
        """The job's files by name: those that it has declared, and what lies beside them."""
        found = {
            path
            for product in self._products(folder)
            for path in (product.rglob("*") if product.is_dir() else [product])
        }
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in found
            if path.is_file() and not _unfinished(path) and CURVES not in path.name
        }


def _others(folder: Path, products: set[Path]) -> dict[str, tuple[int, int]]:
    """Size and time of all files of the run but a job's products."""
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
        and products.isdisjoint([path, *path.parents])
        and not _unfinished(path)
        and not path.relative_to(folder).as_posix().startswith(PASSING)
    }


def _unfinished(path: Path) -> bool:
    """True of what a program is still writing, and of what is in such a folder."""
    return any(part.startswith(".") and part.endswith(UNFINISHED) for part in path.parts)


def _changed(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> list[str]:
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name) != after.get(name))


def _equal(name: str, first: bytes, second: bytes, files: dict[str, bytes]) -> bool:
    """True where a file holds what is the same in two undisturbed runs of its job.

    Of records all fields count but those of the machine; a list of checksums must be that of the
    files that are there; of a text, such as a page with its date, the lines that the two share.
    """
    if name.endswith(CHECKSUMS):
        folder = name.removesuffix(CHECKSUMS)
        listed = dict(line.split("  ", 1)[::-1] for line in files[name].decode().splitlines())
        return all(
            sha256(files.get(folder + each, b"")).hexdigest() == digest
            for each, digest in listed.items()
            if CURVES not in each
        )
    contents = first, second, files[name]
    if name.endswith((".json", ".jsonl")):
        try:
            return not any(_unlike(*(map(_records, contents))))
        except ValueError:
            return False
    if first == second:
        return files[name] == first
    lines = [content.decode(errors="replace").splitlines() for content in contents]
    same = len(lines[2]) == len(lines[0])
    return same and all(a != b or a == c for a, b, c in zip(*lines, strict=True))


def _records(content: bytes) -> Any:
    """JSON, or JSON a line, without times and memory."""
    try:
        return _of_the_data(json.loads(content))
    except ValueError:
        return [_of_the_data(json.loads(line)) for line in content.splitlines()]


def _of_the_data(record: Any) -> Any:
    if isinstance(record, dict):
        return {n: _of_the_data(each) for n, each in record.items() if n not in OF_THE_MACHINE}
    return [_of_the_data(each) for each in record] if isinstance(record, list) else record


def _unlike(one: Any, two: Any, three: Any) -> Iterator[bool]:
    """Yield True for each field of ``three`` that is other than where ``one`` and ``two`` agree."""
    if isinstance(one, dict) and isinstance(two, dict) and isinstance(three, dict):
        if one.keys() == two.keys():
            yield one.keys() != three.keys()
        for name in one.keys() & two.keys() & three.keys():
            yield from _unlike(one[name], two[name], three[name])
    elif isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        yield not isinstance(three, list) or len(three) != len(one)
        if isinstance(three, list):
            for entries in zip(one, two, three, strict=False):
                yield from _unlike(*entries)
    else:
        yield one == two and one != three


def _error(end: Ended) -> str:
    lines = end.words.strip().splitlines()
    told = [line for line in lines if line.startswith(("error: ", "interrupted: "))]
    return told[-1] if told else (lines[-1] if lines else f"exit code {end.code}, no word")
