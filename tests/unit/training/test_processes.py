"""Batches spread over processes, and how these are started."""

import gc
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from literal import identical
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel
from toy_training import SETTINGS, Toy

from command_options import run_to_end
from cxr_files.errors import InputError
from cxrflow.objectives.biovil import (
    global_alignment,
    section_matching,
    symmetric_cross_entropy,
)
from cxrflow.objectives.local_alignment import local_similarity
from cxrflow.objectives.simclr import nt_xent
from cxrflow.training.engine import Engine
from cxrflow.training.launch import launching
from cxrflow.training.precision import choose_device
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.step import DataClock, Step
from gloo_processes import run_processes

SAMPLES, FEATURES, REGIONS, WORDS = 13, 5, 6, 4
Shares = tuple[Tensor, Tensor, Tensor]  # objective, gradients of both inputs


def here() -> Processes:
    return Processes(distributed.get_rank(), distributed.get_world_size())


def local_term(first: Tensor, second: Tensor, processes: Processes, total: int) -> Tensor:
    """Local alignment: own texts against the regions of all images, then all scores."""
    words_NLD, regions_NMD = first, second
    (all_regions,), own = processes.gather(total, regions_NMD)
    lengths = (1 + np.arange(total) % WORDS)[own].tolist()
    scores_BI = local_similarity(all_regions, words_NLD, lengths)
    (scores_IB,), own = processes.gather(total, scores_BI.T)
    return symmetric_cross_entropy(10.0 * scores_IB, own)


def compared(objective: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def term(first: Tensor, second: Tensor, processes: Processes, total: int) -> Tensor:
        (one, other), own = processes.gather(total, first, second)
        return objective(one, other, rows=own)

    return term


TERMS: dict[str, Callable[[Tensor, Tensor, Processes, int], Tensor]] = {
    "global alignment": compared(partial(global_alignment, image_to_text=0.75)),
    "section matching": compared(section_matching),
    "NT-Xent": compared(nt_xent),
    "local alignment": local_term,
}


def draw(name: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    local = name == "local alignment"
    shapes = [(SAMPLES, n, FEATURES) if local else (SAMPLES, FEATURES) for n in (WORDS, REGIONS)]
    first, second = (torch.randn(*shape, generator=generator).double() for shape in shapes)
    return first, second


def all_shares() -> dict[str, Shares]:
    processes, found = here(), {}
    own = processes.share(np.arange(SAMPLES))
    for name, term in TERMS.items():
        first, second = (whole[own].requires_grad_() for whole in draw(name))
        loss = term(first, second, processes, SAMPLES)
        found[name] = (loss.detach(), *torch.autograd.grad(loss, (first, second)))
    return found


@pytest.fixture(scope="module", params=[2, 4])
def shares(request: pytest.FixtureRequest) -> list[dict[str, Shares]]:
    """What each of several processes finds of each objective."""
    return run_processes(request.param, all_shares)


@pytest.mark.parametrize("name", TERMS)
def test_shares_of_an_objective_add_up(name: str, shares: list[dict[str, Shares]]) -> None:
    first, second = (whole.requires_grad_() for whole in draw(name))
    loss = TERMS[name](first, second, ALONE, SAMPLES)
    wanted = torch.autograd.grad(loss, (first, second))
    # The objectives compute in float32.
    total = torch.stack([share[name][0] for share in shares]).sum()
    torch.testing.assert_close(total, loss.detach(), rtol=1e-6, atol=0)
    for place, gradient in enumerate(wanted, start=1):
        found = torch.cat([share[name][place] for share in shares])
        torch.testing.assert_close(found, gradient, rtol=1e-5, atol=1e-6)


def some_steps() -> dict[str, Tensor]:
    """Everything a program has after some steps; without dropout, which each process draws."""
    processes = here()
    settings = TrainingSettings(**SETTINGS, gradient_clip=0.5)
    toy = Toy(settings, {"dropout": 0.0}, processes)
    toy.inputs, toy.targets = toy.inputs.double(), toy.targets.double()
    for module in toy.modules.values():
        module.double()
    step = Step(toy, settings, 0, 100, torch.device("cpu"), "fp32", processes)
    clock = DataClock(toy.modules.values())
    values = [step(number, clock, plateaus=1)[0].read()["loss"] for number in range(8)]
    states = {f"{m}.{n}": v for m in toy.modules for n, v in toy.modules[m].state_dict().items()}
    return {**states, "losses": torch.tensor(values, dtype=torch.float64)}


def test_gradients_are_cut_element_by_element_where_asked() -> None:
    def gradients(**limit: float) -> list[Tensor]:
        settings = TrainingSettings(**SETTINGS, **limit)
        toy = Toy(settings, {"dropout": 0.0})
        step = Step(toy, settings, 0, 100, torch.device("cpu"), "fp32", ALONE)
        step(0, DataClock(toy.modules.values()))
        every = (p.grad for module in toy.modules.values() for p in module.parameters())
        return [gradient.clone() for gradient in every if gradient is not None]

    whole, cut = gradients(), gradients(gradient_limit=0.1)
    assert any((one.abs() > 0.1).any() for one in whole)
    identical(cut, [gradient.clamp(-0.1, 0.1) for gradient in whole])


@pytest.mark.parametrize("world", [2, 4])
def test_steps_in_several_processes_are_those_of_one(world: int) -> None:
    """Weights, batch statistics, the network that follows and its queue, in every process."""
    (wanted,) = run_processes(1, some_steps)
    assert wanted["follower.queue"].abs().min() > 0
    for state in run_processes(world, some_steps):
        torch.testing.assert_close(state, wanted, rtol=1e-9, atol=1e-12)


def exchanged() -> tuple[list[int], list[str], str | None, Tensor]:
    processes = here()
    rows = torch.full((len(processes.share(np.arange(5))), 2), processes.rank, dtype=torch.bfloat16)
    (gathered,), _ = processes.gather(5, rows)
    return (
        processes.totals(processes.rank + 1),
        processes.collect(f"rank {processes.rank}"),
        processes.first(lambda: "done"),
        gathered,
    )


def test_processes_count_collect_and_wait_for_the_first() -> None:
    found = run_processes(3, exchanged)
    for totals, names, _, gathered in found:
        assert totals == [6] and names == ["rank 0", "rank 1", "rank 2"]
        assert gathered[:, 0].tolist() == [0, 0, 1, 1, 2]
        assert gathered.dtype == torch.bfloat16
    assert [done for _, _, done, _ in found] == ["done", None, None]


def failing() -> str:
    def work() -> None:
        raise InputError("a wrong setting")

    try:
        here().first(work)
    except InputError as error:
        return str(error)
    except SystemExit as error:
        return f"left with {error.code}"
    return "went on"


def test_when_the_first_process_fails_the_others_leave() -> None:
    assert run_processes(2, failing) == ["a wrong setting", "left with 1"]


def test_a_batch_smaller_than_the_processes_is_refused() -> None:
    with pytest.raises(InputError, match="batch of 3 samples is too small for 4 processes"):
        Processes(0, 4).share(np.arange(3))


PROGRAM = ["cxrflow.pretrain.joint", "--seed", "0"]


def test_one_process_is_the_program_itself() -> None:
    assert launching(1, 1, PROGRAM, {}) == [sys.executable, "-m", *PROGRAM]


def test_several_processes_are_started_by_torchrun() -> None:
    command = launching(3, 1, PROGRAM, {})
    assert "--nproc-per-node=3" in command and "--standalone" in command
    assert command[-5:] == ["-m", "--", *PROGRAM]


def test_several_nodes_meet_at_the_first() -> None:
    command = launching(4, 2, PROGRAM, {"SLURM_JOB_ID": "20007"})
    assert command[:4] == ["srun", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1"]
    assert "--nnodes=2" in command and "--nproc-per-node=4" in command
    endpoint = next(one for one in command if one.startswith("--rdzv-endpoint="))
    assert endpoint.endswith(":20007") and command[-5:] == ["-m", "--", *PROGRAM]


def test_several_nodes_need_a_slurm_job() -> None:
    with pytest.raises(InputError, match="--nodes is 2, but this is no Slurm job"):
        launching(4, 2, PROGRAM, {})


def test_it_starts_as_many_as_asked_for() -> None:
    """Of a module that prints one line, the machine's name, whatever options it has."""
    launch = ["-m", "cxrflow.training.launch", "--processes", "2"]
    done = run_to_end(
        [sys.executable, *launch, "platform", "--start", "x"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2


def wrappers_left(folder: Path) -> int:
    """How many still wrap a training's objective after its end, nothing being collected."""
    gc.disable()
    settings = TrainingSettings(**{**SETTINGS, "epochs": 1})
    toy, identity = Toy(settings, {}, here()), {"model": "toy", "seed": 0, "settings": {}}
    engine = Engine(toy, settings, 0, identity, (), here())
    engine.run(folder / "state", folder / "run")
    return sum(type(one) is DistributedDataParallel for one in gc.get_objects())


def test_a_finished_training_leaves_the_process_group_to_its_owner(tmp_path: Path) -> None:
    """Otherwise one process in ten of a short training on two busy cores never ended."""
    assert run_processes(2, wrappers_left, tmp_path) == [0, 0]
    assert (tmp_path / "run" / "run.json").is_file()


def test_one_gpu_is_not_named_for_several_processes() -> None:
    """All would stand on it; each takes the GPU of its rank."""
    said = "'training.device' is 'cuda:1' in 2 processes, .* expected auto or cuda"
    with pytest.raises(InputError, match=said):
        choose_device("cuda:1", Processes(0, 2))
    with pytest.raises(SystemExit):  # the first one has said it
        choose_device("cuda:1", Processes(1, 2))
    assert choose_device("cpu", Processes(0, 2)) == torch.device("cpu")


def test_a_gpu_named_by_its_number_becomes_the_current_one(monkeypatch) -> None:
    """An event of a step's values would be recorded on the first GPU, and tell nothing of them."""
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    assert choose_device("cuda:1") == torch.device("cuda:1")
    assert current == [torch.device("cuda:1")]
    assert [choose_device(name).index for name in ("auto", "cuda", "cpu")] == [None] * 3
    with pytest.raises(InputError, match="key 'device' is 'cuda:2', but torch sees 2 GPUs"):
        choose_device("cuda:2")
    assert len(current) == 1
