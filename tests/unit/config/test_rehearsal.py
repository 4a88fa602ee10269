"""A rehearsal is the run at another size: each kind of model and benchmark once, and short."""

from pathlib import Path

import pytest
from config_overlays import DEMO

from cxrflow.config import Config, load_config
from cxrflow.config.parts import RULES
from cxrflow.config.rehearsal import kind_of, sizes, targets
from cxrflow.names import is_reference

TYPED = ["extent=all", "seeds=[0, 1]", "scale=paper"]


@pytest.fixture(scope="module")
def full() -> Config:
    return load_config([DEMO], check_roots=False, typed=TYPED)


@pytest.fixture(scope="module")
def rehearsal() -> Config:
    return load_config([DEMO], check_roots=False, typed=[*TYPED, "rehearsal={batch: 4}"])


def test_each_kind_has_its_representative_with_all_that_it_is_made_from(full, rehearsal):
    chosen = rehearsal.selection.models
    assert {kind_of(full.models[name]) for name in full.whole.models} == {
        kind_of(full.models[name]) for name in chosen
    }
    assert all(set(full.models[name].ancestors) <= set(chosen) for name in chosen)
    assert set(chosen) == set(rehearsal.whole.models)
    assert len(chosen) < len(full.whole.models) / 3
    assert set(rehearsal.whole.cohorts) == set(full.whole.cohorts)


def test_each_task_and_each_reference_of_a_benchmark_is_scored(full, rehearsal):
    def kinds(config):
        benchmark = {name: task.task.benchmark for name, task in config.tasks.items()}
        tasks = {task for task, _ in config.cells}
        rows = {(benchmark[t], row) for t, row in config.cells if row and is_reference(row)}
        programs = {
            (benchmark[task], config.models[row].recipe.program)
            for task, row in config.cells
            if row in config.models
        }
        return tasks, rows, programs

    assert kinds(rehearsal) == kinds(full)


def test_a_training_is_short_with_the_batch_that_is_asked_for(full, rehearsal):
    for name in rehearsal.whole.models:
        model = rehearsal.models[name]
        if model.trained:
            training = model.settings.training
            assert (training.steps, training.epochs, training.batch_size) == (5, None, 4)
            # What is no size stays.
            assert training.optimiser == full.models[name].settings.training.optimiser
            assert model.geometry == full.models[name].geometry
        assert model.seeds == [0]


def test_what_a_benchmark_learns_is_short(full, rehearsal):
    tuned, few = (config.tasks["convirt/rsna_fine_tuned"].settings for config in (full, rehearsal))
    assert (few.training.steps, few.training.epochs, few.run_seeds) == (5, None, [0, 1])
    assert few.intervals.replicates == 100 and few.fractions == tuned.fractions
    assert rehearsal.tasks["biovil/linear_probe"].settings.solver.max_iterations == 50


def test_a_series_of_checkpoints_has_three_at_least(rehearsal):
    training = rehearsal.models["convirt/convirt"].settings.training
    assert training.steps // (training.validate_steps * training.checkpoint_validations) >= 3


def test_without_a_batch_it_is_the_papers_and_the_slice_has_one_at_least(full):
    config = load_config([DEMO], check_roots=False, typed=[*TYPED, "rehearsal={samples: 12}"])
    rows = sizes(config)
    for name in config.whole.models:
        model = config.models[name]
        if model.trained and model.recipe.cohort:
            batch = full.models[name].settings.training.batch_size
            assert model.settings.training.batch_size == batch
            assert rows.training[model.recipe.cohort] >= batch
    assert rows.samples == 12 and rows.reports >= max(rows.training.values())


def test_images_are_cut_where_that_is_asked_for(full):
    config = load_config([DEMO], check_roots=False, typed=[*TYPED, "rehearsal={image: 64}"])
    geometries = {name: config.models[name].geometry for name in config.whole.models}
    assert geometries["biovil/biovil"] == "shorter64"
    assert geometries["biovil_t/biovil_t"] == "shorter73crop64"
    assert geometries["convirt/convirt"] == geometries["convirt/random"] == "longer64unpadded"
    assert config.models["convirt/convirt"].settings.augmentation.size == 56
    mgca = "medcutmix/mgca"  # whose positions are of its own grid
    assert geometries[mgca] == full.models[mgca].geometry
    assert config.tasks["convirt/rsna_linear"].settings.geometry == "longer64"


def test_results_lie_in_a_folder_of_their_own_and_jobs_are_not_tried_again(full, rehearsal):
    assert Path(rehearsal.values.results) == Path(full.values.results, "rehearsal")
    assert {rehearsal.values.resources[rule].retries for rule in RULES} == {0}
    assert all(name in ("all", "labels") or "/rehearsal/" in name for name in targets(rehearsal))


def test_a_run_itself_knows_nothing_of_it(full):
    assert full.selection is None and "rehearsal" not in full.described()
