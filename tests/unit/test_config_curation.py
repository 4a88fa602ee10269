"""A cohort whose images a model chooses: what the run needs for it, and what cannot be."""

import pytest

from cxrflow.errors import InputError

CURATED = "biovil_t/progression_curated"
CLEAN = "biovil_t/biovil_t_clean"
ALL = {"papers": ["biovil_t"], "extent": "all"}


@pytest.fixture
def mine(paper, overlay):
    """A configuration with a paper of one's own, whose table scores on its cohort `curated`."""

    def load(curation, task=None, **parts):
        cohort = {"extends": "biovil_t/progression", "curation": curation}
        scored = {"extends": "biovil_t/temporal_probe", "cohort": "curated"}
        column = {"key": "a", "label": "A", "metric": "macro_accuracy"}
        table = {"title": "T", "source": "ours", "task": "t", "columns": [column]}
        values = {
            "cohorts": {"curated": cohort, **parts.pop("cohorts", {})},
            "tasks": {"t": task or scored},
            "tables": {"t": {**table, "rows": [{"label": "R", "model": "biovil_t/biovil_t"}]}},
            **parts,
        }
        return overlay({"papers": [paper(values)]})

    return load


def test_a_curated_cohort_brings_its_model_and_what_that_chooses_from(overlay):
    config = overlay(ALL)
    assert CLEAN in config.models_in_use and config.seeds_of(CLEAN) == [0]
    assert config.known_cohorts["biovil_t/mimic_cxr_clean"].recipe.acquisitions == "single"
    assert {CURATED, "biovil_t/mimic_cxr_acquisitions"} <= set(config.cohorts_in_use)
    assert ("biovil_t/mimic_cxr_acquisitions", "shorter128crop112") in config.stores
    cells = config.table_cells("biovil_t", "table2")
    assert ("biovil_t/temporal_classification_curated", "biovil_t/biovil_t") in cells
    assert config.table_cells("biovil_t", "curation") == [("biovil_t/curation_statistics", None)]
    # The same cohort but for the choice, and the program is told nothing of models.
    plain, curated = (config.known_cohorts[name].recipe for name in (CURATED[:-8], CURATED))
    assert plain.settings() == curated.settings() and curated.curation.margin == 0.2
    headline = overlay({**ALL, "extent": "headline"}).needs(("biovil_t", "headline"))
    assert CLEAN not in headline.models and CURATED not in headline.cohorts


def test_without_the_data_or_the_word_nothing_is_curated(overlay):
    for said in (
        {"cohorts": {"biovil_t/mimic_cxr_clean": None}},
        {"cohorts": {"biovil_t/mimic_cxr_acquisitions": None}},
        {"cohorts": {CURATED: {"curation": None}}},
    ):
        config = overlay({**ALL, **said})
        assert "biovil_t/curation_statistics" not in config.tasks_in_use
        assert CLEAN not in config.models_in_use
        # Without a word of curation the cohort is that of the row above.
        known = "biovil_t/temporal_classification_curated" in config.tasks_in_use
        assert known == (CURATED in said["cohorts"])


def test_a_model_may_learn_from_a_curated_cohort(mine):
    pairs = {
        "extends": "biovil_t/mimic_cxr",
        "curation": {"model": CLEAN, "candidates": "biovil_t/mimic_cxr_acquisitions"},
    }
    config = mine(
        pairs["curation"],
        task={"extends": "biovil_t/temporal_probe"},
        cohorts={"pairs": pairs},
        models={"m": {"extends": "biovil_t/biovil_t", "cohort": "pairs"}},
        tables={
            "t": {
                **{"title": "T", "source": "ours", "task": "t"},
                "columns": [{"key": "a", "label": "A", "metric": "macro_accuracy"}],
                "rows": [{"label": "R", "model": "m"}],
            }
        },
    )
    assert CLEAN in config.ancestors("mine/m")
    assert {"mine/pairs", "biovil_t/mimic_cxr_acquisitions"} <= set(config.cohorts_in_use)
    assert config.document_cohort("mimic_cxr", "mine") != "mine/pairs"


GOOD = {"model": CLEAN, "candidates": "biovil_t/mimic_cxr_acquisitions"}


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


def test_overlays_cannot_curate_what_papers_cannot(overlay):
    elsewhere = {"datasets": {"other": {"layout": "open_i", "root": "/o"}}}
    others = {"cohorts": {"biovil_t/mimic_cxr_acquisitions": {"dataset": "other", "held_out": []}}}
    with pytest.raises(InputError, match="has the images of 'other'; expected those of 'mimic"):
        overlay({**ALL, **elsewhere, **others}, check_roots=False)
    with pytest.raises(InputError, match="curation.model': 'biovil_t/x' is not known; there are"):
        overlay({**ALL, "cohorts": {CURATED: {"curation": {"model": "biovil_t/x"}}}})


def test_who_is_tested_on_is_not_what_the_model_that_curates_has_seen(overlay):
    """What it chooses is trained on, so that its patients count as the trained model's."""
    clean = {"biovil_t/mimic_cxr_clean": {"held_out": ["ms_cxr"]}}
    with pytest.raises(InputError, match=r"mimic_cxr_clean.held_out': 'ms_cxr_t', on which .*cura"):
        overlay({**ALL, "cohorts": clean})
