"""Mixed precision: what is computed in float32 all the same, and what still learns."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from literal import draw
from torch import Tensor, nn
from torch.nn.functional import normalize

from cxrflow.encoders.image_encoder import Frames, build_trunk
from cxrflow.encoders.settings import VitSettings
from cxrflow.objectives.biovil import (
    global_alignment,
    masked_language_modelling,
    report_likelihood,
    section_matching,
    symmetric_cross_entropy,
)
from cxrflow.objectives.doubly_stochastic import doubly_stochastic
from cxrflow.objectives.local_alignment import local_similarity
from cxrflow.objectives.mirrored_pairs import mirrored_pairs, side_scores
from cxrflow.objectives.momentum_contrast import momentum_contrast
from cxrflow.objectives.pair_matching import pair_matching
from cxrflow.objectives.prototypes import prototype_alignment
from cxrflow.objectives.simclr import nt_xent
from cxrflow.objectives.token_alignment import token_alignment
from cxrflow.pretrain.objective import Term
from cxrflow.pretrain.terms.findings import Findings
from cxrflow.pretrain.terms.global_alignment import GlobalAlignment
from cxrflow.pretrain.terms.label_settings import FindingsSettings
from cxrflow.pretrain.terms.mgca_settings import PrototypesSettings
from cxrflow.pretrain.terms.momentum_contrast import MomentumContrast
from cxrflow.pretrain.terms.neighbours import Neighbours
from cxrflow.pretrain.terms.plain_simclr import PlainSimclr
from cxrflow.pretrain.terms.prototypes import Prototypes
from cxrflow.pretrain.terms.section_matching import SectionMatching
from cxrflow.pretrain.terms.settings import (
    GlobalAlignmentSettings,
    MomentumContrastSettings,
    PlainSimclrSettings,
    SectionMatchingSettings,
    SimclrSettings,
)
from cxrflow.pretrain.terms.simclr import Simclr
from cxrflow.training.precision import choose_precision

COUNT, WIDTH = 12, 24
TARGETS = torch.arange(COUNT)
WEIGHTS = torch.full((3, 4), 0.25)
IS_WORD = torch.ones(3, 4, dtype=torch.bool)
LABELS = (draw(COUNT, WIDTH, seed=4) > 0).float()


def test_a_gpu_that_emulates_bf16_computes_in_fp32(monkeypatch: pytest.MonkeyPatch) -> None:
    """As T4 and V100 do, of which torch says that they support it."""
    cuda = torch.device("cuda")
    for capability, precision in ((7, "fp32"), (8, "bf16")):
        properties = SimpleNamespace(major=capability)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _, made=properties: made)
        monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda _: True)
        assert choose_precision("auto", cuda) == precision
        assert choose_precision("bf16", cuda) == "bf16"


def units(count: int, seed: int) -> Tensor:
    return normalize(draw(count, WIDTH, seed=seed), dim=1).float()


def inputs() -> tuple[Tensor, Tensor]:
    """Rows in float32, alike enough that the last bits of their products count."""
    common = draw(1, WIDTH, seed=2)
    first, second = (common + 0.5 * draw(COUNT, WIDTH, seed=seed) for seed in (0, 1))
    return first.float().requires_grad_(), second.float().requires_grad_()


def in_threes(rows: Tensor) -> Tensor:
    return rows.unflatten(0, (3, 4))


def in_twos(rows: Tensor) -> Tensor:
    return rows.unflatten(0, (-1, 2))


LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "global alignment": lambda a, b: global_alignment(a, b, 0.07),
    "sections": section_matching,
    "sections, any length": lambda a, b: section_matching(a, b, 0.5, normalised=False),
    "SimCLR": nt_xent,
    "MoCo": lambda a, b: momentum_contrast(a, normalize(b, dim=1), units(9, 3), 0.07, COUNT),
    "sides": lambda a, b: mirrored_pairs(side_scores(in_twos(a), in_twos(b), 0.1), COUNT // 2),
    "prototypes": lambda a, b: prototype_alignment(
        normalize(a, dim=1), normalize(b, dim=1), units(5, 3)
    ),
    "tokens": lambda a, b: token_alignment(
        in_threes(a), IS_WORD, WEIGHTS, in_threes(b), WEIGHTS
    ).sum(),
    "local alignment": lambda a, b: symmetric_cross_entropy(
        local_similarity(in_threes(a), in_threes(b), [4, 2, 3])
    ),
    "masked words": lambda a, b: masked_language_modelling(a, TARGETS, 3),
    "words of reports": lambda a, b: report_likelihood(a, TARGETS, COUNT),
    "attention": lambda a, b: doubly_stochastic(a, COUNT),
    "real and fake": lambda a, b: pair_matching(a[:, 0], b[:, 0], COUNT),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_are_as_exact_as_in_float32(name: str) -> None:
    """Autocast would make bfloat16 of products, with errors of one in a hundred."""
    rows = inputs()
    exact = LOSSES[name](*rows)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = LOSSES[name](*rows)
    assert mixed.dtype == torch.float32
    torch.testing.assert_close(mixed, exact, rtol=1e-6, atol=1e-6)
    gradients, expected = (
        torch.autograd.grad(loss, rows, allow_unused=True, materialize_grads=True)
        for loss in (mixed, exact)
    )
    torch.testing.assert_close(gradients, expected, rtol=1e-6, atol=1e-6)


def compared_terms() -> dict[str, Term]:
    """Terms whose heads pass on what they get: a layer is bfloat16 in mixed precision."""
    trunk: Any = nn.Identity()
    trunk.features = WIDTH
    image = SimpleNamespace(settings=SimpleNamespace(projection=WIDTH))
    encoders: Any = SimpleNamespace(trunk=trunk, image=image, ghost_batch=None)
    sizes = {"hidden": WIDTH, "output": WIDTH}
    names = [str(number) for number in range(WIDTH)]
    terms: dict[str, Any] = {
        "global alignment": GlobalAlignment(GlobalAlignmentSettings(temperature=0.07), encoders),
        "sections": SectionMatching(SectionMatchingSettings(), encoders),
        "SimCLR": Simclr(SimclrSettings(**sizes), encoders),
        "SimCLR, plain head": PlainSimclr(PlainSimclrSettings(**sizes), encoders),
        "MoCo": MomentumContrast(MomentumContrastSettings(queue=9, **sizes), encoders),
        "prototypes": Prototypes(PrototypesSettings(number=5), encoders),
        "findings": Findings(FindingsSettings(classes=names), encoders),
    }
    for term in terms.values():
        term.eval().head = nn.Identity()
    terms["MoCo"].keys = lambda views: (units(COUNT, 3), slice(0, COUNT))
    terms["findings"].classifier = nn.Identity()
    return terms


@pytest.mark.parametrize("name", compared_terms())
def test_scores_of_validation_are_as_exact_as_in_float32(name: str) -> None:
    a, b = inputs()
    views: Any = SimpleNamespace(
        images={
            0: SimpleNamespace(projected_global=normalize(a, dim=1), pooled=a),
            1: SimpleNamespace(pooled=b),
        },
        texts={
            "intact": SimpleNamespace(projected=b),
            "findings": SimpleNamespace(projected=a),
            "impression": SimpleNamespace(projected=b),
        },
        batch=SimpleNamespace(labels=LABELS),
    )
    term = compared_terms()[name]
    torch.manual_seed(0)
    exact = term.comparisons(views)
    with torch.autocast("cpu", torch.bfloat16):
        mixed = term.comparisons(views)
    assert mixed is not None and exact is not None
    scores = [comparisons.groups[0].score_KK for comparisons in (mixed, exact)]
    torch.testing.assert_close(*scores, rtol=1e-6, atol=1e-6)


def test_neighbours_are_found_as_in_float32() -> None:
    queue = normalize(draw(1, WIDTH) + 1e-3 * draw(40, WIDTH, seed=1), dim=1).float()
    term: Any = SimpleNamespace(queue=queue, studies=torch.arange(40))
    studies = torch.full((40,), 99)
    with torch.autocast("cpu", torch.bfloat16):
        nearest = Neighbours.nearest(term, queue, studies)
    assert torch.equal(nearest, torch.arange(40))  # each text is the one most like itself


def test_a_transformer_learns_though_attention_is_read_first() -> None:
    """[CLS] attends without a gradient, and first: weights cast for it must keep theirs."""
    torch.manual_seed(0)
    sizes = {"blocks": 2, "width": 12, "heads": 2, "patch": 4, "grid": 2, "channels": 1}
    trunk: Any = build_trunk(VitSettings.model_validate({"kind": "vit", **sizes}))
    with torch.autocast("cpu", torch.bfloat16):
        patches = trunk(Frames(torch.rand(3, 1, 8, 8)))
        assert patches.cls_attention is not None
        loss = patches.pooled.square().sum() + patches.grid.sin().sum()
    loss.backward()
    gradient = trunk.blocks[-1].attn.qkv.weight.grad
    assert gradient is not None and gradient.abs().max() > 0
