"""Twins of a joint training: what they share, where they are kept, and that they change nothing."""

import importlib
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch
from programs import End, program
from safetensors.torch import load_file
from torch import distributed
from toy_programs import Toy, trainings

from cxrflow.metrics.twins import TWINS
from cxrflow.pretrain.arguments import Prepared
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.pretrain.validation import shared_trunks, twins
from cxrflow.training.processes import ALONE, Processes
from gloo_processes import run_processes

SHORT = {"epochs": 2, "batch_size": 4}


@pytest.fixture(scope="module")
def parents(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What joint training starts from."""
    folder = tmp_path_factory.mktemp("parents")
    for name in ("phase II", "phase III", "SimCLR"):
        trainings(inputs, folder)[name].train(name, folder, epochs=1).succeeds()
    return folder


def prepared(inputs: Path, parents: Path, processes: Processes = ALONE, **changes: Any) -> Prepared:
    """The toy's joint training, of which every part may be changed."""
    toy = trainings(inputs, parents)["joint"]
    entry = TRAINING_PROGRAMS["joint"]
    settings = entry.settings.model_validate({**toy.changed(**SHORT), **changes})
    module = importlib.import_module("cxrflow.pretrain.joint")
    given = Namespace(**toy.inputs)
    answer: Prepared = module.prepare(given, settings, Run(0, torch.device("cpu"), processes))
    return answer


def ranks_of(inputs: Path, parents: Path) -> twins.Ranks:
    """In one of several processes."""
    processes = Processes(distributed.get_rank(), distributed.get_world_size())
    draw = prepared(inputs, parents, processes).draw
    assert draw is not None
    return twins.untrained_ranks(draw, processes)


def trained(toy: Toy, name: str, folder: Path, seed: int, **inputs: Any) -> End:
    with_inputs = toy._replace(inputs={**toy.inputs, **inputs})
    return program(**{**with_inputs._run(name, folder, SHORT), "seed": seed})


def test_twins_are_measured_once_and_change_no_weight(
    inputs: Path, parents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy, kept = trainings(inputs, parents)["joint"], tmp_path / "twins"
    trained(toy, "anew", tmp_path, 0).succeeds()
    trained(toy, "kept", tmp_path, 0, twins=kept).succeeds()
    (file,) = kept.iterdir()
    monkeypatch.setattr(twins, "untrained_ranks", None)  # whoever calls it fails
    trained(toy, "seed 1", tmp_path, 1, twins=kept).succeeds()
    runs = {n: json.loads((tmp_path / n / "run.json").read_text())
            for n in ("anew", "kept", "seed 1")}  # fmt: skip
    said = {name: run["twins"]["image and text"]["terms"] for name, run in runs.items()}
    ranks = json.loads(file.read_text())["global_alignment"]
    assert len(ranks) == TWINS and len(set(ranks)) > TWINS / 2
    for terms in said.values():
        assert terms["global_alignment"]["untrained"] == ranks
    assert said["anew"] == said["kept"] != said["seed 1"]
    for run in runs.values():
        (questions, mlm) = run["twins"].values(), run["permuted_pairs"]["terms"]["mlm"]
        ps = [*(question["p"] for question in questions), mlm["p"]]
        assert run["pairs_learnt"] is all(p <= 0.05 for p in ps)
    monkeypatch.setattr(twins.Twins, "__call__", lambda self: {})
    trained(toy, "without", tmp_path, 0).succeeds()
    assert "twins" not in json.loads((tmp_path / "without" / "run.json").read_text())
    for weights in ("model.safetensors", "image/model.safetensors"):
        with_twins, without = (load_file(tmp_path / n / weights) for n in ("kept", "without"))
        assert all(torch.equal(with_twins[key], value) for key, value in without.items())
    file.write_text(json.dumps({"global_alignment": ranks[1:]}))
    monkeypatch.undo()
    trained(toy, "damaged", tmp_path, 0, twins=kept).refuses(file, "global_alignment", "19 twins")


def test_what_twins_share_is_computed_once_and_alike(
    inputs: Path, parents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = prepared(inputs, parents).draw
    assert draw is not None
    state, computed = torch.get_rng_state(), []
    remember = shared_trunks.Remembered.__call__

    def counted(self: Any, *arguments: Any) -> Any:
        before = len(self.calls)
        result = remember(self, *arguments)
        computed.append(len(self.calls) - before)
        return result

    monkeypatch.setattr(shared_trunks.Remembered, "__call__", counted)
    ranks = twins.untrained_ranks(draw, ALONE)
    assert torch.equal(torch.get_rng_state(), state)
    # Of 4 batches and of the first one again: of the trunk three functions, of the text two.
    assert sum(computed) <= 5 * 5 < len(computed)
    monkeypatch.setattr(
        shared_trunks.Remembered, "__call__", lambda self, *given: self.function(*given)
    )
    assert twins.untrained_ranks(draw, ALONE) == ranks


def test_an_encoder_without_a_start_is_drawn_anew(inputs: Path, parents: Path) -> None:
    toy = trainings(inputs, parents)["joint"]
    settings = TRAINING_PROGRAMS["joint"].settings.model_validate(toy.changed(**SHORT))
    module = importlib.import_module("cxrflow.pretrain.joint")
    given = Namespace(**{**toy.inputs, "image": None})
    draw = module.prepare(given, settings, Run(0, torch.device("cpu"), ALONE)).draw
    first, second = draw(), draw()
    trunks = shared_trunks.SharedTrunks(first.modules)
    trunks.give(second.modules)
    assert set(trunks.shared) == {"text"} and first.image.encoder is not second.image.encoder
    assert len(set(twins.untrained_ranks(draw, ALONE)["global_alignment"])) > TWINS / 2


def test_the_ranks_of_several_processes(inputs: Path, parents: Path) -> None:
    (alone,), two = (
        run_processes(world, ranks_of, inputs, parents, seconds=300) for world in (1, 2)
    )
    for ranks in two:
        assert ranks.keys() == alone.keys() == {"global_alignment"}
        assert ranks["global_alignment"] == pytest.approx(alone["global_alignment"], abs=1e-12)


def test_what_twins_follow_from() -> None:
    settings = {"training": {"batch_size": 4, "epochs": 2}, "length": 8, "shuffled_pairs": False}
    data = dict.fromkeys(("fingerprint", "pixels", "text", "image"), "x")
    wanted = twins.deciding(settings, data)
    unmoved = {**settings, "training": {"batch_size": 4, "epochs": 9}, "shuffled_pairs": True}
    assert twins.deciding(unmoved, {**data, "train_samples": 3}) == wanted
    assert twins.deciding({**settings, "length": 9}, data) != wanted
    assert twins.deciding(settings, {**data, "pixels": "y"}) != wanted
    smaller = {**settings, "training": {"batch_size": 2, "epochs": 2}}
    assert twins.deciding(smaller, data) != wanted
