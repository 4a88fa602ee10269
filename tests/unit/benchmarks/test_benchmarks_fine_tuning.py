"""Fine-tuned classification: kills, the step, what is trained, how its head is warmed up."""

import os
import signal

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from transfer_fixtures import (
    CLASSES,
    TUNED,
    exclusive,
    make_world,
    several,
    single,
    splits_of,
    tuned,
)

from cxr_files.errors import InterruptedRun
from cxrflow.benchmarks.classification.fine_tuned_classification import FineTuningProgram
from cxrflow.benchmarks.classification.probe_settings import FineTunedClassificationSettings
from cxrflow.benchmarks.heads.early_stopping import HeadRun, new_head
from cxrflow.encoders.image_encoder import Frames, load_image_encoder
from cxrflow.images.store import PixelStore
from cxrflow.training.optimiser import parameter_groups


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return make_world(tmp_path_factory.mktemp("transfer"))


def test_fine_tuning_goes_on_after_a_kill_bit_for_bit(world, tmp_path, monkeypatch, caplog):
    """Told to stop in the second epoch of its second run; the first is only read."""
    whole = tuned(world, tmp_path, single())
    (tmp_path / "killed").mkdir()
    losses, trained = FineTuningProgram.losses, []

    def stopped(self, batch, part, parts):
        trained.append((self.run.seed, *batch))
        if trained[-1] == (3, 1, 0) and trained[0] == (0, 0, 0):
            os.kill(os.getpid(), signal.SIGTERM)
        return losses(self, batch, part, parts)

    monkeypatch.setattr(FineTuningProgram, "losses", stopped)
    with pytest.raises(InterruptedRun, match="state of step 3 of 6 saved"):
        tuned(world, tmp_path / "killed", single())
    assert trained[0] == (0, 0, 0) and trained[-1] == (3, 1, 0)
    trained.clear()
    again = tuned(world, tmp_path / "killed", single())
    assert trained == [(3, 1, 1), (3, 2, 0), (3, 2, 1)]
    pd.testing.assert_frame_equal(again.predictions, whole.predictions, check_exact=True)
    assert whole.metrics["auroc/50"].value > 0.7
    for run in whole.data["runs"]["50"]:
        assert run["epochs"] == 3 and run["best_epoch"] in (1, 2, 3) and 0 < run["validation"] <= 1
    # A damaged result of a run, and its damaged head, are computed again, and those alone.
    (folder,) = (tmp_path / "killed/state").glob("*/50_seed3")
    for path in (folder / "scores/scores.npy", folder / "head.pt"):
        path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    trained.clear()
    again = tuned(world, tmp_path / "killed", single())
    assert [seed for seed, *_ in trained] == [3] * 6
    pd.testing.assert_frame_equal(again.predictions, whole.predictions, check_exact=True)
    assert [word in caplog.text for word in ("scores is damaged", "head.pt is damaged")] == [1, 1]


def run_program(world, table, classes, **values):
    settings = FineTunedClassificationSettings.model_validate({**TUNED, "dropout": 0.0, **values})
    store = PixelStore(world.pixels)
    splits = splits_of(world, table, classes, settings)
    image = load_image_encoder(world.model).eval()
    rows = splits.shares["50"][0]
    run = HeadRun(rows, 0, new_head(image.encoder.features, len(classes), 0))
    cpu = torch.device("cpu")
    return FineTuningProgram(image, run.start, splits, run, store, settings, cpu), store


@pytest.mark.parametrize("kind", ["single", "several", "exclusive"])
def test_a_batch_has_torchs_mean_loss_and_its_parts_add_up(world, kind):
    table = {"single": single, "several": several, "exclusive": exclusive}[kind]()
    classes = tuple(CLASSES[len(table["labels"].iloc[0])])
    program, store = run_program(world, table, classes, exclusive=kind == "exclusive")
    assert program.batches_per_epoch == -(-len(program.run.rows) // 16)
    last = program.batches_per_epoch - 1
    for index in (0, last):
        rows = program.rows(0, index)
        train = program.splits.train
        pixels = store.read(store.rows(train.table["image_id"].iloc[rows]))
        frames = Frames(torch.from_numpy(pixels)[:, None].float() / 255)
        logits = program.head(program.image.encoder(frames).pooled)
        labels = torch.from_numpy(train.labels_NC[rows]).float()
        if kind == "exclusive":
            literal = nn.CrossEntropyLoss()(logits, labels.argmax(1))
        else:
            known = labels.isfinite()
            literal = nn.BCEWithLogitsLoss()(logits[known], labels[known])
        whole = program.losses((0, index), 0, 1)
        torch.testing.assert_close(whole.total, literal)
        shares = [program.losses((0, index), part, 3) for part in range(3)]
        torch.testing.assert_close(sum(one.total for one in shares), whole.total)
        assert sum(one.samples for one in shares) == whole.samples == len(rows)
    seen = np.concatenate([program.rows(2, index) for index in range(last + 1)])
    assert sorted(seen) == sorted(program.run.rows)


def test_all_of_the_encoder_and_head_is_trained_and_decayed_but_no_projection(world):
    """As torch's Adam takes a weight decay: the paper names no exception."""
    program, _ = run_program(world, single(), ("Square",))
    groups = parameter_groups(program.modules, 1e-6, program.parameter_rules)
    trained = [p for group in groups if group["weight_decay"] == 1e-6 for p in group["params"]]
    wanted = [*program.image.encoder.parameters(), *program.head.parameters()]
    assert {id(p) for p in trained} == {id(p) for p in wanted}


def test_the_head_is_warmed_up_on_the_frozen_encoder(world, tmp_path, monkeypatch):
    """With a rate of zero afterwards the scores are those of the warmed head on stored features."""
    asked = {**TUNED["training"], "epochs": 1, "validations": 1}
    asked["optimiser"] = {"name": "adam", "learning_rate": 1e-30, "weight_decay": 0.0}
    started = []
    original = FineTuningProgram.__init__

    def kept(self, image, head, *more):
        started.append({name: value.clone() for name, value in head.state_dict().items()})
        original(self, image, head, *more)

    monkeypatch.setattr(FineTuningProgram, "__init__", kept)
    warm = tuned(world, tmp_path, single(), training=asked, warmup_steps=40, warmup_rate=0.02)
    assert not torch.equal(started[0]["weight"], new_head(64, 1, 0).weight)
    cold_folder = tmp_path / "cold"
    cold_folder.mkdir()
    cold = tuned(world, cold_folder, single(), training=asked, warmup_steps=0)
    assert torch.equal(started[2]["weight"], new_head(64, 1, 0).weight)
    assert warm.metrics["auroc/50"].value > cold.metrics["auroc/50"].value
