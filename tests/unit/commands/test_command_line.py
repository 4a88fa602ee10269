"""The one command: its names, what it says, how it ends; and the package without Snakemake."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from benchmark_fakes import SIZE

from command_options import run_to_end
from cxr_files.atomic import write_json
from cxr_files.commands import overview
from cxr_files.errors import InputError
from cxr_hospital.__main__ import PROGRAMS as OF_HOSPITAL
from cxrflow.commands.load import main as check
from cxrflow.config.targets import main as list_targets
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.programs.fixed import COMMANDS
from cxrflow.programs.registry import PROGRAMS, STAGES
from cxrflow.programs.source_code import PACKAGE, PACKAGES, full_name

TOP = PACKAGE.parents[1]


def cxrflow(*words: str) -> subprocess.CompletedProcess[str]:
    """What people type, as ``python -m``."""
    command = [sys.executable, "-m", "cxrflow", *words]
    return run_to_end(command, cwd=TOP)


def test_every_program_has_a_name_and_every_name_a_program() -> None:
    programs = set()
    for name, text in MODULES.items():
        if 'if __name__ == "__main__":\n    run(main)' in text:
            programs.add(name.removesuffix(".__main__"))
    assert {*map(full_name, PROGRAMS.values()), *OF_HOSPITAL.values()} == programs
    assert len(set(PROGRAMS.values())) == len(PROGRAMS)
    modules = {name: full_name(module) for name, module in PROGRAMS.items()}
    listed = overview("cxrflow", "", modules).splitlines()
    for name in PROGRAMS:
        (line,) = (line for line in listed if line.startswith(f"  {name} "))
        assert line.endswith((".", ").", ":")) and len(line.split()) > 3


def test_help_lists_what_people_type_and_stages_the_rest() -> None:
    listed = [re.findall(r"^  (\w+) +\S", cxrflow(word).stdout, re.M) for word in ("-h", "stages")]
    assert listed == [[*COMMANDS, "stages", "completion"], [*STAGES]]


@pytest.mark.parametrize("word", ["zero_shot", "zero-shot"])
def test_a_hyphen_is_as_good(word: str) -> None:
    assert cxrflow(word, "--help").stdout.startswith("usage: cxrflow zero_shot [-h]")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (("cxrflow", "zer"), ["zero_shot"]),
        (("cxrflow", "build_"), ["build_cohort", "build_vocabulary"]),
        (("cxrflow", "label", "--id"), ["--id-column"]),
        (("cxrflow", "label", "rep"), []),  # a file, which bash completes itself
    ],
)
def test_bash_completes_commands_and_options(typed: tuple[str, ...], completed: list[str]) -> None:
    script = cxrflow("completion").stdout
    code = f"""
    cxrflow() {{ {sys.executable} -m cxrflow "$@"; }}
    {script}
    COMP_WORDS=({" ".join(typed)}); COMP_CWORD={len(typed) - 1}
    _cxrflow; printf '%s\\n' "${{COMPREPLY[@]}}" | sort -u
    """
    done = run_to_end(["bash", "-c", code], cwd=TOP)
    assert (done.stdout.split(), done.stderr) == (completed, "")


@pytest.mark.parametrize("words", ["--help", "stages", "label --help"])
def test_a_reader_that_leaves_is_no_error(words: str) -> None:
    """As ``head -1`` may; what Python still holds is written when it ends."""
    code = f"PYTHONUNBUFFERED= {sys.executable} -m cxrflow {words} | true; echo ${{PIPESTATUS[0]}}"
    done = run_to_end(["bash", "-c", code], cwd=TOP)
    assert (done.stdout, done.stderr) == ("141\n", "")


def test_the_console_script_is_the_same_program() -> None:
    scripts = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))["project"]["scripts"]
    assert scripts == {"cxrflow": "cxrflow.__main__:main"}


def test_usage_lines_say_what_is_typed() -> None:
    assert cxrflow("label", "--help").stdout.startswith("usage: cxrflow label [-h]")
    refused = cxrflow("config", "chek")
    assert refused.returncode == 2 and "usage: cxrflow config" in refused.stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["lable"], 2, "error: there is no command 'lable'; did you mean 'label'?\n"),
        (["xyzzy"], 2, "error: there is no command 'xyzzy'; `cxrflow --help` lists them\n"),
        ([], 2, "usage: cxrflow COMMAND ...\n"),
        (["verify", "--root", "no"], 2, "error: no: data root not found"),
    ],
)
def test_ends(words: list[str], code: int, said: str) -> None:
    done = cxrflow(*words)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(said)


def test_targets_are_those_of_the_configuration(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(TOP)
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("{papers: [biovil], pathvars: {results: elsewhere}, seeds: [3]}")
    list_targets(["--configfile", "config.yaml", str(overlay)])
    said = capsys.readouterr().out
    assert "\nelsewhere/tables/biovil/table5.html " in said and "\nbiovil " in said
    assert "\nelsewhere/models/biovil/biovil/seed3/run.json " in said
    assert "biovil_t" not in said


def test_load_says_what_a_model_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ResNetSettings(block="basic", layers=[1, 1, 1, 1], width=8, channels=1)
    trunk = ImageEncoder(sizes)
    trunk.projector = None
    save_image_encoder(trunk, tmp_path)
    write_json(tmp_path / "run.json", {"data": {"geometry": f"shorter{SIZE}", "name": "x"}})
    check([str(tmp_path)])
    said = capsys.readouterr().out
    assert "image: resnet, no projection; on cpu>" in said
    assert f"shorter{SIZE}; {trunk.encoder.features} features an image" in said
    weights = tmp_path / "image/model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4])
    with pytest.raises(InputError, match="model.safetensors"):
        check([str(tmp_path)])


# In an interpreter of its own: a finder before all others that knows no snakemake, then every
# program's help, and which of the libraries that take seconds to import it has imported, then every
# module. Prints what was imported and what each program said.
CODE = """
import contextlib, importlib, io, json, pkgutil, runpy, sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0].startswith("snakemake"):
            raise ModuleNotFoundError(f"{name} is hidden", name=name)

sys.meta_path.insert(0, Without())
try:
    import snakemake
except ModuleNotFoundError:
    hidden = True

def fail(name):
    raise

said, slow = {}, {}
for name in sys.argv[1:]:
    text, code, sys.argv = io.StringIO(), 0, [name, "--help"]
    with contextlib.redirect_stdout(text):
        try:
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code
    said[name] = [code, text.getvalue()]
    slow[name] = sorted({"torch", "transformers", "pandas", "sklearn", "stanza"} & set(sys.modules))

modules = []
for name in ("cxr_files", "cxr_hospital", "cxr_labels", "cxrflow"):
    package = importlib.import_module(name)
    packages = pkgutil.walk_packages(package.__path__, f"{name}.", onerror=fail)
    modules += [importlib.import_module(found.name).__name__ for found in packages]
print(json.dumps({"hidden": hidden, "modules": modules, "said": said, "slow": slow}))
"""


def name_of(path: Path, package: Path) -> str:
    """The module a file holds, as imported."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    name_of(path, package): path.read_text("utf-8")
    for package in PACKAGES.values()
    for path in sorted(package.rglob("*.py"))
}
STARTED = {  # what `python -m` can run
    name.removesuffix(".__main__")
    for name, text in MODULES.items()
    if 'if __name__ == "__main__":' in text
}


@pytest.fixture(scope="module")
def started() -> dict[str, Any]:
    """What the interpreter without snakemake printed."""
    done = run_to_end(
        [sys.executable, "-W", "ignore", "-c", CODE, *sorted(STARTED)], cwd=TOP, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_module_imports(started: dict[str, Any]) -> None:
    assert started["hidden"]
    assert {*PACKAGES, *started["modules"]} == set(MODULES)


def test_every_program_starts(started: dict[str, Any]) -> None:
    assert set(started["said"]) == STARTED
    for name, (code, text) in started["said"].items():
        commands = {"cxrflow": "cxrflow COMMAND", "cxr_hospital": "cxr-hospital COMMAND"}
        typed = commands.get(name, f"python -m {name}")
        assert not code and text.startswith(f"usage: {typed} "), name


def test_help_does_not_wait_for_imports(started: dict[str, Any]) -> None:
    """Nor does a mistake in the arguments; a library once imported counts for those after it."""
    assert {name: slow for name, slow in started["slow"].items() if slow} == {}


def test_no_module_imports_it_not_even_inside_a_function() -> None:
    for module, text in MODULES.items():
        for node in ast.walk(ast.parse(text)):
            named = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            named += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not [name for name in named if name.startswith("snakemake")], module
