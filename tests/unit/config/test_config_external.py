"""Models that were run elsewhere in a configuration: rows, reference rows beside them, notes."""

import re
import textwrap

import pytest
from config_overlays import ROOT, real, table_of

from cxr_files.errors import InputError
from cxrflow.config.held_out import external_notes

PAGE = (ROOT / "docs/external_models.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"    # elsewhere\.yaml\n((?:    .*\n)+)", PAGE)
PROBE = ("biovil/linear_probe", "elsewhere/rad_dino")
MODEL = {"trained_on": "nothing", "people": [], "files": {"biovil/linear_probe": "x.parquet"}}
ROW = {"kind": "external", "label": "theirs", "model": "theirs"}


@pytest.fixture
def example(paper):
    return paper(textwrap.dedent(EXAMPLES[0]), "elsewhere.yaml")


def test_the_row_of_the_page_is_scored_and_nothing_is_trained_for_it(overlay, example):
    alone, config = overlay({"papers": ["biovil"]}), overlay({"papers": [example]})
    assert PROBE in config.results["elsewhere"].all("all")
    assert config.models.seeds_of(PROBE[1]) == [0]
    # It is scored on the images that our first model can see.
    assert config.tasks[PROBE[0]].geometry(PROBE[1]) == config.tasks[PROBE[0]].geometry(
        "biovil/simclr"
    )
    assert set(config.whole.models) <= set(alone.whole.models)
    assert config.whole.stores and set(config.whole.stores) <= set(alone.whole.stores)
    names = {one.model for one in config.results["elsewhere"].comparisons("table6")}
    assert PROBE[1] in names
    (row,) = [row for row in config.results["elsewhere"].table("table6").rows if row.is_external]
    assert row.label.startswith("RAD-DINO")


def test_a_note_says_what_it_has_learnt_from_and_whom_it_shares(overlay, example):
    (note,) = external_notes(overlay({"papers": [example]}), "elsewhere", "table6")
    assert note.startswith(
        "“RAD-DINO, linear probe, all labels” was run elsewhere. Trained on: MIMIC"
    )
    assert note.endswith("The people of rsna are drawn, and so in no other data set.")
    config = overlay({"papers": [example], "datasets": real("rsna")}, check_roots=False)
    (note,) = external_notes(config, "elsewhere", "table6")
    assert note.endswith("It has learnt from people of nih, who may be those of rsna.")
    assert external_notes(config, "elsewhere", "headline/table6") == [note]


def test_the_second_row_of_the_page_is_a_paper_s(overlay, paper):
    config = overlay({"papers": [paper(textwrap.dedent(EXAMPLES[1]), "elsewhere.yaml")]})
    assert ("medcutmix/nih", "elsewhere/carzero") in config.results["elsewhere"].all("all")
    cells = config.results["elsewhere"].cells("table1")
    assert not any(
        model == "elsewhere/carzero" and task != "medcutmix/nih" for task, model in cells
    )


def test_a_table_may_have_no_model_of_ours(overlay, paper):
    rows = [ROW, {"label": "pixels", "model": "reference/thumbnail"}]
    table = table_of("biovil/linear_probe", "auroc/100", rows=rows)
    values = {"external": {"theirs": MODEL}, "tables": {"t": table}}
    mine = paper(values)
    config = overlay({"papers": [mine]})
    names = ["mine/theirs", "reference/thumbnail"]
    assert config.results["mine"].cells("t") == [("biovil/linear_probe", name) for name in names]
    assert config.whole.models == [] and config.whole.stores == [("biovil/rsna", "shorter128")]
    # Another paper may show it.
    more = {"tables": {"t": {"extends": "mine/t", "title": "Again"}}}
    both = overlay({"papers": [paper(more, "more.yaml"), mine]})
    assert both.results["more"].cells("t") == config.results["mine"].cells("t")


@pytest.mark.parametrize(
    ("model", "row", "message"),
    [
        ({"people": ["mimic"]}, {}, "'mimic' is no layout; expected some of captioned_pictures"),
        ({"trained_on": ""}, {}, "key 'external.theirs.trained_on'"),
        (
            {"files": {"biovil/x": "x.csv"}},
            {},
            "external mine/theirs names 'biovil/x', which is not",
        ),
        (
            {"files": {"biovil/segmentation": "x.csv"}},
            {},
            "has a file for biovil/segmentation, but segmentation scores none; expected a task of",
        ),
        ({}, {"kind": None}, "row 'theirs', which is no model of ours; expected `kind: external`"),
        (
            {},
            {"model": "biovil/biovil"},
            "names 'biovil/biovil', which is not known; external of b",
        ),
    ],
)
def test_a_mistake_is_one_line(overlay, paper, model, row, message):
    table = {"extends": "biovil/table6", "rows": [ROW | {"task": "biovil/linear_probe"} | row]}
    values = {"external": {"theirs": MODEL | model}, "tables": {"t": table}}
    with pytest.raises(InputError, match=re.escape(message)):
        overlay({"papers": [paper(values)]})


def test_a_name_stands_for_one_model(overlay, paper):
    values = {"external": {"a": MODEL}, "models": {"a": {"extends": "biovil/biovil"}}}
    with pytest.raises(InputError, match="external: 'a' is the name of a model"):
        overlay({"papers": [paper(values)]})
