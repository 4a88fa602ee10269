"""ConVIRT's checkpoints, figures and controls, as a configuration resolves them."""

import pytest

from cxrflow.papers.recipes import Task

SERIES = {"benchmark": "checkpoint_series", "cohort": "convirt/rsna", "settings": {"metric": "f1"}}


def test_a_series_has_the_settings_of_its_task_and_its_own_over_them(overlay):
    config = overlay({"papers": ["convirt"], "tasks": {"convirt/rsna_linear": {"patience": 7}}})
    each, series = (config.task(f"convirt/{name}") for name in ("rsna_linear", "rsna_checkpoints"))
    found = series.settings
    assert found.benchmark == "linear_classification" and found.metric == "auroc/1"
    expected = {**each.settings.model_dump(mode="json"), "fractions": [0.01]}
    assert found.settings == expected and found.settings["patience"] == 7
    programs = ["checkpoints.checkpoint_series", "classification.linear_classification"]
    assert [one.program for one in series.computed] == programs
    model = "convirt/convirt"
    for task in ("convirt/rsna_linear", "convirt/rsna_checkpoints"):
        assert config.geometry_of(task, model) == each.settings.geometry


def test_only_models_that_keep_checkpoints_and_can_do_the_task_have_a_series(overlay):
    config = overlay({"papers": ["convirt", "biovil"]})
    series = "convirt/text_retrieval_checkpoints"
    assert config.task(series).needs == {"checkpoints", "joint"}
    assert config.can_do("convirt/convirt", series)
    assert not config.can_do("biovil/biovil", series)
    assert config.can_do("biovil/biovil", "convirt/text_retrieval")
    assert not config.can_do("biovil/simclr", "convirt/text_retrieval")
    assert config.can_do("biovil/simclr", "convirt/image_retrieval")


@pytest.mark.parametrize("change", [{}, {"benchmark": "linear_probe", "of": "convirt/rsna_linear"}])
def test_of_goes_with_the_benchmark_of_checkpoints(change):
    with pytest.raises(ValueError, match="`of` and a benchmark of checkpoints go together"):
        Task.model_validate(SERIES | change)


def test_saliency_is_drawn_where_radiographs_may_be_shown_and_maps_anywhere(overlay):
    for shown in (True, False):
        config = overlay({"papers": ["convirt"], "privacy": {"show_images": shown}})
        assert ("figure4" in config.figures("convirt")) is shown
        assert {"figure3", "figure5_rsna"} <= set(config.figures("convirt"))


def test_the_control_of_shuffled_pairs_is_searched_by_text_and_keeps_no_checkpoints(overlay):
    config = overlay({"papers": ["convirt"]})
    assert "convirt/convirt_shuffled" in config.controls("convirt")
    tasks = config.tasks_of("convirt/convirt_shuffled")
    assert {"convirt/text_retrieval", "convirt/image_retrieval"} <= set(tasks)
    assert not [task for task in tasks if task.endswith("_checkpoints")]
    own, control = (config.model(f"convirt/{n}").settings for n in ("convirt", "convirt_shuffled"))
    changed = {"shuffled_pairs", "training"}
    for name in set(type(own).model_fields) - changed:
        assert getattr(own, name) == getattr(control, name)
    assert control.shuffled_pairs and not own.shuffled_pairs
