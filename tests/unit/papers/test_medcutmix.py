"""MedCutMix's trainings (Wang et al. 2026), as section 3.1 and its tables have them."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from config_overlays import table_of
from page_fixtures import load

from cxr_files.errors import InputError
from cxrflow.config.configuration import Config
from cxrflow.data.layouts import layout

PAIRS = (30, 40, 50, 100, 300)
CONTROLS = (
    *("unmixed", "text_alone", "image_alone", "other_region", "shuffled_region", "other_class"),
    "true_boxes",
)


# Section 3.1 and MGCA's code, at the scales paper and demo.
MGCA = {
    "length": (112, 64),
    "encoder.normalisation": ("half", "imagenet"),
    "encoder.projection": (128, 128),
    "encoder.projection_head.kind": ("mgca", "mgca"),
    "encoder.projection_head.hidden": (2048, 256),
    "encoder.projection_head.padded_words": (None, None),
    "terms.global_alignment.image_to_text": (0.5, 0.5),
    "terms.token_alignment.sep_is_word": (False, False),
    "terms.token_alignment.unit_context": (True, True),
    "terms.prototypes.number": (500, 50),
    "terms.prototypes.rest_epochs": (1, 1),
    "terms.prototypes.code_batch": (None, None),
    "text_layers": (None, None),
    "text_pooling": ("cls", "cls"),
    "single_position": (False, False),
    "segment_embedding": (True, True),
    "sentence_shuffling": (False, False),
    "frozen_layers": (0, 0),
    "ghost_batch": (None, None),
    "decay_all": (False, False),
    "augmentation.size": (224, 112),
    "training.batch_size": (144, 32),
    "training.epochs": (50, 7),
    "training.validations": (50, 7),
    "training.optimiser.name": ("adamw", "adamw"),
    "training.optimiser.learning_rate": (2e-5, 5e-4),
    "training.stopping.keep": ("best", "best"),
    "training.stopping.monitor": ("selection/auroc", "selection/auroc"),
    "training.stopping.mode": ("max", "max"),
    "training.stopping.patience": (5, None),
}
# What MGCA's code does otherwise; a GPU has 72 pairs, a report 111 tokens behind [CLS].
AS_CODED = {
    "encoder.projection_head.padded_words": (111, 63),
    "text_layers": (6, 1),
    "single_position": (True, True),
    "segment_embedding": (False, False),
    "terms.token_alignment.sep_is_word": (True, True),
    "terms.token_alignment.unit_context": (False, False),
    "terms.prototypes.code_batch": (72, 16),
    "ghost_batch": (72, 16),
    "decay_all": (True, True),
}
# Of augmentations that are off.
OFF = {
    *("crop_ratio", "occlusion_ratio", "occlusion_probability", "elastic_sigma", "elastic_alpha"),
    *("blur_probability", "noise_probability"),
}


@pytest.fixture(scope="module")
def whole() -> Config:
    return load(papers=["medcutmix"], scale="paper")


@pytest.fixture(scope="module")
def demo() -> Config:
    return load(papers=["medcutmix"], scale="demo")


def by_path(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of nested settings with its dotted name."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from by_path(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def values_of(config: Config, name: str) -> dict[str, Any]:
    return dict(by_path(config.models[f"medcutmix/{name}"].settings.model_dump()))


def settings_of(whole: Config, name: str) -> dict:
    """What decides the training, without its term."""
    return whole.models[f"medcutmix/{name}"].settings.record()


def test_the_base_is_mgca_with_its_three_losses_of_equal_weights(whole: Config) -> None:
    """Eq. 7 without its last summand; 72 pairs on each of two GPUs."""
    settings = whole.models["medcutmix/mgca"].settings
    terms = settings.terms.named()
    assert {name: term.weight for name, term in terms.items()} == {
        "global_alignment": 1.0, "token_alignment": 1.0, "prototypes": 1.0,
    }  # fmt: skip
    assert (terms["global_alignment"].temperature, terms["token_alignment"].temperature) == (
        0.07, 0.1,
    )  # fmt: skip
    sinkhorn = terms["prototypes"]
    assert (sinkhorn.number, sinkhorn.temperature) == (500, 0.2)
    assert (sinkhorn.epsilon, sinkhorn.iterations) == (0.05, 3)
    encoder = settings.encoder
    assert (encoder.kind, encoder.blocks, encoder.width, encoder.patch) == ("vit", 12, 768, 16)
    assert (encoder.grid, encoder.projection) == (14, 128)  # 196 patches
    training = settings.training
    assert (training.batch_size, training.epochs, training.stopping.patience) == (144, 50, 5)
    assert training.optimiser.learning_rate == 2e-5 and training.optimiser.weight_decay == 0.05
    assert (training.schedule.decay, training.schedule.warmup) == ("cosine", 0.4)


def test_mgca_is_as_written_and_as_coded(whole: Config, demo: Config) -> None:
    """Every setting in which the second differs from the first is listed."""
    for place, config in enumerate((whole, demo)):
        written, coded = (values_of(config, name) for name in ("mgca", "mgca_as_coded"))
        assert {key: written[key] for key in MGCA} == {k: v[place] for k, v in MGCA.items()}
        differing = {key: value for key, value in coded.items() if written[key] != value}
        assert written.keys() == coded.keys()
        assert differing == {key: values[place] for key, values in AS_CODED.items()}
        for name in ("mgca", "mgca_as_coded"):
            augmentation = config.models[f"medcutmix/{name}"].settings.augmentation
            assert {key for key, value in augmentation if value} == {"size", *OFF}


def test_encoders_images_and_cohort_are_the_paper_s(whole: Config, demo: Config) -> None:
    """ClinicalBERT; the longer side 256; a row an image, AP and PA; validate alone validates."""
    for name in ("mgca", "mgca_as_coded", "medcutmix_40"):
        recipe = whole.models[f"medcutmix/{name}"].recipe
        assert (recipe.program, recipe.text) == ("image_reports", "biovil/clinical_bert")
        assert (recipe.image, recipe.weights) == ("medcutmix/vit_pretraining", None)
        assert whole.models["medcutmix/vit_pretraining"].recipe.weights == "deit"
        assert demo.models[f"medcutmix/{name}"].recipe.image == "convirt/imagenet_pretraining"
        geometries = [one.models[f"medcutmix/{name}"].geometry for one in (whole, demo)]
        assert geometries == ["longer256", "longer128"]
        assert recipe.cohort == "medcutmix/mimic_cxr"
    for config in (whole, demo):
        cohort = config.cohorts["medcutmix/mimic_cxr"]
        recipe, splits = cohort.recipe, cohort.recipe.splits
        assert (cohort.dataset, cohort.holder) == ("mimic_cxr", "mimic_cxr_jpg")
        assert (recipe.unit, recipe.views, recipe.require) == (
            "image", ("AP", "PA"), ("image", "text"),
        )  # fmt: skip
        assert (recipe.labels, splits.method, splits.parts) == ("published", "official", None)
        selection = config.tasks["medcutmix/selection"]
        assert (selection.task.cohort, selection.settings.split) == (
            "medcutmix/chexpert", "validate",
        )  # fmt: skip


def test_all_that_differs_is_the_term(whole: Config) -> None:
    """Table 1 by N_max at k = 11, Table 2 by k at N_max = 50, controls at N_max = 40."""
    plain = settings_of(whole, "mgca")
    wanted = {f"medcutmix_{pairs}": {"pairs": pairs, "layer": 11} for pairs in PAIRS}
    wanted |= {f"medcutmix_layer{k}": {"pairs": 50, "layer": k} for k in (5, 8)}
    wanted["medcutmix_layer11_from_0"] = {"pairs": 50, "layer": 11, "first_layer": 0}
    wanted["medcutmix_labeller"] = {"pairs": 40, "layer": 11, "sentences": "labeller"}
    wanted |= {f"medcutmix_{c}": {"pairs": 40, "layer": 11, "control": c} for c in CONTROLS}
    seen = []
    for name, values in wanted.items():
        settings = whole.models[f"medcutmix/{name}"].settings
        term = settings.terms.cutmix
        stated = {"weight": 1.0, "warmup_epochs": 5, "region_temperature": 0.005}
        stated |= {"temperature": 0.07, "first_layer": 1, "per": "batch", "cls": "target"}
        stated |= {"sentences": "name", "control": None, **values}
        assert {key: getattr(term, key) for key in stated} == stated, name
        assert len(term.classes) == 13 and "No Finding" not in term.classes
        record = settings_of(whole, name)
        assert record["terms"].pop("cutmix") is not None
        assert record == plain, name
        recipe, base = (whole.models[f"medcutmix/{one}"].recipe for one in (name, "mgca"))
        for field in ("text", "image", "cohort", "geometry", "selection", "program"):
            assert getattr(recipe, field) == getattr(base, field), (name, field)
        seen.append(term)
    assert len({term.model_dump_json() for term in seen}) == len(wanted) == 16
    # floor(N_max / C) of each class: rows 40 and 50 of Table 1 are of as many pairs.
    assert [pairs // 13 for pairs in PAIRS] == [2, 3, 3, 7, 23]


def test_stages_stand_for_layers_at_demo(whole: Config, demo: Config) -> None:
    """Of a ResNet's four; nothing else of the term differs there but its warm-up."""
    stages = {**{f"medcutmix_{pairs}": 3 for pairs in PAIRS}, "medcutmix_layer8": 2}
    stages |= {"medcutmix_layer5": 1, "medcutmix_layer11_from_0": 4, "medcutmix_labeller": 3}
    stages |= {f"medcutmix_{control}": 3 for control in CONTROLS}
    for name, stage in stages.items():
        term = demo.models[f"medcutmix/{name}"].settings.terms.cutmix
        assert (term.stage, term.warmup_epochs) == (stage, 1), name
        of_paper = whole.models[f"medcutmix/{name}"].settings.terms.cutmix
        same = {"layer": term.layer, "warmup_epochs": term.warmup_epochs}
        assert of_paper.model_copy(update=same) == term


def test_tables_say_that_smaller_scales_train_another_encoder(demo: Config) -> None:
    """Each that has rows of these models."""
    tables = demo.library.chosen["medcutmix"].tables
    for name, table in tables.items():
        trained = [m for r in table.rows if (m := r.model or "").startswith("medcutmix/")]
        kinds = {demo.models[model].settings.encoder.kind for model in trained}
        said = [note for note in table.notes if note.startswith("At the scales demo and study ")]
        assert (kinds, len(said)) == ({"resnet"}, 1), name
        assert "models are ResNets" in said[0]
    assert tables.keys() >= {"table1", "table2", "figure2", "controls", "rarity", "mixed_pairs"}


def test_rows_name_the_models_that_they_stand_for(whole: Config) -> None:
    tables = whole.library.chosen["medcutmix"].tables
    for pairs in PAIRS:
        row = tables["table1"].row(f"N_max = {pairs}")
        assert row.model == f"medcutmix/medcutmix_{pairs}"
    assert tables["table1"].row("N_max = 0: MGCA").model == "medcutmix/mgca"
    by_layer = {k: tables["table2"].row(f"k = {k}").model for k in (5, 8, 11)}
    assert by_layer == {
        5: "medcutmix/medcutmix_layer5", 8: "medcutmix/medcutmix_layer8",
        11: "medcutmix/medcutmix_50",
    }  # fmt: skip
    # The same training stands in both tables, with the same published values.
    shared = (tables["table1"].row("N_max = 50"), tables["table2"].row("k = 11"))
    assert shared[0].published == shared[1].published and len(shared[0].published) == 6
    # Figure 2's values of AUC are rows 0 and 40 of Table 1.
    for label, of_table in (("MGCA", "N_max = 0: MGCA"), ("MGCA + MedCutMix", "N_max = 40")):
        bars = tables["figure2"].row(label).published
        row = tables["table1"].row(of_table).published
        assert {k: v for k, v in bars.items() if not k.endswith("_f1")} == row


@pytest.mark.parametrize(
    ("model", "term"), [("biovil/biovil", "cutmix"), ("biovil/report_labels", "findings")]
)
def test_a_term_that_reads_labels_needs_a_cohort_that_has_them(overlay, paper, model, term):
    """Said before the encoders that it starts from are trained."""
    terms = {"cutmix": {"layer": 3}} if term == "cutmix" else {}
    row = {"extends": model, "settings": {"terms": terms}}
    tables = {"t": table_of("biovil/linear_probe", "auroc/100", "m")}
    papers = [
        paper({"models": {"m": row | {"cohort": f"biovil/{c}"}}, "tables": tables}, f"{c}.yaml")
        for c in ("mimic_cxr", "mimic_cxr_labelled")
    ]
    refused = f"terms.{term}': reads labels, but cohort 'biovil/mimic_cxr' has none; expected"
    with pytest.raises(InputError, match=refused):
        overlay({"papers": papers[:1]})
    given = overlay({"papers": papers[1:]}).models["mimic_cxr_labelled/m"].settings
    assert getattr(given.terms, term)


NO_FINDINGS = ["normal", "unchanged", "exclude", "suboptimal study"]


def test_padchest_is_scored_with_and_without_what_is_no_finding(whole: Config) -> None:
    every, findings = (
        whole.tasks[f"medcutmix/{name}"].settings for name in ("padchest", "padchest_findings")
    )
    assert findings.without == NO_FINDINGS and set(NO_FINDINGS) < set(layout_names())
    # Where nothing is left out the record is that of before.
    assert "without" not in every.record()
    assert findings.record() == {**every.record(), "without": NO_FINDINGS}
    columns = [column.key for column in whole.results["medcutmix"].table("table1").columns]
    assert columns[2:4] == ["padchest", "padchest_findings"]
    average = whole.results["medcutmix"].table("table1").column("average")
    assert "padchest_findings" not in (average.mean_of or ())


def layout_names() -> tuple[str, ...]:
    names = layout("padchest").listed
    assert len(names) == 193
    return names


def test_a_class_that_padchest_does_not_list_cannot_be_left_out(paper) -> None:
    task = {"medcutmix/padchest": {"without": ["normall"]}}
    with pytest.raises(InputError) as refused:
        load(papers=["medcutmix"], tasks=task)
    assert str(refused.value).endswith(
        "key 'tasks.medcutmix/padchest.without': names 'normall'; expected some of padchest's 193 "
        "classes"
    )
    task = {"extends": "medcutmix/padchest", "settings": {"without": ["normall"]}}
    tables = {"mine": table_of("mine", "auroc", "medcutmix/mgca")}
    own = paper({"tasks": {"mine": task}, "tables": tables})
    with pytest.raises(InputError) as refused:
        load(papers=[own])
    assert str(refused.value) == (
        f"{own}: key 'tasks.mine.settings.without': names 'normall'; expected some of padchest's "
        "193 classes"
    )


def test_other_test_images_as_the_page_says_it_train_nothing_anew(
    whole: Config, paper: Callable[..., str]
) -> None:
    """docs/medcutmix.md: the cohort that chooses the checkpoints stays."""
    page = (Path(__file__).parents[3] / "docs/medcutmix.md").read_text(encoding="utf-8")
    own = page.partition("# other_images.yaml\n")[2].partition("\n```")[0]
    config = load(papers=["medcutmix", paper(own, "other_images.yaml")], scale="paper")
    cells = {cell for cell in config.results["other_images"].cells("images")}
    assert cells == {
        (f"other_images/{task}", f"medcutmix/{model}")
        for task in ("chexpert5_first", "chexpert14_first", "padchest_frontal")
        for model in ("mgca", "medcutmix_40")
    }
    for name in ("mgca", "medcutmix_40"):
        name = f"medcutmix/{name}"
        assert config.models[name].recipe == whole.models[name].recipe
        assert config.models[name].settings.record() == whole.models[name].settings.record()
        chosen_by = config.models[name].selecting_cohort
        assert chosen_by == whole.models[name].selecting_cohort == "medcutmix/chexpert"
    assert set(config.whole.models) == set(whole.whole.models)
    cohorts = config.cohorts
    assert cohorts["medcutmix/chexpert"].recipe == whole.cohorts["medcutmix/chexpert"].recipe
    first, frontal = (cohorts[f"other_images/{c}"] for c in ("chexpert_first", "padchest_frontal"))
    assert (first.recipe.frontal, first.recipe.choose) == (True, "first")
    assert (frontal.recipe.frontal, frontal.recipe.choose) == (True, "all")
    tests = (
        config.tasks[f"{p}/chexpert5{s}"]
        for p, s in (("medcutmix", ""), ("other_images", "_first"))
    )
    one, other = (task.settings.record() for task in tests)
    assert one == other


@pytest.mark.parametrize("base", ["", "_local"])
@pytest.mark.parametrize(
    ("scale", "layer", "epochs", "warmup"),
    [("demo", 5, 12, 1), ("study", 5, 40, 4), ("paper", 11, 50, 5)],
)
def test_on_a_vision_transformer_the_rows_of_a_base_differ_in_the_term_alone(
    scale: str, layer: int, epochs: int, warmup: int, base: str
) -> None:
    config = load(papers=["medcutmix_vit"], scale=scale)
    names = [f"medcutmix_vit/{name}{base}" for name in ("mgca", "medcutmix", "unmixed")]
    mgca, mixed, unmixed = (config.models[name].settings.model_dump() for name in names)
    cutmix = [row["terms"].pop("cutmix") for row in (mgca, mixed, unmixed)]
    assert mgca == mixed == unmixed
    # The term is that of N_max = 40 in the paper's Table 1, mixed before the last block.
    table1 = load(papers=["medcutmix"], scale=scale).models["medcutmix/medcutmix_40"].settings
    expected = table1.terms.cutmix.model_dump() | {"layer": layer, "warmup_epochs": warmup}
    assert cutmix == [None, expected, expected | {"control": "unmixed"}]
    assert (layer, epochs) == (mgca["encoder"]["blocks"] - 1, mgca["training"]["epochs"])
    # Each starts from SimCLR on the images of its own training part, and sees them as that did.
    first, start = (config.models[name].recipe for name in (names[0], "medcutmix_vit/simclr"))
    seen = ("kind", "normalisation", "blocks", "width", "heads", "grid")
    encoder = config.models["medcutmix_vit/simclr"].settings.model_dump()["encoder"]
    assert {key: encoder[key] for key in seen} == {key: mgca["encoder"][key] for key in seen}
    for name in names:
        recipe = config.models[name].recipe
        starts = {"text": "biovil/clinical_bert", "image": "medcutmix_vit/simclr"}
        assert starts.items() <= config.models[name].parents.items()
        assert (recipe.cohort, config.models[name].geometry) == (
            start.cohort,
            config.models["medcutmix_vit/simclr"].geometry,
        )
        assert recipe.selection == first.selection == "medcutmix/selection"


@pytest.mark.parametrize("scale", ["demo", "study", "paper"])
def test_the_local_base_has_the_local_loss_of_the_low_data_study(scale: str) -> None:
    config = load(papers=["medcutmix_vit", "low_data"], scale=scale)
    names = ("medcutmix_vit/mgca", "medcutmix_vit/mgca_local", "low_data/local")
    mgca, local, study = (config.models[name].settings.model_dump()["terms"] for name in names)
    # Weighed as the term in whose place it stands; images and texts are compared as wholes.
    weighed = {"weight": mgca["token_alignment"]["weight"], "model_similarity": False}
    assert local["local_alignment"] == study["local_alignment"] | weighed
    assert local["token_alignment"] is None is mgca["local_alignment"]
    for name in ("global_alignment", "prototypes"):
        assert local[name] == mgca[name]


def test_at_the_scale_paper_the_vision_transformers_differ_in_their_start(whole: Config) -> None:
    """Both are ViT-B/16, one from DeiT, one from SimCLR; with and without the term."""
    vit = load(papers=["medcutmix_vit"], scale="paper")
    for one, other in (("mgca", "mgca"), ("medcutmix_40", "medcutmix")):
        models = whole.models[f"medcutmix/{one}"], vit.models[f"medcutmix_vit/{other}"]
        assert models[0].settings.record() == models[1].settings.record()
        assert models[0].geometry == models[1].geometry
    parents = whole.models["medcutmix/mgca"].parents, vit.models["medcutmix_vit/mgca"].parents
    images = [starts.pop("image") for starts in map(dict, parents)]
    assert images == ["medcutmix/vit_pretraining", "medcutmix_vit/simclr"]
    assert parents[0] | {"image": None} == parents[1] | {"image": None}
