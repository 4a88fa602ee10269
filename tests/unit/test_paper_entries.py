"""``extends`` inside a paper: entries and scales laid over each other, and where errors point."""

import pytest

from cxrflow.errors import InputError
from cxrflow.papers import load_paper

BASE = {
    "program": "joint",
    "text": "biovil/cxr_bert",
    "image": "biovil/simclr",
    "cohort": "biovil/mimic_cxr",
    "geometry": "shorter512",
    "settings": {"length": 512, "terms": {"global_alignment": {"weight": 0.5}, "mlm": {}}},
    "scales": {
        "demo": {"geometry": "shorter128", "settings": {"length": 64, "dropout": 0.1}},
        "study": {"extends": "demo", "settings": {"length": 96}},
    },
}
TABLE = {
    "title": "A table",
    "source": "ours",
    "task": "biovil/phrase_grounding",
    "columns": [{"key": "cnr", "label": "CNR", "metric": "cnr"}],
    "rows": [{"label": "Base", "model": "base", "published": {"cnr": "0.70"}}],
    "notes": ["first"],
}


@pytest.fixture
def read(paper):
    """Read a paper of these entries."""
    return lambda values: load_paper(paper(values))


def test_an_entry_is_laid_over_the_one_it_extends_at_any_depth(read):
    models = read(
        {
            "models": {
                "last": {"extends": "middle", "scales": {"study": {"settings": {"length": 80}}}},
                "middle": {
                    "extends": "base",
                    "text": "mine",
                    "settings": {"terms": {"mlm": None, "global_alignment": {"temperature": 0.1}}},
                    "scales": {"demo": {"settings": {"dropout": 0.2}}},
                },
                "mine": {"extends": "biovil/cxr_bert"},
                "base": BASE,
            }
        }
    ).models
    assert list(models) == ["last", "middle", "mine", "base"]  # as they are written
    middle, last = models["middle"], models["last"]
    assert (middle.text, middle.image) == ("mine/mine", "biovil/simclr")
    aligned = {"weight": 0.5, "temperature": 0.1}
    assert middle.settings["terms"] == {"global_alignment": aligned, "mlm": None}
    # A scale follows the one it extends, as the entry that is read has it.
    assert models["base"].scales["study"].settings == {"length": 96, "dropout": 0.1}
    assert middle.scales["study"].settings == {"length": 96, "dropout": 0.2}
    assert middle.scales["study"].geometry == "shorter128"
    assert last.scales["study"].settings == {"length": 80, "dropout": 0.2}
    assert last.scales["demo"] == middle.scales["demo"]


def test_a_mapping_that_extends_null_replaces_the_one_below_it(read):
    new = {
        "extends": "base",
        "settings": {"terms": {"extends": None, "pair_matching": {}}},
        "scales": {"study": {"extends": None, "settings": {"extends": None, "a": 1}}},
    }
    models = read({"models": {"base": BASE, "new": new}}).models
    assert models["new"].settings == {"length": 512, "terms": {"pair_matching": {}}}
    assert models["new"].scales["study"].model_dump() == {"geometry": None, "settings": {"a": 1}}


def test_every_kind_of_entry_extends(read):
    mine = read(
        {
            "cohorts": {
                "pairs": {"dataset": "mimic_cxr", "kind": "pairs"},
                "images": {"extends": "pairs", "unit": "image"},
            },
            "vocabularies": {
                "words": {"documents": ["pubmed"], "size": 90},
                "pieces": {"extends": "words", "lowercase": False},
            },
            "models": {"base": BASE},
            "tasks": {
                "mine": {"extends": "biovil/linear_probe", "settings": {"fractions": [0.5]}},
                "more": {"extends": "mine", "cohort": "biovil/rsna"},
            },
            "tables": {
                "a": TABLE,
                "b": {
                    "extends": "a",
                    "rows": [{"label": "BioViL", "model": "biovil/biovil"}],
                    "notes": ["second"],
                },
            },
        }
    )
    assert mine.cohorts["images"].unit == "image" and mine.cohorts["images"].kind == "pairs"
    assert mine.vocabularies["pieces"].size == 90 and not mine.vocabularies["pieces"].lowercase
    assert mine.tasks["more"].settings == {"fractions": [0.5]}
    table = mine.tables["b"]
    assert [row.model for row in table.rows] == ["mine/base", "biovil/biovil"]
    assert table.notes == ["first", "second"] and len(table.columns) == 1
    assert table.rows[0].published == {"cnr": ["0.70", None]}  # no digit is lost


@pytest.mark.parametrize(
    ("models", "message"),
    [
        (
            {"a": {"extends": "b"}, "b": {"extends": "c"}, "c": {"extends": "b"}},
            "mine.yaml: key 'models.c.extends': entries extend each other: b -> c -> b",
        ),
        ({"a": {"extends": "a"}}, "key 'models.a.extends': entries extend each other: a -> a"),
        (
            {"a": {"extends": "c"}},
            "mine.yaml: key 'models.a.extends' is 'c'; expected <name> of this file's models or <",
        ),
        ({"a": {"extends": ["b"]}}, "key 'models.a.extends' is '['b']'; expected <name>"),
        (
            {"a": BASE | {"scales": {"demo": {"extends": "study"}, "study": {"extends": "demo"}}}},
            "key 'models.a.scales.study.extends': scales extend each other: demo -> study -> demo",
        ),
        (
            {"a": BASE, "b": {"extends": "a", "scales": {"study": {"extends": "x"}}}},
            "key 'models.b.scales.study.extends' is 'x'; its scales are demo",
        ),
        # An error names the entry in which the value is written, once.
        ({"a": BASE | {"seeds": "all"}, "b": {"extends": "a"}}, "key 'models.a.seeds' is 'all'"),
        ({"b": {"extends": "a"}, "a": {"cohort": "x"}}, "key 'models.b.program' is missing"),
        (
            {"a": BASE | {"scales": {"demo": {"size": 1}, "study": {"extends": "demo"}}}},
            "unknown key 'models.a.scales.demo.size'",
        ),
    ],
)
def test_a_mistake_names_the_entry_that_has_it(read, models, message):
    with pytest.raises(InputError) as error:
        read({"models": models})
    lines = str(error.value).splitlines()
    assert message in lines[0] and len(lines) == len(set(lines))


def test_a_row_of_an_extended_table_is_named_where_it_is_written(read):
    tables = {
        "a": TABLE | {"rows": [*TABLE["rows"], {"label": "x"}]},
        "b": {"extends": "a", "rows": [{"label": "y", "model": 1}]},
    }
    with pytest.raises(InputError) as error:
        read({"models": {"base": BASE}, "tables": tables})
    keys = [line.partition("key ")[2][:20] for line in str(error.value).splitlines()]
    assert keys == ["'tables.a.rows.1': r", "'tables.b.rows.0.mod"]


@pytest.mark.parametrize(
    ("settings", "scale", "key"),
    [
        ({"frozen_layers": -1}, {}, "models.a.settings.frozen_layers"),
        ({}, {"frozen_layers": -1}, "models.a.scales.demo.settings.frozen_layers"),
    ],
)
def test_a_wrong_setting_is_named_where_it_is_written(overlay, paper, settings, scale, key):
    """Settings are read by their program, when the configuration is."""
    scales = {"small": {"extends": "demo"}, "demo": {"settings": scale}}
    models = {
        "a": {"extends": "biovil/biovil", "control": True, "settings": settings, "scales": scales},
        "b": {"extends": "a", "settings": {"length": 32}},
    }
    for names in ("ab", "ba"):  # whichever of the two is asked for first
        path = paper({"models": {name: models[name] for name in names}}, f"{names}.yaml")
        with pytest.raises(InputError, match=f"{names}.yaml: key '{key}' is -1"):
            overlay({"papers": [path]})
    # In a file of its own the entry that it extends is named by that file.
    mine = paper({"models": {"c": {"extends": "ab/b", "control": True}}})
    with pytest.raises(InputError, match=f"ab.yaml: key '{key}' is -1"):
        overlay({"papers": [mine]})
