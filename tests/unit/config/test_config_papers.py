"""Papers of one's own: a method and a row more, beside ours; papers that use each other's parts."""

import re
import textwrap
from pathlib import Path
from typing import get_args

import pytest
import yaml
from config_overlays import DEMO, ROOT, nested, table_of

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.settings import Metric
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config import load_config
from cxrflow.names import is_reference
from cxrflow.papers import load_paper, paper_names
from cxrflow.show.tables.results import read_paper, results_parser

PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")


@pytest.fixture
def example(paper):
    """The paper that the documentation shows."""
    block = re.search(r"    # my_method\.yaml\n((?:    .*\n|\n)+)", PAGE)
    assert block is not None
    return paper("".join(line[4:] for line in block[1].splitlines(keepends=True)), "my_method.yaml")


def trainings(config):
    """Every training of a run: model and seed."""
    return [(name, seed) for name in config.whole.models for seed in config.models.seeds_of(name)]


def test_a_method_is_a_row_without_touching_the_package(overlay, example):
    config = overlay({"papers": [example], "seeds": [0, 1]})
    mine, biovil = config.models["my_method/my_method"], config.models["biovil/biovil"]
    assert mine.settings.terms.global_alignment.temperature == 0.1
    assert mine.settings.training == biovil.settings.training and mine.geometry == biovil.geometry
    assert (
        config.models["my_method/my_method"].ancestors[:-1]
        == config.models["biovil/biovil"].ancestors[:-1]
    )
    # It stands in BioViL's own table, in its own task, tested against the same row.
    table, published = (
        config.library.chosen["my_method"].tables["table5"],
        load_paper("biovil").tables["table5"],
    )
    assert table.rows[:-1] == published.rows and table.columns == published.columns
    cells = config.results["my_method"].all("all")
    assert ("biovil/phrase_grounding", "my_method/my_method") in cells
    rows = {
        comparison.reference_model
        for comparison in config.results["my_method"].comparisons("table5")
    }
    assert rows == {"biovil/biovil"}
    cells = config.results["my_method"].cells("headline/table5")
    assert [cell for cell in cells if not is_reference(cell[1])] == [
        ("biovil/phrase_grounding", name) for name in ("biovil/biovil", "my_method/my_method")
    ]
    added = set(config.needs(("my_method", "headline")).models) - {
        *config.models["biovil/biovil"].ancestors
    }
    assert added == {"my_method/my_method"}


def test_the_recipe_for_few_pairs_needs_nothing_but_ones_own_pairs(tmp_path, monkeypatch):
    monkeypatch.setenv("CXR_HOSPITAL", str(tmp_path))
    block = re.search(r"    # few_pairs\.yaml, .*\n((?:    .*\n)+)", PAGE)
    assert block is not None
    (tmp_path / "few_pairs.yaml").write_text(textwrap.dedent(block[1]))
    files = [ROOT / name for name in ("config.yaml", "hospital.yaml", "learning_curve.yaml")]
    papers = f"papers=[learning_curve, {tmp_path / 'few_pairs.yaml'}]"
    run = load_config(files, check_roots=False, typed=[papers])
    name = "few_pairs/few_pairs"
    assert run.models[name].trainable and run.models[name].recipe.cohort == "learning_curve/pairs"
    plain = run.models["learning_curve/adapted"].settings
    added = {"local_alignment", "multi_view", "neighbours"}
    assert {*run.models[name].settings.terms.named()} == {*plain.terms.named()} | added
    assert {f"{name}_share{share}" for share in (10, 20, 50)} <= {*run.whole.models}


def test_a_curve_of_other_shares_needs_nothing_but_ones_own_pairs(tmp_path, monkeypatch):
    monkeypatch.setenv("CXR_HOSPITAL", str(tmp_path))
    page = (ROOT / "docs/own_hospital.md").read_text(encoding="utf-8")
    block = re.search(r"    # my_shares\.yaml, .*\n((?:    .*\n)+)", page)
    (tmp_path / "my_shares.yaml").write_text(textwrap.dedent(block[1]))
    files = [ROOT / name for name in ("config.yaml", "hospital.yaml", "learning_curve.yaml")]
    papers = f"papers=[{tmp_path / 'my_shares.yaml'}]"
    run = load_config(files, check_roots=False, typed=[papers])
    names = [f"my_shares/{name}" for name in ("adapted_share5", "adapted_share25", "adapted")]
    assert all(run.models[name].trainable and len(run.models.seeds_of(name)) == 3 for name in names)
    figure = run.results["my_shares"].figures()["retrieval"]
    cells = [("learning_curve/retrieval", name) for name in names]
    assert run.results["my_shares"].shown_in("retrieval") == cells and figure.forecast
    others = {name for name in run.whole.models if name.startswith("learning_curve/")}
    assert not others  # nothing else is trained but what they start from


def test_beside_its_paper_nothing_is_trained_twice(overlay, example):
    one, both = (overlay({"papers": ["biovil", *more]}) for more in ([], [example]))
    assert set(trainings(both)) == {*trainings(one), ("my_method/my_method", 0)}
    assert len(trainings(both)) == len(trainings(one)) + 1
    assert both.whole.stores == one.whole.stores and both.tasks.available == one.tasks.available
    assert both.whole.cohorts == one.whole.cohorts
    assert both.models["my_method/my_method"].code == one.models["biovil/biovil"].code
    for task in one.tasks.available:
        assert both.whole.vocabularies_of(task) == one.whole.vocabularies_of(task)


def test_a_paper_has_cohorts_tasks_and_vocabularies_of_its_own(overlay, paper):
    own = {
        "cohorts": {"pairs": {"extends": "biovil/mimic_cxr", "choose": "first"}},
        "vocabularies": {"words": {"extends": "biovil/cxr_bert", "size": 70}},
        "models": {
            "text": {"extends": "biovil/cxr_bert_phase2", "vocabulary": "words", "cohort": "pairs"},
            "joint": {"extends": "biovil/biovil", "text": "text", "cohort": "pairs"},
        },
        "tasks": {"probe": {"extends": "biovil/linear_probe", "settings": {"fractions": [0.5]}}},
        "tables": {"probes": table_of("probe", "auroc", "joint", "biovil/simclr")},
    }
    config = overlay({"papers": [paper(own)]})
    assert config.models["mine/joint"].ancestors == ["mine/text", "biovil/simclr", "mine/joint"]
    assert config.models["mine/text"].vocabulary == "mine/words"
    assert config.cohorts["mine/pairs"].recipe.choose == "first"
    assert config.tasks["mine/probe"].settings.fractions == [0.5]
    # Without a headline of its own all of it is the headline.
    cells = [("mine/probe", "mine/joint"), ("mine/probe", "biovil/simclr")]
    assert config.results["mine"].cells("headline/probes") == cells
    # Its documents are split by its own cohort, as those of its vocabulary are.
    assert dict(config.whole.documents)["mimic_cxr"] == "mine"
    assert config.texts.cohort("mimic_cxr", "mine") == "mine/pairs"
    assert ("mine/pairs", "shorter128") in config.whole.stores
    assert set(config.whole.models) == {"mine/text", "biovil/simclr", "mine/joint"}
    with pytest.raises(InputError, match="leak/pairs.held_out': 'ms_cxr', on which biovil/phrase"):
        own["cohorts"]["pairs"]["held_out"] = []
        rows = own["tables"]["probes"]["rows"][:1]
        own["tables"]["grounding"] = {"extends": "biovil/table5", "rows": rows}
        overlay({"papers": [paper(own, "leak.yaml")]})


def test_a_paper_more_splits_no_documents_of_another(overlay, paper):
    """A paper's own vocabulary on reports that another paper's cohort splits."""
    text = {"extends": "biovil/cxr_bert_phase2", "vocabulary": "words"}
    joint = {"extends": "biovil/biovil", "text": "text"}
    row = {"label": "Mine", "model": "joint"}
    table = {"extends": "biovil/table5", "rows": [row]}
    words = {"words": {"extends": "biovil/cxr_bert"}}
    own = {"vocabularies": words, "models": {"text": text, "joint": joint}, "tables": {"t": table}}
    mine = paper(own)
    read = "biovil/mimic_cxr_reports"
    for papers in ([mine], ["own_data", mine], ["low_data", mine]):
        assert overlay({"papers": papers}).texts.cohort("mimic_cxr", "mine") == read


@pytest.mark.parametrize(
    ("metric", "said"),
    [
        ("aurok", "is 'aurok', but linear_probe measures auroc, average_precision, accuracy, bal"),
        ("cnr", "is 'cnr', but linear_probe measures auroc, average_precision, accuracy, balan"),
        ("auroc/10", None),
        ("accuracy_sd/1", None),
    ],
)
def test_a_metric_that_no_task_measures_is_refused(overlay, paper, metric, said):
    table = table_of("biovil/linear_probe", metric, "biovil/simclr")
    own = paper({"tables": {"probes": table}})
    if said is None:
        probes = overlay({"papers": [own]}).results["mine"].table("probes")
        assert probes.column("a").metric == metric
        return
    with pytest.raises(InputError, match=f"mine.yaml: key 'tables.probes.columns.0.metric' {said}"):
        overlay({"papers": [own]})
    # Where another row's task measures it, the cell of this one stays empty.
    grounded = {"label": "BioViL", "model": "biovil/biovil", "task": "biovil/phrase_grounding"}
    table["rows"].append(grounded)
    own = paper({"tables": {"probes": table}}, "mixed.yaml")
    if metric == "cnr":
        assert overlay({"papers": [own]}).results["mixed"].table("probes").rows[1].label == "BioViL"
    else:
        with pytest.raises(InputError, match=f"{said}.*; phrase_grounding measures cnr, cnr_micro"):
            overlay({"papers": [own]})


def test_every_metric_that_a_task_can_ask_for_may_stand_in_a_column():
    asked = [name for name, one in BENCHMARKS.items() if "metrics" in one.settings.model_fields]
    assert len(asked) == 6
    for name in asked:
        assert all(BENCHMARKS.measures(name, metric) for metric in get_args(Metric))
    prompted = ("auroc_rare/chest", "delta/consistent", "prompts_spread")
    for name in ("zero_shot_classification", "zero_shot_findings"):
        assert all(BENCHMARKS.measures(name, metric) for metric in prompted)
    assert not BENCHMARKS.measures("linear_probe", "delta/consistent")


def test_papers_use_each_others_models(overlay, paper):
    def model(name, **recipe):
        return {"models": {name: recipe}}

    first = paper(model("a", extends="biovil/biovil"), "first.yaml")
    second = model("b", extends="biovil/cxr_bert", start="biovil/cxr_bert")
    second = paper(second, "second.yaml")
    third = model("c", extends="biovil/biovil", text="second/b", image="first/a")
    third = paper(third, "third.yaml")
    # One may start from an entry of another that lies beside it.
    fourth = paper(model("d", extends="first/a"), "fourth.yaml")
    assert load_paper(fourth).models["d"] == load_paper(first).models["a"]
    config = overlay({"papers": [third, second, first]})
    assert config.models["third/c"].ancestors[-3:] == ["biovil/simclr", "first/a", "third/c"]
    with pytest.raises(InputError, match="'papers': model third/c names 'second/b': 'second' is"):
        overlay({"papers": [third, first]})


RECIPE = {"extends": "biovil/biovil"}


@pytest.mark.parametrize(
    ("path", "value", "message"),  # of which {} is the key that is called as its path
    [
        ("model", {}, "mine.yaml: unknown {}"),
        ("models", {"a.b": RECIPE}, "mine.yaml: key 'models.a.b."),
        ("models.a.extends", "biovil", "{} is 'biovil'; expected <"),
        ("models.a.extends", "biovil/x", "{} is 'biovil/x'; expected <"),
        ("models.a.extends", "x/x", "'x' is not known; there are across, biovil, biovil_t,"),
        ("models.a", RECIPE | {"text": "x"}, "model mine/a names 'mine/x', which is not"),
        ("models.a", RECIPE | {"image": "x/x"}, "model mine/a names 'x/x': 'x' is not known"),
        (
            "models",
            {"a": RECIPE | {"text": "b"}, "b": RECIPE | {"text": "a"}},
            "models are made from each other: mine/a -> mine/b -> mine/a",
        ),
        (
            "models.a",
            RECIPE | {"settings": {"frozen_layers": -1}},
            "mine.yaml: key 'models.a.settings.frozen_layers' is -1: Input should be greater than",
        ),
        (
            "models.a",
            RECIPE | {"scales": {"demo": {"settings": {"lenght": 9}}}},
            "mine.yaml: unknown key 'models.a.scales.demo.settings.lenght'",
        ),
        (
            "models.a",
            RECIPE | {"geometry": "big", "scales": None},
            "mine.yaml: key 'models.a.scales'",
        ),
        ("tasks.a", {"benchmark": "x", "cohort": "biovil/rsna"}, "'tasks.a': benchmark is 'x'"),
        (
            "tasks.a",
            {"extends": "biovil/linear_probe", "cohort": "c"},
            "task mine/a names 'mine/c', which is not known; cohorts of mine are none",
        ),
        ("headline", [{"table": "t"}], "headline: no table 't'"),
    ],
)
def test_a_mistake_in_a_paper_names_its_file_and_key(overlay, paper, path, value, message):
    with pytest.raises(InputError) as error:
        overlay({"papers": [paper(nested(path, value))]})
    assert message.replace("{}", f"key '{path}'") in str(error.value)


def test_a_cohort_of_an_unknown_data_set_is_named(overlay, paper):
    values = {"cohorts": {"c": {"dataset": "x"}}, "models": {"a": RECIPE | {"cohort": "c"}}}
    with pytest.raises(InputError, match="key 'datasets': cohort mine/c reads 'x' is not known"):
        overlay({"papers": [paper(values)]})
    scaled = {"extends": "biovil/mimic_cxr", "scales": {"study": {"held_out": ["ms_cxr", "x"]}}}
    values["cohorts"]["c"] = scaled
    message = "scaled.yaml: key 'cohorts.c.scales.study.held_out': 'x' is not known; there are"
    with pytest.raises(InputError, match=message):
        overlay({"papers": [paper(values, "scaled.yaml")]})


def test_who_names_a_kind_is_to_blame_for_it_whatever_a_scale_lays_over_it(overlay, paper):
    """BioViL's demonstration has sizes of the encoder that this model replaces."""
    encoder = {"extends": None, "kind": "nowhere:Tiny"}
    own = {"extends": "biovil/biovil", "settings": {"encoder": encoder}}
    message = "own.yaml: key 'models.a.settings.encoder': kind 'nowhere:Tiny': there is no module"
    with pytest.raises(InputError, match=message):
        overlay({"papers": [paper({"models": {"a": own}}, "own.yaml")]})


def beside(table: str, **row: object) -> dict:
    """A paper with a row of its own model beside those of another paper's table."""
    own = {"label": "CXR-RePaiR-Sel: Impression, mine", "model": "a", **row}
    return {"models": {"a": {"extends": "biovil_t/report_biovil_t"}}, "beside": {table: [own]}}


def test_a_row_stands_in_the_table_of_another_paper(overlay, paper):
    file = paper(beside("biovil_t/table3"))
    both = overlay({"papers": ["biovil_t", file]})
    table = both.results["biovil_t"].paper.tables["table3"]
    labels = [row.key for row in table.rows]
    before = labels.index("CXR-RePaiR-Sel: Impression")
    assert labels[before + 1] == "CXR-RePaiR-Sel: Impression, mine"
    assert ("biovil_t/report_generation", "mine/a") in both.results["biovil_t"].cells("table3")
    assert both.library.beside("biovil_t") == [file] and both.library.beside("mine") == []
    alone = overlay({"papers": ["biovil_t"]}).results["biovil_t"].paper.tables["table3"]
    assert [row.key for row in alone.rows] == [*labels[: before + 1], *labels[before + 2 :]]
    options = ["--paper", "biovil_t", "--beside", file]
    read = read_paper(results_parser("").parse_args(options)).tables["table3"]
    assert [row.key for row in read.rows] == labels


def test_a_row_without_a_like_stands_behind_what_is_published(overlay, paper):
    file = paper(beside("biovil_t/table3", label="Mine"))
    both = overlay({"papers": ["biovil_t", file]}).results["biovil_t"].paper.tables["table3"]
    labels = [row.key for row in both.rows]
    assert labels.index("Mine") == labels.index("BioViL-T: Findings and Impression") + 1
    assert overlay({"papers": [file]}).results.keys() == {"mine"}  # the other need not be made


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (beside("nobody/table3"), "mine: beside.nobody/table3: there is no paper 'nobody'"),
        (beside("biovil_t/table33"), "mine: beside.biovil_t/table33: no table 'table33'"),
        (beside("biovil_t/table3", published={"x": "1"}), "values or models for unknown"),
        (beside("biovil_t/table3", label="IFCC: Findings"), "stands more than once"),
    ],
)
def test_a_row_that_does_not_fit_another_papers_table_is_refused(overlay, paper, values, message):
    with pytest.raises(InputError, match="key 'papers'") as error:
        overlay({"papers": ["biovil_t", paper(values)]})
    assert message in str(error.value) and "\n" not in str(error.value)


CIRCLES = (("alone", "alone"), ("one", "two"), ("two", "one"))


def test_a_papers_name_is_its_files(overlay, paper):
    assert load_paper(paper({})).name == "mine"
    with pytest.raises(InputError, match="a paper of ours is called 'biovil'; give the file anoth"):
        load_paper(paper({}, "biovil.yaml"))
    with pytest.raises(InputError, match="key 'name' is 'my method'"):
        load_paper(paper({}, "my method.yaml"))
    circle = {name: {"tasks": {"x": {"extends": f"{of}/x"}}} for name, of in CIRCLES}
    for path in [paper(values, f"{name}.yaml") for name, values in circle.items()]:
        with pytest.raises(InputError, match="extends itself, alone or by way of another paper"):
            load_paper(path)
    with pytest.raises(InputError, match="'a/b' is not known"):
        load_paper(paper({"tasks": {"x": {"extends": "a/b/x"}}}, "deep.yaml"))
    for name in ("reference", "label_agreement", "store_pixels", "all", "compare_labels"):
        with pytest.raises(InputError, match="' means something else in the workflow"):
            overlay({"papers": [paper({}, f"{name}.yaml")]})
    for values in ({"tables": 1}, {"models": "x"}, {"tasks": ["a"]}):
        with pytest.raises(InputError, match=f"key '{next(iter(values))}' is "):
            load_paper(paper(values, f"{next(iter(values))}.yaml"))
    assert Path(paper({})).stem not in {name for name in load_config([DEMO]).library.chosen}


def test_all_reports_and_all_frontal_images_as_docs_say_it(overlay, paper):
    """The two cohorts of docs/biovil.md: what a study must have, and a row an image."""
    text = (ROOT / "docs" / "biovil.md").read_text(encoding="utf-8")
    keys = text.partition("# configuration\n")[2].partition("\n\n")[0]
    own = text.partition("# all_images.yaml\n")[2].partition("\n\n")[0]
    read = yaml.safe_load(textwrap.dedent(keys))
    read["papers"] = ["biovil", paper(yaml.safe_load(textwrap.dedent(own)))]
    config, before = overlay(read), load_config([DEMO])
    names = ("mimic_cxr_reports", "mimic_cxr")
    reports, pairs = (config.cohorts[f"biovil/{name}"].recipe for name in names)
    assert reports.require == ("findings", "impression")
    assert pairs == before.cohorts["biovil/mimic_cxr"].recipe
    images = config.cohorts["mine/images"].recipe
    assert (images.unit, images.require) == ("image", ("image",))
    assert images.splits == pairs.splits and images.held_out == pairs.held_out
    assert config.models["mine/biovil"].ancestors[-2:] == ["mine/simclr", "mine/biovil"]
    assert config.models["mine/simclr"].recipe.cohort == "mine/images"


def test_uncertain_labels_of_chexpert_count_as_mapped_or_as_asked(overlay):
    task = "convirt/chexpert_linear"
    settings = overlay({"papers": ["convirt"]}).tasks[task].settings
    assert settings.uncertain == {
        **dict.fromkeys(("Atelectasis", "Edema", "Pleural Effusion"), "one"),
        **dict.fromkeys(("Cardiomegaly", "Consolidation"), "zero"),
    }
    assert set(settings.uncertain) == set(settings.classes) and settings.unknown == "zero"
    for value in ("zero", "one", "ignore"):
        asked = {"papers": ["convirt"], "tasks": {task: {"uncertain": value}}}
        assert overlay(asked).tasks[task].settings.uncertain == value


@pytest.mark.parametrize("name", paper_names())
def test_a_file_of_overrides_serves_runs_without_the_paper_it_overrides(overlay, name):
    """`study.yaml` leaves two cohorts of BioViL out; a run of another paper may take it too."""
    laid = {
        "cohorts": {"biovil/mimic_cxr_raw": None},
        "models": {"convirt/convirt": {"training": {"steps": 7}}},
        "tasks": {"biovil_t/temporal_probe": {"split": "test"}},
        "vocabularies": {"convirt/captions": {"size": 500}},
    }
    assert list(overlay({"papers": [name], **laid}).library.chosen) == [name]
    for key, values in laid.items():
        (first,) = values
        with pytest.raises(InputError, match=f"key '{key}': '{first}x' is not known"):
            overlay({"papers": [name], key: {f"{first}x": {}}})
