"""The trainings in several processes: same objective, exact resume, one voice."""

import importlib
import json
import os
import random
import signal
import socket
import subprocess
import time
from argparse import Namespace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import pytest
import torch
from programs import ENVIRONMENT, started
from safetensors.torch import load_file
from torch import Tensor, distributed, nn
from toy_programs import COMPARING, CUTMIX, LSTM, MESHED, MGCA, trainings

from cxrflow.encoders.image_encoder import Frames, Patches
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.objective import TermsProgram
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.training.processes import Processes
from cxrflow.training.step import DataClock, Step
from gloo_processes import run_processes

BATCH = 13  # no multiple of the processes
EXACT = {"dropout": 0.0, "attention_dropout": 0.0}
GHOSTS = {"ghost_batch": 4}
STILL = {**COMPARING["comparison"], "dropout": 0.0, "drop_path": 0.0}
# Gradients of prototypes are those of an epoch in which they are trained.
TRAINED = {**MGCA["terms"], "prototypes": {"number": 12, "rest_epochs": 0}}
AS_CODED: dict[str, Any] = {
    "encoder": {
        **MGCA["encoder"],
        "projection_head": {"kind": "mgca", "hidden": 24, "padded_words": 47},
    },
    "terms": {
        **MGCA["terms"],
        "token_alignment": {"sep_is_word": True, "unit_context": False},
        "prototypes": {"number": 12, "rest_epochs": 0, "code_batch": 4},
    },
    **{"text_layers": 1, "single_position": True, "segment_embedding": False, "decay_all": True},
    **GHOSTS,
}
MIXING = {**TRAINED, "cutmix": {**CUTMIX, "warmup_epochs": 0}}
VARIANTS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {  # a training, what differs
    "phase II": ("phase II", {}, {}),
    "phase II in parts": ("phase II", {}, {"accumulate": 2}),
    "phase III": ("phase III", {}, {}),
    "phase III of MLM alone": ("phase III", {"terms": {"mlm": {}}}, {}),
    "SimCLR": ("SimCLR", {}, {}),
    "SimCLR in ghosts": ("SimCLR", GHOSTS, {"batch_size": 16}),
    "MoCo": ("MoCo", {}, {}),
    "MoCo in ghosts": ("MoCo", GHOSTS, {"batch_size": 16}),
    "sentence pairs": (
        "sentence pairs",
        {"dropout": 0, "terms": {"entailment": {"dropout": 0}}},
        {},
    ),
    "supervised": ("supervised", {}, {}),
    "joint": ("joint", {}, {}),
    "studies": ("studies", {}, {}),
    "matched pairs": ("matched pairs", {}, {}),
    "joint with words": ("joint with words", {}, {}),
    "MGCA": ("MGCA", {"terms": TRAINED}, {}),
    "MGCA as coded": ("MGCA", AS_CODED, {"batch_size": 16}),
    "MGCA of words": ("MGCA", {"terms": {"token_alignment": {}}}, {}),
    "MGCA of words, mixed later": (
        "MGCA",
        {"terms": {"token_alignment": {}, "cutmix": CUTMIX}},
        {},
    ),
    "DeCLIP": ("DeCLIP", {}, {}),
    "DeCLIP in ghosts": ("DeCLIP", GHOSTS, {"batch_size": 16}),
    "DeCLIP in two passes": ("DeCLIP", {"view_statistics": "separate"}, {}),
    "MedCutMix": ("MedCutMix", {"terms": MIXING}, {}),
    "temporal": ("temporal", {"encoder": {**COMPARING, "comparison": STILL}}, {}),
    "report": ("report", {}, {}),
    "report of MGCA": ("report of MGCA", {}, {}),
    "Caption-LSTM": ("Caption-LSTM", {"decoder": {**LSTM, "dropout": 0.0}}, {}),
    "Caption-Transformer": ("Caption-Transformer", {"decoder": {**MESHED, "dropout": 0.0}}, {}),
}
Outcome = dict[str, dict[str, Any]]  # by program


def make(name: str, inputs: Path, parents: Path, processes: Processes) -> TermsProgram:
    """A program of the toy cohort, as its command makes it."""
    kind, changes, training = VARIANTS[name]
    toy = trainings(inputs, parents)[kind]
    one_epoch = {"batch_size": BATCH, "epochs": 1, "optimiser": {"name": "sgd"}, **training}
    alone = ("pretrain.image", "pretrain.supervised", "pretrain.caption", "pretrain.sentence_pairs")
    exact = {} if toy.module in alone else EXACT
    values = {**toy.changed(**one_epoch), **exact, **changes}
    entry = TRAINING_PROGRAMS[toy.module.removeprefix("pretrain.")]
    settings = entry.settings.model_validate(values)
    nothing = {"tokens": [], "start": None, "image": None, "text": None}
    given = Namespace(**{**nothing, **toy.inputs})
    module = importlib.import_module(f"cxrflow.{toy.module}")
    torch.manual_seed(0)
    program: TermsProgram
    program, *_ = module.prepare(given, settings, Run(0, torch.device("cpu"), processes))
    return program


def in_float64(program: TermsProgram) -> TermsProgram:
    """In float32 rounding may turn a ReLU on that is off in the other run."""

    def widen(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        def double(one: Any) -> Any:
            if isinstance(one, Frames):
                return one.each(double)
            if isinstance(one, Patches):
                return Patches(*map(double, one))
            return one.double() if torch.is_tensor(one) and one.is_floating_point() else one

        return tuple(map(double, inputs))

    for module in program.modules.values():
        module.double()
        for part in module.modules():
            part.register_forward_pre_hook(widen)
    return program


def one_batch(name: str, inputs: Path, parents: Path) -> dict[str, Any]:
    """A step: objective, gradients, batch statistics, validation with the new weights."""
    processes = Processes(distributed.get_rank(), distributed.get_world_size())
    program = in_float64(make(name, inputs, parents, processes))
    training, device = program.settings.training, torch.device("cpu")
    step = Step(program, training, 0, 100, device, "fp32", processes)
    values, *counts = step(1, DataClock(program.modules.values()))
    found: dict[str, dict[str, Tensor]] = {"gradients": {}, "buffers": {}}
    for key, module in program.modules.items():
        for part_name, parameter in module.named_parameters():
            if parameter.grad is not None:
                found["gradients"][f"{key}.{part_name}"] = parameter.grad.clone()
        for part_name, buffer in module.named_buffers():
            found["buffers"][f"{key}.{part_name}"] = buffer.clone()
        module.eval()
    with torch.no_grad():
        validation = program.validate()
    terms = program.validation_record()["permuted_pairs"]["terms"]
    return {
        **{"values": values.read(), "counts": counts, "validation": validation, **found},
        "ps": {term: said["p"] for term, said in terms.items()},
    }


def all_programs(inputs: Path, parents: Path) -> Outcome:
    return {name: one_batch(name, inputs, parents) for name in VARIANTS}


@pytest.fixture(scope="module", params=[2, 4])
def both(
    request: pytest.FixtureRequest, inputs: Path, parents: Path, alone: Outcome
) -> tuple[Outcome, list[Outcome]]:
    """What one process finds, and what each of several does."""
    return alone, run_processes(request.param, all_programs, inputs, parents, seconds=300)


@pytest.fixture(scope="module")
def alone(inputs: Path, parents: Path) -> Outcome:
    return run_processes(1, all_programs, inputs, parents, seconds=300)[0]


@pytest.mark.parametrize("name", VARIANTS)
def test_several_processes_do_what_one_does(name: str, both: tuple[Outcome, list[Outcome]]) -> None:
    wanted, found = both[0][name], [one[name] for one in both[1]]
    for term, value in wanted["values"].items():
        for one in found:
            assert one["values"][term] == pytest.approx(value, rel=1e-5), term
    for place, count in enumerate(wanted["counts"]):
        assert sum(one["counts"][place] for one in found) == count
    for one in found:
        # Text encoders have no buffers.
        for kind in ("gradients", "buffers") if wanted["buffers"] else ("gradients",):
            assert one[kind].keys() == wanted[kind].keys()
            pairs = [(value, wanted[kind][key]) for key, value in one[kind].items()]
            # As one vector: some gradients are zero but for rounding; losses are in float32.
            error = torch.stack([(a.double() - b.double()).norm() for a, b in pairs]).norm()
            whole = torch.stack([b.double().norm() for _, b in pairs]).norm()
            assert error <= 5e-6 * whole, (kind, float(error / whole))
        for term, value in wanted["validation"].items():
            assert one["validation"][term] == pytest.approx(value, rel=1e-5), term
        # Losses are in float32, and two permutations may be as good.
        assert one["ps"] == pytest.approx(wanted["ps"], abs=0.005)


def test_phase_three_without_matching_is_its_mlm(both: tuple[Outcome, list[Outcome]]) -> None:
    alone, matched = (both[0][name] for name in ("phase III of MLM alone", "phase III"))
    assert alone["values"].keys() == {"mlm", "loss"}
    assert alone["values"]["loss"] == alone["values"]["mlm"]
    assert alone["values"]["mlm"] == pytest.approx(matched["values"]["mlm"], rel=1e-6)
    assert not [name for name in alone["gradients"] if "cls_projection_head" in name]


def in_processes(command: list[str], world: int) -> list[str]:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
    return [command[0], *launcher, *command[1:]]


def run_forked(command: list[str], world: int, folder: Path) -> None:
    """Run a command to its end in as many processes, told what torchrun tells them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": world}
    logs = [folder / f"rank{rank}.log" for rank in range(world)]
    processes = [
        started(command, log, **meeting, RANK=rank, LOCAL_RANK=rank)
        for rank, log in enumerate(logs)
    ]
    try:
        while alive := [process.sentinel for process in processes if process.is_alive()]:
            wait(alive)
            codes = [process.exitcode for process in processes]
            assert not any(codes), (codes, *(log.read_text() for log in logs))
    finally:  # one that failed, or the test's time, must not leave another behind
        for process in processes:
            process.kill()
            process.join()


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for(process: subprocess.Popen[str], words: str) -> None:
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if words in line:
            return
    raise AssertionError("".join(said))


@pytest.fixture(scope="module")
def parents(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What joint training and reports start from."""
    folder = tmp_path_factory.mktemp("parents")
    for name in ("phase II", "phase III", "SimCLR", "supervised transformer", "MGCA"):
        trainings(inputs, folder)[name].train(name, folder, epochs=1).succeeds()
    # Reports start from an image encoder that draws nothing by itself.
    trainings(inputs, folder)["joint"].train("temporal", folder, epochs=1).succeeds()
    return folder


def test_killed_in_two_processes_ends_with_the_same_weights(inputs, parents, tmp_path):
    toy = trainings(inputs, parents)["joint"]
    run_forked(toy.command("undisturbed", tmp_path), 2, tmp_path)
    run = json.loads((tmp_path / "undisturbed" / "run.json").read_text())
    assert run["processes"] == 2
    again = in_processes(toy.command("run", tmp_path), 2)
    generator = random.Random(1)
    for signal_ in (signal.SIGKILL, signal.SIGTERM):
        process = start(again)
        wait_for(process, "step ")  # 5 of a new run, or that from which it goes on
        time.sleep(generator.uniform(0.1, 0.3))
        if signal_ == signal.SIGKILL:  # one process dies; torchrun ends the other
            said = (tmp_path / "state-run" / "lock").read_text()
            os.kill(int(said.split()[1]), signal_)
        else:
            process.send_signal(signal_)
        _, error = process.communicate(timeout=120)
        assert process.returncode != 0, "the run is too short for this machine"
        if signal_ == signal.SIGTERM:
            assert error.count("start the same command again to go on") == 1, error
    toy.train("run", tmp_path).refuses("processes: 2 -> 1. Delete the folder")
    run_forked(toy.command("run", tmp_path), 2, tmp_path)
    for file in ("model.safetensors", "image/model.safetensors"):
        undisturbed = load_file(tmp_path / "undisturbed" / file)
        for key, value in load_file(tmp_path / "run" / file).items():
            assert torch.equal(value, undisturbed[key]), key
    assert not (tmp_path / "state-run").exists()
