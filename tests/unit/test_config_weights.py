"""Published weights in the configuration: which model they may stand for, and what that changes."""

from functools import partial

import pytest

from cxrflow.config import schema
from cxrflow.config.weights import vocabulary_model
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.errors import InputError
from cxrflow.papers import Recipe
from released_files import write_biovil, write_cxr_bert


@pytest.fixture
def overlay(overlay):
    """Weights need not lie where an overlay says."""
    return partial(overlay, check_roots=False)


def released(path="/weights", **more):
    return {"weights": {"biovil": {"path": path, "geometry": "shorter128", **more}}}


def test_an_imported_model_has_no_parents_and_one_run(overlay):
    config = overlay({"seeds": [3, 4], **released()})
    assert config.imported("biovil") and not config.imported("cxr_bert")
    assert config.seeds_of("biovil") == [3] and config.seeds_of("baseline_phase2") == [3, 4]
    assert config.parents("biovil", 3) == {} and config.parents("baseline_phase2", 4)
    trained = overlay({"seeds": [3, 4]})
    assert trained.seeds_of("biovil") == [3, 4] and set(trained.parents("biovil", 3)) == {
        "text", "image",
    }  # fmt: skip


def test_an_imported_model_needs_no_training_data(overlay):
    without = {"roles": {"pairs": None, "images": None}}
    assert "biovil" not in overlay(without).models_of("biovil")
    config = overlay({**without, **released()})
    assert "biovil" in config.models_of("biovil")
    assert "phrase_grounding" in config.benchmarks_of("biovil")
    assert "baseline_phase2" not in config.models_of("biovil")


def test_models_that_start_from_an_imported_one_have_its_vocabulary(overlay):
    assert vocabulary_model(overlay({}), "cxr_bert") is None
    config = overlay({"weights": {"cxr_bert": "/weights"}})
    assert vocabulary_model(config, "cxr_bert") == "cxr_bert"
    assert vocabulary_model(config, "cxr_bert_phase2") is None
    earlier = overlay({"weights": {"cxr_bert_phase2": "/weights"}})
    assert vocabulary_model(earlier, "cxr_bert") == "cxr_bert_phase2"


def test_corpora_are_not_cut_for_an_imported_model(overlay, monkeypatch):
    paper = schema.load_paper("biovil")
    more = Recipe(program="text", start="cxr_bert", corpora=["pubmed"], pairs="reports")
    changed = paper.model_copy(update={"models": {**paper.models, "more": more}})
    monkeypatch.setattr(schema, "load_paper", lambda name: changed)
    with pytest.raises(InputError, match="'more' is trained on packed corpora"):
        overlay({"weights": {"cxr_bert": "/weights"}})


def test_a_recipe_may_be_published_weights_and_nothing_else(overlay, monkeypatch):
    paper = schema.load_paper("biovil")
    recipes = {
        "clinical_bert": Recipe(program="text", weights="bert"),
        "on_it": paper.models["baseline_phase2"].model_copy(update={"text": "clinical_bert"}),
    }
    changed = paper.model_copy(update={"models": {**paper.models, **recipes}})
    monkeypatch.setattr(schema, "load_paper", lambda name: changed)
    without, given = overlay({}), overlay({"weights": {"clinical_bert": "/weights"}})
    assert not set(recipes) & set(without.models_of("biovil"))
    assert set(recipes) <= set(given.models_of("biovil"))
    assert given.benchmarks_of("clinical_bert") == [
        "mask_prediction",
        "natural_language_inference",
        "sentence_similarity",
    ]
    assert "clinical_bert" in given.described()["models"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/w", ("/w", None)),
        ({"path": "/w"}, ("/w", None)),
        ({"text": "/t", "image": "/i.pt"}, ("/t", "/i.pt")),
    ],
)
def test_where_biovil_lies_can_be_said_in_two_ways(overlay, given, expected):
    pixels = {"pixels": {"geometry": "shorter512crop480"}}
    config = overlay({"weights": {"biovil": given}, **pixels})
    assert config.weights["biovil"].places("biovil") == expected
    settings = config.model("biovil").settings
    assert type(settings) is ImportSettings and settings.geometry == "shorter512crop480"


def test_geometry_is_said_where_there_are_images(overlay):
    image = {"path": "/r.pt", "geometry": "shorter128"}
    config = overlay({"weights": {"simclr": image, "cxr_bert": "/t"}})
    found = {name: config.model(name).settings.geometry for name in config.weights}
    assert found == {"simclr": "shorter128", "cxr_bert": None}


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({"nobody": "/w"}, "key 'weights': 'nobody' is not known"),
        ({"baseline_phase2": "/w"}, "key 'weights': no published weights are known for 'baseline"),
        ({"biovil": "/w"}, "key 'weights.biovil.geometry': is 'shorter512crop480', but pixels.geo"),
        ({"biovil": {"text": "/w"}}, "key 'weights.biovil': names text; weights of kind biovil"),
        ({"cxr_bert": {"image": "/w"}}, "names image; weights of kind cxr_bert are text"),
        ({"cxr_bert": {}}, "key 'weights.cxr_bert': expected a path, or 'text' and 'image'"),
        ({"cxr_bert": {"path": "/w", "text": "/w"}}, "expected a path, or 'text' and 'image'"),
        ({"cxr_bert": {"path": "/w", "kind": "bert"}}, "unknown key 'weights.cxr_bert.kind'"),
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
        assert f"key 'weights.biovil' is '{folder / missed}': no such file" in str(raised.value)
    with pytest.raises(InputError, match="'weights.cxr_bert' is '/nowhere': no such folder"):
        overlay({"weights": {"cxr_bert": "/nowhere"}}, check_roots=True)
    text = write_cxr_bert(tmp_path / "text")
    two = {"text": str(text), "image": "/nowhere.pt", "geometry": "shorter128"}
    with pytest.raises(InputError, match=r"'weights.biovil.image' is '/nowhere.pt': no such file"):
        overlay({"weights": {"biovil": two}}, check_roots=True)


def test_a_recipes_weights_do_what_its_program_does():
    assert Recipe(program="image", weights="imagenet_resnet").weights == "imagenet_resnet"
    with pytest.raises(ValueError, match="which stands for a model of the program joint"):
        Recipe(program="text", weights="biovil")
