"""Configuration: which given labels our report labels are compared with."""

import pytest
from config_overlays import ALONE, COMPARISONS, DEMO, OPEN_I, ROOT, compared, real

from cxrflow.config import load_config
from cxrflow.data.layouts import layout
from cxrflow.errors import InputError

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


def test_labels_of_ones_own_are_compared_as_the_configuration_says(overlay, tmp_path):
    file = tmp_path / "mine.parquet"
    file.touch()
    mine = {"dataset": "open_i", "reference": "mine", "file": str(file), "id_column": "key"}
    changes = compared(mine | {"positives_only": True})
    changes["label_agreement"]["uncertain"] = "negative"
    config = overlay(changes | {"datasets": {"open_i": OPEN_I}}, check_roots=False)
    assert places(config) == [("open_i", "mine", None, str(file))]
    settings = config.label_comparisons()[0].settings
    assert (settings.layout, settings.id_column, settings.positives_only) == ("table", "key", True)
    assert settings.uncertain == "negative"
    assert "open_i" in config.datasets_in_use()  # its reports are processed for it


def test_a_missing_label_table_is_one_line_and_a_gzipped_one_is_found(overlay, tmp_path):
    reports = {"layout": "mimic_cxr", "root": str(tmp_path)}
    jpgs = {"layout": "mimic_cxr_jpg", "root": str(tmp_path)}
    changes = compared({"dataset": "mine", "reference": "negbio"})
    changes["datasets"] = {"mine": reports, "jpgs": jpgs}
    with pytest.raises(InputError, match=rf"overlay.yaml: key '{COMPARISONS}' is .*negbio.csv'"):
        overlay(changes)
    (tmp_path / f"{JPG_TABLES['negbio']}.gz").touch()
    assert places(overlay(changes))[0][2] == "jpgs"
    del changes["datasets"]["jpgs"]
    with pytest.raises(InputError, match="'negbio' of 'mine' needs a data set of layout mimic_cxr"):
        overlay(changes)
