"""BioViL in one file trains and scores as the package does, and is small enough to be read."""

import ast
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from programs import change_parquet, program
from safetensors.torch import load_file
from tiny_hospital import GEOMETRY, IMAGE, TRAINING, Stages

from cxrflow.config import load_config
from cxrflow.programs.source_code import PACKAGE

TOP = PACKAGE.parents[1]
FILE = TOP / "docs/notebooks/biovil_in_one_file.py"
DILATED = {**IMAGE, "dilate": [False, False, True]}  # several cells of 32 pixels
STEPS = {"batch_size": 3, "steps": 20, "validations": 20, "optimiser": {"learning_rate": 5e-4}}


@pytest.fixture(scope="module")
def reading() -> ModuleType:
    """The file as a module."""
    spec = importlib.util.spec_from_file_location(FILE.stem, FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results(finished: Stages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders that `make demo` leaves and the file reads, and the package's own model there."""
    folder = tmp_path_factory.mktemp("reading")
    stores = {"mimic_cxr": "pixels", "rsna": "pixels-rsna", "ms_cxr": "pixels-grounding"}
    links = {
        "models/biovil/cxr_bert/seed0": finished.models / "sections",
        "models/biovil/simclr/seed0": finished.models / "images",
        "cohorts/biovil/mimic_cxr": finished.cohort,
        "cohorts/biovil/ms_cxr": finished.grounding,
        **{f"pixels/biovil/{c}/{GEOMETRY}": finished.results / s for c, s in stores.items()},
    }
    for name, target in links.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)
    rsna = folder / "cohorts/biovil/rsna"
    rsna.mkdir()
    for name in ("flow.json", "samples.parquet"):
        (rsna / name).write_bytes((finished.rsna / name).read_bytes())
    # Of so few images the part that is scored has no two classes.
    change_parquet(rsna / "samples.parquet", lambda rows: rows.assign(split="test"))
    finished.train_joint(
        folder / "models/biovil/biovil/seed0",
        encoder=DILATED,
        training={**TRAINING, **STEPS, "stopping": {"keep": "best"}},
    ).succeeds()
    return folder


@pytest.fixture(scope="module")
def encoders(reading: ModuleType, results: Path) -> tuple[Any, Any, Any]:
    """The recipe, and both encoders after it."""
    sizes = {"geometry": GEOMETRY, "length": 48, "dropout": 0.25, "joint_width": 8, "angle": 10}
    recipe = reading.Recipe(results, **sizes, batch_size=3, steps=20)
    torch.set_num_threads(1)  # as the package's programs here
    return recipe, *reading.train(recipe)


def test_twenty_steps_give_the_weights_of_the_package(encoders, results: Path) -> None:
    _, image, text = encoders
    folder = results / "models/biovil/biovil/seed0"
    halves = {"model": text.weights, "image/model": image.state_dict()}
    for name, weights in halves.items():
        expected = load_file(folder / f"{name}.safetensors")
        assert weights.keys() == expected.keys()
        assert [
            key for key, value in weights.items() if not torch.equal(value, expected[key])
        ] == []
    run = json.loads((folder / "run.json").read_text())
    assert run["steps"] == 20 and run["epochs"] > 3 and run["kept_step"] > 3
    start = load_file(results / "models/biovil/cxr_bert/seed0/model.safetensors")
    assert not any(torch.equal(value, text.weights[key]) for key, value in start.items())


def test_scores_are_those_of_the_benchmarks(
    reading: ModuleType, encoders, results: Path, tmp_path: Path
) -> None:
    recipe, image, text = encoders
    model = {"model": results / "models/biovil/biovil/seed0"}

    def inputs(cohort: str) -> dict[str, Path]:
        pixels = results / "pixels/biovil" / cohort / GEOMETRY
        return {**model, "cohort": results / "cohorts/biovil" / cohort, "pixels": pixels}

    def metrics(benchmark: str, settings: dict[str, Any], **given: Path) -> dict[str, float]:
        settings = {"device": "cpu", "intervals": {"replicates": 100}, **settings}
        output = tmp_path / benchmark
        program("benchmarks.evaluate", settings, benchmark, **given, output=output).succeeds()
        content = json.loads((output / "metrics.json").read_text())["metrics"]
        return {name: entry["value"] for name, entry in content.items()}

    features = tmp_path / "features"
    program("benchmarks.extract_features", {"device": "cpu"}, **inputs("rsna"), output=features)
    rsna = {name: path for name, path in inputs("rsna").items() if name != "pixels"}
    expected = metrics("zero_shot_classification", {}, **rsna, features=features)
    assert 0 < expected["auroc"] < 1
    assert reading.zero_shot(recipe, image, text)["auroc"] == pytest.approx(expected["auroc"])

    finer = {"dilate": [False, True, True]}
    expected = metrics("phrase_grounding", finer, **inputs("ms_cxr"))
    scores = reading.grounding(recipe, image, text)
    # The package folds batch normalisation into convolutions.
    assert scores == pytest.approx({name: expected[name] for name in scores}, rel=1e-4)


def test_its_recipe_is_the_demonstrations(reading: ModuleType) -> None:
    config = load_config([TOP / "config.yaml"])
    model, recipe = config.models["biovil/biovil"], reading.Recipe(Path())
    settings = model.settings
    training, terms = settings.training, settings.terms.named()
    assert terms.keys() == {"global_alignment", "mlm"} and terms["mlm"].weight == 1
    assert vars(recipe) == {
        "results": Path(),
        "seed": 0,
        "geometry": model.geometry,
        "length": settings.length,
        "dropout": settings.dropout,
        "dilate": settings.encoder.dilate,
        "finer": config.tasks["biovil/phrase_grounding"].settings.dilate == (False, True, True),
        "joint_width": settings.encoder.projection,
        "temperature": terms["global_alignment"].temperature,
        "alignment_weight": terms["global_alignment"].weight,
        "mask_rate": terms["mlm"].masking.rate,
        **{key: getattr(settings.augmentation, key) for key in ("angle", "shear", "brightness")},
        "contrast": settings.augmentation.contrast,
        "batch_size": training.batch_size,
        "epochs": training.epochs,
        "steps": training.steps,
        "learning_rate": training.optimiser.learning_rate,
        "warmup": training.schedule.warmup,
        "weight_decay": training.optimiser.weight_decay,
    }
    assert settings.dropout == settings.attention_dropout
    assert model.parents_at(0) == {
        "text": ("biovil/cxr_bert", 0),
        "image": ("biovil/simclr", 0),
    }


def test_it_is_one_file_to_read() -> None:
    source = FILE.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 500
    imports = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert "cxrflow" not in " ".join(map(ast.unparse, imports))
