"""Compiled training equals uncompiled training, and is compiled once."""

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters

from command_options import run_to_end
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings
from cxrflow.training.compilation import compile_modules

CPU = torch.device("cpu")
TEXT = TextEncoderSettings(
    layers=2, width=16, heads=2, feed_forward=32, positions=128, projection=8
)
IMAGE = ResNetSettings(
    block="basic", layers=(1, 1, 1, 1), width=8, channels=1, dilate=(False,) * 3, projection=8
)
# Tokens of each text: one attention group and several, one text, and more than 4096 tokens in all,
# where inductor makes other code for CPUs if it may.
BATCHES = [[40, 7, 33, 70], [5, 5], [9], [1], [128] * 40, [12, 90, 3]]


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Compiled code, counters and settings of other tests are gone, and these leave none."""
    torch._dynamo.reset()
    counters.clear()
    with torch._dynamo.config.patch(optimize_ddp=torch._dynamo.config.optimize_ddp):
        yield
    torch._dynamo.reset()


def text_encoder() -> CXRBert:
    torch.manual_seed(0)
    text = CXRBert.build(TEXT, vocabulary_size=60, pad_id=0).train()
    text.set_dropout(0.25, 0.25)
    return text


def text_loss(text: CXRBert, lengths: list[int]) -> Tensor:
    generator = torch.Generator().manual_seed(len(lengths))
    ids = torch.randint(5, 60, (len(lengths), max(lengths)), generator=generator)
    mask = (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]).long()
    states = text.hidden_states(ids, mask)
    return (
        text.project(states).square().mean()
        + text.predict_tokens(states, mask.flatten().nonzero().flatten()[::2]).square().mean()
    )


def gradients(module: nn.Module, loss: Callable[[], Tensor]) -> list[Tensor]:
    torch.manual_seed(3)
    module.zero_grad()
    value = loss()
    value.backward()
    found = [p.grad.clone() for p in module.parameters() if p.grad is not None]
    return [value.detach(), *found]


def same(ours: list[Tensor], eager: list[Tensor], tolerance: float = 2e-5) -> None:
    assert len(ours) == len(eager) > 1
    for one, other in zip(ours, eager, strict=True):
        largest = max(1.0, float(other.abs().max()))
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance * largest)


def graphs() -> int:
    assert not counters["graph_break"]
    return counters["stats"]["unique_graphs"]


@pytest.mark.slow
def test_text_with_dropout_equals_eager_and_one_graph_serves_all_batches() -> None:
    text = text_encoder()
    names = list(text.state_dict())
    eager = [gradients(text, partial(text_loss, text, b)) for b in BATCHES]
    compile_modules({"text": text}, CPU)
    assert list(text.state_dict()) == names
    before, counted = graphs(), []
    for batch, wanted in zip(BATCHES, eager, strict=True):
        same(gradients(text, partial(text_loss, text, batch)), wanted)
        counted.append(graphs() - before)
    assert counted == [2] * len(BATCHES)  # before and after attention, for both layers
    text.eval()
    with torch.no_grad():
        for batch in BATCHES:
            text_loss(text, batch)
            counted.append(graphs() - before)
    assert counted[len(BATCHES) :] == [4] * len(BATCHES)


def test_dropout_is_on_in_what_is_compared() -> None:
    text = text_encoder()
    first = gradients(text, lambda: text_loss(text, BATCHES[0]))
    text.eval()
    with pytest.raises(AssertionError):
        same(gradients(text, lambda: text_loss(text, BATCHES[0])), first)


@pytest.mark.slow
def test_images_equal_eager_with_a_graph_for_training_and_one_for_validation() -> None:
    torch.manual_seed(0)
    image = ImageEncoder(IMAGE).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    pixels = Frames(torch.rand(4, 1, 64, 64).contiguous(memory_format=torch.channels_last))
    state = {name: value.clone() for name, value in image.state_dict().items()}

    def results() -> list[Tensor]:
        image.load_state_dict(state)
        image.train()
        found = []
        for _ in range(2):
            found += gradients(image, lambda: image(pixels).projected_patches[..., :3].sum())
        image.eval()
        with torch.no_grad():
            found += [image(pixels).projected_global for _ in range(2)]
        return [*found, *(value.float() for value in image.state_dict().values())]

    eager = results()
    compile_modules({"image": image}, CPU)
    assert list(image.state_dict()) == list(state)
    before = graphs()
    # Rounding may turn a ReLU on that is off in the other run.
    same(results(), eager, tolerance=1e-3)
    assert graphs() - before == 2


class Objective(nn.Module):
    """What DistributedDataParallel wraps when a program calls its modules by other methods."""

    def __init__(self, text: CXRBert) -> None:
        super().__init__()
        self.text = text

    def forward(self, lengths: list[int]) -> Tensor:
        return text_loss(self.text, lengths)


@pytest.mark.slow
def test_inside_distributed_data_parallel(tmp_path: Path) -> None:
    text = text_encoder()
    eager = [gradients(text, partial(text_loss, text, b)) for b in BATCHES[:3]]
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        compile_modules({"text": text}, CPU)
        before = graphs()
        # Small buckets, at whose borders compiled parts would be cut.
        parallel = nn.parallel.DistributedDataParallel(
            Objective(text), bucket_cap_mb=0.001, find_unused_parameters=True
        )
        for batch, wanted in zip(BATCHES[:3], eager, strict=True):
            same(gradients(text, partial(parallel, batch)), wanted)
        assert graphs() - before == 2
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_without_a_compiler_the_setting_is_named(tmp_path: Path) -> None:
    """In a process that shares no compiled code with others."""
    code = "import torch\nfrom cxrflow.training.compilation import compile_modules\n"
    code += "compile_modules({}, torch.device('cpu'))"
    places = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "CXX": str(tmp_path / "g++")}
    done = run_to_end([sys.executable, "-c", code], env=os.environ | places)
    said = done.stderr.splitlines()[-1]
    assert "InputError: settings: key 'compile' is true" in said and "a C++ compiler" in said
