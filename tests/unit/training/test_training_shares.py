"""Shares of the training pairs, splits by folder, reports that text encoders have read.

What the low-data study needs (Windsor et al. 2023).
"""

import pandas as pd
import pytest
from test_sample_attributes import pairs_table

from cxr_files.errors import InputError
from cxrflow.config.demands import asked_rows
from cxrflow.config.held_out import overlap_notes
from cxrflow.data.cohorts.settings import CohortSettings, TrainingShare
from cxrflow.data.cohorts.splits import assign
from cxrflow.papers.entries import deep_overlay
from cxrflow.pretrain.inputs import Pairs

SHARED = {
    "program": "joint",
    "text": "biovil/cxr_bert",
    "image": "biovil/simclr",
    "cohort": "pairs",
    "geometry": "shorter128",
    "shares": [1, 10, 0.5, 100],
    "settings": {
        "terms": {"global_alignment": {}},
        "augmentation": {},
        "training": {"batch_size": 20, "steps": 10},
    },
    "scales": {"demo": {"shares": [10, 100]}},
}
PAPER = {
    "cohorts": {"pairs": {"extends": "biovil/mimic_cxr", "share_unit": "study"}},
    "tasks": {"retrieval": {"benchmark": "pair_retrieval", "cohort": "pairs"}},
    "models": {"base": SHARED, "both": {"extends": "base", "settings": {"length": 64}}},
    "tables": {
        "retrieval": {
            "title": "Retrieval",
            "source": "ours",
            "task": "retrieval",
            "columns": [
                {"key": "few", "label": "10 %", "metric": "recall/1", "pairs": 10},
                {"key": "all", "label": "100 %", "metric": "recall/1", "pairs": 100},
            ],
            "rows": [
                {"label": "base", "model": "base"},
                {"label": "both", "model": "both"},
                {"label": "in any order", "model": "reference/nothing"},
            ],
        }
    },
}


def splits(patients, **settings):
    cohort = CohortSettings.model_validate({"splits": {"method": "folders", **settings}})
    return assign(pd.Series(patients, dtype="str"), None, {"x": {"19000001"}}, cohort, "files/")


def test_patients_are_split_by_their_folder():
    """Table 1: p10 tests, p11 validates, p12 to p19 train; who is held out tests."""
    patients = ["10999999", "11000000", "11999999", "12000000", "19999999", "19000001"]
    parts = ["test", "validate", "validate", "train", "train", "test"]
    assert splits(patients).to_dict() == dict(zip(patients, parts, strict=True))
    named = splits(patients, folders={"p19": "validate", "p12": "test"})
    assert list(named) == ["train", "train", "train", "test", "validate", "test"]


def test_a_folder_with_a_part_has_patients():
    refused = "files/: no patient lies in folder p10, which settings key 'splits.folders' makes te"
    with pytest.raises(InputError, match=refused):
        splits(["11000000", "12000000"])
    with pytest.raises(InputError, match=r"files/: 1 patient\(s\) are not numbered .* \(ANON1\)"):
        splits(["10000000", "11000000", "ANON1"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "folders", "folders": {"10": "test"}}, "'10' is no folder; expected p and two"),
        ({"method": "folders", "folders": {"p10": "tests"}}, "'train', 'validate' or 'test'"),
        ({"folders": {"p10": "validate"}}, "expected method folders"),
    ],
)
def test_folders_that_are_none(settings, message):
    with pytest.raises(ValueError, match=message):
        CohortSettings.model_validate({"splits": settings})


def test_the_settings_of_other_splits_are_as_before():
    assert "folders" not in CohortSettings().record()["splits"]
    turned = {"p11": "validate", "p10": "test"}
    rules = [
        CohortSettings.model_validate({"splits": {"method": "folders", **more}}).split_rule
        for more in ({}, {"folders": turned}, {"folders": {"p10": "test"}})
    ]
    assert rules[0] == rules[1] != rules[2]


def test_a_share_is_a_model_of_its_own_and_all_pairs_are_the_model_without_shares(overlay, paper):
    config = overlay({"papers": [paper(PAPER)]})
    names = ["base", "both", "base_share1", "base_share10", "base_share0_5",
             "both_share1", "both_share10", "both_share0_5"]  # fmt: skip
    assert [*config.library.chosen["mine"].models] == names
    shares = {name: config.models[f"mine/{name}"].settings.training_share for name in names}
    assert [*shares.values()] == [1, 1, 0.01, 0.1, 0.005, 0.01, 0.1, 0.005]
    assert config.models["mine/both_share10"].settings.length == 64
    alone = {name: recipe | {"shares": None} for name, recipe in PAPER["models"].items()}
    columns = [PAPER["tables"]["retrieval"]["columns"][1]]
    tables = {"retrieval": PAPER["tables"]["retrieval"] | {"columns": columns}}
    without = overlay({"papers": [paper(PAPER | {"models": alone, "tables": tables}, "b.yaml")]})
    for name in ("base", "both"):
        ours, theirs = config.models[f"mine/{name}"], without.models[f"b/{name}"]
        assert ours.settings.record() == theirs.settings.record()
        assert ours.described() == theirs.described() | {"cohort": "mine/pairs"}
    assert [*without.library.chosen["b"].models] == ["base", "both"]
    # A scale says which of them are made; the others stay in the tables, without a value.
    made = [name for name in names[2:5] if config.models[f"mine/{name}"].trainable]
    assert made == ["base_share10"] and config.models["mine/base"].trainable


def test_what_the_configuration_says_of_a_model_holds_for_its_shares(overlay, paper):
    """A curve would else have other settings with all pairs than with a part of them."""
    said = {"length": 48, "geometry": "square64", "training_share": 0.5}
    models = {"mine/base": said, "mine/base_share10": {"length": 32}}
    config = overlay({"papers": [paper(PAPER)], "models": models})
    names = ("base", "base_share1", "base_share10", "both", "both_share1")
    made = [config.models[f"mine/{name}"] for name in names]
    assert [model.settings.length for model in made] == [48, 48, 32, 64, 64]
    assert [model.settings.training_share for model in made] == [0.5, 0.01, 0.1, 1, 0.01]
    assert [model.geometry for model in made[:4]] == [*["square64"] * 3, "shorter128"]
    wrong = {"papers": [paper(PAPER)], "models": {"mine/base": {"lenght": 48}}}
    with pytest.raises(InputError, match="models.mine/base.lenght"):
        overlay(wrong)


def test_a_table_names_a_model_and_its_share(overlay, paper):
    config = overlay({"papers": [paper(PAPER)]})
    cells = config.results["mine"].cells("retrieval")
    assert cells == [
        *(("mine/retrieval", f"mine/{name}") for name in ("base_share10", "base")),
        *(("mine/retrieval", f"mine/{name}") for name in ("both_share10", "both")),
        ("mine/retrieval", "reference/nothing"),
    ]


def test_a_training_share_needs_a_cohort_with_shares(overlay, paper):
    cohorts = {"pairs": {"extends": "biovil/mimic_cxr"}}
    with pytest.raises(InputError, match="share' is 0.1, but rows of cohort .*share_unit"):
        overlay({"papers": [paper(PAPER | {"cohorts": cohorts})]})


@pytest.mark.parametrize(
    ("place", "change", "message"),
    [
        ("columns", {"pairs": 7}, "columns.0.pairs' is 7; expected a share of mine/base, 0.5, 1, "
         "10, 100 per cent"),
        ("rows", {"pairs": 10}, "rows.0.pairs' is 10, but column 'few' has pairs too; expected"),
        ("rows", {"model": "biovil/biovil"}, "columns.0.pairs' is 10; expected a share of biovil/"),
    ],
)  # fmt: skip
def test_a_share_that_no_model_has(overlay, paper, place, change, message):
    table = PAPER["tables"]["retrieval"]
    lines = [table[place][0] | change, *table[place][1:]]
    wrong = paper(PAPER | {"tables": {"retrieval": table | {place: lines}}})
    with pytest.raises(InputError, match=f"mine.yaml: key 'tables.retrieval.{message}"):
        overlay({"papers": [wrong]})


def test_a_share_of_a_row_that_no_model_has(overlay, paper):
    table = PAPER["tables"]["retrieval"]
    columns = [{"key": "recall", "label": "R@1", "metric": "recall/1"}]
    rows = [table["rows"][0] | {"pairs": 20}]
    tables = {"retrieval": table | {"columns": columns, "rows": rows}}
    refused = "rows.0.pairs' is 20; expected a share of mine/base, 0.5"
    with pytest.raises(InputError, match=refused):
        overlay({"papers": [paper(PAPER | {"tables": tables})]})


def test_a_forecast_is_fitted_where_the_models_stand(overlay, paper):
    """A curve over 1, 10 and 100 % whose cells are those of other shares, or in another order."""
    shares = {f"s{share}": share for share in (1, 10, 100)}
    columns = [
        {"key": key, "label": key, "metric": "recall/1", "pairs": share}
        for key, share in shares.items()
    ]
    tables = {"retrieval": PAPER["tables"]["retrieval"] | {"columns": columns}}

    def config(order, name="mine.yaml"):
        cells = [{"row": "base", "column": key} for key in order]
        axis = {"label": "%", "values": [1, 10, 100]}
        series = [{"label": "base", "cells": cells}]
        curve = {"kind": "curve", "title": "t", "table": "retrieval", "column": "s100"}
        curve |= {"x": axis, "series": series, "forecast": True}
        values = PAPER | {"tables": tables, "figures": {"c": curve}}
        return overlay({"papers": [paper(values, name)]})

    assert config(shares).library.chosen["mine"].figures["c"].forecast
    refused = (
        r"turned.yaml: key .figures.c.series.0. has .base. \(s10\) at 1, but turned/base_share10"
    )
    with pytest.raises(InputError, match=refused):
        config(["s10", "s1", "s100"], "turned.yaml")


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"base": SHARED | {"shares": [0]}}, "models.base.shares.0' is 0: "),
        ({"base": SHARED | {"shares": [110]}}, "models.base.shares.0' is 110: "),
        ({"base": SHARED | {"shares": []}}, "models.base.shares' is "),
        ({"base": SHARED | {"shares": [1, 1]}}, "'base_share1' stands more than once"),
        ({"base": SHARED, "base_share1": SHARED}, "'base_share1' stands more than once"),
    ],
)
def test_shares_that_are_none(overlay, paper, models, message):
    with pytest.raises(InputError, match=f"mine.yaml: key .*{message}"):
        overlay({"papers": [paper({**PAPER, "models": models})]})


def test_a_share_leaves_a_batch(tmp_path):
    path = pairs_table(tmp_path / "cohort")
    assert len(Pairs(path, TrainingShare(1.0, 99)).split("train")) == 32  # all of them are no share
    rows = len(Pairs(path, TrainingShare(0.2)).split("train"))
    assert 1 < rows < 20 and len(Pairs(path, TrainingShare(0.2, rows)).split("train")) == rows
    refused = (
        rf"pairs.parquet: settings key 'training_share' is 0.2, which leaves {rows} training rows; "
        "expected at least a batch of 20"
    )
    with pytest.raises(InputError, match=refused):
        Pairs(path, TrainingShare(0.2, 20)).split("train")


def test_each_seed_may_have_pairs_of_its_own(tmp_path):
    """Nested within a seed, without a pair in common where shares are small; seed 0 as shared."""
    path = pairs_table(tmp_path / "cohort")

    def studies(share, subset=0):
        rows = Pairs(path, TrainingShare(share, 1, subset)).split("train")
        return {*rows["study_id"]}

    for seed in range(3):
        assert studies(0.2, seed) < studies(0.6, seed) < studies(1.0, seed)
    assert studies(0.2) == studies(0.2, 0)
    assert not studies(0.2, 1) & (studies(0.2, 0) | studies(0.2, 2))


def test_subsets_of_seeds_are_asked_for(overlay, paper):
    """Only a share is another model then, and its rows are asked for of every seed."""
    each = deep_overlay(PAPER, {"models": {"base": {"settings": {"training_subset": "each"}}}})
    plain, own = (
        overlay({"papers": [paper(values, name)], "seeds": [0, 3]})
        for values, name in ((PAPER, "a.yaml"), (each, "b.yaml"))
    )
    records = [
        [config.models[f"{name}/{model}"].settings.record() for model in ("base", "base_share10")]
        for config, name in ((plain, "a"), (own, "b"))
    ]
    assert records[0][0] == records[1][0]  # of all pairs
    assert records[1][1] == {**records[0][1], "training_subset": "each"}
    share = own.models["b/base_share10"]
    assert [share.settings.share(seed).subset for seed in (0, 3)] == [0, 3]
    assert plain.models["a/base_share10"].settings.share(3).subset == 0
    asked = asked_rows(own, ["b/base", "b/base_share10"], [])["b/pairs"]
    assert [demand["more"].get("seeds") for demand in asked] == [None, share.seeds]


# --- texts that were read -------------------------------------------------------------------------

OTHERWISE = {"extends": "biovil/mimic_cxr", "splits": {"method": "folders"}, "share_unit": "study"}
READER = {**SHARED, "image": None, "overlap": "reports"}


def reading(**recipe):
    """The paper with another split than that of the reports that its text encoder has read."""
    table = PAPER["tables"]["retrieval"] | {"rows": [{"label": "base", "model": "base"}]}
    return {
        **PAPER,
        "cohorts": {"pairs": OTHERWISE},
        "models": {"base": READER | recipe},
        "tables": {"retrieval": table},
    }


def test_reports_of_the_scored_are_read_where_the_recipe_says_so(overlay, paper):
    with pytest.raises(InputError, match="in another way; .* splits, or `overlap: reports` in its"):
        overlay({"papers": [paper(reading(overlap=None), "refused.yaml")]})
    config = overlay({"papers": [paper(reading())]})
    (note,) = overlap_notes(config, "mine", "retrieval")
    assert note == (
        "biovil/cxr_bert_phase2 and biovil/cxr_bert, from which base started, have "
        "read reports of patients that are scored here, never with their images."
    )
    assert overlap_notes(config, "mine", "headline/retrieval") == [note]
    same = paper({**reading(), "cohorts": PAPER["cohorts"]}, "same.yaml")
    assert overlap_notes(overlay({"papers": [same]}), "same", "retrieval") == []


def test_images_of_the_scored_are_seen_by_nobody(overlay, paper):
    refused = "`overlap: reports` allows no images, which biovil/simclr is trained on"
    with pytest.raises(InputError, match=refused):
        overlay({"papers": [paper(reading(image="biovil/simclr"), "images.yaml")]})
    with pytest.raises(InputError, match="models.eyes': overlap is set, but the model"):
        eyes = {"program": "initial", "geometry": "shorter128", "overlap": "reports"}
        models = {**PAPER["models"], "eyes": eyes}
        overlay({"papers": [paper({**PAPER, "models": models}, "eyes.yaml")]})


def test_what_published_weights_have_read_is_not_known_here(overlay, paper, tmp_path):
    (tmp_path / "weights").mkdir()
    weights = {"biovil/cxr_bert": str(tmp_path / "weights")}
    config = overlay({"papers": [paper(reading())], "weights": weights}, check_roots=False)
    (note,) = overlap_notes(config, "mine", "retrieval")
    assert "biovil/cxr_bert, from which" in note and "may have read" in note
    assert note.endswith("(published weights).")
