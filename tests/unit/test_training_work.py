"""Counted work against torch's own counter and published numbers; the clock, the roof, memory."""

import time
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForMaskedLM

from cxrflow.encoders.cxr_bert import ProjectionHead
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.errors import InputError
from cxrflow.pretrain.settings import MaskedLanguageSettings
from cxrflow.pretrain.two_views import Head
from cxrflow.pretrain.work import packed_row_work, report_work, two_views_work
from cxrflow.training.data_clock import DataClock
from cxrflow.training.memory import explained
from cxrflow.training.precision import Roof, measure_roof
from cxrflow.training.work import (
    Work,
    efficiency,
    in_words,
    layers_work,
    projection_work,
    token_prediction_work,
    transformer_work,
)

CPU = torch.device("cpu")
BERT_BASE = BertConfig(vocab_size=30522, projection_size=128)


def counted(run: Callable[[], torch.Tensor], training: bool) -> int:
    """FLOPs by torch's counter, of a forward pass and, if ``training``, the backward pass."""
    with FlopCounterMode(display=False) as counter:
        result = run()
        if training:
            result.sum().backward()
    return counter.get_total_flops()


def on_meta(module: nn.Module) -> nn.Module:
    return module.to("meta").train()


@pytest.mark.parametrize("length", [60, 512])
def test_transformer_layers_are_what_torch_counts(length: int) -> None:
    bert = on_meta(BertForMaskedLM(BERT_BASE)).bert
    ids = torch.zeros(3, length, dtype=torch.int64, device="meta")
    theirs = counted(lambda: bert(input_ids=ids).last_hidden_state, training=False)
    ours = transformer_work(BERT_BASE, np.array([length] * 3), 2)
    assert ours.flops == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("length,megaflops", [(512, 188.7), (60, 172.3)])
def test_bert_base_costs_what_is_known(length: int, megaflops: float) -> None:
    token = transformer_work(BERT_BASE, np.array([length]), 2) * (1 / length)
    # The published 170.1 MF of matrix work count biases and normalisation weights as well.
    assert token.flops / 3 == pytest.approx(megaflops * 1e6, rel=2e-3)
    assert token.bytes == pytest.approx(34 * 768 * 12 * 3)


def test_trained_token_of_phase_two_costs_what_is_known() -> None:
    row = transformer_work(BERT_BASE, np.array([512]), 2)
    row += token_prediction_work(BERT_BASE, 0.15 * 512)
    assert row.flops / 512 == pytest.approx(587.9e6, rel=1e-3)


def test_attention_grows_with_the_square_of_each_length() -> None:
    """Two documents of 256 tokens need half the attention of one of 512."""
    one, two = (transformer_work(BERT_BASE, np.array([n]), 2) for n in (512, 256))
    assert one.flops - 2 * two.flops == pytest.approx(3 * 12 * 4 * 768 * 512**2 / 2)
    mixed = transformer_work(BERT_BASE, np.array([512, 256]), 2)
    assert 2 * mixed.flops == pytest.approx(one.flops + two.flops)


def test_heads_are_what_torch_counts() -> None:
    bert = on_meta(BertForMaskedLM(BERT_BASE))
    hidden = torch.empty(7, 768, device="meta", requires_grad=True)
    theirs = counted(lambda: bert.cls(hidden), training=True)
    assert token_prediction_work(BERT_BASE, 7).flops == pytest.approx(theirs, rel=1e-6)
    head = on_meta(ProjectionHead(768, 128))
    theirs = counted(lambda: head(hidden), training=True)
    assert 7 * projection_work(BERT_BASE).flops == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    "side,gigaflops,training,megavalues,dilate",
    [
        (224, 8.17, 24.29, 11.1, (False, False, False)),
        (512, 42.71, 126.9, 58.1, (False, False, False)),
        (512, 64.85, 193.3, 66.3, (False, False, True)),
    ],
)
def test_resnet50_costs_what_is_known(
    side: int,
    gigaflops: float,
    training: float,
    megavalues: float,
    dilate: tuple[bool, bool, bool],
) -> None:
    trunk = ResNet(ImageEncoderSettings(dilate=dilate))
    work = layers_work(trunk, (3, side, side), 2)
    assert work.flops == pytest.approx(training * 1e9, rel=2e-3)
    assert work.bytes == pytest.approx(34 * megavalues * 1e6, rel=5e-3)
    for parameter in trunk.parameters():
        parameter.requires_grad_(False)
    frozen = layers_work(trunk, (3, side, side), 2)
    assert frozen.flops == pytest.approx(gigaflops * 1e9, rel=2e-3)
    assert layers_work(trunk, (3, side, side), 4).bytes == 2 * work.bytes


def test_image_encoder_is_what_torch_counts() -> None:
    image = ImageEncoder(ImageEncoderSettings(block="basic", layers=(2, 2, 2, 2), channels=1))
    before = {name: value.clone() for name, value in image.state_dict().items()}
    ours = layers_work(image, (1, 128, 128), 2)
    assert all(torch.equal(value, before[name]) for name, value in image.state_dict().items())
    pixels = torch.empty(4, 1, 128, 128, device="meta")
    on_meta(image)
    theirs = counted(lambda: image(pixels).projected_patches, training=True)
    assert 4 * ours.flops == pytest.approx(theirs, rel=1e-2)


def test_efficiency_names_what_binds() -> None:
    roof = Roof(flops=100e9, bytes=10e9)
    # 2 s of arithmetic and 3 s of traffic a sample; 4 samples in 60 s.
    found = efficiency(Work(200e9, 30e9), roof, samples=4, seconds=60, data_seconds=6)
    assert found["binding"] == "bytes" and found["share_of_roof"] == pytest.approx(12 / 60)
    assert found["achieved_bytes_per_second"] == pytest.approx(2e9)
    assert found["data_wait_share"] == pytest.approx(0.1)
    line = in_words({**found, "samples_per_second": 4 / 60, "peak_memory_mb": 900})
    assert "2 of 10 GB/s (20.0%)" in line and "waited for data 10.0%" in line
    found = efficiency(Work(400e9, 30e9), roof, samples=4, seconds=60, data_seconds=6)
    assert found["binding"] == "flops" and found["share_of_roof"] == 0.2667


def test_roof_is_measured_without_drawing() -> None:
    torch.manual_seed(3)
    before = torch.get_rng_state()
    roof = measure_roof(CPU, "fp32")
    assert torch.equal(before, torch.get_rng_state())
    side = 512
    matrix = torch.rand(side, side)
    start = time.perf_counter()
    for _ in range(20):
        matrix = torch.mm(matrix, matrix) / side
    rate = 20 * 2 * side**3 / (time.perf_counter() - start)
    assert rate / 20 < roof.flops < rate * 20
    assert 1e8 < roof.bytes < 1e13


class Slow(nn.Module):
    """A module that takes a while."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(0.2)
        return self.inner(x)


def test_clock_counts_waiting_for_data_alone() -> None:
    first, second = Slow(), Slow()
    clock = DataClock([first, second])
    second(torch.ones(1, 2))  # outside of an objective
    assert clock.seconds == 0
    waited = 0.0

    def wait() -> float:
        start = time.perf_counter()
        time.sleep(0.1)
        return time.perf_counter() - start

    with clock.running():
        waited += wait()
        hidden = first(torch.ones(1, 2))
        time.sleep(0.2)  # a loss: what follows is given a computed tensor
        second(hidden)
        waited += wait()
        first(torch.ones(1, 2))
        time.sleep(0.2)  # a loss at the end
    assert waited <= clock.seconds < waited + 0.15
    before = clock.seconds
    clock.close()
    with clock.running():
        first(torch.ones(1, 2))
    assert clock.seconds == before and not first._forward_hooks and not first._forward_pre_hooks


def allocate_tensor() -> None:
    torch.empty(2**48)


def allocate_array() -> None:
    np.empty(2**56)


def gpu_is_full() -> None:
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")


@pytest.mark.parametrize("work", [allocate_tensor, allocate_array, gpu_is_full])
def test_running_out_of_memory_is_one_line(work: Callable[[], None]) -> None:
    with (
        pytest.raises(InputError) as caught,
        explained("run", CPU, ["a smaller batch", "less"]),
    ):
        work()
    assert str(caught.value) == "run: not enough memory on cpu; what helps: a smaller batch, less"


def test_other_errors_stay_what_they_are() -> None:
    with (
        pytest.raises(RuntimeError, match="shapes cannot be multiplied"),
        explained("run", CPU, ["less"]),
    ):
        torch.ones(2, 3) @ torch.ones(2, 3)


class Lengths:
    """Reports, or a corpus, of which only the lengths are known."""

    def __init__(self, **sections: list[int]) -> None:
        self.found = {name: np.array(values) for name, values in sections.items()}

    def lengths(self, section: str, sentence_seed: int | None = None) -> np.ndarray:
        return self.found[section]


def test_reports_cost_the_sum_of_their_sequences() -> None:
    reports = Lengths(findings=[10, 30], impression=[6, 8])
    sequences = {n: transformer_work(BERT_BASE, np.array([n]), 2).flops for n in (10, 30, 6, 8)}
    trunk = sum(sequences.values()) / 2
    head = token_prediction_work(BERT_BASE, 0.15 * (18 + 5)).flops
    projection = 2 * projection_work(BERT_BASE).flops
    separate = report_work(BERT_BASE, MaskedLanguageSettings(), reports, 2)
    assert separate.flops == pytest.approx(2 * trunk + head + projection)
    shared = report_work(BERT_BASE, MaskedLanguageSettings(forward="shared"), reports, 2)
    assert shared.flops == pytest.approx(trunk + head + projection)
    off = report_work(BERT_BASE, MaskedLanguageSettings(weight=0), reports, 2)
    assert off.flops == pytest.approx(trunk + projection)


def test_packed_row_costs_the_sum_of_its_documents() -> None:
    corpus = SimpleNamespace(lengths=np.array([500, 12, 256, 256]), rows=2)
    documents = [transformer_work(BERT_BASE, np.array([n]), 2).flops for n in corpus.lengths]
    head = token_prediction_work(BERT_BASE, 0.15 * (1024 - 8)).flops
    found = packed_row_work(BERT_BASE, corpus, 0.15, 2)
    assert 2 * found.flops == pytest.approx(sum(documents) + head)


def test_two_views_cost_twice_the_network() -> None:
    trunk, head = ResNet(ImageEncoderSettings()), Head(2048, 2048, 128)
    view = layers_work(trunk, (3, 64, 64), 2).flops + 6 * (2048 * 2048 + 2048 * 128)
    assert two_views_work(trunk, head, (3, 64, 64), 2).flops == pytest.approx(2 * view)
