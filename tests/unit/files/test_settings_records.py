"""Records of settings: what is new retrains nothing, a changed default those that use it."""

import json
import shutil
import sys
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
from config_overlays import DEMO, ROOT
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from command_options import run_to_end
from cxr_files.atomic import fingerprint
from cxr_files.errors import InputError
from cxr_files.settings import Before, Settings, explain, from_record
from cxrflow.config import load_config
from cxrflow.config.configuration import Config
from cxrflow.encoders.settings import ImageEncoderKind, MlpHeadSettings, ResNetSettings
from cxrflow.kinds import Kind, OneKind, Reads, modules_of
from cxrflow.programs.source_code import PACKAGE, code_digest

# --- one class over the years ---------------------------------------------------------------------


class First(Settings):
    width: int = 4
    depth: int | None = None


class Grown(First):
    """Two fields more, whose defaults do what was done before."""

    sharp: Annotated[bool, Before(False)] = False
    mode: Literal["a", "b"] | None = None


class Changed(First):
    """Other defaults."""

    width: int = 5
    depth: int | None = 3
    sharp: Annotated[bool, Before(False)] = True
    mode: Literal["a", "b"] | None = "b"


class Holder(Settings):
    inner: Changed = Changed()
    listed: list[Changed] = []


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "width": st.integers(4, 5),
        "depth": st.none() | st.integers(2, 3),
        "sharp": st.booleans(),
        "mode": st.sampled_from(["a", "b", None]),
    },
)


def test_a_field_that_changes_nothing_is_in_no_record() -> None:
    assert Grown().record() == First().record() == {"width": 4}
    assert from_record(Grown, First().record(), "file") == Grown()
    assert First().model_dump() == {"width": 4, "depth": None}  # programs get all values


def test_a_changed_default_changes_the_records_of_its_users() -> None:
    assert Changed().record() == {"width": 5, "depth": 3, "sharp": True, "mode": "b"}
    stated = {"width": 4, "depth": None, "sharp": False, "mode": None}
    assert Changed(**stated).record() == Grown(**stated).record() == First().record()


def test_a_record_of_before_is_not_read_with_the_new_defaults() -> None:
    stated = {"width": 4, "depth": None, "sharp": False, "mode": None}
    assert from_record(Changed, First().record(), "file").model_dump() == stated
    whole = {"inner": First().record(), "listed": [{"width": 6}]}
    holder = from_record(Holder, whole, "file")
    assert holder.inner.model_dump() == stated and holder.listed[0].sharp is False
    with pytest.raises(InputError, match="file: unknown key 'inner.height'"):
        from_record(Holder, {"inner": {"height": 1}}, "file")


@given(VALUES, VALUES)
def test_records_tell_settings_apart_and_are_read_back(some, others):
    one, two = (Holder(inner=Changed(**v), listed=[Changed(**v)]) for v in (some, others))
    assert from_record(Holder, json.loads(json.dumps(one.record())), "file") == one
    assert (one.record() == two.record()) == (one == two)
    assert Holder.model_validate(one.model_dump(mode="json")) == one


# --- kinds ----------------------------------------------------------------------------------------


class Shape(Kind):
    room = "shapes"
    size: int = Field(1, ge=0)


class Circle(Shape):
    kind: Literal["circle"] = "circle"


class Box(Shape):
    kind: Literal["box"] = "box"
    height: Annotated[int, Before(1)] = 2


class Drawing(Settings):
    shape: Annotated[Circle | Box, OneKind("circle")] = Circle()
    more: tuple[Annotated[Circle | Box, OneKind()], ...] = ()


def test_values_that_state_no_kind_are_of_the_default() -> None:
    assert Drawing.model_validate({"shape": {"size": 3}}).shape == Circle(size=3)
    assert Drawing.model_validate({"shape": Box()}).shape == Box()
    # A record of before each kind had a class.
    assert Drawing.model_validate({"shape": {"height": None}}).shape == Circle()
    assert from_record(Drawing, {"shape": {"kind": "box"}}, "file").shape == Box(height=1)
    assert modules_of(Drawing(shape=Box())) == ["shapes.box"]


def test_files_that_a_value_reads_are_named_with_it() -> None:
    class Painting(Drawing):
        words: Annotated[str, Reads("rules", "cxr_labels/rules/*.yaml")] = "none"

    class Room(Settings):
        wall: Painting

    for words, files in (("none", []), ("rules", ["cxr_labels/rules/*.yaml"])):
        room = Room(wall=Painting(shape=Box(), words=words))
        assert modules_of(room) == [*files, "shapes.box"]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"shape": {"size": -1}}, "file: key 'shape.size' is -1: .* greater than or equal to 0"),
        ({"shape": {"height": 1}}, "file: unknown key 'shape.height'"),
        ({"shape": {"kind": "cube"}}, "file: key 'shape': kind is 'cube'; expected circle, box"),
        ({"shape": 3}, "file: key 'shape': expected the keys of one of circle, box"),
        ({"more": [{}]}, "file: key 'more.0': kind is None; expected circle, box"),
    ],
)
def test_errors_name_the_key_as_it_is_written(values: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError) as error:
        Drawing.model_validate(values)
    with pytest.raises(InputError, match=line):
        raise InputError(explain(error.value, "file"))


def test_folders_of_before_kinds_had_classes_are_read() -> None:
    written = {"block": "basic", "projection_head": {"kind": "biovil", "hidden": None}}
    assert from_record(ImageEncoderKind, written, "file") == ResNetSettings(block="basic")
    written["projection_head"] = {"kind": "mlp", "hidden": None}
    settings = from_record(ImageEncoderKind, written, "file")
    assert settings.projection_head == MlpHeadSettings()


# --- the models of the papers ---------------------------------------------------------------------

TIME = "time_encoding: bool = Field(\n        {}"
SHARP = "sharp: Annotated[bool, Before(False)] = Field({})\n\n"
LIST = "ImageEncoderKind = Annotated[\n    ResNetSettings |"
HEADS = "ProjectionHeadKind = Annotated[\n    BiovilHeadSettings |"
WIDE = """class WideHeadSettings(ProjectionHeadSettings):
    kind: Literal["wide"] = "wide"


"""
MIXER = f"""class MixerSettings(ImageEncoderSettings):
    kind: Literal["mixer"] = "mixer"
    blocks: int = 12

    @property
    def twice(self) -> int:
        return 2 * self.blocks


{LIST} MixerSettings |"""
RESNET = '    kind: Literal["resnet"] = "resnet"\n'
EDITS = {
    "new": [
        (LIST, MIXER),
        (HEADS, f"{WIDE}{HEADS} WideHeadSettings |"),
        (RESNET, f"{RESNET}    mode: int | None = None\n    {SHARP.format(False)}"),
    ],
    "new default": [(RESNET, f"{RESNET}    {SHARP.format(True)}")],
    "other default": [(TIME.format(True), TIME.format(False))],
}
UNTRAINED = "low_data/clip_released"  # published weights, whose settings are theirs
PROGRAM = """
import json, sys
digests = {}
for folder in sys.argv[3:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "cxrflow"]:
        del sys.modules[name]
    sys.path.insert(0, folder)
    from cxrflow.config import load_config
    from cxr_files.atomic import fingerprint
    from cxrflow.programs.source_code import code_digest
    run = load_config([sys.argv[1]])
    digests[folder] = {
        name: [code_digest(*run.models[name].code), fingerprint(run.models[name].settings.record())]
        for name in set(run.library.models) - {sys.argv[2]}
    }
print(json.dumps(digests))
"""


def trained(run: Config) -> set[str]:
    return set(run.library.models) - {UNTRAINED}


@pytest.fixture(scope="module")
def retrained(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], set[str]]:
    """After an edit, the models whose code or settings are others than before."""
    folders = {}
    for name, edits in EDITS.items():
        folders[name] = tmp_path_factory.mktemp("package")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PACKAGE, folders[name] / PACKAGE.name, ignore=ignored)
        path = folders[name] / PACKAGE.name / "encoders/settings.py"
        text = path.read_text(encoding="utf-8")
        for old, new in [("import Settings", "import Before, Settings"), *edits]:
            assert old in text
            text = text.replace(old, new)
        path.write_text(text, encoding="utf-8")
    done = run_to_end(
        [sys.executable, "-c", PROGRAM, str(DEMO), UNTRAINED, *map(str, folders.values())], cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    digests, run = json.loads(done.stdout), load_config([DEMO])
    before = {
        name: [code_digest(*run.models[name].code), fingerprint(run.models[name].settings.record())]
        for name in trained(run)
    }

    def after(edit: str) -> set[str]:
        now = digests[str(folders[edit])]
        assert now.keys() == before.keys()
        return {name for name in before if now[name] != before[name]}

    return after


def models_with(kind: str) -> set[str]:
    run = load_config([DEMO])
    encoders = {name: getattr(run.models[name].settings, "encoder", None) for name in trained(run)}
    return {name for name, encoder in encoders.items() if getattr(encoder, "kind", None) == kind}


def test_a_kind_a_head_and_fields_that_change_nothing_retrain_nothing(retrained):
    assert retrained("new") == set()


def test_a_changed_default_retrains_those_that_use_it(retrained):
    resnets, comparing = models_with("resnet"), models_with("multi_image")
    assert len(resnets) > 20 and "biovil_t/biovil_t_no_time" in comparing
    assert retrained("new default") == resnets
    # One of Table 7's ablations states the value.
    assert retrained("other default") == comparing - {"biovil_t/biovil_t_no_time"}
