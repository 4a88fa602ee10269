"""Models and tasks of a configuration: settings, parents, seeds, checkpoints, what tables ask."""

from types import SimpleNamespace

import pytest
import torch
from config_overlays import DEMO, ROOT, table_of
from torch import nn

from cxr_files.errors import InputError
from cxr_files.yaml_file import read_yaml
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config import load_config
from cxrflow.names import is_reference, short_name
from cxrflow.papers import load_paper, paper_names
from cxrflow.papers.recipes import Recipe, Task
from cxrflow.pretrain.terms.plain_simclr import PlainSimclr
from cxrflow.training.step import learning_rate_factor

SCALES = ("demo", "study", "paper")


TRUTH = {"synthetic_hospital": {"finding_truth": True}}  # which some tasks need


def test_models_of_shuffled_pairs_are_trained_before_their_twin(overlay, paper):
    """Where a recipe names them; a model that pairs nothing has none."""
    one = {"extends": "biovil/biovil", "shuffled_twins": "biovil/biovil_shuffled_pairs"}
    table = table_of("biovil/phrase_grounding", "cnr", "one")
    mine = paper({"models": {"one": one}, "tables": {"t": table}})
    config = overlay({"papers": [mine], "seeds": [0, 1, 2]})
    model = config.models["mine/one"]
    assert model.recipe.shuffled_twins == "biovil/biovil_shuffled_pairs" and model.trainable
    assert config.models[model.recipe.shuffled_twins].seeds == [0, 1, 2]
    with pytest.raises(ValueError, match="shuffled_twins is 'm', but a model of the program text"):
        Recipe(program="text", vocabulary="v", cohort="c", shuffled_twins="m")


# --- recipes at their scales --------------------------------------------------------------------


@pytest.mark.parametrize("scale", SCALES)
def test_everything_resolves_at_every_scale(overlay, scale):
    config = overlay({"scale": scale, "papers": paper_names(), **TRUTH})
    for name, model in config.models.items():
        if name == "low_data/clip_released":  # published weights, whose settings are theirs
            continue
        if model.recipe.program != "initial":
            assert model.settings.training.optimiser.learning_rate > 0
        assert (model.geometry is None) == (model.recipe.program == "text")
    for name in config.library.tasks:
        assert type(config.tasks[name].settings) is config.tasks[name].benchmark.settings
    assert set(config.texts.vocabularies) == set(config.library.vocabularies)
    unread = {name for name, data in read_yaml(DEMO)["datasets"].items() if data is None}
    public = {n for n, cohort in config.library.cohorts.items() if cohort.dataset in unread}
    assert "public_data/index_terms" in public  # of Open-I, which nobody draws
    assert set(config.cohorts) == set(config.library.cohorts) - public
    without = {name for name, task in config.library.tasks.items() if task.cohort in public}
    assert set(config.tasks.available) == set(config.library.tasks) - without


def test_a_scale_is_sizes_and_paper_is_the_papers_own(demo, overlay):
    paper = overlay({"scale": "paper"})
    settings = paper.models["biovil/biovil"].settings
    assert (settings.training.batch_size, settings.training.optimiser.learning_rate) == (240, 2e-5)
    small = demo.models["biovil/biovil"].settings
    assert (settings.dropout, small.dropout) == (0.25, 0.1)
    assert settings.terms == small.terms  # a method
    assert small.training.batch_size == 32
    geometries = [c.models["biovil/biovil"].geometry for c in (demo, paper)]
    assert geometries == ["shorter128", "shorter512"]
    sizes = [c.texts.vocabularies["biovil/cxr_bert"].size for c in (demo, paper)]
    assert sizes == [2000, 30522]


def test_a_scale_may_name_another_start(demo, overlay):
    """MedCutMix's small models are ResNets; CLIP's published encoders have their sizes alone."""
    starts = {
        config.values.scale: config.models["medcutmix/medcutmix_layer8"].recipe.parents["image"]
        for config in (demo, overlay({"scale": "study"}), overlay({"scale": "paper"}))
    }
    small = "convirt/imagenet_pretraining"
    assert starts == {"demo": small, "study": small, "paper": "medcutmix/vit_pretraining"}
    halves = demo.models["low_data/clip_share10"].recipe.parents
    assert halves == dict.fromkeys(("text", "image"), "low_data/clip_pretraining")
    published = overlay({"scale": "paper"}).models["low_data/clip_share10"].recipe.parents
    assert published == dict.fromkeys(("text", "image"), "low_data/clip_released")
    with pytest.raises(ValueError, match="a model of the program text has no 'image'"):
        Recipe(program="text", vocabulary="words", scales={"demo": {"image": "trunk"}})


def test_the_papers_grid_is_a_sixteenth_of_the_image(demo, overlay):
    """BioViL section 2.2; the demo's images are small, and its models' grid finer."""
    task = "biovil/segmentation"
    assert overlay({"scale": "paper"}).tasks[task].settings == SegmentationSettings()
    assert SegmentationSettings().dilate == (False, False, True)
    assert demo.tasks[task].settings.dilate == (False, True, True)


def test_overlays_lie_over_the_scale(demo, overlay):
    changed = overlay(
        {
            "models": {"biovil/biovil": {"training": {"batch_size": 7}, "geometry": "shorter64"}},
            "tasks": {"biovil/linear_probe": {"fractions": [0.3]}},
            "vocabularies": {"biovil/cxr_bert": {"size": 50, "documents": ["pubmed"]}},
        }
    )
    before, after = demo.models["biovil/biovil"], changed.models["biovil/biovil"]
    assert after.settings.training.batch_size == 7 != before.settings.training.batch_size
    assert after.geometry == "shorter64" != before.geometry
    assert after.settings.training.epochs == before.settings.training.epochs
    assert changed.tasks["biovil/linear_probe"].settings.fractions == [0.3]
    assert changed.texts.vocabularies["biovil/cxr_bert"].size == 50
    assert changed.texts.datasets("biovil/cxr_bert") == ["pubmed"]
    gloria = demo.models["biovil/gloria"].described()
    assert changed.models["biovil/gloria"].described() == gloria


@pytest.mark.parametrize(
    ("name", "geometry", "message"),
    [
        ("biovil/cxr_bert", "shorter64", "cxr_bert.geometry.: .* sees no images"),
        ("biovil/biovil", "wide64", "models.biovil/biovil.geometry.*'wide64': expected shorter<N>"),
        ("biovil/biovil", 64, "models.biovil/biovil.geometry.*'64': expected shorter<N>"),
    ],
)
def test_a_geometry_fits_its_model(overlay, name, geometry, message):
    with pytest.raises(InputError, match=message):
        overlay({"models": {name: {"geometry": geometry}}}).models[name]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"program": "text", "programm": "text"}, "programm"),
        ({"program": "joint"}, "geometry belongs to models that see images"),
        ({"program": "text", "geometry": "shorter64"}, "geometry belongs to models that see"),
        ({"program": "text", "cohort": "c"}, "a model of the program text has 'vocabulary' or 'st"),
        ({"program": "text", "weights": "biovil"}, "stands for a model of the program joint"),
    ],
)
def test_a_recipe_fits_its_program(recipe, message):
    with pytest.raises(ValueError, match=message):
        Recipe.model_validate(recipe)
    assert Recipe(program="image", geometry="square64", weights="imagenet_resnet").parents == {}


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            {"cohort": "biovil/mednli"},
            "cohort 'biovil/mednli' is of kind nli, .* joint reads pairs",
        ),
        ({"text": "biovil/simclr"}, "text is 'biovil/simclr', which has no text encoder"),
        ({"image": "biovil/clinical_bert"}, "image is .* which has no image encoder"),
        (
            {"extends": "biovil_t/report_biovil_t", "start": "biovil/clinical_bert"},
            "start is 'biovil/clinical_bert', which has no image encoder",
        ),
        (
            {"extends": "biovil/cxr_bert", "start": "biovil/simclr", "vocabulary": None},
            "start is 'biovil/simclr', which has no text encoder",
        ),
    ],
)
def test_a_training_can_read_what_its_recipe_names(overlay, paper, recipe, message):
    """Said before anything is trained that it starts from."""
    recipe = {"extends": "biovil/biovil", **recipe}
    table = table_of("biovil/phrase_grounding", "cnr", "m")
    mine = paper({"models": {"m": recipe}, "tables": {"t": table}})
    with pytest.raises(InputError, match=f"models.mine/m': {message}"):
        overlay({"papers": [mine]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"benchmark": "x"}, "benchmark is 'x'; expected module:Class or one of phrase_"),
        ({"benchmark": "natural_language_inference"}, "needs a cohort 'training'"),
        ({"benchmark": "course_statistics", "demographics": "d"}, "reads no 'demographics'"),
    ],
)
def test_a_task_names_a_benchmark_and_what_that_is_trained_on(values, message):
    with pytest.raises(ValueError, match=message):
        Task(cohort="c", **values)


# --- what is made from what ---------------------------------------------------------------------


def test_shared_models_serve_all_seeds(overlay):
    config = overlay({"seeds": [4, 5]})
    text = config.models["biovil/biovil"].recipe.text
    assert text == "biovil/cxr_bert" and config.models[text].recipe.seeds == "shared"
    assert config.models.seeds_of("biovil/biovil") == [4, 5] and config.models.seeds_of(text) == [4]
    assert config.models["biovil/biovil"].parents_at(5)["text"] == (text, 4)
    assert config.models["biovil/biovil"].ancestors == [
        f"biovil/{name}" for name in ("cxr_bert_phase2", "cxr_bert", "simclr", "biovil")
    ]


def test_shared_models_can_be_one_a_seed_too(overlay, tmp_path):
    both = {"papers": ["biovil", "biovil_t", "convirt"], "seeds": [4, 5], "shared_models": "each"}
    config = overlay(both)
    parents = {"text": ("biovil/cxr_bert", 5), "image": ("biovil/simclr", 5)}
    assert config.models["biovil/biovil"].parents_at(5) == parents
    assert config.models["biovil/cxr_bert"].parents_at(5)["start"] == ("biovil/cxr_bert_phase2", 5)
    assert config.models.seeds_of("biovil_t/biovil_t_clean") == [4]  # chooses one set of images
    assert config.models.seeds_of("convirt/imagenet") == [4, 5]
    # Published weights are there once, and so is a start that is nothing else.
    (tmp_path / "resnet50.pth").touch()
    weights = {"convirt/imagenet_pretraining": str(tmp_path / "resnet50.pth")}
    published = overlay(both | {"weights": weights})
    assert published.models.seeds_of("convirt/imagenet_pretraining") == [4]
    assert published.models.seeds_of("convirt/imagenet") == [4]


def test_what_a_text_model_is_trained_on(demo, overlay):
    assert demo.models["biovil/cxr_bert_phase2"].corpora == ["pubmed", "mimic_iii", "mimic_cxr"]
    assert demo.models["biovil/cxr_bert"].corpora == []
    for model in demo.models.values():
        if model.recipe.program == "text" and model.recipe.start is not None:
            assert model.vocabulary == demo.models[model.recipe.start].vocabulary
    without = overlay({"datasets": {"pubmed": None}})
    assert without.models["biovil/cxr_bert_phase2"].corpora == ["mimic_iii", "mimic_cxr"]
    vocabularies = ["biovil/cxr_bert", "biovil/clinical_bert"]
    vocabularies += ["convirt/captions", "convirt/captions_bone", "low_data/general"]
    assert without.whole.vocabularies == vocabularies


def test_the_code_of_a_training_is_its_program_and_what_it_imports_by_name(demo, unrooted):
    head, trunk = "encoders.heads.biovil", "encoders.resnet"
    phase2 = ["pretrain.text", "pretrain.terms.mlm", head]
    assert demo.models["biovil/cxr_bert_phase2"].code == phase2
    simclr = ["pretrain.image", "pretrain.terms.simclr", head, trunk]
    assert demo.models["biovil/simclr"].code == simclr
    terms = ["pretrain.terms.global_alignment", "pretrain.terms.mlm"]
    assert demo.models["biovil/biovil"].code == ["pretrain.joint", *terms, head, trunk]
    imported = unrooted({"weights": {"biovil/simclr": "/w"}})
    assert imported.models["biovil/simclr"].parts == [head, trunk]


# --- what is measured and shown -----------------------------------------------------------------


def test_tables_ask_only_for_what_a_model_can_do(demo):
    programs = {
        "joint": ("joint",),
        "image": ("image", "supervised", "joint"),
        "text": ("text", "joint"),
    }
    for table in demo.results["biovil"].tables("all"):
        for task, model in demo.results["biovil"].cells(table):
            if is_reference(model):
                assert short_name(model) in demo.tasks[task].benchmark.references
                continue
            for needed in demo.tasks[task].benchmark.needs:
                assert demo.models[model].recipe.program in programs[needed]
    both = {"biovil/natural_language_inference", "biovil/sentence_similarity"}
    for model, able in (("biovil", both), ("cxr_bert", both), ("simclr", set())):
        assert both & set(demo.tasks.of_model(f"biovil/{model}")) == able


def test_a_task_sees_images_in_a_geometry_of_its_own(overlay):
    """ConVIRT's pairs are not padded to a square, what is classified is (Appendix B)."""
    config = overlay({"papers": ["convirt"], "scale": "paper"})
    assert {g for cohort, g in config.whole.stores if cohort == "convirt/rsna"} == {"longer224"}
    pairs = config.models["convirt/convirt"].recipe.cohort
    assert (pairs, "longer256unpadded") in config.whole.stores
    assert config.tasks["convirt/rsna_linear"].geometry("convirt/convirt") == "longer224"
    said = {"tasks": {"convirt/rsna_linear": {"geometry": "longer224crop224"}}}
    named = overlay({"papers": ["convirt"], **said})
    assert named.tasks["convirt/rsna_linear"].settings.geometry == "longer224"
    own = overlay({"papers": ["convirt"], "tasks": {"convirt/rsna_linear": {"geometry": None}}})
    own_geometry = own.models["convirt/convirt"].geometry
    assert own.tasks["convirt/rsna_linear"].geometry("convirt/convirt") == own_geometry
    wrong = {"tasks": {"convirt/rsna_linear": {"geometry": "round9"}}}
    with pytest.raises(InputError, match="tasks.convirt/rsna_linear.geometry.*'round9': expected"):
        overlay({"papers": ["convirt"], **wrong})


def test_the_papers_have_every_model_and_benchmark_somewhere(overlay):
    """Nothing is described that no table, figure or control asks for."""
    papers = paper_names()
    drawn = {
        n: {"synthetic": True}
        for n in ("rexgradient", "chexpert_plus", "chextemporal_chexpert", "rexval")
    }
    # At other scales some are left out.
    config = overlay({"papers": papers, "scale": "paper", "datasets": drawn, **TRUTH})
    clip = {name for name in config.models if name.startswith("low_data/clip")}
    alike = {*config.models.same}
    absent = {"across/of_open_i"}  # of Open-I, which nobody draws; clip: without CLIP's weights
    assert set(config.whole.models) == set(config.models) - clip - alike - absent
    assert clip - {"low_data/clip_released"} <= set(overlay({"papers": papers}).models)
    results = [result for paper in papers for result in config.results[paper].all("all")]
    measured = {config.library.tasks[task].benchmark for task, _ in results}
    assert measured == set(BENCHMARKS)


def test_the_headline_is_five_tables_and_the_models_they_need(demo):
    names = ("table5", "controls", "grounding_protocols", "table6", "table7")
    tables = [f"headline/{name}" for name in names]
    assert demo.results["biovil"].tables("headline") == tables
    needs = demo.needs(("biovil", "headline"))
    assert {short_name(name) for name in needs.models} == {
        *("cxr_bert_phase2", "cxr_bert", "clinical_bert", "simclr", "biovil"),
        *("baseline_clinical_bert", "report_labels"),
    }
    cells = [cell for table in tables for cell in demo.results["biovil"].cells(table)]
    scored = {cell for cell in cells if not is_reference(cell[1])}
    assert len(scored) == 12 and len({*cells}) == 28  # six ceilings among the rows without model
    assert {*cells} < {*demo.results["biovil"].all("all")}
    compared = {c.model for c in demo.results["biovil"].comparisons(tables[0])}
    assert {m for m in compared if not is_reference(m)} == {"biovil/baseline_clinical_bert"}
    assert "headline/table5" not in demo.results["biovil"].tables("all")
    assert (
        demo.results["biovil"].figures("headline").keys()
        < demo.results["biovil"].figures("all").keys()
    )


def test_controls_stand_apart(demo):
    assert demo.results["biovil"].controls == ["biovil/biovil_shuffled_pairs"]
    assert not set(demo.results["biovil"].controls) & set(demo.needs(("biovil", "all")).models)
    assert "biovil/phrase_grounding" in demo.tasks.of_model("biovil/biovil_shuffled_pairs")


def test_rows_are_compared_where_both_were_measured(demo, overlay):
    *to_reference, claimed = demo.results["biovil"].comparisons("table5")
    assert {one.reference_model for one in to_reference} == {"biovil/biovil"}
    models = {one.model.removeprefix("biovil/") for one in to_reference}
    known = {"reference/finding_box", "biovil_l", "gloria", "convirt", "baseline_clinical_bert"}
    assert known < models
    assert len(to_reference) == 9 * len(models)  # eight findings and their average
    assert (claimed.model, claimed.reference_model) == ("biovil/gloria", "biovil/convirt")
    assert overlay({"datasets": {"ms_cxr": None}}).results["biovil"].comparisons("table5") == []


def test_the_study_has_every_model_of_the_papers_orders():
    config = load_config([DEMO, ROOT / "study.yaml"])
    assert (config.values.scale, config.values.results) == ("study", "results/study")
    left_out = {"biovil_more", "biovil_raw", "biovil_shuffled_pairs"}
    shown = {short_name(name) for name in config.needs(("biovil", "all")).models}
    assert shown == set(load_paper("biovil").models) - left_out


def test_statistics_need_dates_and_may_know_demographics(demo, overlay):
    task = "biovil/ms_cxr_statistics"
    assert demo.tasks[task].datasets == ["ms_cxr", "mimic_cxr_jpg", "mimic_iv"]
    bare = overlay({"datasets": {"mimic_iv": None}})
    assert bare.tasks[task].datasets == ["ms_cxr", "mimic_cxr_jpg"]
    assert bare.tasks["biovil/linear_probe"].datasets == []


SERIES = {"benchmark": "checkpoint_series", "cohort": "convirt/rsna", "settings": {"metric": "f1"}}


def test_a_series_has_the_settings_of_its_task_and_its_own_over_them(overlay):
    config = overlay({"papers": ["convirt"], "tasks": {"convirt/rsna_linear": {"patience": 7}}})
    each, series = (config.tasks[f"convirt/{name}"] for name in ("rsna_linear", "rsna_checkpoints"))
    found = series.settings
    assert found.benchmark == "linear_classification" and found.metric == "auroc/1"
    expected = {**each.settings.model_dump(mode="json"), "fractions": [0.01]}
    assert found.settings == expected and found.settings["patience"] == 7
    programs = ["checkpoints.checkpoint_series", "classification.linear_classification"]
    assert [one.program for one in series.computed] == programs
    model = "convirt/convirt"
    for task in ("convirt/rsna_linear", "convirt/rsna_checkpoints"):
        assert config.tasks[task].geometry(model) == each.settings.geometry


def test_a_series_is_checked_by_the_rows_that_its_task_scores(overlay, paper):
    series = {
        "benchmark": "checkpoint_series",
        "of": "own_data/pair_retrieval",
        "cohort": "biovil/mimic_cxr",
        "settings": {"metric": "recall/5/image_to_text"},
    }
    kept = {"extends": "biovil/biovil", "settings": {"training": {"checkpoint_validations": 1}}}
    table = table_of("series", "correlation", "kept")
    values = {"models": {"kept": kept}, "tasks": {"series": series}, "tables": {"t": table}}
    own = {"papers": [paper(values)]}
    config = overlay(own)
    assert config.results["mine"].all("all") == [("mine/series", "mine/kept")]
    assert config.tasks["mine/series"].settings.split is None
    with pytest.raises(InputError, match="key 'tasks.mine/series.split': expected null: rows are"):
        overlay({**own, "tasks": {"mine/series": {"split": "test"}}})
    with pytest.raises(InputError, match="mine/series scores mine/kept on 'mimic_cxr', which"):
        overlay({**own, "tasks": {"mine/series": {"settings": {"split": "train"}}}})
    everything = {"convirt/rsna": {"splits": {"method": "all"}}}
    name = "convirt/rsna_checkpoints"
    with pytest.raises(InputError, match=f"'tasks.{name}.split' is 'validate', but all of cohort"):
        overlay({"tasks": {name: {"settings": {"split": "validate"}}}, "cohorts": everything})


def test_only_models_that_keep_checkpoints_and_can_do_the_task_have_a_series(overlay):
    config = overlay({"papers": ["convirt", "biovil"]})
    series = "convirt/text_retrieval_checkpoints"
    assert config.tasks[series].needs == {"checkpoints", "joint"}
    assert config.tasks[series].scores("convirt/convirt")
    assert not config.tasks[series].scores("biovil/biovil")
    assert config.tasks["convirt/text_retrieval"].scores("biovil/biovil")
    assert not config.tasks["convirt/text_retrieval"].scores("biovil/simclr")
    assert config.tasks["convirt/image_retrieval"].scores("biovil/simclr")


@pytest.mark.parametrize("change", [{}, {"benchmark": "linear_probe", "of": "convirt/rsna_linear"}])
def test_of_goes_with_the_benchmark_of_checkpoints(change):
    with pytest.raises(ValueError, match="`of` and a benchmark of checkpoints go together"):
        Task.model_validate(SERIES | change)


def test_saliency_is_drawn_where_radiographs_may_be_shown_and_maps_anywhere(overlay):
    for shown in (True, False):
        config = overlay({"papers": ["convirt"], "privacy": {"show_images": shown}})
        assert ("figure4" in config.results["convirt"].figures()) is shown
        assert {"figure3", "figure5_rsna"} <= set(config.results["convirt"].figures())


def test_the_control_of_shuffled_pairs_is_searched_by_text_and_keeps_no_checkpoints(overlay):
    config = overlay({"papers": ["convirt"]})
    assert "convirt/convirt_shuffled" in config.results["convirt"].controls
    tasks = config.tasks.of_model("convirt/convirt_shuffled")
    assert {"convirt/text_retrieval", "convirt/image_retrieval"} <= set(tasks)
    assert not [task for task in tasks if task.endswith("_checkpoints")]
    own, control = (config.models[f"convirt/{n}"].settings for n in ("convirt", "convirt_shuffled"))
    changed = {"shuffled_pairs", "training"}
    for name in set(type(own).model_fields) - changed:
        assert getattr(own, name) == getattr(control, name)
    assert control.shuffled_pairs and not own.shuffled_pairs


def test_simclr_is_the_code_that_the_paper_names(overlay):
    """github.com/sthalles/SimCLR: a head without normalisation, a rate that hardly changes."""
    settings = overlay({"papers": ["convirt"], "scale": "paper"}).models["convirt/simclr"].settings
    steps, batches, epochs = 290_000, 2900, 100
    ours = [
        learning_rate_factor(settings.training.schedule, step, steps) for step in (0, 9, steps - 1)
    ]
    optimiser = torch.optim.Adam([torch.zeros(1, requires_grad=True)], 1.0)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, batches)
    for epoch in range(epochs):
        optimiser.step()
        if epoch >= 10:
            cosine.step()
    assert ours == [1.0] * 3 and cosine.get_last_lr()[0] == pytest.approx(1, abs=0.003)
    trunk = SimpleNamespace(features=2048)
    head = PlainSimclr(settings.terms.plain_simclr, SimpleNamespace(trunk=trunk)).head
    assert [type(layer) for layer in head] == [nn.Linear, nn.ReLU, nn.Linear]
    assert [tuple(head[n].weight.shape) for n in (0, 2)] == [(2048, 2048), (128, 2048)]
    assert all(head[n].bias is not None for n in (0, 2))
