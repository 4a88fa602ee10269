"""Ways to make a training faster that are tried from outside: the package stays as it is.

A trick is a context manager. Inside it a function of the package or of torch is another one. It
gives :class:`Calls`: a trick whose function was never called has shown nothing.

Shapes: T tokens, N after padding, B images of M regions, I texts of at most L words, D width.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import layer_norm, pad
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from cxrflow.compute.keyed_random import KeyedRandom
from cxrflow.encoders import attention, cxr_bert
from cxrflow.images.augment import Augmentation
from cxrflow.objectives import local_alignment
from cxrflow.objectives.local_alignment import Matching
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.terms import local_alignment as local_alignment_term
from cxrflow.training import compilation, engine, step
from speed.races.local_alignment import at_once

#: Of an augmentation, what is many small operations on all pixels.
DRAWS, POINTWISE = ("normal", "uniform_pair"), ("jitter", "occlude")


class Calls:
    """How often the function in the place of another was called, compiled calls left out."""

    def __init__(self) -> None:
        self.number = 0

    def counting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function``, with every call counted."""

        def counted(*args: Any, **kwargs: Any) -> Any:
            # A compiler would compile anew for each value of the counter.
            if not torch.compiler.is_compiling():
                self.number += 1
            return function(*args, **kwargs)

        return counted


Trick = Callable[[], AbstractContextManager[Calls]]


@contextmanager
def replaced(owner: Any, name: str, other: Callable[..., Any]) -> Iterator[Calls]:
    """Let ``other`` stand for a function of ``owner``; AttributeError if there is none."""
    calls = Calls()
    with patch.object(owner, name, calls.counting(other)):
        yield calls


def compiled(function: Callable[..., Any], dynamic: bool | None = None) -> Callable[..., Any]:
    """``function`` compiled; as it is while FLOPs are counted, as no counter sees into it."""
    fast = torch.compile(function, dynamic=dynamic)

    def call(*args: Any, **kwargs: Any) -> Any:
        inside = torch.compiler.is_compiling() or _get_current_dispatch_mode_stack()
        return (function if inside else fast)(*args, **kwargs)

    return call


# --- feed and images ------------------------------------------------------------------------------


def no_thread() -> AbstractContextManager[Calls]:
    """Batches are prepared in their own step."""
    made = step.Feed
    return replaced(step, "Feed", lambda prepare, steps, ahead: made(prepare, steps, ahead=False))


def images_read_by_batches() -> AbstractContextManager[Calls]:
    """No image stays on the GPU."""
    return replaced(SplitImages, "settle", lambda images, room: 0)


@contextmanager
def compiled_augmentation() -> Iterator[Calls]:
    """The draws for every pixel, brightness, contrast and occlusion."""
    calls = Calls()
    draws = {name: calls.counting(compiled(getattr(KeyedRandom, name))) for name in DRAWS}
    steps = {name: calls.counting(compiled(getattr(Augmentation, name))) for name in POINTWISE}
    with patch.multiple(KeyedRandom, **draws), patch.multiple(Augmentation, **steps):
        yield calls


# --- arithmetic -----------------------------------------------------------------------------------


@contextmanager
def tf32_products() -> Iterator[Calls]:
    """Products of float32 with the mantissa of TF32, outside of autocast too."""
    before, calls = torch.get_float32_matmul_precision(), Calls()
    torch.set_float32_matmul_precision("high")
    calls.number = 1  # a switch of torch's own
    try:
        yield calls
    finally:
        torch.set_float32_matmul_precision(before)


def norms_in_bf16() -> AbstractContextManager[Calls]:
    """Under autocast LayerNorm reads and gives bf16, so residual streams are bf16.

    Mean and deviation are still those of float32.
    """
    plain = nn.LayerNorm.forward

    def forward(norm: nn.LayerNorm, x: Tensor) -> Tensor:
        kind = x.device.type
        if not torch.is_autocast_enabled(kind):
            return plain(norm, x)
        narrow = torch.get_autocast_dtype(kind)
        with torch.autocast(kind, enabled=False):
            weight, bias = (p if p is None else p.to(narrow) for p in (norm.weight, norm.bias))
            return layer_norm(x.to(narrow), norm.normalized_shape, weight, bias, norm.eps)

    return replaced(nn.LayerNorm, "forward", forward)


def cudnn_attention() -> AbstractContextManager[Calls]:
    """cuDNN's attention wherever it can; of packed documents it or none."""
    plain = attention.scaled_dot_product_attention
    kinds = SDPBackend
    others = [kinds.FLASH_ATTENTION, kinds.EFFICIENT_ATTENTION, kinds.MATH]

    def attend(q: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        # Of nested tensors torch takes any other before it.
        backends = [kinds.CUDNN_ATTENTION, *([] if q.is_nested else others)]
        with sdpa_kernel(backends, set_priority=True):
            return plain(q, *args, **kwargs)

    return replaced(attention, "scaled_dot_product_attention", attend)


# --- compiled parts -------------------------------------------------------------------------------


@contextmanager
def compiler_options(**options: Any) -> Iterator[Calls]:
    """Further options of the compiler, where parts of models are compiled."""
    options = {**compilation.OPTIONS["options"], **options}
    compiling = replaced(engine, "compile_modules", compilation.compile_modules)
    with patch.dict(compilation.OPTIONS, options=options), compiling as calls:
        yield calls


@contextmanager
def compiled_for_any_number() -> Iterator[Calls]:
    """Text layers and trunk compiled for any number of images, which settings refuse so far."""
    watched, counter = engine.DataClock, engine.flop_counter

    def compile_first(modules: list[nn.Module]) -> step.DataClock:
        for module in modules:
            for part in module.modules():
                if isinstance(part, compilation.Compilable):
                    part.compile_parts({**compilation.OPTIONS, "dynamic": True})
        return watched(modules)

    clocks = replaced(engine, "DataClock", compile_first)
    with clocks as calls, patch.object(engine, "flop_counter", lambda compiled: counter(True)):
        yield calls


def own_random() -> AbstractContextManager[Calls]:
    """The compiler's own random numbers, which need no pass of their own.

    It draws its seeds from torch's state, which the engine seeds for every step.
    """
    return compiler_options(fallback_random=False)


@contextmanager
def cuda_graphs() -> Iterator[Calls]:
    """Compiled parts replayed as CUDA graphs, one for each shape."""

    def begin(*_: Any) -> None:
        torch.compiler.cudagraph_mark_step_begin()

    with compiler_options(**{"triton.cudagraphs": True}) as calls:
        registered = register_optimizer_step_post_hook(begin)
        try:
            yield calls
        finally:
            registered.remove()


def one_length() -> AbstractContextManager[Calls]:
    """Compiled text layers see few numbers of tokens, each known: padded by an eighth at most.

    In phase II, whose rows are full, it is one; small batches have about three.
    """

    def padded(layer_part: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def call(layer: Any, *states_TD: Tensor) -> Tensor:
            tokens = len(states_TD[0])
            few = max(1, (1 << (tokens - 1).bit_length()) // 16)
            rest = -tokens % few
            states_ND = [pad(states, (0, 0, 0, rest)) for states in states_TD]
            return layer_part(layer, *states_ND)[:tokens]

        return call

    return replaced(cxr_bert, "_any_length", padded)


# --- local alignment ------------------------------------------------------------------------------


@contextmanager
def alignment_in_tf32() -> Iterator[Calls]:
    """Its products alone, forward and backward."""
    match, calls = local_alignment._Match, Calls()

    def in_tf32(part: Callable[..., Any]) -> Any:
        def call(*args: Any) -> Any:
            with tf32_products():
                return part(*args)

        return staticmethod(calls.counting(call))

    parts = {name: in_tf32(getattr(match, name)) for name in ("forward", "backward")}
    with patch.multiple(match, **parts):
        yield calls


@contextmanager
def alignment_in_bf16() -> Iterator[Calls]:
    """Everything of it but the sum of a text's words."""
    match, calls = local_alignment._Match, Calls()

    def apply(region_BMD: Tensor, word_ND: Tensor, *rest: Any) -> Tensor:
        narrow = (values.to(torch.bfloat16) for values in (region_BMD, word_ND))
        score_BN: Tensor = match.apply(*narrow, *rest)
        return score_BN.to(region_BMD.dtype)

    with patch.object(local_alignment, "_Match", SimpleNamespace(apply=calls.counting(apply))):
        yield calls


def alignment_compiled() -> AbstractContextManager[Calls]:
    """All texts with all images at once, as few kernels as the compiler makes of it."""
    fast = compiled(at_once, dynamic=True)

    def similarity(
        region_BMD: Tensor, word_ILD: Tensor, lengths: Sequence[int], matching: Matching
    ) -> Tensor:
        longest, device = max(lengths), word_ILD.device
        there_IL = (torch.arange(longest) < torch.tensor(lengths)[:, None]).to(device)
        with torch.autocast(device.type, enabled=False):
            return fast(region_BMD.float(), word_ILD[:, :longest].float(), there_IL, matching)

    return replaced(local_alignment_term, "local_similarity", similarity)
