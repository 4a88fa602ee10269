"""How a program ends: settings that are wrong, disks that are full, keys that are pressed."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import Field

from command_options import run_to_end
from cxr_files.atomic import atomic_folder, atomic_path, write_json
from cxr_files.attempts import FOLDER
from cxr_files.errors import InputError, one_line
from cxr_files.program import parser, refusal, thread_count
from cxr_files.settings import Settings, deciding_settings, read_settings
from cxr_files.yaml_file import read_yaml
from cxrflow.training.state import without_operations


class Inner(Settings):
    rate: float = Field(0.1, gt=0)


class Example(Settings):
    name: str
    size: int = 3
    inner: Inner = Inner()


def test_defaults_fill_in_what_is_not_given(tmp_path: Path) -> None:
    assert read_settings('{"name": "a"}', Example) == Example(name="a")
    file = tmp_path / "settings.yaml"
    file.write_text("name: a\ninner: {rate: 2}\n")
    assert read_settings(str(file), Example).inner.rate == 2.0


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ('{"name": "a", "sise": 1}', "settings: unknown key 'sise'"),
        ('{"name": "a", "inner": {"rat": 1}}', "settings: unknown key 'inner.rat'"),
        ("{}", "settings: key 'name' is missing"),
        ('{"name": "a", "size": "many"}', "settings: key 'size' is 'many': "),
        ('{"name": "a", "inner": {"rate": 0}}', "settings: key 'inner.rate' is 0: "),
        ('{"name": "a",', "settings: not valid JSON ("),
        ("no/such.yaml", "no/such.yaml: settings file not found"),
        ('{"name": "a", "size": ' + "1" * 5000 + "}", "settings: not valid JSON ("),
        ('{"name": ' + "[" * 100_000, "settings: not valid JSON ("),
        ('{"name": "a\\u0000"}', "settings: not valid JSON (key 'name' holds a NUL character)"),
        ('{"name": "\\ud800"}', "settings: not valid JSON (key 'name' holds half a surrogate"),
        ('{"name": "a", "inner": {"rate": NaN}}', "settings: key 'inner.rate' is nan: "),
    ],
)
def test_a_mistake_is_one_line(given: str, line: str) -> None:
    with pytest.raises(InputError) as caught:
        read_settings(given, Example)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


# Nine aliases of nine of nine ...: 10**30 entries in 2 KB.
MULTIPLYING = b"a0: &a0 [x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 32)
)


def test_aliases_that_multiply_little_are_read(tmp_path: Path) -> None:
    file = tmp_path / "some.yaml"
    file.write_text("a: &a {x: 1}\nb: [*a, *a]\nc: {<<: *a, y: 2}\n")
    assert read_yaml(file)["b"] == [{"x": 1}, {"x": 1}] and read_yaml(file)["c"] == {"x": 1, "y": 2}


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"name: [a\n", "not valid YAML ("),
        (b"name: a\nmore: [{b: 1, b: 2}]\n", "not valid YAML (key 'b' stands twice"),
        (b"- a\n- b\n", "expected keys and values, found a list"),
        (b"name: \xff\n", "not UTF-8 text ("),
        (b'name: "a\\0"\n', "key 'name' holds a NUL character"),
        (b"size: " + b"1" * 5000, "Exceeds the limit"),
        (b"name: 2020-13-01", "month must be in 1..12"),
        (b"name: " + b"[" * 10_000 + b"]" * 10_000, "nested too deeply"),
        (b"name: &a [*a]\n", "not valid YAML (an alias stands inside what it names"),
        (b"name: &a {b: {c: *a}}\n", "not valid YAML (an alias stands inside what it names"),
        (MULTIPLYING, "not valid YAML (aliases multiply to more than"),
        (b"name: a\nsise: 1\n", "unknown key 'sise'"),
        (b"", "key 'name' is missing"),
    ],
)
def test_a_broken_file_is_one_line_that_names_it(tmp_path: Path, content: bytes, line: str) -> None:
    file = tmp_path / "settings.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_settings(str(file), Example)
    assert str(caught.value).startswith(f"{file}: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", ["0", "-1", "1000000000", "1e3", "2.0", "", "9" * 5000, "٣"])
def test_numbers_of_options_have_limits(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = parser(None)
    arguments.add_argument("--threads", type=thread_count)
    assert arguments.parse_args(["--threads", "16"]).threads == 16
    with pytest.raises(SystemExit) as end:
        arguments.parse_args([f"--threads={given}"])
    assert end.value.code == 2
    assert "expected a whole number from 1 to 1024" in capsys.readouterr().err


def test_settings_that_change_no_result_do_not_decide() -> None:
    """Of a model and of what it is trained on; of what a job of the workflow is compared by."""
    training = {"training": {"epochs": 2, "log_steps": 3, "save_minutes": 1}}
    deciding = deciding_settings({**training, "max_failed_share": 0.1, "seeds": [1]})
    assert deciding == {"training": {"epochs": 2}, "seeds": [1]}
    run = {"model": "a", "settings": {"training": {"log_steps": 1, "epochs": 1}}}
    assert without_operations(run) == {"model": "a", "settings": {"training": {"epochs": 1}}}


def test_two_mistakes_are_two_lines() -> None:
    with pytest.raises(InputError, match="(?s)unknown key 'a'.*\n.*unknown key 'b'"):
        read_settings('{"name": "x", "a": 1, "b": 2}', Example)


def end_of(body: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program whose ``main`` is ``body``."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    code = (
        "import errno, os, signal\nfrom cxr_files.program import run\n"
        "from cxr_files.errors import *\n"
        f"def main(argv):\n{lines}\nrun(main)\n"
    )
    command = [sys.executable, "-c", code, *words]
    return run_to_end(command, timeout=60)


DISKS = {
    "ENOSPC": "No space left on device\n",
    "EDQUOT": "Disk quota exceeded\n",
    "EROFS": "Read-only file system\n",
    "EACCES": "Permission denied\n",
}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ("pass", 0, ""),
        ("raise InputError('a.csv: row 3')", 2, "error: a.csv: row 3\n"),
        ("raise InterruptedRun('step 5')", 75, "interrupted: step 5\n"),
        (
            "os.kill(os.getpid(), signal.SIGINT)\nsignal.pause()",
            130,
            "interrupted from the keyboard\n",
        ),
        ("open('/no-such-folder/x')", 1, None),
        ("raise ValueError('ours')", 1, None),
        (
            "with open('/dev/full', 'w') as file:\n    file.write('x' * 100000)",
            2,
            "error: writing a result: No space left on device\n",
        ),
        (
            "raise RuntimeError('I/O error: No space left on device (os error 28)')",
            2,
            "error: I/O error: No space left on device (os error 28)\n",
        ),
        *(
            (f"raise OSError(errno.{name}, os.strerror(errno.{name}), 'a')", 2, f"error: a: {said}")
            for name, said in DISKS.items()
        ),
    ],
)
def test_ends(body: str, code: int, message: str | None) -> None:
    done = end_of(body)
    assert done.returncode == code, done.stderr
    if message is None:
        assert "Traceback" in done.stderr  # a defect keeps it
    else:
        assert done.stderr == message


@pytest.mark.parametrize(
    ("error", "again"),
    [
        ("InputError('a.csv: row 3')", "not tried again, since it would fail as it did before: "),
        ("PassingError('the state is locked')", ""),
        ("OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), 'out')", ""),
    ],
)
def test_what_was_refused_is_not_tried_again_by_the_same_run(tmp_path, monkeypatch, error, again):
    """What may have passed by then is: a full disk, a lock. So is another command, another run."""
    monkeypatch.setenv(FOLDER, str(tmp_path / "first"))
    body = f"print('at work')\nraise {error}"
    assert end_of(body).stdout == "at work\n"
    second = end_of(body)
    assert second.returncode == 2 and second.stderr.startswith(f"error: {again}")
    assert second.stdout == ("" if again else "at work\n")
    assert end_of(body, "--other").stdout == "at work\n"
    monkeypatch.setenv(FOLDER, str(tmp_path / "second"))
    assert end_of(body).stdout == "at work\n"


def test_a_log_on_a_full_disk_does_not_swallow_the_reason(tmp_path: Path) -> None:
    """What rules do: the workflow's stderr under another number, then everything into the log."""
    code = "from cxr_files.program import run\nfrom cxr_files.errors import *\n"
    code += "def main(argv):\n    raise InputError('a.csv: row 3')\nrun(main)\n"
    for log, prefix in (("/dev/full", "export CXRFLOW_TERMINAL=19; exec 19>&2; "), ("log", "")):
        line = f'{prefix}"{sys.executable}" -c "$0" >{log} 2>&1'
        done = run_to_end(["bash", "-c", line, code], cwd=tmp_path)
        assert done.returncode == 2
        said = done.stderr if prefix else (tmp_path / "log").read_text()
        assert said == "error: a.csv: row 3\n"
    line = f'"{sys.executable}" -c "$0" >/dev/full 2>&1'
    assert subprocess.run(["bash", "-c", line, code], check=False).returncode == 2


def test_a_reader_that_leaves_is_no_error() -> None:
    code = (
        "from cxr_files.program import run\n"
        "def main(argv):\n    print('x\\n' * 500000)\nrun(main)\n"
    )
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141


def test_a_result_is_whole_or_as_before(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"old": 1})
    with pytest.raises(RuntimeError), atomic_path(tmp_path / "a.json") as part:
        part.write_text("half")
        raise RuntimeError
    assert json.loads((tmp_path / "a.json").read_text()) == {"old": 1}
    with pytest.raises(OSError) as caught, atomic_folder(tmp_path / "b", "model") as folder:
        (folder / "one").write_text("1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert refusal(caught.value) == f"{tmp_path / 'b'}: No space left on device"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("two\n  lines", "two lines"),
        ("", "ValueError"),
        ("value 'MONO\x03IROME2', \x80, \u202e", r"value 'MONO\x03IROME2', \x80, \u202e"),
        ("größe – 3 µm", "größe – 3 µm"),
        ("x" * 300, "x" * 200),
    ],
)
def test_an_error_is_one_printable_line(said: str, line: str) -> None:
    assert one_line(ValueError(said)) == line and line.isprintable()
