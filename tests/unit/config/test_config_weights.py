"""Published weights in the configuration, and cohorts whose images a model chooses."""

import pytest
from config_overlays import table_of

from cxr_files.errors import InputError
from cxrflow.encoders.released.settings import PUBLISHED, ImportSettings
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from released_files import write_biovil, write_cxr_bert


def test_published_weights_stand_for_the_models_of_one_program():
    kinds = [kind for program in TRAINING_PROGRAMS.values() for kind in program.published]
    assert sorted(kinds) == sorted(PUBLISHED)


def test_imported_models_are_scored_on_the_only_data_there_are(unrooted):
    data = ("mimic_cxr", "pubmed", "mimic_iii", "ms_cxr", "mimic_cxr_jpg")
    config = unrooted({"papers": ["biovil"], "datasets": dict.fromkeys(data), **released()})
    assert config.whole.stores == [("biovil/rsna", "shorter128")]


def released(path="/weights", **more):
    return {"weights": {"biovil/biovil": {"path": path, "geometry": "shorter128", **more}}}


def test_an_imported_model_has_no_parents_and_one_run(unrooted):
    config = unrooted({"seeds": [3, 4], **released()})
    assert config.models["biovil/biovil"].imported and not config.models["biovil/cxr_bert"].imported
    assert config.models.seeds_of("biovil/biovil") == [3]
    assert config.models["biovil/biovil"].parents_at(3) == {}
    assert config.models.seeds_of("biovil/baseline_phase2") == [3, 4]
    assert set(config.models["biovil/baseline_phase2"].parents_at(4)) == {"text", "image"}


def test_an_imported_model_needs_no_training_data(unrooted):
    without = {"datasets": {"mimic_cxr": None}}
    assert "biovil/biovil" not in unrooted(without).whole.models
    config = unrooted({**without, **released()})
    assert "biovil/biovil" in config.whole.models
    assert ("biovil/phrase_grounding", "biovil/biovil") in config.results["biovil"].all("headline")
    assert "biovil/baseline_phase2" not in config.whole.models


def test_models_that_start_from_an_imported_one_have_its_vocabulary(unrooted):
    assert unrooted({}).models["biovil/cxr_bert"].vocabulary_model is None
    config = unrooted({"weights": {"biovil/cxr_bert": "/weights"}})
    assert config.models["biovil/cxr_bert"].vocabulary_model == "biovil/cxr_bert"
    assert config.models["biovil/cxr_bert_phase2"].vocabulary_model is None
    earlier = unrooted({"weights": {"biovil/cxr_bert_phase2": "/weights"}})
    assert earlier.models["biovil/cxr_bert"].vocabulary_model == "biovil/cxr_bert_phase2"


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
    }
    table = table_of("biovil/sentence_similarity", "cont_gap", *values["models"])
    values["tables"] = {"mine": table}
    return {"papers": [paper(values)]}


def test_corpora_are_not_cut_for_an_imported_model(unrooted, papers):
    with pytest.raises(InputError, match=r"'weights': 'mine/more' is trained on packed corpora"):
        unrooted({**papers, "weights": {"biovil/cxr_bert": "/weights"}})


def test_a_recipe_may_be_published_weights_and_nothing_else(unrooted, papers):
    names = {"mine/bert", "mine/on_it"}
    without, given = unrooted(papers), unrooted({**papers, "weights": {"mine/bert": "/weights"}})
    assert not names & set(without.whole.models) and names <= set(given.whole.models)
    assert given.resolved()["models"].keys() >= names


def test_settings_of_a_model_that_is_imported_are_checked_and_not_read(unrooted):
    """The weights have their own; pixels without a published geometry have the model's."""
    weights = {"weights": {"biovil/biovil": "/weights"}}
    models = {"biovil/biovil": {"geometry": "shorter64"}}

    def model():
        config = unrooted({**weights, "models": models})
        return config.models["biovil/biovil"]

    plain = model()
    assert plain.imported
    models["biovil/biovil"]["training"] = {"epochs": 1}  # as an overlay may have it
    assert model().described() == plain.described()
    models["biovil/biovil"]["lenght"] = 3
    with pytest.raises(InputError, match="models.biovil/biovil.lenght"):
        unrooted({**weights, "models": models})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("/w", ("/w", None)),
        ({"path": "/w"}, ("/w", None)),
        ({"text": "/t", "image": "/i.pt"}, ("/t", "/i.pt")),
    ],
)
def test_where_biovil_lies_can_be_said_in_two_ways(unrooted, given, expected):
    config = unrooted({"weights": {"biovil/biovil": given}})
    assert config.values.weights["biovil/biovil"].places("biovil") == expected
    model = config.models["biovil/biovil"]
    assert type(model.settings) is ImportSettings
    assert model.settings.geometry == model.geometry == "shorter512crop480"


def test_geometry_is_said_where_there_are_images(unrooted):
    image = {"path": "/r.pt", "geometry": "shorter128"}
    config = unrooted({"weights": {"biovil/simclr": image, "biovil/cxr_bert": "/t"}})
    geometries = {name: config.models[name].settings.geometry for name in config.values.weights}
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
def test_a_mistake_is_one_line(unrooted, weights, said):
    with pytest.raises(InputError) as raised:
        unrooted({"weights": weights})
    line = str(raised.value)
    assert said in line and "overlay.yaml" in line and "\n" not in line


def test_files_are_missed_before_anything_runs(overlay, tmp_path):
    folder = write_biovil(tmp_path / "released")
    overlay(released(str(folder)))
    for name in ("biovil_image_resnet50_proj_size_128.pt", "vocab.txt", "pytorch_model.bin",
                 "config.json"):  # fmt: skip
        (folder / name).unlink()
        with pytest.raises(InputError) as raised:
            overlay(released(str(folder)))
        missed = "biovil_image*.pt" if name.endswith(".pt") else name
        refused = f"key 'weights.biovil/biovil' is '{folder / missed}': no such file"
        assert refused in str(raised.value)
    with pytest.raises(InputError, match="'weights.biovil/cxr_bert' is '/nowhere': no such folder"):
        overlay({"weights": {"biovil/cxr_bert": "/nowhere"}})
    text = write_cxr_bert(tmp_path / "text")
    two = {"text": str(text), "image": "/nowhere.pt", "geometry": "shorter128"}
    with pytest.raises(InputError, match="'weights.biovil/biovil.image' is '/nowhere.pt': no such"):
        overlay({"weights": {"biovil/biovil": two}})


CURATED = "biovil_t/progression_curated"
CLEAN = "biovil_t/biovil_t_clean"
GOOD = {"model": CLEAN, "candidates": "biovil_t/mimic_cxr_acquisitions"}
ALL = {"papers": ["biovil_t"], "extent": "all"}


@pytest.fixture
def mine(paper, unrooted):
    """A configuration with a paper of one's own, whose table scores on its cohort `curated`."""

    def load(curation, task=None, **parts):
        cohort = {"extends": "biovil_t/progression", "curation": curation}
        scored = {"extends": "biovil_t/temporal_probe", "cohort": "curated"}
        values = {
            "cohorts": {"curated": cohort, **parts.pop("cohorts", {})},
            "tasks": {"t": task or scored},
            "tables": {"t": table_of("t", "macro_accuracy", "biovil_t/biovil_t")},
            **parts,
        }
        return unrooted({"papers": [paper(values)]})

    return load


def test_a_curated_cohort_brings_its_model_and_what_that_chooses_from(unrooted):
    config = unrooted(ALL)
    assert CLEAN in config.whole.models and config.models.seeds_of(CLEAN) == [0]
    assert config.cohorts["biovil_t/mimic_cxr_clean"].recipe.acquisitions == "single"
    assert {CURATED, "biovil_t/mimic_cxr_acquisitions"} <= set(config.whole.cohorts)
    assert ("biovil_t/mimic_cxr_acquisitions", "shorter128crop112") in config.whole.stores
    cells = config.results["biovil_t"].cells("table2")
    assert ("biovil_t/temporal_classification_curated", "biovil_t/biovil_t") in cells
    assert config.results["biovil_t"].cells("curation") == [("biovil_t/curation_statistics", None)]
    # The same cohort but for the choice, and the program is told nothing of models.
    plain, curated = (config.cohorts[name].recipe for name in (CURATED[:-8], CURATED))
    assert plain.settings() == curated.settings() and curated.curation.margin == 0.2
    headline = unrooted({**ALL, "extent": "headline"}).needs(("biovil_t", "headline"))
    assert CLEAN not in headline.models and CURATED not in headline.cohorts


def test_without_the_data_or_the_word_nothing_is_curated(unrooted):
    for said in (
        {"cohorts": {"biovil_t/mimic_cxr_clean": None}},
        {"cohorts": {"biovil_t/mimic_cxr_acquisitions": None}},
        {"cohorts": {CURATED: {"curation": None}}},
    ):
        config = unrooted({**ALL, **said})
        assert "biovil_t/curation_statistics" not in config.tasks.available
        assert CLEAN not in config.whole.models
        # Without a word of curation the cohort is that of the row above.
        known = "biovil_t/temporal_classification_curated" in config.tasks.available
        assert known == (CURATED in said["cohorts"])


def test_a_model_may_learn_from_a_curated_cohort(mine):
    config = mine(
        GOOD,
        task={"extends": "biovil_t/temporal_probe"},
        cohorts={"pairs": {"extends": "biovil_t/mimic_cxr", "curation": GOOD}},
        models={"m": {"extends": "biovil_t/biovil_t", "cohort": "pairs"}},
        tables={"t": table_of("t", "macro_accuracy", "m")},
    )
    assert CLEAN in config.models["mine/m"].ancestors
    assert {"mine/pairs", "biovil_t/mimic_cxr_acquisitions"} <= set(config.whole.cohorts)
    assert config.texts.cohort("mimic_cxr", "mine") != "mine/pairs"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"model": "biovil_t/x"}, "curation of mine/curated names 'biovil_t/x', which is not k"),
        ({"candidates": "x"}, "curation of mine/curated names 'mine/x', which is not known"),
        (
            {"model": "biovil/simclr"},
            "'cohorts.mine/curated.curation.model': 'biovil/simclr' is of the program image; expec",
        ),
        (
            {"model": "biovil_t/biovil_t"},
            "'biovil_t/biovil_t' has learnt from 'biovil_t/mimic_cxr', in which studies have sev",
        ),
        (
            {"candidates": "biovil_t/mimic_cxr"},
            "curation.candidates'.* of kind pairs with unit: study; expected kind pairs with unit",
        ),
        ({"candidates": "curated"}, "of kind progression with unit: study; expected kind pairs"),
        ({"margin": 3}, "cohorts.curated.curation.margin' is 3: Input should be less than or equ"),
    ],
)
def test_what_cannot_curate_is_one_line(mine, wrong, message):
    with pytest.raises(InputError, match=message) as error:
        mine(GOOD | wrong)
    assert "\n" not in str(error.value)


def test_a_row_an_image_leaves_nothing_to_choose(mine):
    each = {"extends": "biovil_t/progression", "unit": "image", "curation": GOOD}
    with pytest.raises(InputError, match="curation of a cohort in which no image is chosen"):
        mine(GOOD, cohorts={"each": each})


def test_a_model_does_not_choose_what_it_learns_from(mine):
    own = {"extends": "biovil_t/mimic_cxr", "curation": GOOD | {"model": "m"}}
    learnt = {"extends": "biovil_t/biovil_t", "cohort": "pairs"}
    with pytest.raises(InputError, match="other: mine/m -> mine/m, which curation of mine/pairs"):
        mine(GOOD | {"model": "m"}, cohorts={"pairs": own}, models={"m": learnt})


def test_only_what_is_curated_is_counted(mine):
    counted = {"benchmark": "curation_statistics", "cohort": "biovil_t/progression"}
    with pytest.raises(InputError, match="'biovil_t/progression' is not curated; curation_statist"):
        mine(GOOD, task=counted)


def test_overlays_cannot_curate_what_papers_cannot(unrooted):
    elsewhere = {"datasets": {"other": {"layout": "open_i", "root": "/o"}}}
    others = {"cohorts": {"biovil_t/mimic_cxr_acquisitions": {"dataset": "other", "held_out": []}}}
    with pytest.raises(InputError, match="has the images of 'other'; expected those of 'mimic"):
        unrooted({**ALL, **elsewhere, **others})
    with pytest.raises(InputError, match="curation.model': 'biovil_t/x' is not known; there are"):
        unrooted({**ALL, "cohorts": {CURATED: {"curation": {"model": "biovil_t/x"}}}})


def test_who_is_tested_on_is_not_what_the_model_that_curates_has_seen(unrooted):
    """What it chooses is trained on, so that its patients count as the trained model's."""
    clean = {"biovil_t/mimic_cxr_clean": {"held_out": ["ms_cxr"]}}
    with pytest.raises(InputError, match=r"mimic_cxr_clean.held_out': 'ms_cxr_t', on which .*cura"):
        unrooted({**ALL, "cohorts": clean})
