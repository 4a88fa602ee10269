"""Models of a configuration: settings, parents, seeds, what benchmarks and tables ask of them."""

import pytest
from config_overlays import DEMO, ROOT

from cxrflow.benchmarks.classification.settings import SegmentationSettings
from cxrflow.config import load_config
from cxrflow.errors import InputError
from cxrflow.papers import Recipe, load_paper


def test_the_study_has_every_model_of_the_papers_orders():
    config = load_config([DEMO, ROOT / "study.yaml"])
    assert (config.scale, config.results) == ("study", "results/study")
    compared = [one.table for one in config.orderings("biovil") if one.table != "table_a3"]
    rows = {model for table in compared for _, model in config.table_cells("biovil", table)}
    left_out = {"biovil_more", "biovil_raw", "biovil_shuffled_pairs"}
    assert rows - {None} <= set(config.models_of("biovil")) == set(config.recipes) - left_out


def test_overlays_reach_a_models_settings(overlay):
    changed = overlay({"models": {"biovil": {"training": {"batch_size": 7}}}})
    before, after = load_config([DEMO]).model("biovil"), changed.model("biovil")
    assert after.settings.training.batch_size == 7
    assert before.settings.training.batch_size != 7
    assert after.settings.training.epochs == before.settings.training.epochs


def test_a_models_unknown_setting_names_the_model(overlay):
    config = overlay({"models": {"biovil": {"momentum": 1}}})
    with pytest.raises(InputError, match="biovil.*unknown key 'momentum'"):
        config.model("biovil")


def test_every_model_resolves_at_every_scale(overlay):
    for scale in ("demo", "paper", "study"):
        config = overlay({"scale": scale})
        for name in config.recipes:
            assert config.model(name).settings


def test_shared_models_serve_all_seeds(overlay):
    config = overlay({"seeds": [4, 5]})
    text = config.recipes["biovil"].text
    assert config.recipes["biovil"].seeds == "each"
    assert config.recipes[text].seeds == "shared"
    assert config.seeds_of("biovil") == [4, 5]
    assert config.seeds_of(text) == [4]
    assert config.parents("biovil", 5)["text"] == (text, 4)


def test_without_images_only_text_is_trained(overlay):
    config = overlay({"roles": {"images": None, "pairs": None}})
    trained = {config.recipes[name].program for name in config.models_of("biovil")}
    assert trained == {"text"}
    assert config.table_cells("biovil", "table5") == []


def test_controls_stand_apart():
    config = load_config([DEMO])
    controls = config.models_of("biovil", control=True)
    assert controls
    assert not set(controls) & set(config.models_of("biovil"))


def test_tables_ask_only_for_what_a_model_can_do():
    config = load_config([DEMO])
    for table in config.tables("biovil"):
        for benchmark, model in config.table_cells("biovil", table):
            if benchmark in ("phrase_grounding", "zero_shot_classification"):
                assert config.recipes[model].program == "joint"
            if benchmark in ("linear_probe", "segmentation"):
                assert config.recipes[model].program in ("image", "joint")


def test_the_papers_grid_is_a_sixteenth_of_the_image(monkeypatch):
    """BioViL section 2.2; the demo's images are small, and its models' grid finer."""
    monkeypatch.setenv("CXR_DATA", "/data")
    paper = load_config([DEMO, DEMO.parent / "paper.yaml"], check_roots=False)
    assert paper.benchmarks.segmentation == SegmentationSettings()
    assert paper.benchmarks.segmentation.dilate == (False, False, True)
    assert load_config([DEMO]).benchmarks.segmentation.dilate == (False, True, True)


def test_probes_need_a_part_of_the_cohort_to_learn_from(overlay):
    whole = overlay({"cohorts": {"rsna": {"splits": {"method": "all"}}}})
    assert load_config([DEMO]).available("linear_probe")
    assert whole.available("zero_shot_classification") and not whole.available("linear_probe")
    assert "linear_probe" not in whole.benchmarks_of("biovil")
    assert load_config([DEMO]).available("segmentation") and not whole.available("segmentation")
    assert not overlay({"roles": {"classification": None}}).available("linear_probe")


def test_inference_needs_pairs_to_learn_from_and_cohorts_of_its_kind(overlay):
    demo = load_config([DEMO])
    both = {"natural_language_inference", "sentence_similarity"}
    for model, able in (("biovil", both), ("cxr_bert", both), ("simclr", set())):
        assert both & set(demo.benchmarks_of(model)) == able
    assert {"radnli", "mednli"} <= set(demo.datasets_in_use())
    untrained = overlay({"roles": {"inference_training": None}})
    assert both & set(untrained.benchmarks_of("biovil")) == {"sentence_similarity"}
    assert "mednli" not in untrained.datasets_in_use()
    without = overlay({"roles": {"inference": None, "inference_training": None}})
    assert not both & set(without.benchmarks_of("biovil"))
    with pytest.raises(InputError, match=r"'roles.inference': cohort 'rsna' is of kind classif"):
        overlay({"roles": {"inference": "rsna"}})
    with pytest.raises(InputError, match=r"'roles.inference_training': 'x' is not known"):
        overlay({"roles": {"inference_training": "x"}})


def test_what_a_text_model_is_trained_on(overlay):
    demo = load_config([DEMO])
    assert demo.corpora_of("cxr_bert_phase2") == ["pubmed", "mimic_iii", "mimic_cxr"]
    assert demo.corpora_of("clinical_bert") == ["mimic_iii"]
    assert demo.corpora_of("cxr_bert") == []
    without = overlay({"roles": {"corpora": ["pubmed"]}})
    assert without.trainable("cxr_bert_phase2") and without.trainable("pubmed_bert")
    assert not without.trainable("clinical_bert")
    assert not without.trainable("baseline_clinical_bert")
    assert without.vocabularies_in_use() == ["cxr_bert", "pubmed_bert"]
    assert "mimic_iii" not in without.datasets_in_use()
    own = overlay({"vocabularies": {"mine": {"documents": ["mimic_iii"]}}})
    assert own.vocabularies_in_use()[-1] == "mine"  # of no model: to be compared


def test_a_model_grounds_phrases_on_images_like_its_own(overlay):
    assert "phrase_grounding" in load_config([DEMO]).benchmarks_of("biovil_raw")
    without = overlay({"roles": {"grounding_raw": None}})
    assert "phrase_grounding" not in without.benchmarks_of("biovil_raw")
    assert "phrase_grounding" in without.benchmarks_of("biovil_more")


def test_vocabulary_of_a_started_model_is_its_starts():
    config = load_config([DEMO])
    started = [name for name, made in config.recipes.items() if made.start is not None]
    assert started
    for name in started:
        assert config.vocabulary_of(name) == config.vocabulary_of(config.recipes[name].start)


def test_recipes_refuse_unknown_keys():
    with pytest.raises(ValueError, match="programm"):
        Recipe.model_validate({"program": "text", "programm": "text"})


def test_every_recipes_parents_exist():
    models = load_paper("biovil").models
    for recipe in models.values():
        assert set(recipe.parents.values()) <= set(models)
