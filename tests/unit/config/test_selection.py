"""A task's score as a value of the validation: the benchmark's, and never of tested images."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_fakes import classification_samples, make_store, write_cohort
from pydantic import ValidationError
from test_image_reports import program_of

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.features import Features, encode, images_to_encode
from cxrflow.benchmarks.runner import inputs_of, score
from cxrflow.config import load_config
from cxrflow.encoders.image_encoder import load_image_encoder
from cxrflow.images.store import PixelStore
from cxrflow.papers.recipes import Recipe
from cxrflow.pretrain.validation.selection import PREFIX, select_by

COUNT = 30
TASK = "zero_shot_classification"
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


PAPER = """
tasks:
  valid: {{extends: medcutmix/chexpert5, settings: {{split: {split}{more}}}}}
models:
  mine: {{extends: medcutmix/mgca, selection: {task}}}
tables:
  scores:
    title: Scores
    source: ours
    task: medcutmix/chexpert5
    columns: [{{key: auroc, label: AUROC, metric: auroc}}]
    rows: [{{label: Mine, model: mine}}]
"""


def config_of(folder: Path, split: str, task: str = "valid", more: str = "") -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "mine.yaml").write_text(PAPER.format(split=split, task=task, more=more))
    over = folder / "over.yaml"
    over.write_text(f"papers: [{folder}/mine.yaml]\n")
    return load_config([Path(__file__).parents[3] / "config.yaml", over])


def test_a_recipe_names_the_task_and_tested_images_choose_nothing(tmp_path: Path) -> None:
    config = config_of(tmp_path, "validate")
    model = config.models["mine/mine"]
    assert config.models["mine/mine"].selecting_cohort == "medcutmix/chexpert"
    assert ("medcutmix/chexpert", model.geometry) in config.whole.stores
    assert "medcutmix/chexpert" in config.whole.cohorts
    assert {"pretrain.validation.selection", f"benchmarks.classification.{TASK}"} <= set(
        config.models["mine/mine"].code
    )
    assert "pretrain.validation.selection" not in config.models["biovil/clinical_bert"].code
    for split in ("test", "null"):
        with pytest.raises(InputError, match="models.mine/mine.selection' is 'mine/valid', by"):
            config_of(tmp_path / split, split)
    with pytest.raises(InputError, match="models.mine/mine.selection' is 'mine/valid', by"):
        config_of(tmp_path / "threshold", "validate", more=", threshold_part: test")
    with pytest.raises(InputError, match="mine/absent"):
        config_of(tmp_path / "absent", "validate", "absent")
    with pytest.raises(ValidationError, match="a model of the program text has no 'selection'"):
        Recipe(program="text", vocabulary="p/v", selection="p/t")


@pytest.mark.parametrize(
    ("parts", "chosen_on"),
    [
        ("{train: train, valid: test}", True),  # the images that choose, called test
        ("{valid: train, test: test}", False),
    ],
)
def test_images_that_choose_are_tested_under_no_name(parts, chosen_on, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    cohort = (
        f"{{dataset: chexpert, kind: classification, splits: {{method: official, parts: {parts}}}}}"
    )
    path.write_text(
        PAPER.format(split="validate", task="valid", more="").replace(
            "models:", f"  tested: {{extends: medcutmix/chexpert5, cohort: other}}\ncohorts:\n"
            f"  other: {cohort}\nmodels:",
        ).replace("task: medcutmix/chexpert5\n", "task: tested\n")
    )  # fmt: skip
    (tmp_path / "over.yaml").write_text(f"papers: [{path}]\n")
    files = [Path(__file__).parents[3] / "config.yaml", tmp_path / "over.yaml"]
    if not chosen_on:
        assert load_config(files).tasks["mine/tested"].task.cohort == "mine/other"
        return
    with pytest.raises(InputError, match="models.mine/mine.selection' is 'mine/valid', by which"):
        load_config(files)


def test_medcutmix_is_chosen_by_chexperts_valid_part(tmp_path: Path) -> None:
    over = tmp_path / "over.yaml"
    over.write_text("papers: [medcutmix]\n")
    config = load_config([Path(__file__).parents[3] / "config.yaml", over])
    for name in ("mgca", "medcutmix_40", "medcutmix_layer5", "mgca_as_coded"):
        stopping = config.models[f"medcutmix/{name}"].settings.training.stopping
        assert (stopping.monitor, stopping.mode) == ("selection/auroc", "max")
        assert stopping.keep == "best"
        task = config.tasks[config.models[f"medcutmix/{name}"].recipe.selection]
        assert task.task.cohort == "medcutmix/chexpert" and task.settings.split == "validate"
