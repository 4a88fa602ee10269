"""Configuration: which report labels, statistics and rows of tables are compared."""

import pytest
from config_overlays import COMPARISONS, DEMO, ONE_EDITION, OPEN_I, ROOT, compared
from cxrflow.config.ms_cxr_statistics import statistics_datasets
from cxrflow.config.row_comparisons import row_comparisons

from cxrflow.config import load_config
from cxrflow.data.mimic_cxr_jpg import LABEL_TABLES
from cxrflow.errors import InputError


def places(config):
    """Data set, reference, holder and file of each comparison."""
    return [(g.dataset, g.reference, g.holder, g.file) for g in config.label_comparisons()]


def test_labels_are_compared_with_what_comes_with_the_reports(overlay):
    demo = load_config([DEMO])
    assert places(demo) == [
        ("mimic_cxr", "chexpert", "mimic_cxr_jpg", LABEL_TABLES["chexpert"]),
        ("mimic_cxr", "negbio", "mimic_cxr_jpg", LABEL_TABLES["negbio"]),
    ]
    assert "mimic_cxr_jpg" in demo.datasets_in_use()
    assert {given.settings.layout for given in demo.label_comparisons()} == {"table"}
    # The real tables are not those of synthetic reports, nor the other way round.
    jpg = {"layout": "mimic_cxr_jpg", "root": "/data/jpg", "synthetic": False}
    assert places(overlay({"datasets": {"mimic_cxr_jpg": jpg}}, over=ONE_EDITION)) == []
    real = {"mimic_cxr": {"synthetic": False, "root": "/data/mimic"}, "mimic_cxr_jpg": jpg}
    strangers = {"ms_cxr": {"synthetic": False, "root": "/data/ms"}}
    strangers["mimic_iv"] = {"synthetic": False, "root": "/data/iv"}
    shown = {"phrase_grounding": {"figures": 0}}
    config = overlay({"datasets": real | strangers, "benchmarks": shown}, check_roots=False)
    assert [place[1] for place in places(config)] == ["chexpert", "negbio"]
    assert places(overlay(compared())) == []
    alone = overlay(compared(), over=ONE_EDITION)
    assert "mimic_cxr_jpg" not in alone.datasets_in_use()


def test_the_statistics_of_ms_cxr_need_dates_and_may_know_demographics(overlay):
    assert statistics_datasets(load_config([DEMO])) == ["ms_cxr", "mimic_cxr_jpg", "mimic_iv"]
    bare = overlay(compared() | {"roles": {"demographics": None}}, over=ONE_EDITION)
    assert statistics_datasets(bare) == ["ms_cxr", "mimic_cxr"]  # from the images' headers
    assert "mimic_iv" not in bare.datasets_in_use()
    nowhere = {"roles": {"grounding": None}, "cohorts": {"mimic_cxr": {"held_out": []}}}
    without = overlay(nowhere, over=ONE_EDITION)
    assert statistics_datasets(without) == [] and "mimic_iv" not in without.datasets_in_use()


def test_rows_are_compared_where_both_were_measured(overlay):
    one = row_comparisons(load_config([DEMO]), "biovil", "table5")
    assert {c.reference_model for c in one} == {"biovil"}
    models = {c.model for c in one}
    assert {"biovil_l", "gloria", "convirt", "baseline_clinical_bert"} < models
    assert len(one) == 9 * len(models)  # eight findings and their average
    assert row_comparisons(overlay({"roles": {"grounding": None}}), "biovil", "table5") == []


def test_open_i_is_compared_with_its_terms(tmp_path, monkeypatch):
    monkeypatch.setenv("CXR_REAL_DATA", "/data")
    config = load_config([DEMO, ROOT / "real.yaml"], check_roots=False)
    assert places(config) == [("open_i", "terms", "open_i", "")]
    assert config.label_comparisons()[0].settings.layout == "open_i"


def test_labels_of_ones_own_are_compared_as_the_configuration_says(overlay, tmp_path):
    file = tmp_path / "mine.parquet"
    file.touch()
    mine = {"dataset": "open_i", "reference": "mine", "file": str(file), "id_column": "key"}
    changes = compared(mine | {"positives_only": True})
    changes["benchmarks"]["label_agreement"]["uncertain"] = "negative"
    config = overlay(changes | {"datasets": {"open_i": OPEN_I}}, check_roots=False)
    assert places(config) == [("open_i", "mine", None, str(file))]
    settings = config.label_comparisons()[0].settings
    assert (settings.layout, settings.id_column, settings.positives_only) == ("table", "key", True)
    assert settings.uncertain == "negative"
    assert "open_i" in config.datasets_in_use()  # its reports are processed for it


def test_a_missing_label_table_is_one_line_and_a_gzipped_one_is_found(overlay, tmp_path):
    jpg = {"layout": "mimic_cxr_jpg", "root": str(tmp_path), "synthetic": False}
    reports = {"layout": "mimic_cxr", "root": str(tmp_path)}
    changes = compared({"dataset": "mine", "reference": "negbio"})
    changes["datasets"] = {"mine": reports, "mimic_cxr_jpg": jpg}
    with pytest.raises(InputError, match=rf"overlay.yaml: key '{COMPARISONS}' is .*negbio.csv'"):
        overlay(changes, over=ONE_EDITION)
    (tmp_path / f"{LABEL_TABLES['negbio']}.gz").touch()
    assert places(overlay(changes, over=ONE_EDITION))[0][2] == "mimic_cxr_jpg"
    changes["datasets"]["mimic_cxr_jpg"] = {"layout": "rsna"}
    with pytest.raises(
        InputError, match="'negbio' of 'mine' needs a data set of layout mimic_cxr_"
    ):
        overlay(changes, over=ONE_EDITION)
