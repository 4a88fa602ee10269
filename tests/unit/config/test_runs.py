"""How often a model is trained: the runs of its paper's authors, and once under several names."""

import pytest
from config_overlays import DEMO
from table_fixtures import estimate, write_result

from cxr_files.errors import InputError
from cxrflow.config import load_config
from cxrflow.show.tables.make_table import main as make_table

FOUR = ["biovil", "biovil_t", "convirt", "medcutmix"]
SAME = {"medcutmix/medcutmix_50": "medcutmix/medcutmix_40"}  # three pairs of each of 13 classes


def runs(config, *names):
    return [len(config.models.seeds_of(name)) for name in names]


def test_each_paper_has_as_many_runs_as_its_authors_made(overlay):
    config = overlay({"papers": FOUR, "scale": "paper", "seeds": None})
    assert runs(config, "biovil/biovil", "biovil/gloria", "biovil/cxr_bert") == [4, 4, 1]
    temporal = ("biovil_t", "biovil_t_no_local", "report_biovil", "report_biovil_t_no_sep")
    assert runs(config, *(f"biovil_t/{name}" for name in temporal)) == [5, 4, 3, 3]
    assert runs(config, "convirt/convirt", "medcutmix/mgca") == [1, 1]
    assert config.seeds == [0, 1, 2, 3, 4]
    # A fifth start of BioViL-T's is there only where BioViL has so many runs.
    model = config.models["biovil_t/biovil_t"]
    assert model.parents_at(3)["image"] == ("biovil/biovil", 3)
    assert model.parents_at(4)["image"] == ("biovil/biovil", 0)
    assert (
        config.models["biovil/biovil"].seeds
        == overlay({"papers": ["biovil_t"], "scale": "paper", "seeds": None})
        .models["biovil/biovil"]
        .seeds
    )


def test_the_configuration_says_another_number_for_all_or_for_one(overlay):
    own = {"papers": FOUR, "scale": "paper", "seeds": None, "runs": {"biovil": 2}}
    names = ("biovil/biovil", "biovil_t/biovil_t", "convirt/convirt")
    assert runs(overlay(own), *names) == [2, 5, 1]
    assert runs(overlay(own | {"seeds": [7]}), *names) == [2, 1, 1]
    assert overlay(own | {"seeds": [7]}).seeds == [0, 1, 7]
    assert runs(load_config([DEMO], typed=["scale=paper"]), *names) == [1, 1, 1]
    assert runs(overlay({"seeds": None}), *names) == [1, 1, 1]  # nobody ran the demonstration
    for wrong, message in (({"bio": 2}, "'bio' is not known"), ({"biovil": 0}, "'runs.biovil'")):
        with pytest.raises(InputError, match=message):
            overlay({"runs": wrong})


def test_two_names_whose_settings_do_the_same_are_one_training(overlay, paper):
    """The names of its rows, and of what starts from it, stand for the first."""
    plain = {"settings": {"sentence_shuffling": False}}
    models = {
        "first": {"extends": "biovil/biovil"},
        "second": {"extends": "first"},
        "plain": {"extends": "first"} | plain,
        "often": {"extends": "first", "settings": {"training": {"log_steps": 7}}},
        "temporal": {"extends": "biovil_t/biovil_t", "image": "first"},
        "temporal_too": {"extends": "temporal", "image": "second"},
    }
    rows = [{"label": name, "model": name} for name in models]
    own = {
        "models": models,
        "tables": {"t": {"extends": "biovil/table5", "rows": rows}},
        "orderings": [{"claim": "c", "table": "t", "column": "avg", "rows": ["second", "plain"]}],
    }
    config = overlay({"papers": [paper(own)]})
    one = {"mine/second": "mine/first", "mine/often": "mine/first"}
    assert config.models.same == one | {"mine/temporal_too": "mine/temporal"}
    trained = {name for name in config.whole.models if name.startswith("mine/")}
    assert trained == {f"mine/{name}" for name in ("first", "plain", "temporal")}
    results = config.results["mine"]
    assert {model for _, model in results.cells("t")} >= trained
    assert not {model for _, model in results.all("all")} & config.models.same.keys()
    assert "second and first are one training" in results.one_training("t")[0]
    assert any(
        (each.model, each.reference_model) == ("mine/first", "mine/plain")
        for each in results.comparisons("t")
    )


def test_pairs_that_round_to_the_same_number_are_one_training(overlay):
    for scale in ("demo", "paper"):
        config = overlay({"papers": ["medcutmix"], "scale": scale})
        assert config.models.same == SAME
    assert {"medcutmix/medcutmix_30", "medcutmix/medcutmix_100"} <= {*config.whole.models}
    fewer = {"medcutmix/medcutmix_50": {"terms": {"cutmix": {"pairs": 52}}}}  # four of each
    assert overlay({"papers": ["medcutmix"], "models": fewer}).models.same == {}


def test_both_rows_of_a_table_show_the_one_training(tmp_path):
    """`--same` is what the workflow says of them."""
    ((name, stands),) = SAME.items()
    place = tmp_path / "metrics.json"
    write_result(place, "medcutmix/nih", stands, 0, {"auroc": estimate(0.4321, 0.4, 0.5)})
    asked = ["--paper", "medcutmix", "--table", "table1", "--metrics", str(place)]
    for same, rows in (([], 1), (["--same", f"{name}={stands}"], 2)):
        make_table([*asked, *same, "--output", str(tmp_path / "table1")])
        assert (tmp_path / "table1.csv").read_text(encoding="utf-8").count("0.4321") == rows
