"""Published weights in the configuration: which model they may stand for, and what that changes."""

from functools import partial
from typing import get_args

import pytest

from cxrflow.encoders.released.settings import PUBLISHED, ImportSettings, Kind
from cxrflow.errors import InputError
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from released_files import write_biovil, write_cxr_bert


@pytest.fixture
def overlay(overlay):
    """Weights need not lie where an overlay says."""
    return partial(overlay, check_roots=False)


def test_published_weights_stand_for_the_models_of_one_program():
    kinds = [kind for program in TRAINING_PROGRAMS.values() for kind in program.published]
    assert sorted(kinds) == sorted(PUBLISHED) == sorted(get_args(Kind))


def test_imported_models_are_scored_on_the_only_data_there_are(overlay):
    data = ("mimic_cxr", "pubmed", "mimic_iii", "ms_cxr", "mimic_cxr_jpg")
    config = overlay({"papers": ["biovil"], "datasets": dict.fromkeys(data), **released()})
    assert config.stores == [("biovil/rsna", "shorter128")]


def released(path="/weights", **more):
    return {"weights": {"biovil/biovil": {"path": path, "geometry": "shorter128", **more}}}


def test_an_imported_model_has_no_parents_and_one_run(overlay):
    config = overlay({"seeds": [3, 4], **released()})
    assert config.imported("biovil/biovil") and not config.imported("biovil/cxr_bert")
    assert config.seeds_of("biovil/biovil") == [3]
    assert config.parents("biovil/biovil", 3) == {}
    assert config.seeds_of("biovil/baseline_phase2") == [3, 4]
    assert set(config.parents("biovil/baseline_phase2", 4)) == {"text", "image"}


def test_an_imported_model_needs_no_training_data(overlay):
    without = {"datasets": {"mimic_cxr": None}}
    assert "biovil/biovil" not in overlay(without).models_in_use
    config = overlay({**without, **released()})
    assert "biovil/biovil" in config.models_in_use
    assert ("biovil/phrase_grounding", "biovil/biovil") in config.results_of("biovil", "headline")
    assert "biovil/baseline_phase2" not in config.models_in_use


def test_models_that_start_from_an_imported_one_have_its_vocabulary(overlay):
    assert overlay({}).vocabulary_model("biovil/cxr_bert") is None
    config = overlay({"weights": {"biovil/cxr_bert": "/weights"}})
    assert config.vocabulary_model("biovil/cxr_bert") == "biovil/cxr_bert"
    assert config.vocabulary_model("biovil/cxr_bert_phase2") is None
    earlier = overlay({"weights": {"biovil/cxr_bert_phase2": "/weights"}})
    assert earlier.vocabulary_model("biovil/cxr_bert") == "biovil/cxr_bert_phase2"


START = "biovil/cxr_bert"


@pytest.fixture
def papers(paper):
    """A paper of one's own: a model that is published weights alone, and one on packed corpora."""
    values = {
        "models": {
            "bert": {"program": "text", "weights": "bert"},
            "on_it": {"extends": "biovil/baseline_clinical_bert", "text": "bert"},
            "more": {"extends": "biovil/clinical_bert", "start": START, "vocabulary": None},
        },
        "tables": {
            "mine": {
                "title": "Mine",
                "source": "mine",
                "task": "biovil/sentence_similarity",
                "columns": [{"key": "gap", "label": "Gap", "metric": "gap"}],
                "rows": [{"label": name, "model": name} for name in ("bert", "on_it", "more")],
            }
        },
    }
    return {"papers": [paper(values)]}


def test_corpora_are_not_cut_for_an_imported_model(overlay, papers):
    with pytest.raises(InputError, match=r"'weights': 'mine/more' is trained on packed corpora"):
        overlay({**papers, "weights": {"biovil/cxr_bert": "/weights"}})


def test_a_recipe_may_be_published_weights_and_nothing_else(overlay, papers):
    names = {"mine/bert", "mine/on_it"}
    without, given = overlay(papers), overlay({**papers, "weights": {"mine/bert": "/weights"}})
    assert not names & set(without.models_in_use) and names <= set(given.models_in_use)
    assert given.resolved()["models"].keys() >= names


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/w", ("/w", None)),
        ({"path": "/w"}, ("/w", None)),
        ({"text": "/t", "image": "/i.pt"}, ("/t", "/i.pt")),
    ],
)
def test_where_biovil_lies_can_be_said_in_two_ways(overlay, given, expected):
    config = overlay({"weights": {"biovil/biovil": given}})
    assert config.weights["biovil/biovil"].places("biovil") == expected
    model = config.model("biovil/biovil")
    assert type(model.settings) is ImportSettings
    assert model.settings.geometry == model.geometry == "shorter512crop480"


def test_geometry_is_said_where_there_are_images(overlay):
    image = {"path": "/r.pt", "geometry": "shorter128"}
    config = overlay({"weights": {"biovil/simclr": image, "biovil/cxr_bert": "/t"}})
    geometries = {name: config.model(name).settings.geometry for name in config.weights}
    assert geometries == {"biovil/simclr": "shorter128", "biovil/cxr_bert": None}


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"nobody": "/w"}, "key 'weights': 'nobody' is not known"),
        ({"biovil/gloria": "/w"}, "key 'weights': no published weights are known for 'biovil/glor"),
        ({"biovil/biovil": {"text": "/w"}}, "'weights.biovil/biovil': names text; weights of kind"),
        ({"biovil/cxr_bert": {"image": "/w"}}, "names image; weights of kind cxr_bert are text"),
        ({"biovil/cxr_bert": {}}, "'weights.biovil/cxr_bert': expected a path, or 'text' and"),
        ({"biovil/cxr_bert": {"path": "/w", "text": "/w"}}, "expected a path, or 'text' and 'imag"),
        (
            {"biovil/cxr_bert": {"path": "/w", "kind": "x"}},
            "unknown key 'weights.biovil/cxr_bert.",
        ),
    ],
)
def test_a_mistake_is_one_line(overlay, weights, said):
    with pytest.raises(InputError) as raised:
        overlay({"weights": weights})
    line = str(raised.value)
    assert said in line and "overlay.yaml" in line and "\n" not in line


def test_files_are_missed_before_anything_runs(overlay, tmp_path):
    folder = write_biovil(tmp_path / "released")
    overlay(released(str(folder)), check_roots=True)
    for name in ("biovil_image_resnet50_proj_size_128.pt", "vocab.txt", "pytorch_model.bin",
                 "config.json"):  # fmt: skip
        (folder / name).unlink()
        with pytest.raises(InputError) as raised:
            overlay(released(str(folder)), check_roots=True)
        missed = "biovil_image*.pt" if name.endswith(".pt") else name
        refused = f"key 'weights.biovil/biovil' is '{folder / missed}': no such file"
        assert refused in str(raised.value)
    with pytest.raises(InputError, match="'weights.biovil/cxr_bert' is '/nowhere': no such folder"):
        overlay({"weights": {"biovil/cxr_bert": "/nowhere"}}, check_roots=True)
    text = write_cxr_bert(tmp_path / "text")
    two = {"text": str(text), "image": "/nowhere.pt", "geometry": "shorter128"}
    with pytest.raises(InputError, match="'weights.biovil/biovil.image' is '/nowhere.pt': no such"):
        overlay({"weights": {"biovil/biovil": two}}, check_roots=True)
