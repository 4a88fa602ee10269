"""Entries of a paper's file: what they extend, and the variants made of them."""

import textwrap
from pathlib import Path

import pytest
import yaml

from cxr_files.errors import InputError
from cxrflow.papers import load_paper
from cxrflow.papers.variants import levels_of, variants

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


def test_a_scale_follows_the_one_it_extends_from_paper_to_paper(paper):
    """What is changed in demo reaches the study of another paper's entry, and of one between."""
    terms = {"extends": None, "global_alignment": {}}
    base = {**BASE, "scales": {**BASE["scales"], "study": {**BASE["scales"]["study"], "text": "t"}}}
    base["scales"]["demo"] = {"geometry": "shorter128", "settings": {"length": 64, "terms": terms}}
    words = {"extends": "biovil/cxr_bert"}
    paper({"models": {"base": base, "t": words}}, "first.yaml")
    between = {"extends": "first/base", "scales": {"demo": {"settings": {"dropout": 0.2}}}}
    paper({"models": {"base": between}}, "second.yaml")
    last = {"extends": "second/base", "scales": {"demo": {"settings": {"terms": {"mlm": {}}}}}}
    scales = load_paper(paper({"models": {"last": last}}, "third.yaml")).models["last"].scales
    assert scales["study"].text == "first/t" and scales["demo"].text is None
    demo = {"length": 64, "dropout": 0.2, "terms": {"global_alignment": {}, "mlm": {}}}
    assert scales["demo"].settings == demo and scales["study"].settings == demo | {"length": 96}
    assert scales["study"].geometry == "shorter128"


def test_a_mapping_that_extends_null_replaces_the_one_below_it(read):
    new = {
        "extends": "base",
        "settings": {"terms": {"extends": None, "pair_matching": {}}},
        "scales": {"study": {"extends": None, "settings": {"extends": None, "a": 1}}},
    }
    models = read({"models": {"base": BASE, "new": new}}).models
    assert models["new"].settings == {"length": 512, "terms": {"pair_matching": {}}}
    assert models["new"].scales["study"].model_dump(exclude_none=True) == {"settings": {"a": 1}}


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
        *(
            (
                {"a": BASE | {"scales": {"demo": sizes, "study": {"extends": "demo"}}}},
                "key 'models.a.scales.study.extends' is 'demo', which is no mapping of sizes but "
                f"{sizes!r}",
            )
            for sizes in (["a", "bcde1"], None, "x")
        ),
        # Settings are read before their program validates them.
        *(
            (
                {"a": BASE | {"settings": {key: value}}},
                f"key 'models.a.settings': {key} is {value!r}; expected",
            )
            for key, value in (("terms", ["mlm"]), ("training", 3), ("training_share", "all"))
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


def names(template, vary, **entry):
    """Names of the variants of an entry, each with its values."""
    entry = entry | {"vary": vary}
    return {v.name: v.values for v in variants(template, entry, levels_of(vary))}


def test_values_have_names_and_the_last_variable_changes_fastest():
    vary = {"start": ["random", "simclr"], "share": {1: 0.01, 100: 1.0}}
    entry = {"image": "{start}", "share": "{share}", "label": "{start}, {share} %, {other}"}
    found = names("{start}_{share}", vary, **entry)
    assert list(found) == ["random_1", "random_100", "simclr_1", "simclr_100"]
    assert found["simclr_1"] == {
        "image": "simclr",
        "share": 0.01,  # alone it is the value
        "label": "simclr, 1 %, {other}",  # within a text its name; what does not vary stays
    }
    nested = names("a", {"x": [3]}, settings={"{x}": [{"deep": "{x}"}, "b{x}"]})
    assert nested == {"a": {"settings": {"3": [{"deep": 3}, "b3"]}}}


VARIED = {"program": "initial", "geometry": "square64"}
VARIED["settings"] = {"encoder": {"normalisation": "imagenet"}}


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"a_{x}": {"vary": 3}}, "mine.yaml: key 'models.a_{x}.vary' is 3; expected variables"),
        ({"a_{x}": {"vary": {"x": []}}}, "key 'models.a_{x}.vary' is {'x': []}; expected var"),
        ({"a_{x}": {"vary": {"x": [[1]]}}}, "expected variables, each with a list of values"),
        ({"a_{x}": {"vary": {"x y": [1]}}}, "expected variables, each with a list of values"),
        ({"a": {"vary": {"x": [1, 2]}} | VARIED}, "key 'models.a': 'a' stands more than once"),
        ({"a_{x}": {"vary": {"x": [1]}} | VARIED, "a_1": VARIED}, "'a_1' stands more than once"),
        ({"a_{y}": {"vary": {"x": [1]}} | VARIED}, "key 'models.a_{y}"),
        (
            {"a_{x}": {"vary": {"x": [1]}} | VARIED, "b": {"extends": "a_2"}},
            "key 'models.b.extends' is 'a_2'; expected <name> of this file's models",
        ),
        # Errors point to what is written: in the entry, or in one of its values.
        (
            {"a_{x}": {"vary": {"x": ["all", "some"]}} | VARIED | {"seeds": "{x}"}},
            "key 'models.a_{x}.seeds' is 'all'",
        ),
        (
            {"a_{x}": {"vary": {"x": {"one": {}, "two": {"seeds": "all"}}}} | VARIED},
            "key 'models.a_{x}.vary.x.two.seeds' is 'all'",
        ),
    ],
)
def test_a_mistake_is_named_where_it_is_written(read, models, message):
    with pytest.raises(InputError) as error:
        read({"models": models})
    assert message in str(error.value)


def test_a_mistake_in_a_varied_row_or_claim_is_named_where_it_is_written(read):
    table = {
        "title": "A table",
        "source": "ours",
        "task": "biovil/phrase_grounding",
        "columns": [{"vary": {"x": ["a", "b"]}, "key": "{x}", "label": "{x}", "metric": "cnr"}],
        "rows": [
            {"vary": {"x": [1, 2]}, "label": "row {x}", "model": "biovil/biovil"},
            {"label": "last", "share": 3, "model": "biovil/biovil"},
        ],
    }
    claim = {"claim": "row {x}", "table": "t", "column": "a", "rows": ["row 1"]}
    orderings = [claim | {"vary": {"x": [1, 2]}}, claim | {"rows": "row 1"}]
    with pytest.raises(InputError) as error:
        read({"tables": {"t": table}, "orderings": orderings})
    keys = [line.partition("key '")[2].partition("'")[0] for line in str(error.value).splitlines()]
    assert keys == ["tables.t.rows.1.share", "orderings.0.rows", "orderings.1.rows"]


def test_an_entry_of_a_varied_one_starts_from_the_variant_of_its_name(read):
    starts = {"one": {"seeds": "each"}, "two": {"seeds": "once"}}
    b = {"vary": {"y": [64, 128]}, "extends": "a_{x}", "geometry": "square{y}"}
    entries = {"a_{x}": VARIED | {"vary": {"x": starts}}, "b_{x}_{y}": b}
    models = read({"models": {**entries, "c": {"extends": "b_two_128", "control": True}}}).models
    assert [*models] == ["a_one", "a_two", "b_one_64", "b_one_128", "b_two_64", "b_two_128", "c"]
    assert (models["b_one_64"].seeds, models["b_two_128"].seeds) == ("each", "once")
    assert (models["c"].geometry, models["c"].seeds) == ("square128", "once")


def test_the_documented_example_is_six_models(read):
    page = (Path(__file__).parents[3] / "docs/configuration.md").read_text(encoding="utf-8")
    block = page.partition("makes several of one:\n\n")[2].partition("\n\nThese are")[0]
    models = read(yaml.safe_load(textwrap.dedent(block))).models
    starts = ("random", "imagenet")
    assert [*models] == [f"contrastive_{start}_{n}" for start in starts for n in (1, 10, 100)]
    assert models["contrastive_imagenet_10"].image == "mine/imagenet"
    assert models["contrastive_random_1"].settings["training_share"] == 0.01
