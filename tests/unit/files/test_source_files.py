"""Which code counts for which stage: an edit reruns what it can change, and nothing else."""

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from config_overlays import DEMO, ROOT

from cxrflow.config import load_config
from cxrflow.data.layouts import LAYOUTS, layout
from cxrflow.programs import source_code
from cxrflow.programs.source_code import (
    FRAME,
    PACKAGE,
    PACKAGES,
    REGISTRIES,
    code_digest,
    find_module,
    imported_by,
)
from cxrflow.programs.source_code import source_files as files

SETTINGS = "pretrain/terms/settings.py"
CONFIG = load_config([DEMO])
STAGES = {
    **{
        name: CONFIG.models[f"biovil/{name}"].code
        for name in ("cxr_bert_phase2", "cxr_bert", "simclr", "biovil", "biovil_l")
    },
    "mimic_cxr": ["data.cohorts.cohort", *layout("mimic_cxr").source("tables")],
    "rsna": ["data.cohorts.cohort", *layout("rsna").source("tables")],
    "grounding": ["benchmarks.grounding.phrase_grounding"],
    "tests": ["benchmarks.paired_tests"],
    "table": ["show.tables.make_table", "show/tables/table.html.jinja"],
}
COHORTS, PHASES = {"mimic_cxr", "rsna"}, {"cxr_bert_phase2", "cxr_bert"}
JOINT, TRAININGS = {"biovil", "biovil_l"}, {*PHASES, "biovil", "biovil_l", "simclr"}


def digests() -> dict[str, str]:
    """The digest of each stage's code."""
    source_code._code_of.cache_clear()
    return {name: code_digest(*code) for name, code in STAGES.items()}


@pytest.fixture
def edit(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], set[str]]]:
    """Read a file otherwise than it is; gives the stages that see it."""
    before, read, edited = digests(), source_code._text, dict[Path, str]()
    monkeypatch.setattr(source_code, "_text", lambda path: edited.get(path) or read(path))

    def change(file: str, old: str, new: str) -> set[str]:
        package, _, rest = file.partition("/")
        path = PACKAGES[package] / rest if package in PACKAGES else PACKAGE / file
        text = edited.get(path) or read(path)
        assert old in text, f"{file}: nothing to edit"
        edited[path] = text.replace(old, new, 1)
        after = digests()
        return {name for name in STAGES if before[name] != after[name]}

    yield change
    source_code._code_of.cache_clear()


PROPERTY = "sharpness: float = 1.0\n\n    @property\n    def twice(self):\n        return 2\n"
SIMCLR_FIELD = "    temperature: float = Field(0.1"
TERM = f"class NewSettings(TermSettings):\n    {PROPERTY}\n\n"
IMAGES = "class ImageEncoderSettings(Kind):\n"


@pytest.mark.parametrize(
    ("file", "old", "new", "changed"),
    [
        # What is said of the code.
        ("training/engine.py", "\n\n\nclass ", "\n\n# A comment.\n\n\nclass ", set()),
        ("objectives/simclr.py", "Mean over the 2N views", "The mean", set()),
        ("data/layouts/rsna.yaml", "#", "# A comment.\n#", set()),
        # Arithmetic.
        ("objectives/simclr.py", "/ temperature", "* temperature", {"simclr"}),
        ("objectives/local_alignment.py", "8 * 2**20", "9 * 2**20", {"biovil_l"}),
        ("pretrain/terms/section_matching.py", "\nclass ", "\nX = 1\n\n\nclass ", {"cxr_bert"}),
        ("pretrain/terms/mlm.py", "\nclass ", "\nX = 1\n\n\nclass ", {*PHASES, *JOINT}),
        ("training/engine.py", "\n\n\nclass ", "\n\nX = 1\n\n\nclass ", TRAININGS),
        ("show/tables/table.html.jinja", "<", "<br><", {"table"}),
        # Imports: what is bound counts; where that stands, and whether it is a type, does not.
        ("objectives/simclr.py", "import torch\n", "import numpy as torch\n", {"simclr"}),
        ("objectives/simclr.py", "import torch\n", "import torch\nfrom typing import Any\n", set()),
        # Settings: values are a parameter. A field, a validator, another term count for nobody ...
        (SETTINGS, "    temp1: float", "    temp0: float = 1.0\n    temp1: float", set()),
        ("pretrain/terms/base_settings.py", "names no term", "has no term", set()),
        (
            SETTINGS,
            "class JointTerms(Terms):\n",
            f"{TERM}class JointTerms(Terms):\n    new: NewSettings | None = None\n",
            set(),
        ),
        # ... but what is computed from them does, for those who use it.
        (SETTINGS, "    temp1: float", f"    {PROPERTY}\n    temp1: float", {"biovil_l"}),
        (SETTINGS, SIMCLR_FIELD, f"    {PROPERTY}\n{SIMCLR_FIELD}", {"simclr"}),
        (
            "encoders/settings.py",
            IMAGES,
            f"{IMAGES}    {PROPERTY}\n",
            {"simclr", *JOINT, "grounding"},
        ),
        # What values a field admits, another kind of encoder or head ...
        ("data/cohorts/settings.py", '"nli", ', '"nli", "new", ', set()),
        (
            "encoders/settings.py",
            "ImageEncoderKind = Annotated[\n    ResNetSettings |",
            f"class MixerSettings(ImageEncoderSettings):\n    {PROPERTY}\n\n"
            "ImageEncoderKind = Annotated[MixerSettings | ResNetSettings |",
            set(),
        ),
        (
            "encoders/settings.py",
            "    BiovilHeadSettings |",
            "    str | BiovilHeadSettings |",
            set(),
        ),
        # ... but its code counts for its users.
        ("encoders/heads/biovil.py", "eps=1e-12", "eps=1e-6", TRAININGS),
        ("encoders/heads/mlp.py", "relu", "gelu", set()),
        ("encoders/multi_image.py", "\nclass ", "\nX = 1\n\n\nclass ", set()),
        ("encoders/resnet.py", "\nclass ", "\nX = 1\n\n\nclass ", {"simclr", *JOINT, "grounding"}),
        ("data/cohorts/settings.py", "get_args(Split)", '("train", "test")', COHORTS),
        # Descriptions count for those who name them.
        ("data/layouts/rsna.yaml", "synthetic: true", "synthetic: false", {"rsna"}),
        ("data/layouts/__init__.py", "FOLDER = ", "HERE = FOLDER = ", set()),
        ("benchmarks/registry.py", "BENCHMARKS |= {", "BENCHMARKS |= {'new': None,", set()),
        ("cxr_files/atomic.py", "\n\n\ndef ", "\n\nX = 1\n\n\ndef ", set()),
        # Names that a package offers are nothing that its modules compute with.
        ("metrics/__init__.py", '    "auroc",\n', "", set()),
        ("metrics/__init__.py", "public_name(__name__, name)", "None", set()),
        ("objectives/__init__.py", '"""\n', '"""\n\nX = 1\n', TRAININGS),
    ],
)
def test_an_edit_reruns_what_it_can_change(edit, file, old, new, changed):
    assert edit(file, old, new) == changed


def test_an_import_may_move_into_a_function(edit: Callable[[str, str, str], set[str]]) -> None:
    assert edit("objectives/simclr.py", "import torch\n", "")
    assert edit("objectives/simclr.py", "    views = ", "    import torch\n    views = ") == set()


CODE = """
class A(B):
    x: int

    def f(self, *, y=None, **more):
        return [], None, f"{y!r:>3}"
"""
TREE = (
    "Module(body=[ClassDef(name='A', bases=[Name(id='B', ctx=Load())], keywords=[], "
    "body=[AnnAssign(target=Name(id='x', ctx=Store()), annotation=Name(id='int', ctx=Load()), "
    "simple=1), FunctionDef(name='f', args=arguments(posonlyargs=[], args=[arg(arg='self')], "
    "kwonlyargs=[arg(arg='y')], kw_defaults=[Constant(value=None)], kwarg=arg(arg='more'), "
    "defaults=[]), body=[Return(value=Tuple(elts=[List(elts=[], ctx=Load()), "
    "Constant(value=None), JoinedStr(values=[FormattedValue(value=Name(id='y', ctx=Load()), "
    "conversion=114, format_spec=JoinedStr(values=[Constant(value='>3')]))])], ctx=Load()))], "
    "decorator_list=[])], decorator_list=[])], type_ignores=[])"
)


def test_every_python_sees_the_same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree is written as 3.11 writes it; functions and classes of 3.12 have a further field."""
    tree = ast.parse(CODE)
    assert source_code._dump(tree) == TREE
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            node.type_params = []  # type: ignore[attr-defined,unused-ignore]
    for kind in (ast.FunctionDef, ast.ClassDef):
        fields = (*(name for name in kind._fields if name != "type_params"), "type_params")
        monkeypatch.setattr(kind, "_fields", fields)
    assert "type_params=[]" in ast.dump(tree) or sys.version_info >= (3, 13)
    assert source_code._dump(tree) == TREE


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="other Pythons write trees in other words")
def test_code_has_the_digests_that_python_3_11_gave() -> None:
    for path in (path for folder in PACKAGES.values() for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text())
        assert source_code._dump(tree) == ast.dump(tree), path


def test_a_programs_code_is_what_it_imports() -> None:
    text = {str(source_code._place(path)) for path in files("pretrain.text")}
    assert {
        "cxrflow/pretrain/text.py",
        "cxrflow/text/report_batch.py",
        "cxrflow/training/engine.py",
        "cxrflow/compute/keyed_random.py",
    } <= text
    foreign = ("encoders/resnet.py", "images/store.py", "pretrain/terms/simclr.py")
    assert not {f"cxrflow/{name}" for name in foreign} & text
    image = {str(source_code._place(path)) for path in files("pretrain.image")}
    assert {"cxrflow/encoders/image_encoder.py", "cxrflow/images/augment.py"} <= image
    assert (
        "cxrflow/encoders/resnet.py" not in image
    )  # a trunk is imported by its name; the rules add it
    foreign = ("encoders/cxr_bert.py", "text/report_batch.py")
    assert not {"cxr_files/atomic.py", *(f"cxrflow/{name}" for name in foreign)} & image


def test_rules_of_the_labeller_count_where_settings_read_them() -> None:
    rules = set(PACKAGES["cxr_labels"].glob("rules/scope/*.yaml"))
    for name, read in (("mixed_pairs", set()), ("mixed_pairs_labeller", rules)):
        code = CONFIG.tasks[f"medcutmix/{name}"].code
        assert {path for path in files(*code) if path.suffix == ".yaml"} == read
    assert "*task.code" in TEXT  # the rule's
    for name, read in (("medcutmix_40", set()), ("medcutmix_labeller", rules)):
        code = CONFIG.models[f"medcutmix/{name}"].code
        assert {path for path in files(*code) if path.suffix == ".yaml"} == read


@pytest.mark.parametrize("name", ["pretrain.nothing", "cxr_labels/rules/*.toml"])
def test_a_wrong_name_is_refused(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=re.escape(str(Path(name).name.split(".")[-1]))):
        files(name)


def test_the_frame_exists() -> None:
    assert all(find_module(name) for name in (*FRAME, *REGISTRIES, "cxrflow.benchmarks.registry"))


# --- rules ----------------------------------------------------------------------------------------

RULE = re.compile(r"^( *)rule ?(\w*):\n(.*?)(?=^ *rule\b|\Z)", re.M | re.S)
TEXT = "".join(file.read_text(encoding="utf-8") for file in sorted(ROOT.glob("rules/**/*.smk")))
# A rule in a loop is called as the variable that has its name.
RULES = {
    name or re.findall(r"name:\s+(\w+)", body)[0]: re.sub(f"^{indent}", "", body, flags=re.M)
    for indent, name, body in RULE.findall(TEXT)
}
# Rules whose program follows from their wildcards, and what says its code.
BY_WILDCARDS = {
    "building": "cohort_code(",
    "training": ".code)",
    "initialise": ".code)",
    "evaluate": "task_code(",
    "draw_figure": "figure_code(",
}


@pytest.mark.parametrize("rule", [name for name, body in RULES.items() if "shell:" in body])
def test_a_rule_watches_its_program(rule: str) -> None:
    body = RULES[rule]
    if rule == "record_config":
        return  # which writes down what it is given
    program = re.search(r"python -m (cxr\w+[\w.]*)", body)
    code = re.search(r"        code=(.*?)\n(?:        \w+=|    \w+:)", body, re.S)
    assert program and code and "code_digest(" in code[1], f"rule {rule} names no program's code"
    if rule in BY_WILDCARDS:
        assert BY_WILDCARDS[rule] in code[1]
        return
    # The program itself, or what it does once its arguments are read.
    file = find_module(program[1]) or find_module(f"{program[1]}.__main__")
    named = {source_code.full_name(name) for name in re.findall(r'"([a-z_.]+)"', code[1])}
    assert file and named & {program[1], *imported_by(file)}
    for pattern in re.findall(r'"([\w/]+/[\w/.*]+)"', code[1]):
        assert files(pattern)


def test_data_files_are_watched() -> None:
    """Rules of reports and templates; papers and layouts reach the stages by name."""
    patterns = {
        pattern for pattern in re.findall(r'"([\w/]+/[\w.*/]+)"', TEXT) if "results" not in pattern
    }
    watched = {path for pattern in patterns for path in source_code._fitting(pattern)}
    watched |= {path for name in LAYOUTS for path in files(f"data/layouts/{name}.yaml")}
    # Values of settings by default, and so a parameter of the stage.
    watched |= {*PACKAGE.glob("benchmarks/temporal/token_categories.yaml")}
    suffixes = (".yaml", ".txt", ".jinja", ".css", ".js")
    folders = (PACKAGE, PACKAGES["cxr_labels"])
    data = {path for folder in folders for path in folder.rglob("*") if path.suffix in suffixes}
    watched |= {*files(*CONFIG.models["low_data/declip"].code)}  # the augmentation of its texts
    # What is said of a model, of its speed and of data that are not there changes no result.
    said = ("models/card.txt", "training/gpu_peaks.yaml", "config/places.yaml")
    watched |= {PACKAGE / file for file in said}
    # Protocols are read by the command zero_shot, pages by others, which are no stages.
    elsewhere = ("papers", "protocols", "audit", "adopt", "compare")
    assert {str(path) for path in data - watched if path.parent.name not in elsewhere} == set()
