"""The data sets' descriptions: what they name exists, and nothing else lists the data sets."""

import ast
import re
import shutil
from typing import get_args

import pytest
from cohort_fixtures import make
from data_fixtures import rsna

from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxrflow.config.parts import Dataset
from cxrflow.data import layouts
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.layouts import LAYOUTS, Part, holders, layout
from cxrflow.data.layouts.overlap import CohortRows, overlap
from cxrflow.programs.source_code import PACKAGE, PACKAGES, source_files


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_a_description_names_is_there(name: str) -> None:
    one = layout(name)
    for part in get_args(Part):
        if getattr(one, part):
            assert callable(one.reader(part))
            assert len(source_files(*one.source(part))) > 1
    assert one.reports or "reports" not in one.holds
    assert one.documents or "documents" not in one.holds
    assert one.tables or not one.cohorts
    assert one.companion is None or layout(one.companion).ids == one.ids
    labels = layout(one.companion or name).label_tables
    assert set(one.compared_with) <= set(labels)
    assert one.ids is None or one.people
    written = (PACKAGES["cxr_hospital"] / "writers" / f"{name}.py").is_file()
    assert one.synthetic == written
    if written:
        assert callable(writer(name))


def test_every_kind_of_cohort_has_a_data_set() -> None:
    kinds = {*get_args(CohortSettings.model_fields["kind"].annotation)}
    assert {kind for name in LAYOUTS for kind in layout(name).cohorts} == kinds


def test_unknown_layout_and_missing_reader_list_those_there_are() -> None:
    with pytest.raises(InputError, match="'mimic' is unknown; expected one of captioned_pic"):
        layout("mimic")
    with pytest.raises(InputError, match="'rsna' has no documents; expected one of mimic_iii, pub"):
        layout("rsna").reader("documents")
    assert holders("reports") == (
        *("captioned_pictures", "chexpert_plus", "covid_chestxray", "hospital", "mimic_cxr"),
        "musculoskeletal",
        *("open_i", "rexgradient"),
    )
    assert holders("boxes") == (
        "ms_cxr",
        "nih",
        "padchest_gr",
        "padchest_gr_spanish",
        "rsna",
        "vindr_cxr",
    )


def test_a_description_is_all_that_a_data_set_needs_beside_its_reader(tmp_path, monkeypatch):
    """Written beside the others, it is a name for the programs and for the configuration."""
    shutil.copytree(layouts.FOLDER, tmp_path / "layouts")
    (tmp_path / "layouts" / "own.yaml").write_text(
        "holds: [images, labels]\npeople: [own]\nids: own\ncohorts: [classification]\n"
        "tables: cxrflow.data.readers.rsna:read\n"
    )
    monkeypatch.setattr(layouts, "FOLDER", tmp_path / "layouts")
    monkeypatch.setattr(layouts, "LAYOUTS", (*LAYOUTS, "own"))
    options = ["--layout", "own", "--root", rsna(tmp_path / "own")]
    make(tmp_path / "cohort", *options, kind="classification")
    assert (tmp_path / "cohort" / "samples.parquet").is_file()
    assert Dataset(layout="own", root=str(tmp_path / "own")).layout == "own"


def test_no_other_file_lists_the_data_sets() -> None:
    """A collection that names three layouts would have to be kept up with the descriptions."""
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
                parts = node.keys if isinstance(node, ast.Dict) else node.elts
                named = {part.value for part in parts if isinstance(part, ast.Constant)}
                assert len(named & set(LAYOUTS)) < 3, f"{path}: line {node.lineno}"
    for path in (PACKAGE.parent.parent / "rules").rglob("*.smk"):
        named = set(re.findall(r'"(\w+)"', path.read_text(encoding="utf-8")))
        assert len(named & set(LAYOUTS)) < 3, path


def rows(dataset: str, name: str = "", **others: object) -> CohortRows:
    values = {"cohort": dataset, "synthetic": False, "images": dataset, **others}
    return CohortRows(dataset=dataset, layout=name or dataset, **values)  # type: ignore[arg-type]


def held(dataset: str, *parts: str) -> frozenset[tuple[str, frozenset[str]]]:
    return frozenset([(dataset, frozenset(parts))])


DRAWN = {"synthetic": True}
TEST = {"parts": frozenset(["test"])}
HELD = {"held_out": held("ms_cxr")}
HELD_ALONE = rows("a", "mimic_cxr", split=("patients", 0, 0.9, 0), **HELD, **TEST)
LESS = rows("a", "mimic_cxr", split=("patients", 0, 0.8, 0.2), **HELD, **TEST)
# What is published as valid.
TESTED = rows("a", "chexpert", split=(2,), published=frozenset(["validate"]), **TEST)
VALID = {"published": frozenset(["validate"]), **TEST}
AS_CHEXPERT = {"stated": (frozenset(["chexpert"]), "chexpert")}
SEARCHED = rows("retrieval_8x200", images="chexpert", **TEST)  # among CheXpert's training images


@pytest.mark.parametrize(
    ("trained", "evaluated", "leaks"),
    [
        (rows("mimic_cxr"), rows("ms_cxr"), True),
        (rows("mimic_cxr", held_out=held("ms_cxr")), rows("ms_cxr"), False),
        (rows("mimic_cxr", synthetic=True), rows("ms_cxr"), False),
        (rows("own", "mimic_cxr"), rows("mimic_cxr"), False),  # another hospital
        (rows("own", "mimic_cxr", **DRAWN), rows("mimic_cxr", **DRAWN), True),  # of one copy
        (rows("a", "mimic_cxr", images="jpg"), rows("b", "open_i", images="jpg"), True),
        (rows("mimic_cxr"), rows("rsna"), False),
        (rows("chexpert"), SEARCHED, True),
        (rows("chexpert", held_out=held("retrieval_8x200")), SEARCHED, False),
        (rows("mimic_cxr"), SEARCHED, False),
        # The same people under other ids.
        (rows("mimic_iii"), rows("ms_cxr"), False),
        (rows("mimic_cxr"), rows("radnli"), False),
        # RSNA's images are NIH's.
        (rows("nih"), rows("rsna", **TEST), True),
        (rows("rsna"), rows("nih", **TEST), True),
        (rows("nih", held_out=held("rsna")), rows("rsna", **TEST), False),
        # RSNA's images are among COVIDx's, under other numbers; bones are of two hospitals.
        (rows("rsna"), rows("covidx"), False),
        (rows("covid_chestxray"), rows("covidx"), False),
        (rows("musculoskeletal"), rows("mura"), False),
        (rows("covidx", split=("official",)), rows("covidx", split=("official",), **TEST), False),
        (rows("pubmed"), rows("pubmed", **TEST), True),
        (rows("a", "mimic_cxr", split=(1,)), rows("a", "mimic_cxr", split=(1,), **TEST), False),
        (rows("a", "mimic_cxr", split=(1,)), rows("a", "mimic_cxr", split=(1,)), True),
        (rows("a", "mimic_cxr", split=(1,)), rows("a", "mimic_cxr", split=(2,), **TEST), True),
        # The publisher's parts under other names: the same images, or others.
        (rows("a", "chexpert", split=(1,), published=frozenset(["validate"])), TESTED, True),
        (rows("a", "chexpert", split=(1,), published=frozenset(["train"])), TESTED, False),
        (rows("a", "chexpert", split=(1,), published=frozenset(["train"]), **HELD), TESTED, True),
        # Another split, whose test part is held-out patients alone: also held out here, or not.
        (rows("a", "mimic_cxr", split=("patients", 1, 1.0, 0), **HELD), HELD_ALONE, False),
        (rows("a", "mimic_cxr", split=("official",), **HELD), HELD_ALONE, False),
        (rows("a", "mimic_cxr", split=("patients", 1, 1.0, 0)), HELD_ALONE, True),
        (rows("a", "mimic_cxr", **HELD), HELD_ALONE, True),
        (rows("a", "mimic_cxr", split=("patients", 1, 1.0, 0), **HELD), LESS, True),
        # Some of the publisher's parts are held out, or all.
        (rows("b", "retrieval_8x200", held_out=held("a", "validate")), TESTED, False),
        (rows("b", "retrieval_8x200", held_out=held("a", "test")), TESTED, True),
        (rows("b", "retrieval_8x200", held_out=held("a", "validate")), rows("a", "chexpert"), True),
        # A folder of a hospital says whose patients it has.
        (rows("own", "hospital"), rows("chexpert", **VALID), False),
        (rows("own", "hospital", **AS_CHEXPERT), rows("chexpert", **VALID), True),
        (
            rows("own", "hospital", held_out=held("chexpert", "validate"), **AS_CHEXPERT),
            rows("chexpert", **VALID),
            False,
        ),
        (rows("own", "hospital", **AS_CHEXPERT), rows("rsna"), False),
        (
            rows("own", "hospital", stated=(frozenset(["chexpert"]), "hospital")),
            rows("chexpert", **VALID),
            True,  # numbered in another way: nobody can be held out
        ),
        (rows("own", "hospital", **AS_CHEXPERT), rows("two", "hospital", **AS_CHEXPERT), True),
        (rows("own", "chexpert", stated=(frozenset(), "chexpert")), rows("chexpert"), False),
        # A checkpoint that was chosen by held-out patients.
        (HELD_ALONE, HELD_ALONE, True),
        (rows("a", "mimic_cxr", **HELD, **TEST), rows("ms_cxr"), True),
    ],
)
def test_overlap(trained: CohortRows, evaluated: CohortRows, leaks: bool) -> None:
    assert overlap([trained], evaluated) == ([trained] if leaks else [])


def test_equal_split_rules_mean_equal_splits() -> None:
    def rule(**splits: object) -> object:
        return CohortSettings.model_validate({"splits": splits}).split_rule

    assert rule() == rule(method="patients") != rule(seed=1)
    assert rule(shares={"train": 1.0}) != rule()
    assert rule(method="official") != rule()
    assert rule(method="file", file="a.csv") != rule(method="file", file="b.csv")
    # A count of validation images is taken of those that remain.
    drawn = {"method": "official", "validation": {"count": 5}}
    labelled = {"kind": "classification", "splits": drawn}
    rules = [
        CohortSettings.model_validate({**labelled, **more}).split_rule
        for more in ({}, {"frontal": True}, {"frontal": True, "views": ["PA"]})
    ]
    assert len(set(rules)) == 3
    # Images of one patient may stand in two parts, or everything in one.
    assert rule(method="ordered") is rule(method="all") is None
