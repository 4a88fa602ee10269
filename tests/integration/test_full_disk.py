"""A full disk, for every program that writes: one line, nothing half written, nothing lost.

The disk is a small tmpfs with less and less room left, so that programs meet its end at different
files; where none can be mounted (it takes root), and besides, the system's refusal is simulated.
"""

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from programs import End, program
from tiny_hospital import HOSPITAL, TRAINING, Stages

from command_options import run_to_end

MEGABYTES = 4
PAGE = 4096

Run = Callable[[Stages, Path], End]
BEST = {"training": {**TRAINING, "stopping": {"keep": "best"}}}


def table(stages: Stages, output: Path) -> End:
    return program("show.tables.make_table", paper="biovil", table="table6", output=output)


def hospital(stages: Stages, output: Path) -> End:
    return program("cxr_hospital.draw", HOSPITAL, output, layout="rsna")


PROGRAMS: dict[str, Run] = {
    "phantom": hospital,
    "corpus of reports": lambda s, o: s.make_corpus(o),
    "corpus of notes": lambda s, o: s.collect_notes(o),
    "pairs": lambda s, o: s.make_cohort(o),
    "samples": lambda s, o: s.make_rsna(o),
    "pixel store": lambda s, o: s.make_pixels(o),
    "vocabulary": lambda s, o: s.make_vocabulary(o),
    "tokens": lambda s, o: s.make_tokens(o),
    "phase II": lambda s, o: s.train_words(o),
    "phase III": lambda s, o: s.train_sections(o),
    "SimCLR": lambda s, o: s.train_images(o),
    "joint": lambda s, o: s.train_joint(o, **BEST),
    "grounding": lambda s, o: s.ground(o),
    "features": lambda s, o: s.extract(o),
    "zero-shot": lambda s, o: s.classify(o),
    "mask prediction": lambda s, o: s.predict_masks(o),
    "vocabulary comparison": lambda s, o: s.compare_vocabularies(o),
    "table": table,
}
# A store keeps its finished shards and a hospital its finished parts; a run keeps its state.
RESUMED = ("phantom", "pixel store")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={MEGABYTES}m"
    mounted = run_to_end(["mount", "-t", "tmpfs", "-o", size, "cxrflow-test", folder])
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def leave(disk: Path, pages: int) -> None:
    """Fill ``disk`` up to ``pages`` free pages."""
    filler = disk / "filler"
    filler.unlink(missing_ok=True)
    status = os.statvfs(disk)
    room = status.f_bavail * status.f_frsize - pages * PAGE
    filler.write_bytes(b"x" * room)


def left_behind(folder: Path) -> set[str]:
    """Everything below ``folder`` but training states, and features that zero-shot starts from."""
    return {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if not path.relative_to(folder).parts[0].startswith(("state-", "features-"))
    }


@pytest.mark.parametrize("name", PROGRAMS)
def test_full_disk(finished: Stages, disk: Path, name: str) -> None:
    run, output = PROGRAMS[name], disk / "results" / "result"
    output.parent.mkdir()
    refused = 0
    for pages in (0, 1, 3, 8, 24, 80, 256, 512):
        leave(disk, pages)
        end = run(finished, output)
        if end.code == 0:
            break
        refused += 1
        end.refuses("No space left on device", disk)
        found = left_behind(output.parent)
        assert not [path for path in found if path.endswith(".partial")]
        if name not in RESUMED:
            assert not found, f"{pages} pages"
    assert end.code == 0 and refused >= 2, end.stderr
    assert left_behind(output.parent)


@pytest.mark.parametrize("name", sorted(PROGRAMS.keys() - {"phantom", "pixel store", "table"}))
def test_old_result_outlives_a_full_disk(finished: Stages, disk: Path, name: str) -> None:
    run, output = PROGRAMS[name], disk / "result"
    run(finished, output).succeeds()
    record = output / "run.json"
    if record.is_file():  # a finished run is not trained again; let this one be another's
        (output / "SHA256SUMS").unlink()
        record.write_text(record.read_text().replace('"seed": 0', '"seed": 1'))
    before = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    leave(disk, 2)
    run(finished, output).refuses("No space left on device")
    after = {path: path.read_bytes() for path in output.rglob("*") if path.is_file()}
    assert after == before


@pytest.mark.parametrize("name", PROGRAMS)
def test_simulated_full_disk(finished, tmp_path, monkeypatch, name):
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    output = tmp_path / "results" / "result"
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        end = PROGRAMS[name](finished, output)
    end.refuses("No space left on device", tmp_path)
    found = left_behind(output.parent)
    assert not [path for path in found if path.endswith(".partial")]
    if name not in RESUMED:
        assert not found
    PROGRAMS[name](finished, output).succeeds()
