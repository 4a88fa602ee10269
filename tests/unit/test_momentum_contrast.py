"""MoCo against a literal float64 transcription of its Algorithm 1, over several updates."""

from copy import deepcopy
from typing import Any

import numpy as np
import torch
from literal import unit
from torch import Tensor, nn

from cxrflow.encoders.image_encoder import Frames
from cxrflow.images.augment import StoredPixels
from cxrflow.objectives.momentum_contrast import momentum_contrast
from cxrflow.pretrain.objective import Batch, Run
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.pretrain.terms.momentum_contrast import MomentumContrast
from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram
from cxrflow.training.processes import ALONE
from cxrflow.training.samples import SampleTable

TAU, MOMENTUM, QUEUE, RATE = 0.2, 0.8, 10, 0.05
ENCODER = {"block": "basic", "layers": [1, 1, 1, 1], "width": 4, "channels": 1}


class Noise:
    """StoredPixels images, and views of them in float64."""

    def __init__(self, count: int) -> None:
        self.pixels = torch.rand(count, 16, 16, dtype=torch.float64)

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, batch: np.ndarray) -> Frames[StoredPixels]:
        rows = torch.from_numpy(batch)
        return Frames(StoredPixels(self.pixels[rows], rows))


def view_of(images: StoredPixels, seed: int, epoch: int, view: int) -> Tensor:
    return (images.pixels.flip(-1) if view else images.pixels)[:, None] + 0.1 * epoch


def program_of(ghost_batch: int | None = None, start: nn.Module | None = None) -> TwoViewsProgram:
    torch.manual_seed(0)
    terms = {"temperature": TAU, "momentum": MOMENTUM, "queue": QUEUE, "hidden": 6, "output": 5}
    settings = ImagePretrainingSettings(
        encoder=ENCODER,
        augmentation={},
        training={"batch_size": 4, "epochs": 1},
        terms={"momentum_contrast": terms},
        ghost_batch=ghost_batch,
    )
    run = Run(3, torch.device("cpu"), ALONE)
    images: Any = {"train": Noise(12), "validate": Noise(8)}
    samples = {name: SampleTable(range(len(split))) for name, split in images.items()}
    program = TwoViewsProgram(settings, run, samples, images, start)
    program.augmentation = view_of  # type: ignore[assignment]
    for module in program.modules.values():
        module.double()
    return program


def term_of(program: TwoViewsProgram) -> MomentumContrast:
    term = program.terms["momentum_contrast"]
    assert isinstance(term, MomentumContrast)
    return term


class Algorithm1:
    """He et al. 2020: names are theirs; ``f`` are trunk, mean over places, head."""

    def __init__(self, trunk: nn.Module, head: nn.Module, queue: Tensor) -> None:
        self.f_q = deepcopy(nn.Sequential(trunk, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head))
        self.f_k = deepcopy(self.f_q)
        self.queue = list(queue)

    def step(self, x_q: Tensor, x_k: Tensor) -> tuple[Tensor, list[Tensor]]:
        q, k = [unit(v) for v in self.f_q(x_q)], [unit(v).detach() for v in self.f_k(x_k)]
        loss = torch.zeros((), dtype=torch.float64)
        for i in range(len(q)):
            l_pos = torch.exp(q[i] @ k[i] / TAU)
            l_neg = sum(torch.exp(q[i] @ old / TAU) for old in self.queue)
            loss = loss - torch.log(l_pos / (l_pos + l_neg)) / len(q)
        gradients = list(torch.autograd.grad(loss, list(self.f_q.parameters())))
        with torch.no_grad():
            for parameter, gradient in zip(self.f_q.parameters(), gradients, strict=True):
                parameter -= RATE * gradient
            for ours, theirs in zip(self.f_k.parameters(), self.f_q.parameters(), strict=True):
                ours.copy_(MOMENTUM * ours + (1 - MOMENTUM) * theirs)
        self.queue = (self.queue + k)[len(k) :]  # enqueue, dequeue
        return loss, gradients


def test_updates_are_algorithm_1() -> None:
    program = program_of()
    state = term_of(program)
    literal = Algorithm1(program.trunk.encoder, state.head, state.queue)
    trained = [*program.trunk.parameters(), *state.head.parameters()]
    optimiser = torch.optim.SGD(trained, RATE)
    for step in range(5):  # 20 keys go through a queue of 10
        epoch, index = divmod(step, program.batches_per_epoch)
        rows = np.array(program.batch_ids(epoch, index), dtype=np.int64)
        images = program.images["train"].take(rows).current
        expected = literal.step(*(view_of(images, 3, epoch, view) for view in (0, 1)))
        optimiser.zero_grad()
        losses = program.losses(epoch, index, 0, 1)
        losses.total.backward()
        torch.testing.assert_close(losses.total.detach(), expected[0].detach(), rtol=1e-10, atol=0)
        for parameter, gradient in zip(trained, expected[1], strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=1e-7, atol=1e-9)
        optimiser.step()
        program.after_update()
        parameters = [*state.key_trunk.parameters(), *state.key_head.parameters()]
        for value, parameter in zip(parameters, literal.f_k.parameters(), strict=True):
            torch.testing.assert_close(value, parameter, rtol=1e-9, atol=1e-10)
            assert value.grad is None
        place = int(state.place)
        oldest_first = torch.cat([state.queue[place:], state.queue[:place]])
        torch.testing.assert_close(oldest_first, torch.stack(literal.queue), rtol=1e-8, atol=1e-10)


def test_validation_leaves_the_queue_alone() -> None:
    program = program_of()
    program.losses(0, 0, 0, 1)
    program.after_update()
    before = deepcopy(program.modules["momentum_contrast"].state_dict())
    for module in program.modules.values():
        module.eval()
    with torch.no_grad():
        assert program.validate()["loss"] == program.validate()["momentum_contrast"] > 0
    for name, value in program.modules["momentum_contrast"].state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_batch_larger_than_the_queue_leaves_its_last_keys() -> None:
    state = term_of(program_of())
    keys = torch.randn(QUEUE + 3, 5, dtype=torch.float64)
    state.enqueue(keys)
    place = int(state.place)
    assert torch.equal(torch.cat([state.queue[place:], state.queue[:place]]), keys[3:])


def test_keys_are_shuffled_between_ghost_batches_and_back() -> None:
    program = program_of(ghost_batch=2)
    term = term_of(program)
    views = TwoViews(program, program.images["train"], Batch(np.arange(8), 3, 0, ALONE))
    groups: list[Tensor] = []
    hook = term.key_trunk.register_forward_pre_hook(
        lambda module, args: groups.append(args[0].current)
    )
    shuffled, _ = term.keys(views)
    hook.remove()
    pixels = views.pixels(1).current
    assert not torch.equal(groups[0], pixels)
    assert sorted(map(float, groups[0].sum((1, 2, 3)))) == sorted(map(float, pixels.sum((1, 2, 3))))
    term._shuffled = False
    assert not torch.allclose(shuffled, term.keys(views)[0])  # other neighbours, other statistics
    term.eval()
    plain, _ = term.keys(views)
    term._shuffled = True
    torch.testing.assert_close(term.keys(views)[0], plain)


def test_shares_of_several_processes_add_up() -> None:
    query, key, queue = (torch.randn(n, 4) for n in (5, 5, 7))
    total = momentum_contrast(query, key, queue, 0.1, 5)
    shares = [momentum_contrast(query[s], key[s], queue, 0.1, 5) for s in (slice(2), slice(2, 5))]
    torch.testing.assert_close(sum(shares), total)


def test_the_keys_encoder_begins_with_the_weights_that_a_start_gives() -> None:
    trunk = program_of().trunk.float()
    with torch.no_grad():
        for weight in trunk.parameters():
            weight += 1
    program, trunk = program_of(start=trunk), trunk.double()
    for name, weight in term_of(program).key_trunk.state_dict().items():
        torch.testing.assert_close(weight, trunk.state_dict()[name], rtol=0, atol=0)
        torch.testing.assert_close(program.trunk.state_dict()[name], weight, rtol=0, atol=0)
