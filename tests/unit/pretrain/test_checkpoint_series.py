"""The checkpoints of a training, each put to a task (ConVIRT Figure 5)."""

import shutil
from argparse import Namespace

import numpy as np
import pytest
import torch
from benchmark_fakes import metrics_of, result_of
from retrieval_fixtures import write_retrieval

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.checkpoints import checkpoint_series
from cxrflow.benchmarks.checkpoints.settings import CheckpointSeriesSettings
from cxrflow.benchmarks.evaluate import main as evaluate
from cxrflow.benchmarks.features import extract
from cxrflow.benchmarks.retrieval.settings import ImageRetrievalSettings
from cxrflow.benchmarks.settings import FeatureSettings
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.metrics.correlation import correlation

LOSSES = {2: 3.0, 4: 2.5, 6: None, 8: 2.0, 10: 1.5}
EACH = {"cutoffs": [5], "intervals": {"replicates": 100}}
SETTINGS = CheckpointSeriesSettings(
    benchmark="image_retrieval", settings=EACH, metric="precision/5", device="cpu"
)


def write_series(folder, losses):
    """A model folder whose checkpoints are image encoders of other weights."""
    model = folder / "model" / "seed0"
    sizes = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "projection": 8}
    for step, loss in losses.items():
        torch.manual_seed(step)
        checkpoint = model / "checkpoints" / str(step)
        save_image_encoder(ImageEncoder(ResNetSettings.model_validate(sizes)), checkpoint)
        write_json(checkpoint / "validation.json", {"step": step, "loss": loss, "other": 0.0})
    write_json(model / "run.json", {"data": {"geometry": "shorter64"}, "model": "series"})
    return model


@pytest.fixture(scope="module")
def world(tmp_path_factory, pixels):
    folder = tmp_path_factory.mktemp("series")
    return Namespace(
        model=write_series(folder, LOSSES), pixels=pixels, cohort=write_retrieval(folder / "cohort")
    )


def test_weighted_correlation_is_numpys_of_repeated_pairs():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9))
    counts = rng.integers(0, 4, size=(5, 9)).astype(float)
    found = correlation(x, y, counts)
    for row, own in zip(counts.astype(int), found, strict=True):
        expected = np.corrcoef(np.repeat(x, row), np.repeat(y, row))[0, 1]
        assert own == pytest.approx(expected, abs=1e-12)
    assert np.isnan(correlation(np.ones(9), y, counts)).all()
    assert correlation(x, 3 * x + 1, counts) == pytest.approx(np.ones(5))


def test_every_checkpoint_has_the_score_of_its_own_weights(world, tmp_path):
    asked = {**vars(world), "settings": SETTINGS.model_dump(mode="json")}
    output = tmp_path / "scores"
    said = metrics_of(evaluate, "checkpoint_series", output=output, **asked)
    assert said["data"]["checkpoints"] == 4
    [dropped] = said["data"]["dropped"]
    assert dropped["reason"] == "the validation loss is not finite"
    assert dropped["examples"] == ["6"]
    expected = []
    for step in (2, 4, 8, 10):
        model = tmp_path / str(step)
        shutil.copytree(world.model / "checkpoints" / str(step), model)
        write_json(model / "run.json", {"data": {"geometry": "shorter64"}})
        features = tmp_path / f"features{step}"
        own = Namespace(**vars(world) | {"model": model, "output": features, "features": features})
        extract(own, FeatureSettings(device="cpu"))
        result = result_of("image_retrieval", ImageRetrievalSettings.model_validate(EACH), own)
        expected.append(result.metrics["precision/5"].value)
    assert len(set(expected)) > 1
    found = said["metrics"]["correlation"]
    assert found["value"] == pytest.approx(np.corrcoef([-3, -2.5, -2, -1.5], expected)[0, 1])
    assert found["n"] == 4
    assert (output / "figures" / checkpoint_series.FILE).stat().st_size > 1000


def test_too_few_checkpoints_another_metric_and_no_benchmark_are_refused(world, tmp_path):
    few = write_series(tmp_path, {2: 1.0, 4: 1.0})
    with pytest.raises(InputError, match="checkpoints: 2 checkpoints; expected 3 or more"):
        result_of("checkpoint_series", SETTINGS, Namespace(**vars(world) | {"model": few}))
    finite = write_series(tmp_path / "finite", {2: 1.0, 4: None, 6: 2.0})
    with pytest.raises(InputError, match="2 checkpoints with a finite validation loss and a score"):
        result_of("checkpoint_series", SETTINGS, Namespace(**vars(world) | {"model": finite}))
    wrong = SETTINGS.model_copy(update={"metric": "auroc"})
    with pytest.raises(InputError, match="key 'metric' is 'auroc'; image_retrieval gives prec"):
        result_of("checkpoint_series", wrong, world)
    with pytest.raises(InputError, match="key 'benchmark' is ''; expected module:Class or one of"):
        result_of("checkpoint_series", SETTINGS.model_copy(update={"benchmark": ""}), world)
