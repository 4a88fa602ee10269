"""Which data sets a run reads, what stands in their place, what labels are compared with."""

import pytest
from config_overlays import ALONE, BIOVIL, DEMO, OPEN_I, ROOT, compared, real

from cxr_files.errors import InputError
from cxrflow.config import load_config
from cxrflow.data.layouts import layout
from cxrflow.names import short_name

GROUNDED = {"phrase_grounding", "phrase_grounding_raw", "phrase_grounding_released"}
ZERO_SHOT = {"zero_shot_classification", "zero_shot_other_words"}
PROBES = {"linear_probe", "linear_probe_augmented", "segmentation", "segmentation_more_prompts"}
TEXT = {"mask_prediction", "natural_language_inference", "sentence_similarity"}
ALL_TASKS = {*GROUNDED, *ZERO_SHOT, *PROBES, *TEXT, "vocabulary", "ms_cxr_statistics"}


def tasks(config):
    """What is measured, by names without their paper."""
    return {short_name(name) for name in config.tasks.available}


def models(config):
    """What is trained, by names without their paper."""
    return {short_name(name) for name in config.whole.models}


# --- a data set that is not there ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "lost_tasks", "lost_models"),
    [
        ("mimic_iv", set(), set()),
        (
            "ms_cxr",
            {*GROUNDED, "ms_cxr_statistics"},
            {"biovil_more", "biovil_raw", "biovil_l", "baseline_pubmed_bert", "phase2_sides"},
        ),
        ("rsna", ZERO_SHOT | PROBES, {"report_labels"}),
        ("radnli", {"natural_language_inference", "sentence_similarity"}, set()),
        ("mednli", {"natural_language_inference"}, set()),
        ("pubmed", set(), {"pubmed_bert", "baseline_pubmed_bert"}),
        ("mimic_iii", set(), {"clinical_bert", "baseline_clinical_bert", "convirt", "gloria"}),
    ],
)
def test_without_a_data_set_what_needs_it_is_left_out(overlay, name, lost_tasks, lost_models):
    demo, without = (overlay({**BIOVIL, **lost}) for lost in ({}, {"datasets": {name: None}}))
    assert tasks(demo) == ALL_TASKS and tasks(without) == ALL_TASKS - lost_tasks
    assert name in demo.datasets and name not in without.datasets
    assert models(demo) - models(without) == lost_models
    for paper in without.library.chosen:
        for table in without.results[paper].tables("all"):
            assert not lost_tasks & {short_name(t) for t, _ in without.results[paper].cells(table)}


def test_without_the_reports_nothing_is_trained_and_the_others_images_stay(overlay):
    without = overlay({"papers": ["biovil", "biovil_t"], "datasets": {"mimic_cxr": None}})
    assert models(without) == set() and "linear_probe" in tasks(without)
    assert without.results["biovil"].all("all") == [("biovil/ms_cxr_statistics", None)]


def test_without_the_jpgs_their_models_are_left_out_and_can_take_the_dicom_files(overlay):
    without = overlay({"datasets": {"mimic_cxr_jpg": None}})
    assert "mimic_cxr_reports" not in {short_name(n) for n in without.whole.cohorts}
    dicom = {"mimic_cxr_reports": None, "mimic_cxr": None, "ms_cxr": "mimic_cxr"}
    cohorts = {f"biovil/{name}": {"images": images} for name, images in dicom.items()}
    config = overlay({"datasets": {"mimic_cxr_jpg": None}, "cohorts": cohorts})
    assert (
        config.models["biovil/biovil"].trainable
        and not config.models["biovil/biovil_more"].trainable
    )
    assert config.cohorts["biovil/ms_cxr"].holder == "mimic_cxr"
    # Studies and their dates are then counted from the images' headers.
    holders = config.tasks["biovil/ms_cxr_statistics"].datasets
    assert holders == ["ms_cxr", "mimic_cxr", "mimic_iv"]


def test_no_hospital_is_no_synthetic_data(overlay):
    config = overlay({"synthetic_hospital": None})
    assert config.datasets == [] and config.whole.models == config.tasks.available == []


def test_a_hospital_that_follows_nobody_has_no_data_about_them(overlay):
    config = overlay({"synthetic_hospital": {"followed": None}})
    assert {"ms_cxr_t", "chest_imagenome"} & set(config.datasets) == set()
    assert config.cohorts["biovil_t/mimic_cxr"].held_out == {"ms_cxr": ()}
    assert "biovil_t/progression" not in config.whole.cohorts
    assert "biovil_t/temporal_classification" not in config.tasks.available


@pytest.mark.parametrize("path", ["$ROOM/here/", "./$ROOM//here", "~/here"])
def test_the_place_of_results_is_as_a_shell_would_have_it(overlay, monkeypatch, path):
    monkeypatch.setenv("ROOM", "/room")
    monkeypatch.setenv("HOME", "/room")
    config = overlay({"pathvars": {"results": path.replace("$ROOM", "${ROOM}")}})
    assert config.values.results == ("room/here" if path.startswith(".") else "/room/here")


def test_a_cohort_that_is_null_is_left_out(overlay):
    config = overlay({"cohorts": {"biovil/mimic_cxr_raw": None}})
    assert (
        not config.models["biovil/biovil_raw"].trainable
        and config.models["biovil/biovil_more"].trainable
    )
    study = load_config([DEMO, ROOT / "study.yaml"])
    assert {"biovil_more", "biovil_raw"} & models(study) == set()


def test_probes_need_a_part_of_the_cohort_to_learn_from(overlay):
    whole = overlay({"cohorts": {"biovil/rsna": {"splits": {"method": "all"}}}})
    assert ALL_TASKS - tasks(whole) == PROBES


def test_another_split_may_be_laid_over_the_values_of_the_one_it_replaces(overlay):
    """GLoRIA's halves of RSNA say nothing of a split by patient."""
    shares = {"train": 0.7, "validate": 0.0, "test": 0.3}
    splits = {"method": "patients", "shares": shares}
    config = overlay({"cohorts": {"medcutmix/rsna": {"splits": splits}}})
    found = config.cohorts["medcutmix/rsna"].recipe.splits
    assert (found.method, found.shares) == ("patients", shares)
    assert config.cohorts["biovil_t/mimic_cxr"].recipe.splits.shares["train"] == 0.9


def test_missing_roots_matter_only_where_used(overlay):
    spare = {"spare": {"layout": "rsna", "root": "/no/such"}}
    assert "spare" not in overlay({"datasets": spare}).datasets


# --- another in its place -----------------------------------------------------------------------


def test_ones_own_hospital_is_one_key(unrooted):
    config = unrooted({**BIOVIL, **ALONE})
    assert config.datasets == ["mine"]
    assert config.models["biovil/biovil"].trainable and not config.models["biovil/gloria"].trainable
    cohort = config.cohorts["biovil/mimic_cxr"]
    assert (cohort.dataset, cohort.holder, cohort.held_out) == ("mine", "mine", {})
    assert tasks(config) == {"mask_prediction", "vocabulary"}
    # Nothing of the headline can be measured: every row that can be is made.
    made = {short_name(name) for name in config.needs(("biovil", config.values.extent)).models}
    assert made == {"cxr_bert_phase2", "cxr_bert", "simclr", "biovil"}
    assert config.whole.stores == [("biovil/mimic_cxr", "shorter128")]


@pytest.mark.parametrize("name", ["hospital", "mimic_cxr"])
def test_pictures_of_a_hospitals_own_folder_are_stored_upright(unrooted, name):
    mine = {"layout": name, "root": "/mine", "in_place_of": "mimic_cxr"}
    config = unrooted({**BIOVIL, "datasets": {"mine": mine}})
    assert config.cohorts.pixels("biovil/mimic_cxr").upright == (name == "hospital")


def test_ones_own_images_may_lie_apart(unrooted):
    jpgs = {"layout": "mimic_cxr_jpg", "root": "/jpgs", "in_place_of": "mimic_cxr_jpg"}
    config = unrooted({"datasets": {**ALONE["datasets"], "jpgs": jpgs}})
    assert config.cohorts["biovil/mimic_cxr"].holder == "jpgs"
    assert config.cohorts["biovil/mimic_cxr_raw"].holder == "mine"


@pytest.mark.parametrize("with_boxes", [True, False])
def test_open_i_stands_for_mimic_and_nothing_is_synthetic(tmp_path, monkeypatch, with_boxes):
    """Without the folder of an optional data set the run goes without what needs it."""
    for name in ("open_i_pairs", "rsna") if with_boxes else ("open_i_pairs",):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CXR_REAL_DATA", str(tmp_path))
    config = load_config([DEMO, ROOT / "real.yaml"])
    assert sorted(config.datasets) == (["open_i", "rsna"] if with_boxes else ["open_i"])
    assert config.data.absent == ([] if with_boxes else ["rsna"])
    assert ("segmentation" in tasks(config)) == with_boxes and "retrieval" in tasks(config)
    assert config.models["biovil/biovil"].trainable and config.values.results == "results/real"
    assert config.cohorts["biovil/mimic_cxr"].dataset == "open_i"


def test_what_an_absent_data_set_stands_for_is_absent_too(overlay):
    """What it should have replaced is not read in its stead."""
    mine = {"layout": "rsna", "root": "/no/such", "in_place_of": "rsna", "optional": True}
    config = overlay({**BIOVIL, "datasets": {"mine": mine, "rsna": {"root": "/data/rsna"}}}, False)
    assert config.data.absent == ["mine"] and config.data.at("rsna") is None
    assert "biovil/rsna" not in config.cohorts
    assert not (ZERO_SHOT | PROBES) & tasks(config)


def test_only_a_folder_can_be_optional(overlay):
    drawn = {"rsna": {"synthetic": True, "optional": True}}
    with pytest.raises(InputError, match=r"datasets\.rsna.*optional is of a 'root'"):
        overlay({"datasets": drawn})


def test_another_data_set_brings_its_images(overlay):
    """A cohort that an overlay makes from another data set has that one's images."""
    notes = {"covid_chestxray": {"root": "/data/covid"}}
    cohorts = {"biovil/mimic_cxr": {"dataset": "covid_chestxray"}}
    config = overlay({"datasets": notes, "cohorts": cohorts}, check_roots=False)
    assert config.cohorts["biovil/mimic_cxr"].holder == "covid_chestxray"


def test_public_sets_take_the_places_of_mimic_cxr_and_ms_cxr(unrooted):
    """What stands in for an annotation brings its own images, though MIMIC-CXR's are replaced."""
    sets = {
        "pairs": {"layout": "rexgradient", "root": "/data/rex", "in_place_of": "mimic_cxr"},
        "boxes": {"layout": "padchest_gr", "root": "/data/gr", "in_place_of": "ms_cxr"},
    }
    config = unrooted({**BIOVIL, "datasets": sets})
    scored, trained = config.cohorts["biovil/ms_cxr"], config.cohorts["biovil/mimic_cxr"]
    assert (scored.dataset, scored.holder) == ("boxes", "boxes")
    assert (trained.dataset, trained.holder) == ("pairs", "pairs")
    assert trained.held_out == {"boxes": ()}  # ids are compared when it is built
    assert config.models["biovil/biovil"].trainable
    assert "phrase_grounding" in tasks(config)


def test_several_sets_in_one_place_are_joined_where_pairs_are_made_of_it(unrooted):
    """Each is built as if it were alone, and what holds for one is asked of it alone."""
    sets = {
        "rex": {"layout": "rexgradient", "root": "/data/rex", "in_place_of": "mimic_cxr"},
        "plus": {"layout": "chexpert_plus", "root": "/data/plus", "in_place_of": "mimic_cxr"},
        "chexpert": {"root": "/data/chexpert"},
    }
    held_out = {"held_out": {"chexpert": ["valid", "test"]}}
    papers = {"papers": ["convirt"], "datasets": sets}
    config = unrooted({**papers, "cohorts": {"convirt/mimic_cxr": held_out}})
    cohort = config.cohorts["convirt/mimic_cxr"]
    assert cohort.dataset == "plus+rex" and cohort.sources == ["plus", "chexpert", "rex"]
    assert {each.name: each.held_out for each in cohort.joined} == dict.fromkeys(
        ("convirt/mimic_cxr.plus", "convirt/mimic_cxr.rex"), {"chexpert": ("valid", "test")}
    )
    needs = config.needs(*config.results.items())
    assert {each.name for each in (cohort, *cohort.joined)} <= {*needs.cohorts}
    assert {"rex", "plus"} <= {*needs.corpora} and "plus+rex" not in needs.corpora
    refused = "'cohorts.convirt/mimic_cxr.held_out': 'chexpert', on which convirt/"
    with pytest.raises(InputError, match=refused):
        unrooted({**papers, "cohorts": {"convirt/mimic_cxr": {"held_out": []}}})


def test_chextemporal_takes_the_places_of_ms_cxr_t_and_chest_imagenome(unrooted):
    """Radiologists' labels are tested on, and those of reports learnt from; it has no sentences."""
    places = ["ms_cxr_t", "chest_imagenome"]
    sets = {
        "pairs": {"layout": "chexpert_plus", "root": "/data/plus", "in_place_of": "mimic_cxr"},
        "chextemporal_chexpert": {"root": "/data/temporal", "in_place_of": places},
    }
    config = unrooted({"papers": ["biovil_t"], "datasets": sets})
    cohort = config.cohorts["biovil_t/progression"]
    assert (cohort.dataset, cohort.holder) == ("chextemporal_chexpert", "pairs")
    assert cohort.training is None  # its silver labels are in the same data set
    assert config.cohorts["biovil_t/mimic_cxr"].held_out == {"chextemporal_chexpert": ()}
    assert "temporal_classification" in tasks(config)
    assert "sentence_similarity" not in tasks(config)
    (lack,) = config.data.cohort_lacks(config.library.cohorts["biovil_t/ms_cxr_t_sentences"])
    assert lack.reason == "nli in chextemporal_chexpert, which is in the place of ms_cxr_t"
    refused = "'chextemporal_chexpert', on which biovil_t/temporal_prompting scores"
    silver = {"biovil_t/temporal_prompting": {"split": "train"}}
    with pytest.raises(InputError, match=refused):
        unrooted({"papers": ["biovil_t"], "datasets": sets, "tasks": silver})


def test_images_of_a_cohort_may_be_put_elsewhere(overlay):
    """Without a word they lie in the data set itself, or where its layout keeps them."""
    elsewhere = {"biovil/ms_cxr_raw": {"images": None}, "biovil/mimic_cxr": {"images": None}}
    cohorts = overlay({"cohorts": elsewhere}).cohorts
    assert cohorts["biovil/ms_cxr_raw"].holder == "mimic_cxr_jpg"
    assert cohorts["biovil/mimic_cxr"].holder == "mimic_cxr"


# --- patients -----------------------------------------------------------------------------------

MIMIC = ("mimic_cxr", "mimic_cxr_jpg", "ms_cxr", "mimic_iv")
COHORTS = ("mimic_cxr_reports", "mimic_cxr", "mimic_cxr_more", "mimic_cxr_raw")


def nobody_held_out(*cohorts):
    return {"cohorts": {f"biovil/{name}": {"held_out": []} for name in cohorts}}


@pytest.mark.parametrize("synthetic", [True, False])
def test_patients_that_are_scored_must_be_held_out(unrooted, synthetic):
    sets = {} if synthetic else {"datasets": real(*MIMIC)}
    assert unrooted(sets)
    with pytest.raises(InputError) as error:
        unrooted(sets | nobody_held_out(*COHORTS))
    refused = "'cohorts.biovil/mimic_cxr_reports.held_out': 'ms_cxr', on which biovil/phrase_ground"
    assert f"overlay.yaml: key {refused}" in str(error.value)
    with pytest.raises(InputError, match="mimic_cxr_raw.held_out': .* scores biovil/biovil_raw"):
        unrooted({**sets, **nobody_held_out("mimic_cxr_raw")})


@pytest.mark.parametrize("split", ["train", "validate"])
def test_silver_labels_are_of_the_patients_of_another_data_set(overlay, split):
    """Those that BioViL-T's training holds out are the tested ones alone."""
    refused = "held_out': 'chest_imagenome', on which biovil_t/temporal_prompting scores"
    with pytest.raises(InputError, match=refused):
        overlay({"tasks": {"biovil_t/temporal_prompting": {"split": split}}})


def test_one_data_set_is_split_in_one_way(overlay):
    """CXR-BERT is validated on reports that joint training must not have seen."""
    with pytest.raises(InputError, match="mimic_cxr_reports splits in another way; expected"):
        overlay({"cohorts": {"biovil/mimic_cxr": {"splits": {"seed": 1}}}})


def test_strangers_need_not_be_held_out(unrooted):
    """Neither invented patients from real ones, nor where nobody is scored."""
    apart = {"datasets": {**real("mimic_cxr", "mimic_cxr_jpg"), "mimic_iv": None}}
    for sets in (apart, {"datasets": {"ms_cxr": None}}):
        config = unrooted({**BIOVIL, **sets, **nobody_held_out(*COHORTS)})
        assert config.models["biovil/biovil"].trainable
    assert unrooted(apart).cohorts["biovil/mimic_cxr"].held_out == {}


OWN = {"layout": "hospital", "root": "/data/own"}


def test_a_folder_says_whose_patients_it_has(overlay):
    def load(held_out, **said):
        own = {**OWN, "in_place_of": "mimic_cxr", **said}
        sets = {"mine": own, "chexpert": {"root": "/data/chexpert"}}
        cohorts = {"convirt/mimic_cxr": {"held_out": held_out}}
        given = {"papers": ["convirt"], "datasets": sets, "cohorts": cohorts}
        return overlay(given, check_roots=False)

    said = {"people": ["chexpert"], "ids": "chexpert"}
    with pytest.raises(InputError, match="held_out': 'chexpert', on which convirt/.* scores"):
        load([], **said)
    with pytest.raises(InputError, match="held_out': 'chexpert', on which convirt/.* scores"):
        load({"chexpert": ["test"]}, **said)
    with pytest.raises(InputError, match="mine.ids': 'mine', .* have the same people, numbered as"):
        load(["chexpert"], people=["chexpert"])
    held_out = {"chexpert": ("train", "valid")}
    found = load({name: [*parts] for name, parts in held_out.items()}, **said)
    cohort = found.cohorts["convirt/mimic_cxr"]
    assert cohort.held_out == held_out
    assert cohort.described()["held_out"] == held_out
    # Not known to share, so that the program compares ids.
    assert load(["chexpert"]).cohorts["convirt/mimic_cxr"].held_out == {"chexpert": ()}
    for said, message in (
        ({"people": ["chexprt"]}, "people names 'chexprt'; expected of .*chexpert"),
        ({"ids": "hospital2"}, "ids names 'hospital2'; expected of"),
    ):
        with pytest.raises(InputError, match=message):
            load([], **said)
    with pytest.raises(InputError, match="people and ids are of a 'root'"):
        overlay({"datasets": {"chexpert": {"synthetic": True, "people": ["mimic"]}}})


def test_reports_are_read_by_split(demo, unrooted):
    assert demo.texts.cohort("mimic_cxr", "biovil") == "biovil/mimic_cxr_reports"
    assert demo.texts.cohort("pubmed", "biovil") is None
    reads = {"vocabularies": {"biovil/cxr_bert": {"documents": ["open_i"]}}}
    cohorts = {"cohorts": {"biovil/mimic_cxr_more": {"dataset": "open_i", "held_out": []}}}
    config = unrooted({"datasets": {"open_i": OPEN_I}, **reads, **cohorts})
    assert config.texts.cohort("open_i", "biovil") == "biovil/mimic_cxr_more"
    assert "biovil/mimic_cxr_more" in config.whole.cohorts


# --- pictures and stores ------------------------------------------------------------------------


def test_pictures_of_real_data_need_the_word_of_privacy(unrooted):
    def pictures(show, sets=MIMIC):
        config = unrooted({"datasets": real(*sets), "privacy": show})
        settings = config.tasks["biovil/phrase_grounding"].settings
        return (
            settings.figures,
            settings.figure_phrases,
            bool(config.results["biovil"].figures("all")),
        )

    shown = {"show_images": True, "show_text": True}
    assert pictures({}, ()) == (8, True, True)
    assert pictures({"show_images": False}, ())[:2] == (0, True)
    assert pictures({"show_text": False}, ())[:2] == (8, False)
    assert pictures({})[:2] == (0, False)
    assert pictures({"show_images": True})[:2] == (8, False)
    assert pictures(shown) == (8, True, True)


def test_a_cohort_has_a_store_for_each_geometry_it_is_seen_at(overlay):
    pairs = ("mimic_cxr", "mimic_cxr_labelled", "mimic_cxr_more", "mimic_cxr_raw")
    pictured = (*pairs, "ms_cxr", "ms_cxr_raw", "rsna")
    demo = [(f"biovil/{name}", "shorter128") for name in pictured]
    assert overlay(BIOVIL).whole.stores == demo
    # Imported weights see their own pixels, under the one spelling that names a folder.
    weights = {"biovil/biovil": {"path": "/w", "geometry": "shorter64crop64"}}
    stores = overlay({**BIOVIL, "weights": weights}, check_roots=False).whole.stores
    seen = {f"biovil/{name}" for name in ("ms_cxr", "rsna", "ms_cxr_raw")}
    assert set(stores) - set(demo) == {(name, "shorter64") for name in seen}
    broken = {"biovil/biovil": {"path": "/w", "geometry": "shorter480crop512"}}
    with pytest.raises(InputError, match="key 'weights.biovil/biovil.geometry': .* crop 512"):
        overlay({"weights": broken}, check_roots=False)


def test_lines_of_a_hospitals_own_reports_are_sentences(monkeypatch):
    monkeypatch.setenv("CXR_HOSPITAL", "/data")
    config = load_config([ROOT / "config.yaml", ROOT / "hospital.yaml"], check_roots=False)
    assert config.values.reports.settings().of_layout("hospital").splitter == "lines"


JPG_TABLES = layout("mimic_cxr_jpg").label_tables


def places(config):
    """Data set, reference, holder and file of each comparison."""
    return [(g.dataset, g.reference, g.holder, g.file) for g in config.label_comparisons()]


def test_labels_are_compared_with_what_comes_with_the_reports(demo, overlay):
    assert places(demo) == [
        ("mimic_cxr", "chexpert", "mimic_cxr_jpg", JPG_TABLES["chexpert"]),
        ("mimic_cxr", "negbio", "mimic_cxr_jpg", JPG_TABLES["negbio"]),
    ]
    assert {labels.settings.layout for labels in demo.label_comparisons()} == {"table"}
    # The real tables are not those of synthetic reports, nor the other way round.
    assert places(overlay({"datasets": real("mimic_cxr_jpg")}, check_roots=False)) == []
    both = real("mimic_cxr", "mimic_cxr_jpg", "ms_cxr", "mimic_iv")
    config = overlay({"datasets": both}, check_roots=False)
    assert [place[1] for place in places(config)] == ["chexpert", "negbio"]
    assert places(overlay(compared())) == places(overlay(ALONE, check_roots=False)) == []


def test_open_i_is_compared_with_its_terms(monkeypatch):
    monkeypatch.setenv("CXR_REAL_DATA", "/data")
    config = load_config([DEMO, ROOT / "real.yaml"], check_roots=False)
    assert places(config) == [("open_i", "terms", "open_i", "")]
    assert config.label_comparisons()[0].settings.layout == "open_i"


def test_labels_of_ones_own_are_compared_as_the_configuration_says(unrooted, tmp_path):
    file = tmp_path / "mine.parquet"
    file.touch()
    mine = {"dataset": "open_i", "reference": "mine", "file": str(file), "id_column": "key"}
    changes = compared(mine | {"positives_only": True})
    changes["label_agreement"]["uncertain"] = "negative"
    config = unrooted(changes | {"datasets": {"open_i": OPEN_I}})
    assert places(config) == [("open_i", "mine", None, str(file))]
    settings = config.label_comparisons()[0].settings
    assert (settings.layout, settings.id_column, settings.positives_only) == ("table", "key", True)
    assert settings.uncertain == "negative"
    assert "open_i" in config.datasets  # its reports are processed for it


def test_a_missing_label_table_is_one_line_and_a_gzipped_one_is_found(overlay, tmp_path):
    reports = {"layout": "mimic_cxr", "root": str(tmp_path)}
    jpgs = {"layout": "mimic_cxr_jpg", "root": str(tmp_path)}
    changes = compared({"dataset": "mine", "reference": "negbio"})
    changes["datasets"] = {"mine": reports, "jpgs": jpgs}
    with pytest.raises(
        InputError, match="overlay.yaml: key 'datasets.jpgs.root' .*negbio.csv is not"
    ):
        overlay(changes)
    (tmp_path / f"{JPG_TABLES['negbio']}.gz").touch()
    assert places(overlay(changes))[0][2] == "jpgs"
    del changes["datasets"]["jpgs"]
    with pytest.raises(InputError, match="'negbio' of 'mine' needs a data set of layout mimic_cxr"):
        overlay(changes)


def test_a_root_that_holds_another_data_set_is_refused(overlay, tmp_path):
    (tmp_path / "train.csv").touch()
    for file in ("valid.csv", "test_labels.csv.gz"):
        (tmp_path / file).touch()
    with pytest.raises(InputError) as refusal:
        overlay({"papers": ["convirt"], "datasets": {"mura": {"root": str(tmp_path)}}})
    assert "which has no list of mura, but those of chexpert" in str(refusal.value)
