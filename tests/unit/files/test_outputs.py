"""What a program may replace: what an earlier run of it wrote, and nothing else."""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import cxrflow
from cxr_files.atomic import (
    atomic_folder,
    atomic_path,
    remove_damaged,
    require_whole,
    write_json,
    write_png,
)
from cxr_files.errors import InputError
from cxr_files.outputs import (
    MARK,
    claim_folder,
    empty_folder,
    open_to_others,
    remove_unfinished,
    require_own,
)
from cxr_files.program import WRITTEN, Parser, parser
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.rsna import write_rsna
from cxrflow.encoders.weights import read_weights
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.programs.registry import PROGRAMS as MODULES
from cxrflow.programs.source_code import full_name
from cxrflow.training.state import StateFolder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a data set, notes, and a working folder in it."""
    for path in ("home/data/mimic/files/a.txt", "home/notes/idea.txt", "home/desk/own.txt"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("dear")
    home = tmp_path / "home"
    (home / "link").symlink_to(home / "data/mimic")
    (home / "file_link").symlink_to(home / "notes/idea.txt")
    (home / "data/empty").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home / "desk")
    return home


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def write(folder: Path, product: str = "corpus", text: str = "new") -> None:
    with atomic_folder(folder, product) as made:
        (made / "result.txt").write_text(text)


REFUSED = {
    "../data/mimic": "holds files that no earlier run wrote",
    "../data": "holds files that no earlier run wrote",
    "../link": "is a link",
    "../notes/idea.txt": "is a file; expected a folder",
    "../file_link": "is a link",
    ".": "is the working folder",
    "..": "is around the working folder",
    "/": "is around the working folder",
    "~": "is around the working folder",
}


@pytest.mark.parametrize("place", REFUSED)
def test_folders_that_are_left_alone(home: Path, place: str) -> None:
    before, folder = files(home), Path(place).expanduser()
    for replace in (write, lambda path: claim_folder(path, "corpus")):
        with pytest.raises(InputError, match=REFUSED[place]) as caught:
            replace(folder)
        assert str(caught.value).startswith(f"{folder}: ") and "\n" not in str(caught.value)
    assert files(home) == before


def test_home_is_left_alone(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path.parent)
    with pytest.raises(InputError, match="is the home folder"):
        write(home)


def test_a_product_of_outside_code_has_a_colon_in_its_name(tmp_path: Path) -> None:
    for text in ("old", "new"):
        write(tmp_path / "scores", "outside.module:Benchmark", text=text)
        assert (tmp_path / "scores/result.txt").read_text() == text


def test_a_rerun_replaces_its_own_product_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "corpus"
    (folder / "made/by/the workflow").mkdir(parents=True)  # empty folders are nobody's
    for text in ("old", "new"):
        write(folder, text=text)
        assert files(folder.parent) == [f"corpus/{MARK}", "corpus/SHA256SUMS", "corpus/result.txt"]
        assert (folder / "result.txt").read_text() == text
    with pytest.raises(InputError, match=r"another product \(corpus\), not an earlier model"):
        write(folder, "model")
    unmarked = atomic_folder(tmp_path / "b", "x")
    with pytest.raises(InputError, match="no earlier run wrote"), unmarked:
        write_json(tmp_path / "b/notes.json", {})  # written while the program ran
    assert files(tmp_path / "b") == ["notes.json"]


def test_a_kill_leaves_a_folder_of_ours(tmp_path: Path) -> None:
    """Between making a folder and marking it, and while one is deleted."""
    (tmp_path / MARK).write_text("corp")
    claim_folder(tmp_path, "corpus")
    (tmp_path / "a").mkdir()
    empty_folder(tmp_path)
    assert files(tmp_path) == [MARK]
    claim_folder(tmp_path, "corpus")


def test_files_that_are_left_alone(home: Path) -> None:
    refused = {"../link": "is a link", "../file_link": "link", "../data": "folder"}
    for place, reason in refused.items():
        with pytest.raises(InputError, match=reason), atomic_path(place) as path:
            path.write_text("new")
    assert (home / "notes/idea.txt").read_text() == "dear"


SQUARE = Geometry.parse("square8")
Fill = Callable[[Path], object]
FILLED: dict[str, Fill] = {
    "pixel store": lambda path: build_store(path, [], SQUARE, PixelSettings(), path, 1),
    "training state": StateFolder,
    "phantom": lambda path: write_rsna(HospitalSettings(), path),
}


def test_pictures_and_pipes_of_others_are_left_alone(home: Path) -> None:
    picture = home / "scan.png"
    Image.new("L", (9, 9)).save(picture)
    before = picture.read_bytes()
    for arguments in (
        ["ground", "--image", "x.dcm", "--phrase", "edema", "--output", str(picture)],
        ["cxr_hospital.sheets.contact", "--output", str(picture)],
        ["cxr_hospital.sheets.course", "--output", str(picture)],
    ):
        program = import_module(full_name(MODULES.get(arguments[0], arguments[0])))
        with pytest.raises(InputError, match="scan.png: is a picture that no earlier run wrote"):
            program.main(arguments[1:])
        assert picture.read_bytes() == before
    write_png(picture, before)
    assert Image.open(picture).text == {"Software": "cxrflow"}
    Image.open(picture).load()
    require_own(picture, [])
    write_png(picture, before)
    pipe = home / "pipe.txt"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe.txt: is a pipe or device"), atomic_path(pipe):
        pass
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", FILLED)
def test_folders_filled_bit_by_bit_are_their_program_s(tmp_path: Path, name: str) -> None:
    (tmp_path / "store.json").write_text("dear")
    with pytest.raises(InputError, match="no earlier run wrote"):
        FILLED[name](tmp_path)
    assert files(tmp_path) == ["store.json"]


def arguments_of(*more: str) -> argparse.ArgumentParser:
    arguments = parser(None)
    for name in ("--output", "--root", "--state"):
        arguments.add_argument(name, type=Path)
    for name in more:
        arguments.add_argument(name, action="append")
    return arguments


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--output ../notes", "no earlier run wrote"),
        ("--output ../data --root ../data/empty", "no earlier run wrote"),
        ("--output ../data/empty --root ../data/empty", "is ../data/empty, which another option"),
        ("--output ../new --root ../new/data", "holds ../new/data, which another option"),
        ("--output ../new --held-out rsna=../new", "is ../new, which another"),
        ("--output own.txt --settings own.txt", "is own.txt, which another"),
        ("--output ../new --state ../new", "is ../new, which another"),
        ("--output ../link", "is a link"),
        ("--output .", "is the working folder"),
    ],
)
def test_a_bad_place_is_refused_before_any_work(home: Path, line: str, reason: str) -> None:
    arguments = arguments_of("--held-out")
    with pytest.raises(InputError, match=reason):
        arguments.parse_args(line.split())


def test_good_places(home: Path) -> None:
    claim_folder(home / "results", "corpus")
    arguments = arguments_of("--dataset")
    for line in (
        "--output ../results --root ../data/mimic",
        "--output ../data/mimic/labels.csv --root ../data/mimic --state state",
        "--output own.txt --root ../data",  # a file of an earlier run, for all we know
        "--output ../data/empty --root ../data",
        "--output results --dataset results",
    ):
        arguments.parse_args(line.split())


def test_all_programs_check_their_output() -> None:
    """None makes a parser of its own, which would not look."""
    for path in Path(cxrflow.__file__).parent.rglob("*.py"):
        assert "ArgumentParser(" not in path.read_text(encoding="utf-8").replace("Parser):", "")


def test_a_file_is_compared_with_its_checksum(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "model", "model") as made:
        (made / "image").mkdir()
        for name in ("model.safetensors", "image/model.safetensors"):
            save_file({"weight": torch.arange(500.0)}, made / name)
    sums = (tmp_path / "model/SHA256SUMS").read_text().splitlines()
    names = [line.split("  ")[1] for line in sums]
    assert names == ["image/model.safetensors", "model.safetensors"]
    for path in (tmp_path / "model").rglob("*.safetensors"):
        read_weights(path)
        content = path.read_bytes()
        path.write_bytes(content[:-900] + bytes(900))  # sound safetensors, zeroed at the end
        with pytest.raises(InputError, match=f"{path}: damaged, its SHA-256"):
            read_weights(path)
    sound = {"config.json": "{}", "image/config.json": "{}", "tokenizer.json": "[a, b]"}
    with atomic_folder(tmp_path / "model", "model") as made:
        (made / "image").mkdir()
        for name in ("model.safetensors", "image/model.safetensors"):
            save_file({"weight": torch.arange(500.0)}, made / name)
        for name, text in sound.items():
            (made / name).write_text(text)
    for name, text in sound.items():
        (tmp_path / "model" / name).write_text(text.replace("a, b", "b, a").replace("{}", "{ }"))
        for weights in (tmp_path / "model").rglob("*.safetensors"):
            with pytest.raises(InputError, match=f"model/{name}: damaged, its SHA-256"):
                read_weights(weights)
        (tmp_path / "model" / name).unlink()
        read_weights(weights)  # who needs the file says what is missing
        with pytest.raises(InputError, match=f"model/{name}: missing"):
            require_whole(tmp_path / "model" / name)
        (tmp_path / "model" / name).write_text(text)
    # Weights from elsewhere have no line, or there is no such list.
    save_file({"weight": torch.zeros(3)}, tmp_path / "model/other.safetensors")
    assert read_weights(tmp_path / "model/other.safetensors")["weight"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("damage", ["none", "changed", "missing", "more", "list", "no list"])
def test_a_damaged_folder_is_removed(tmp_path: Path, damage: str) -> None:
    with atomic_folder(tmp_path / "scores", "model") as made:
        (made / "scores.npy").write_bytes(b"1")
        (made / "run.json").write_text("{}")
    if damage == "changed":
        (tmp_path / "scores/scores.npy").write_bytes(b"2")
    elif damage == "missing":
        (tmp_path / "scores/scores.npy").unlink()
    elif damage == "more":
        (tmp_path / "scores/other.npy").write_bytes(b"1")
    elif damage == "list":
        (tmp_path / "scores/SHA256SUMS").write_text("")
    elif damage == "no list":
        (tmp_path / "scores/SHA256SUMS").unlink()
    remove_damaged(tmp_path / "scores")
    assert (tmp_path / "scores").exists() == (damage == "none")
    remove_damaged(tmp_path / "absent")


def test_what_killed_runs_left_is_deleted_at_the_next_start(tmp_path: Path) -> None:
    """Of this machine's dead processes at once, of other machines' after a week, else nothing."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    host, dead = os.uname().nodename, process.pid
    week_ago = time.time() - 8 * 24 * 3600
    gone = [f".x.{host}.{dead}.partial", f".x.{host}.{dead}.earlier", ".x.other.17.partial"]
    stays = [
        *(f".x.{host}.{os.getppid()}.partial", ".x.other.18.partial", f".y.{host}.{dead}.partial"),
        *(".x.notes.partial", f".x.{host}.{dead}.txt", "x.partial"),
    ]
    for name in (*gone, *stays):
        (tmp_path / name / "inside").mkdir(parents=True)
    os.utime(tmp_path / gone[2], (week_ago, week_ago))
    (tmp_path / f".x.{host}.{dead}1.partial").symlink_to(tmp_path)
    of_picture = tmp_path / f".z.json.{host}.{dead}.partial"
    of_picture.touch()
    for output in ("x", "z.png"):
        arguments_of().parse_args(["--output", str(tmp_path / output)])
    left = {path.name for path in tmp_path.iterdir() if not path.is_symlink()}
    assert left == set(stays)


@pytest.mark.parametrize("make", [atomic_path, lambda path: atomic_folder(path, "model")])
def test_a_killed_program_is_cleaned_up_after(tmp_path: Path, make: Callable[..., object]) -> None:
    kind = "atomic_path(path)" if make is atomic_path else "atomic_folder(path, 'model')"
    code = (
        "import os, signal; from cxr_files.atomic import *; path = 'x'\n"
        f"with {kind} as made:\n"
        "    open(made if not made.is_dir() else made / 'y', 'w').write('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False)
    (half,) = tmp_path.iterdir()
    assert half.suffix == ".partial"
    remove_unfinished(tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_who_may_read_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert "chmod 700" in (open_to_others(tmp_path) or "")
    tmp_path.chmod(0o700)
    assert open_to_others(tmp_path) is None and open_to_others(tmp_path / "none") is None


class Options(NamedTuple):
    """A command line, and which of its words names what is written."""

    words: list[str]
    written: list[str]


def required(arguments: argparse.ArgumentParser, written: Path) -> Options:
    """The shortest command line of a program; what it writes is at ``written``."""
    words: list[str] = []
    places: list[str] = []
    for action in arguments._actions:
        if isinstance(action, argparse._SubParsersAction):
            name, inner = list(action.choices.items())[-1]
            below = required(inner, written)
            words, places = [*words, name, *below.words], [*places, *below.written]
            continue
        is_output = action.dest in WRITTEN
        if not (action.required or is_output) or action.dest == "help":
            continue
        value = str(written) if is_output else "0" if action.type else "x"
        value = str(next(iter(action.choices))) if action.choices else value
        if action.type is Path and not is_output:
            value = "input"
        words += [*action.option_strings[:1], value]
        places += [action.dest] if is_output else []
    return Options(words, places)


@pytest.mark.parametrize("name", [name for name in MODULES if name != "launch"])
def test_every_program_leaves_somebody_else_s_folder_alone(name, home, monkeypatch):
    """Whatever its options are called, before it reads any input; new programs are here at once."""

    class Seen(Exception):
        pass

    def seen(self: Parser, args: object = None, namespace: object = None) -> None:
        found.append(self)
        raise Seen

    module = import_module(full_name(MODULES[name]))
    main = getattr(module, "main", None) or import_module(f"{module.__name__}.__main__").main
    found: list[Parser] = []
    with monkeypatch.context() as patched, pytest.raises(Seen):
        patched.setattr(Parser, "parse_args", seen)
        main(["phrase_grounding"])
    options = required(found[0], Path("../data/mimic"))
    if not options.written:
        assert name in WRITES_NOTHING
        return
    before = files(home)
    with pytest.raises(InputError, match=r"data/mimic: holds files that no earlier run wrote"):
        main(options.words)
    assert files(home) == before


#: What only prints, adds a file to a model folder that it has loaded, writes below the results, or
#: between two comments of a page.
WRITES_NOTHING = ("load", "verify", "targets", "cost", "rehearse", "render", "calibrate")
