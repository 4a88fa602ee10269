"""A task's score as a value of the validation: the benchmark's, and never of tested images."""

import json
from argparse import Namespace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_fakes import classification_samples, make_store, write_cohort
from config_overlays import table_of
from pydantic import ValidationError
from test_image_reports import program_of

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.features import Features, encode, images_to_encode
from cxrflow.benchmarks.runner import inputs_of, score
from cxrflow.encoders.image_encoder import load_image_encoder
from cxrflow.images.store import PixelStore
from cxrflow.papers.recipes import Recipe
from cxrflow.pretrain.validation.selection import PREFIX, select_by

COUNT = 30
TASK, TESTED = "zero_shot_classification", "medcutmix/chexpert5"
ASKED: dict[str, Any] = {"prompt_pairs": [], "metrics": ["auroc", "f1"], "split": None}


@pytest.fixture
def chosen_by(tmp_path: Path) -> Namespace:
    """Images with labels, and their pixels."""
    pixels = make_store(tmp_path / "store", COUNT)
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", classification_samples(COUNT))
    return Namespace(
        selection=cohort,
        selection_pixels=pixels,
        selection_task=TASK,
        selection_settings=json.dumps(ASKED),
    )


def test_the_score_is_that_of_the_benchmark(chosen_by: Namespace, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    program = program_of(tmp_path / "text")
    record = select_by(program, chosen_by)
    assert record["benchmark"] == TASK and record["settings"]["metrics"] == ["auroc", "f1"]
    for number in range(2):
        assert program.selection is not None
        values = program.selection()
        model, store = tmp_path / f"model{number}", PixelStore(chosen_by.selection_pixels)
        model.mkdir()
        program.export(model)
        run = {"data": {"geometry": str(store.geometry)}, "settings": program.settings.record()}
        write_json(model / "run.json", run)
        options = Namespace(cohort=chosen_by.selection, model=model, pixels=store.path)
        settings = ZeroShotClassificationSettings.model_validate(ASKED)
        inputs: Any = inputs_of(TASK, options, settings)
        images = images_to_encode(inputs.cohort.table, False)
        by_kind = encode(load_image_encoder(model), store, images, 8, torch.device("cpu"))
        inputs.features = Features(images, by_kind, str(store.geometry), store.fingerprint)
        expected = score(TASK, inputs, settings).metrics
        for name in ("auroc", "f1"):
            assert values[f"{PREFIX}{name}"] == pytest.approx(expected[name].value, abs=1e-6)
        with torch.no_grad():  # other weights, another score
            for weight in program.image.parameters():
                weight.add_(0.3 * torch.randn_like(weight))
    program.samples = dict(program.samples)
    program.validated = lambda batches, first=None: {"loss": 1.0}  # type: ignore[method-assign]
    assert program.validate() == {"loss": 1.0, **program.selection()}


def test_an_option_that_lacks_is_named(chosen_by: Namespace, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    program = program_of(tmp_path / "text")
    chosen_by.selection_pixels = None
    with pytest.raises(InputError, match="--selection-pixels is missing; --selection needs it"):
        select_by(program, chosen_by)
    chosen_by.selection_pixels, chosen_by.selection_task = Path(), "zero_shot"
    with pytest.raises(InputError, match="--selection-task is 'zero_shot'; expected module:Cl"):
        select_by(program, chosen_by)


@pytest.fixture
def config_of(overlay, paper):
    """A paper whose model is chosen by a task on a part of CheXpert, and scored in another."""
    numbers = count()  # of its files, as a paper is read once

    def load(split: str | None, selection: str = "valid", scored: str = TESTED, **more: Any) -> Any:
        settings = {"split": split, **more.pop("settings", {})}
        tasks = {"valid": {"extends": TESTED, "settings": settings}, **more.pop("tasks", {})}
        models = {"mine": {"extends": "medcutmix/mgca", "selection": selection}}
        tables = {"scores": table_of(scored, "auroc", "mine")}
        values = more | {"tasks": tasks, "models": models, "tables": tables}
        return overlay({"papers": [paper(values, f"{next(numbers)}/mine.yaml")]})

    return load


def test_a_recipe_names_the_task_and_tested_images_choose_nothing(config_of) -> None:
    config = config_of("validate")
    model = config.models["mine/mine"]
    assert config.models["mine/mine"].selecting_cohort == "medcutmix/chexpert"
    assert ("medcutmix/chexpert", model.geometry) in config.whole.stores
    assert "medcutmix/chexpert" in config.whole.cohorts
    assert {"pretrain.validation.selection", f"benchmarks.classification.{TASK}"} <= set(
        config.models["mine/mine"].code
    )
    assert "pretrain.validation.selection" not in config.models["biovil/clinical_bert"].code
    for split, more in (("test", {}), (None, {}), ("validate", {"threshold_part": "test"})):
        with pytest.raises(InputError, match="models.mine/mine.selection' is 'mine/valid', by"):
            config_of(split, settings=more)
    with pytest.raises(InputError, match="mine/absent"):
        config_of("validate", "absent")
    with pytest.raises(ValidationError, match="a model of the program text has no 'selection'"):
        Recipe(program="text", vocabulary="p/v", selection="p/t")


@pytest.mark.parametrize(
    ("parts", "chosen_on"),
    [
        ({"train": "train", "valid": "test"}, True),  # the images that choose, called test
        ({"valid": "train", "test": "test"}, False),
    ],
)
def test_images_that_choose_are_tested_under_no_name(parts, chosen_on, config_of) -> None:
    splits = {"method": "official", "parts": parts}
    other = {"dataset": "chexpert", "kind": "classification", "splits": splits}
    tested = {"extends": TESTED, "cohort": "other"}
    more = {"tasks": {"tested": tested}, "cohorts": {"other": other}}
    if not chosen_on:
        config = config_of("validate", scored="tested", **more)
        assert config.tasks["mine/tested"].task.cohort == "mine/other"
        return
    with pytest.raises(InputError, match="models.mine/mine.selection' is 'mine/valid', by which"):
        config_of("validate", scored="tested", **more)


def test_medcutmix_is_chosen_by_chexperts_valid_part(overlay) -> None:
    config = overlay({"papers": ["medcutmix"]})
    for name in ("mgca", "medcutmix_40", "medcutmix_layer5", "mgca_as_coded"):
        stopping = config.models[f"medcutmix/{name}"].settings.training.stopping
        assert (stopping.monitor, stopping.mode) == ("selection/auroc", "max")
        assert stopping.keep == "best"
        task = config.tasks[config.models[f"medcutmix/{name}"].recipe.selection]
        assert task.task.cohort == "medcutmix/chexpert" and task.settings.split == "validate"
