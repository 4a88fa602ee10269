"""Configuration: what is accepted, what is resolved, and the one line that says what is wrong."""

import json
import subprocess
import sys

import pytest
import yaml
from config_overlays import COMPARISONS, DEMO, ONE_EDITION, OPEN_I, ROOT, compared

from cxrflow.config import load_config, make_config
from cxrflow.config.__main__ import main
from cxrflow.errors import InputError
from cxrflow.phantom.settings import HospitalSettings

REAL_GROUNDING = {  # MS-CXR with its images, both real, beside the demo's synthetic reports
    "mimic": {"layout": "mimic_cxr", "root": "/data/mimic"},
    "ms_cxr": {"layout": "ms_cxr", "synthetic": False, "root": "/data/ms", "images": "mimic"},
    "mimic_iv": {"layout": "mimic_iv", "synthetic": False, "root": "/data/iv"},
}


def test_the_demo_is_valid_and_synthetic():
    config = load_config([DEMO])
    assert all(config.datasets[name].synthetic for name in config.datasets_in_use())
    assert config.trainable("biovil")


def test_the_real_overlay_uses_nothing_synthetic(tmp_path, monkeypatch):
    for name in ("open_i", "covid_chestxray"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("CXR_REAL_DATA", str(tmp_path))
    config = load_config([DEMO, ROOT / "real.yaml"])
    assert sorted(config.datasets_in_use()) == ["covid_chestxray", "open_i"]
    assert not any(config.datasets[name].synthetic for name in config.datasets_in_use())
    assert config.trainable("biovil")
    assert not config.available("phrase_grounding")
    assert config.results == "results/real"


def test_the_paper_overlay_is_valid(monkeypatch):
    monkeypatch.setenv("CXR_DATA", "/data")
    config = load_config([DEMO, ROOT / "paper.yaml"], check_roots=False)
    assert config.datasets["ms_cxr"].root == "/data/ms-cxr/0.1"
    assert config.scale == "paper"
    assert not any(config.datasets[name].synthetic for name in config.datasets_in_use())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"pixel": {}}, "overlay.yaml: unknown key 'pixel'"),
        ({"pixels": {"geometri": 1}}, "overlay.yaml: unknown key 'pixels.geometri'"),
        (
            {"pixels": {"geometry": "wide12"}},
            "overlay.yaml: key 'pixels.geometry': geometry 'wide12'",
        ),
        ({"seeds": "one"}, "overlay.yaml: key 'seeds' is 'one'"),
        ({"seeds": [1, 1]}, "overlay.yaml: key 'seeds': [1, 1] names a seed twice"),
        (
            {"scale": "huge"},
            "overlay.yaml: key 'scale': 'huge' is not known; there are demo, paper, study",
        ),
        ({"papers": ["bio"]}, "overlay.yaml: key 'papers': 'bio' is not known"),
        ({"roles": {"pairs": "x"}}, "overlay.yaml: key 'roles.pairs': 'x' is not known"),
        ({"cohorts": {"rsna": {"dataset": "x"}}}, "key 'cohorts.rsna.dataset': 'x' is not known"),
        ({"roles": {"demographics": "rsna"}}, "'roles.demographics': 'rsna' has the layout rsna"),
        (
            {"datasets": {"mimic_iv": {"synthetic": False, "root": "/"}}},
            "'mimic_iv' is real, the patients of 'ms_cxr' are synthetic; expected both alike",
        ),
        ({"models": {"biovill": {}}}, "overlay.yaml: key 'models': 'biovill' is not known"),
        ({"roles": {"corpora": ["rsna"]}}, "key 'roles.corpora': 'rsna' has the layout rsna"),
        (
            {"vocabularies": {"cxr_bert": {"documents": ["rsna"]}}},
            "key 'vocabularies.cxr_bert.documents': 'rsna' has the layout rsna, which has no text",
        ),
        (
            {"datasets": {"rsna": {"root": "/x"}}},
            "key 'datasets.rsna': set either 'root' (real files) or 'synthetic: true'",
        ),
        (
            {"datasets": {"rsna": {"synthetic": False, "root": "/no/such"}}},
            "overlay.yaml: key 'datasets.rsna.root' is '/no/such': no such folder",
        ),
        (
            {"datasets": {"x": {"layout": "rsna", "root": "${CXR_UNSET}/rsna"}}},
            "key 'datasets.x.root' needs the environment variable CXR_UNSET, which is not set",
        ),
        (
            {"pixels": {"geometry": "shorter480crop512"}},
            "key 'pixels.geometry': geometry 'shorter480crop512': crop 512 is larger",
        ),
        (
            {"cohorts": {"mimic_cxr": {"held_out": []}}},
            "overlay.yaml: key 'cohorts.mimic_cxr.held_out': 'ms_cxr' (roles.grounding) has "
            "patients of 'mimic_cxr'",
        ),
        (
            {"roles": {"corpora": ["open_i"]}, "datasets": {"open_i": OPEN_I}},
            "overlay.yaml: key 'roles.corpora': 'open_i' is a set of reports that no cohort",
        ),
        (
            {
                "datasets": {"open_i": OPEN_I},
                "vocabularies": {"cxr_bert": {"documents": ["open_i"]}},
            },
            "key 'vocabularies.cxr_bert.documents': 'open_i' is a set of reports that no cohort",
        ),
        (
            {"reports": {"stanza_folder": "/no/such"}},
            "overlay.yaml: key 'reports.stanza_folder' is '/no/such': no such folder",
        ),
        (
            {"reports": {"typo_list": "/no/such.csv"}},
            "overlay.yaml: key 'reports.typo_list' is '/no/such.csv': no such file",
        ),
        (
            {"reports": {"sections": {"special_cases": "/no/such.csv"}}},
            "key 'reports.sections.special_cases' is '/no/such.csv': no such file",
        ),
        (
            {"cohorts": {"mimic_cxr": {"splits": {"method": "file", "file": "/no/such.csv"}}}},
            "key 'cohorts.mimic_cxr.splits.file' is '/no/such.csv': no such file",
        ),
        (
            compared({"dataset": "nothing", "reference": "mine", "file": "x.csv"}),
            f"overlay.yaml: key '{COMPARISONS}': 'nothing' is no data set of reports; "
            "there are mimic_cxr",
        ),
        (
            compared({"dataset": "rsna", "reference": "mine", "file": "x.csv"}),
            "'rsna' is no data set of reports",
        ),
        (
            compared({"dataset": "mimic_cxr", "reference": "terms"}),
            f"key '{COMPARISONS}': 'terms' of 'mimic_cxr' has no 'file'; without one expected "
            "chexpert, negbio, radiologist (layout mimic_cxr) or terms (layout open_i)",
        ),
        (
            compared(*[{"dataset": "mimic_cxr", "reference": "negbio"}] * 2),
            f"key '{COMPARISONS}': 'negbio' of 'mimic_cxr' stands there twice",
        ),
        (
            compared({"dataset": "mimic_cxr", "reference": "mine", "file": "/no/such.csv"}),
            f"overlay.yaml: key '{COMPARISONS}' is '/no/such.csv': no such file",
        ),
        (
            compared({"dataset": "mimic_cxr", "reference": "my/own", "file": "x.csv"}),
            f"overlay.yaml: key '{COMPARISONS}.0.reference' is 'my/own': String should match",
        ),
        (
            {"benchmarks": {"label_agreement": {"comparisons": "all"}}},
            f"overlay.yaml: key '{COMPARISONS}' is 'all': Input should be a valid list",
        ),
        (
            {"resources": {"pretrain_text": {"gpus": 1}}},
            "unknown key 'resources.pretrain_text.gpus'",
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_key_and_file(overlay, values, message):
    with pytest.raises(InputError) as error:
        overlay(values)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_held_out_is_asked_for_only_where_patients_are_shared(overlay):
    strangers = {"datasets": REAL_GROUNDING, "benchmarks": {"phrase_grounding": {"figures": 0}}}
    cohorts = {"mimic_cxr": {"held_out": []}}
    assert overlay(strangers | {"cohorts": cohorts}, False, ONE_EDITION)
    # Trained on the other edition of the same patients, named nowhere by the evaluation set.
    strangers["datasets"]["jpg"] = {"layout": "mimic_cxr_jpg", "root": "/data/jpg"}
    strangers["cohorts"] = {"jpg": {"dataset": "jpg", "kind": "pairs"}}
    strangers["roles"] = {"images": "jpg"}
    with pytest.raises(InputError, match=r"'cohorts.jpg.held_out': 'ms_cxr' \(roles.grounding\)"):
        overlay(strangers, False, ONE_EDITION)
    strangers["cohorts"]["jpg"]["held_out"] = ["ms_cxr"]
    assert overlay(strangers, False, ONE_EDITION)
    assert overlay({"roles": {"grounding": None}, "cohorts": cohorts}, over=ONE_EDITION)


def test_every_set_of_reports_is_read_by_split(overlay):
    values = {
        "datasets": {"open_i": OPEN_I},
        "cohorts": {"second": {"dataset": "open_i", "require": ["impression"]}},
        "roles": {"corpora": ["pubmed", "open_i"]},
    }
    config = overlay(values, check_roots=False)
    assert config.document_cohort("open_i") == "second"
    assert config.document_cohort("mimic_cxr") == config.roles.reports
    assert config.document_cohort("pubmed") is None
    assert "second" in config.training_cohorts()


def test_pictures_of_real_data_need_the_word_of_privacy(overlay):
    def load(shown, **asked):
        cohorts = {"mimic_cxr": {"held_out": ["ms_cxr"]}}
        benchmarks = {"phrase_grounding": asked}
        values = {"datasets": REAL_GROUNDING, "cohorts": cohorts, "benchmarks": benchmarks}
        return overlay(values | {"privacy": shown}, check_roots=False)

    for shown in ({}, {"show_images": False}):
        with pytest.raises(InputError, match=r"phrase_grounding\.figures.*privacy\.show_images"):
            load(shown, figures=1)
    images = {"show_images": True}
    with pytest.raises(InputError, match=r"phrase_grounding\.figure_phrases.*privacy\.show_text"):
        load(images, figures=1, figure_phrases=True)
    assert load(images, figures=1, figure_phrases=False)
    assert load(images | {"show_text": True}, figures=1, figure_phrases=True)
    assert load({}, figures=0, figure_phrases=True)


def test_a_geometry_is_what_its_parser_takes(overlay):
    assert overlay({"pixels": {"geometry": "shorter512crop480"}}).pixels.geometry == (
        "shorter512crop480"
    )
    assert overlay({"pixels": {"geometry": "shorter64crop64"}}).pixels.geometry == "shorter64"


def test_the_hospitals_defaults_are_the_demos():
    assert load_config([DEMO]).synthetic_hospital == HospitalSettings()


def test_the_splitters_training_is_not_part_of_report_processing():
    reports = load_config([DEMO]).reports
    assert reports.sentence_splitter.steps > 0
    assert not {"sentence_splitter", "stanza_folder"} & set(reports.settings())


def test_the_file_named_is_the_one_that_holds_the_key(tmp_path):
    base = yaml.safe_load(DEMO.read_text())
    base["pixels"]["geometri"] = 1
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(yaml.safe_dump(base))
    second.write_text("seeds: [3]\n")
    with pytest.raises(InputError, match="first.yaml: unknown key 'pixels.geometri'"):
        load_config([first, second])


@pytest.mark.parametrize("text", ["pixels: [", "- a\n- b\n"])
def test_a_file_that_is_no_mapping_is_named(tmp_path, text):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="broken.yaml: "):
        load_config([DEMO, path])


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(InputError, match="absent.yaml: cannot be read"):
        load_config([tmp_path / "absent.yaml"])


def test_missing_roots_matter_only_where_used(overlay):
    config = overlay({"datasets": {"spare": {"layout": "rsna", "root": "/no/such"}}})
    assert "spare" not in config.datasets_in_use()


def test_the_pixel_store_holds_every_cohort_pictured_in_a_data_set():
    config = load_config([DEMO])
    jpgs = ["mimic_cxr", "mimic_cxr_more", "ms_cxr"]
    assert config.cohorts_pictured_in("mimic_cxr_jpg") == jpgs
    assert config.cohorts_pictured_in("mimic_cxr") == ["mimic_cxr_raw", "ms_cxr_raw"]
    assert config.cohorts_pictured_in("rsna") == ["rsna"]


def test_the_images_of_a_cohort_may_lie_elsewhere(overlay):
    config = overlay({"cohorts": {"ms_cxr": {"images": None}}})
    assert [config.holder(name) for name in ("mimic_cxr", "ms_cxr")] == [
        "mimic_cxr_jpg",
        "mimic_cxr",
    ]
    with pytest.raises(InputError, match="'cohorts.ms_cxr.images': 'x' is not known"):
        overlay({"cohorts": {"ms_cxr": {"images": "x"}}})


def test_show_prints_yaml_that_is_complete(capsys):
    main(["show", "--configfile", str(DEMO)])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["synthetic_hospital"]["ap_share"] == 0.55
    assert "training" in shown["models"]["biovil"]["settings"]


def test_show_model_prints_what_its_program_receives(capsys):
    main(["show", "--configfile", str(DEMO), "--model", "biovil"])
    shown = yaml.safe_load(capsys.readouterr().out)
    settings = load_config([DEMO]).model("biovil").settings.model_dump(mode="json")
    assert shown["settings"] == settings


def test_show_names_an_unknown_model():
    with pytest.raises(InputError, match="model: 'nothing' is not known; there are"):
        main(["show", "--configfile", str(DEMO), "--model", "nothing"])


def test_record_keeps_what_it_is_given(tmp_path):
    described = load_config([DEMO]).described()
    output = tmp_path / "c.json"
    files = ["config.yaml", "mine.yaml"]
    main(
        ["record", "--resolved", json.dumps(described), "--output", str(output)]
        + ["--configfile", *files]
    )
    assert json.loads(output.read_text()) == described | {"configfiles": files}


def test_values_from_snakemake_need_no_file():
    values = yaml.safe_load(DEMO.read_text())
    assert make_config(values, []).seeds == [0]
    with pytest.raises(InputError, match="configuration: unknown key 'nothing'"):
        make_config(values | {"nothing": 1}, [])


def test_importing_costs_no_heavy_library():
    code = (
        "import sys, cxrflow.config; "
        "print([m for m in ('torch', 'pandas', 'transformers', 'scipy', 'matplotlib') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
