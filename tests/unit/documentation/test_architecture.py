"""The house rules of the code: which part may know which, and what no file may be or hold."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from command_options import run_to_end
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.programs.source_code import PACKAGE, PACKAGES, imported_by

TOP = PACKAGE.parents[1]
# Know no part of the package:
SHARED = {"compute", "cxr_files", "kinds", "names", "programs"}
LIBRARIES = {
    *("cxr_labels", "data", "encoders", "images", "metrics", "objectives", "reports"),
    *("similarity", "text"),
}
# What each part may import besides itself, the shared modules, other parts' settings and the
# descriptions of data sets.
ALLOWED: dict[str, set[str]] = {
    **{name: set() for name in SHARED},
    **{name: set() for name in (*LIBRARIES, "cxr_hospital", "training", "papers")},
    # Which files can be read is the decoder's to say; documents are a table of texts.
    "metrics": {"cxr_labels"},  # public names of the agreement of labels
    "data": {"cxr_hospital", "images", "text"},
    "reports": {"cxr_labels"},
    "text": {"cxr_labels"},  # the normal form of characters is that of reports
    "models": {"encoders", "images", "metrics", "similarity", "text"},
    "similarity": {"encoders", "objectives", "text"},
    "config": {"papers", "images"},  # a geometry is checked by its own parser
    "pretrain": {*LIBRARIES, "training", "models"},
    "benchmarks": {*LIBRARIES, "cxr_hospital", "training", "models"},  # the truth of what is drawn
    "console": {"config"},  # the times on record
    "show": {*LIBRARIES, "papers", "config", "models"},  # what a training has recorded
    "cxrflow": {"cxr_labels", "images", "losses", "metrics", "models"},  # the public names
    "losses": {"objectives"},  # and those of losses
    "__main__": {"cxrflow"},
    # The names under which people find what other parts do.
    "commands": {
        *(*LIBRARIES, "benchmarks", "config", "cxrflow", "models", "papers", "show", "training"),
    },
}
HEAVY = ("torch", "transformers", "pandas", "stanza", "sklearn", "matplotlib", "scipy", "pyarrow")
TEXT_SUFFIXES = {".py", ".smk", ".md", ".yaml", ".toml", ".jinja", ".css", ".js", ".sh"}


def dotted(path: Path, package: Path) -> str:
    """Module name of a file of a package."""
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def part(module: str) -> str:
    """What a module belongs to: ``cxrflow.text.tokens`` to ``text``, of another package to that."""
    package, _, rest = module.partition(".")
    return rest.split(".")[0] if package == "cxrflow" and rest else package


def is_description(module: str) -> bool:
    """Whether it says what there is and computes nothing: settings, data sets, benchmarks."""
    return module.endswith(("settings", ".registry")) or module.startswith("cxrflow.data.layouts")


MODULES = {
    dotted(path, package): path
    for package in PACKAGES.values()
    for path in sorted(package.rglob("*.py"))
}
SETTINGS = sorted(name for name in MODULES if name.endswith("settings"))


@cache
def files_of_the_project() -> tuple[Path, ...]:
    """Files that people read: what git tracks or would track."""
    listed = run_to_end(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=TOP)
    if listed.returncode:
        pytest.skip(f"needs a git checkout: {listed.stderr.strip()}")
    return tuple(path for line in listed.stdout.splitlines() if (path := TOP / line).is_file())


def test_a_part_knows_only_what_it_may() -> None:
    for module, path in MODULES.items():
        allowed = ALLOWED[part(module)] | SHARED | {part(module)}
        for other in imported_by(path, typing=True):
            assert is_description(other) or part(other) in allowed, f"{module} imports {other}"


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "cxrflow"])
def test_the_tests_of_a_package_need_no_other(name: str) -> None:
    """They run where it is installed alone, on the ground that all stand on."""
    foreign = re.compile(rf"^ *(?:from|import) (?!{name}\b|cxr_files\b)cxr\w+", re.MULTILINE)
    tests = sorted((PACKAGES[name].parent / "tests").glob("*.py"))
    assert tests
    for path in tests:
        assert not foreign.findall(path.read_text(encoding="utf-8")), path


def test_settings_know_only_settings() -> None:
    for module in SETTINGS:
        for other in imported_by(MODULES[module]):
            light = (
                *("cxrflow.names", "cxrflow.kinds"),
                *("cxr_files.errors", "cxr_files.reading", "cxr_files.yaml_file"),
            )
            assert other.endswith("settings") or other in light, f"{module}: {other}"


def test_a_step_sends_a_gpu_what_it_makes_on_the_host() -> None:
    """Other copies wait until it has done all it was given before; see compute/device_copy.py.

    Reports are decoded outside of steps.
    """
    for module, path in MODULES.items():
        if part(module) not in ("encoders", "images", "objectives") or "decoding" in module:
            continue
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                to_device = [ast.unparse(value).endswith("device") for value in call.args]
                by_name = any(keyword.arg == "device" for keyword in call.keywords)
                waits = {"to": any(to_device), "tensor": by_name, "new_tensor": True}
                assert not waits.get(call.func.attr), f"{path}:{call.lineno}: expected `sent`"


def test_no_import_cycle() -> None:
    """Between modules, imports inside functions included."""
    done: set[str] = set()

    def visit(module: str, chain: tuple[str, ...]) -> None:
        assert module not in chain, " -> ".join((*chain[chain.index(module) :], module))
        if module in done or module not in MODULES:
            return
        for other in sorted(imported_by(MODULES[module])):
            visit(other, (*chain, module))
        done.add(module)

    for module in MODULES:
        visit(module, ())


def test_no_cycle_between_parts() -> None:
    edges = {
        (part(module), part(other))
        for module, path in MODULES.items()
        for other in imported_by(path, typing=True)
        if part(module) != part(other) and not is_description(other)
    }
    left = {name for edge in edges for name in edge}
    while left:
        leaves = {n for n in left if not any(a == n and b in left for a, b in edges)}
        assert leaves, f"a cycle among {sorted(left)}"
        left -= leaves


def test_configuration_is_light() -> None:
    """Reading the configuration, as every Snakemake process does, imports nothing heavy."""
    code = f"import sys, {', '.join((*SETTINGS, 'cxrflow.config'))}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(HEAVY) & set(done.stdout.split())


def test_modules_say_what_they_are_and_import_by_whole_names() -> None:
    for module, path in MODULES.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{module}: no docstring"
        for node in ast.walk(tree):
            relative = isinstance(node, ast.ImportFrom) and node.level
            assert not relative, f"{module}: line {node.lineno}"


TERM_SETTINGS = [f"terms.{path.stem}" for path in (PACKAGE / "pretrain/terms").glob("*settings.py")]
#: The modules of pretrain/, from what others rest on to what people call; terms may be changed
#: alone, so that they know the views and not the programs.
PRETRAINING = (
    ("settings", *TERM_SETTINGS, "registry", "validation.permutation"),
    ("inputs", "starts", "image_starts", "image_classes", "resident_images"),
    ("objective", "report_text"),
    ("declip.pairing",),
    tuple(f"terms.{path.stem}" for path in (PACKAGE / "pretrain/terms").glob("[a-z]*.py")),
    ("pairs.tables", "two_views", "packed_corpus", "section_pairs", "writing.program"),
    ("labelled_sentences",),
    ("pairs.images_and_texts", "writing.captions", "writing.reports"),
    ("pairs.images_with_priors", "pairs.whole_reports"),
    (
        *("arguments", "demands", "pairs.preparation"),
        *("validation.selection", "validation.twins", "validation.shared_trunks"),
    ),
    ("initial", "imported", *(name for name, entry in TRAINING_PROGRAMS.items() if entry.learns)),
)


def test_pretraining_has_no_arrow_up() -> None:
    """Type checkers' imports included; the modules of a tier may know each other."""
    tiers = {f"cxrflow.pretrain.{name}": tier for tier, names in reversed([*enumerate(PRETRAINING)])
             for name in names}  # fmt: skip
    rooms = {name for name in MODULES if name.startswith("cxrflow.pretrain.")}
    folders = {
        f"cxrflow.pretrain.{name}" for name in ("declip", "pairs", "terms", "validation", "writing")
    }
    assert rooms - folders == tiers.keys()
    for module in tiers:
        for other in imported_by(MODULES[module], typing=True) & tiers.keys():
            assert tiers[other] <= tiers[module], f"{module} imports {other}"


def test_a_program_starts_without_the_settings_of_trainings() -> None:
    """They take a tenth of a second to import."""
    check = "import sys, cxr_files.program; sys.exit('cxrflow.pretrain.registry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0


def test_files_fit_in_the_head() -> None:
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES.values()
    }
    assert {str(path): length for path, length in lengths.items() if length > 400} == {}


def test_ls_explains_the_house() -> None:
    """No loose files between the rooms but what every room needs; no room too full to read."""
    loose = {path.stem for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__", "__main__", "kinds", "names"}
    files = Counter(path.parent for path in MODULES.values())
    assert {str(folder): count for folder, count in files.items() if count > 30} == {}


def test_no_file_is_a_drawer() -> None:
    drawers = {"utils", "util", "helpers", "helper", "misc", "common", "tools"}
    assert [name for name in MODULES if name.split(".")[-1] in drawers] == []


def test_no_words_that_put_things_off() -> None:
    words = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|HA" + r"CK)\b")
    found = []
    for path in files_of_the_project():
        if path.suffix in TEXT_SUFFIXES or path.name in ("Makefile", "Snakefile"):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
                if words.search(line):
                    found.append(f"{path.relative_to(TOP)}:{number}")
    assert found == []
