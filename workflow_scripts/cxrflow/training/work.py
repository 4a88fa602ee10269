"""What a training sample costs, counted from shapes alone (docs/performance.md explains how).

Work is that of one forward and one backward pass, as least work: real tokens, no padding, the
vocabulary head at masked positions alone. One multiply-add is 2 FLOP; the FLOPs of sums,
normalisations and activations are left out, as is usual. Bytes follow a model of what is read and
written when nothing but neighbouring element-wise operations are fused.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxrflow.training.precision import Roof

if TYPE_CHECKING:
    from transformers import BertConfig

# A value that a convolution or linear layer gives is read and written 17 times until its gradient
# has been used: convolution, normalisation and ReLU, forward and backward.
LAYER_ACCESSES = 17
# A transformer layer keeps 9 values a token and channel and 2 a token and inner channel for the
# backward pass (Korthikanti et al. 2022, section 4: 34 bytes a channel in half precision), and each
# is touched three times.
KEPT_WIDTH, KEPT_INNER, KEPT_TOUCHES = 9, 2, 3
# A logit is written, copied to float32, read by the cross-entropy, and its gradient likewise.
LOGIT_BYTES = 24
# A similarity of a word and a region is touched 10 times forward (written; softmax over words 6;
# softmax over regions 2; contexts 1) and 16 times backward.
LOCAL_ACCESSES = 26
# What a step does to a float32 parameter: read forward and backward (8), gradient written (4),
# Adam reads the gradient, reads and writes the parameter and two moments (28).
PARAMETER_BYTES = 40


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes of memory traffic."""

    flops: float
    bytes: float

    def __add__(self, other: "Work") -> "Work":
        return Work(self.flops + other.flops, self.bytes + other.bytes)

    def __mul__(self, times: float) -> "Work":
        return Work(self.flops * times, self.bytes * times)


def transformer_work(config: "BertConfig", lengths_N: NDArray[np.int64], value_bytes: int) -> Work:
    """Mean work of BERT's layers on one of N sequences with these lengths, each for itself."""
    width, inner = config.hidden_size, config.intermediate_size
    tokens, pairs = float(np.mean(lengths_N)), float(np.mean(np.square(lengths_N, dtype=float)))
    # Four projections and the feed-forward layer; then queries by keys, and their weighted values.
    forward = 2 * (4 * width**2 + 2 * width * inner) * tokens + 4 * width * pairs
    kept = (KEPT_WIDTH * width + KEPT_INNER * inner) * value_bytes * tokens
    return Work(3 * forward, KEPT_TOUCHES * kept) * config.num_hidden_layers


def token_prediction_work(config: "BertConfig", positions: float) -> Work:
    """Work of the masked language modelling head at ``positions`` tokens."""
    width, vocabulary = config.hidden_size, config.vocab_size
    forward = 2 * (width**2 + width * vocabulary)
    return Work(3 * forward, LOGIT_BYTES * vocabulary) * positions


def local_alignment_work(words: float, regions: int, images: int, width: int) -> Work:
    """Work of matching a text of so many words with the ``regions`` of each of ``images`` images.

    In float32, as the loss is. Forward: similarities and contexts; backward: twice that.
    """
    values = words * regions * images
    return Work(3 * 2 * 2 * values * width, LOCAL_ACCESSES * 4 * values)


def projection_work(config: "BertConfig") -> Work:
    """Work of the projection of one [CLS] token; its memory traffic does not count."""
    width, projection = config.hidden_size, config.projection_size
    return Work(3 * 2 * (width * projection + projection**2), 0.0)


def layers_work(module: nn.Module, shape: tuple[int, ...], value_bytes: int) -> Work:
    """Work of one sample [*shape] in the convolutions and linear layers of ``module``.

    A copy without values runs once on a sample without values, which costs no arithmetic and
    draws nothing. As in the backward pass itself, nothing is counted for the gradient of an input
    or a weight that needs none (the first convolution's input).
    """
    found: list[Work] = []

    def count(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        weight: Any = layer.weight
        # Every output value is the sum of as many products as a row of the weight has entries.
        forward = 2 * output.numel() * weight[0].numel()
        passes = 1 + weight.requires_grad + inputs[0].requires_grad
        found.append(Work(passes * forward, LAYER_ACCESSES * value_bytes * output.numel()))

    shadow = copy.deepcopy(module).to("meta").eval()  # batch statistics are no work
    for layer in shadow.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(count)
    with torch.enable_grad():
        shadow(torch.empty(1, *shape, device="meta"))
    return sum(found, Work(0.0, 0.0))


def efficiency(
    work: Work, roof: Roof, samples: float, seconds: float, data_seconds: float
) -> dict[str, float | str]:
    """What ``run.json`` says about speed: ``work`` of a sample, done ``samples`` times.

    ``binding`` is what the device needs longer for at its roof, arithmetic or memory traffic;
    ``share_of_roof`` compares that time with the one taken.
    """
    rate = samples / seconds
    floors = {"flops": work.flops / roof.flops, "bytes": work.bytes / roof.bytes}
    binding = max(floors, key=lambda name: floors[name])
    numbers = {
        "flops_per_sample": work.flops,
        "bytes_per_sample": work.bytes,
        "achieved_flops_per_second": work.flops * rate,
        "achieved_bytes_per_second": work.bytes * rate,
        "roof_flops_per_second": roof.flops,
        "roof_bytes_per_second": roof.bytes,
        "share_of_roof": floors[binding] * rate,
        "data_wait_share": data_seconds / seconds,
    }
    return {**{name: float(f"{value:.4g}") for name, value in numbers.items()}, "binding": binding}


def in_words(facts: Mapping[str, Any]) -> str:
    """``run.json``'s speed as one line of the log."""
    arithmetic = facts["binding"] == "flops"
    achieved, roof = (
        facts[f"{name}_{facts['binding']}_per_second"] / 1e9 for name in ("achieved", "roof")
    )
    unit = "GFLOP/s" if arithmetic else "GB/s"
    return (
        f"{facts['samples_per_second']:.4g} samples/s, {facts['peak_memory_mb']} MB at most; bound "
        f"by {'arithmetic' if arithmetic else 'memory traffic'}: {achieved:.4g} of {roof:.4g} "
        f"{unit} ({facts['share_of_roof']:.1%}); waited for data {facts['data_wait_share']:.1%} "
        "of the time"
    )
