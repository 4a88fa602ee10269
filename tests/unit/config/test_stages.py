"""Encoders run up to a stage and on from it, with a finer grid; the attention of [CLS]."""

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.dilation import refine_grid
from cxrflow.encoders.image_encoder import Frames, ImageTrunk, build_trunk
from cxrflow.encoders.resnet import ResNet
from cxrflow.encoders.settings import (
    ComparisonSettings,
    ImageEncoderSettings,
    MultiImageSettings,
    ResNetSettings,
    TextEncoderSettings,
)

SIZES = {"block": "basic", "layers": (1, 2, 1, 1), "width": 8, "channels": 1}
COMPARISON = ComparisonSettings(width=16, heads=4, feed_forward=24, blocks=2)
KINDS = {
    "resnet": (ResNetSettings(**SIZES, normalisation="half"), None),
    "one of two images": (MultiImageSettings(**SIZES, comparison=COMPARISON), None),
    "some with priors": (MultiImageSettings(**SIZES, comparison=COMPARISON), [2, 0]),
    "all with priors": (MultiImageSettings(**SIZES, comparison=COMPARISON), [0, 1, 2]),
}


def frames(rows: list[int] | None) -> Frames[Tensor]:
    current, prior = torch.rand(2, 3, 1, 32, 32, generator=torch.Generator().manual_seed(0))
    if rows is None:
        return Frames(current)
    return Frames(current, prior[: len(rows)], torch.tensor(rows))


def weighted(trunk: ImageTrunk, grid: Tensor, pooled: Tensor) -> list[Tensor | None]:
    """The gradient of every parameter, of a sum that tells all values apart."""
    loss = (grid * torch.linspace(-1, 1, grid.numel()).view_as(grid)).sum() + pooled.sin().sum()
    return list(torch.autograd.grad(loss, list(trunk.parameters()), allow_unused=True))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_trunk_that_pauses_gives_the_same_bits(kind: str, training: bool) -> None:
    """Values, gradients and batch statistics, with dropout and without."""
    settings, rows = KINDS[kind]
    results = []
    for stage in (None, *range(5)):
        torch.manual_seed(1)
        trunk = build_trunk(settings).train(training)
        images = frames(rows)
        if stage is None:
            patches = trunk(images)
        else:
            patches = trunk.forward_from(trunk.forward_until(images, stage), stage)
        gradients = weighted(trunk, *patches[:2])
        results.append([*patches, *gradients, *trunk.buffers()])
    assert trunk.stages == 4
    for paused in results[1:]:
        for whole, part in zip(results[0], paused, strict=True):
            assert (whole is None) == (part is None)
            assert whole is None or torch.equal(whole, part)


@pytest.mark.parametrize(("kind", "count"), [("resnet", 3), ("some with priors", 5)])
def test_the_features_in_between_are_those_of_the_stages(kind: str, count: int) -> None:
    settings, rows = KINDS[kind]
    trunk = build_trunk(settings).eval()
    images = frames(rows)
    resnet = trunk.encoder
    pixels = torch.cat([image for image in images[:2] if image is not None])
    pixels = (pixels - 0.5) / 0.5 if settings.normalisation == "half" else pixels
    wanted = resnet.maxpool(torch.relu(resnet.bn1(resnet.conv1(pixels))))
    for stage in range(5):
        if stage:
            wanted = getattr(resnet, f"layer{stage}")(wanted)
        hidden = trunk.forward_until(images, stage)
        together = torch.cat([part for part in hidden[:2] if part is not None])
        assert len(together) == count and hidden.rows is images.rows
        torch.testing.assert_close(together, wanted)


def test_changed_features_change_what_follows() -> None:
    """As MedCutMix does: half of one image's features, half of another's."""
    trunk = build_trunk(KINDS["resnet"][0]).eval()
    hidden = trunk.forward_until(frames(None), 2)
    mixed = hidden.each(lambda current: (current + current.roll(1, 0)) / 2)
    resnet = trunk.encoder
    wanted = resnet.layer4(resnet.layer3(mixed.current))
    torch.testing.assert_close(trunk.forward_from(mixed, 2).grid, wanted)


def test_only_images_of_one_time_pass_a_trunk_of_one() -> None:
    settings: ImageEncoderSettings = KINDS["resnet"][0]
    with pytest.raises(ValueError, match="a prior image was given"):
        build_trunk(settings).forward_until(frames([0]), 1)


@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("training", [True, False])
def test_attention_of_cls_is_that_of_transformers(layers: int, training: bool) -> None:
    sizes = TextEncoderSettings(
        layers=layers, width=32, heads=4, feed_forward=64, positions=24, projection=8
    )
    text = CXRBert.build(sizes, vocabulary_size=50, pad_id=0).eval()
    for parameter in text.bert.parameters():
        torch.nn.init.normal_(parameter, std=0.3)  # far from even attention
    config = BertConfig(**text.config.model_dump(), attn_implementation="eager")
    plain = BertModel(config, add_pooling_layer=False).eval()
    plain.load_state_dict(text.bert.state_dict())
    ids = torch.randint(1, 50, (3, 20))
    mask = (torch.arange(20) < torch.tensor([[20], [7], [13]])).long()
    theirs = plain(ids, mask, output_attentions=True).attentions[-1][:, :, 0]
    entering, last = text.last_states(ids, mask, 2)
    ours = text.cls_attention(entering, mask)
    assert ours.shape == (3, 4, 20) and (ours[1, :, 7:] == 0).all()
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
    # Asking for it draws nothing and changes nothing.
    text.train(training)
    torch.manual_seed(0)
    alone = text.hidden_states(ids, mask)
    torch.manual_seed(0)
    entering, last = text.last_states(ids, mask, 2)
    text.cls_attention(entering, mask).sum().backward()
    state = torch.get_rng_state()
    torch.manual_seed(0)
    text.hidden_states(ids, mask)
    assert torch.equal(last, alone) and torch.equal(state, torch.get_rng_state())


TRAINED = ResNetSettings(layers=(1, 2, 2, 3), width=8, channels=1)


def trunk(settings: ResNetSettings) -> ResNet:
    """Weights and batch statistics that are not at their start."""
    torch.manual_seed(0)
    made = ResNet(settings).eval()
    for module in made.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return made


@pytest.mark.parametrize("block", ["basic", "bottleneck"])
@pytest.mark.parametrize(
    ("trained", "refined", "factor"),
    [
        ((False, False, False), (False, False, True), 2),
        ((False, False, False), (False, True, False), 2),
        ((False, False, False), (False, True, True), 4),
        ((False, False, False), (True, True, True), 8),
        ((False, True, False), (False, False, True), 2),
        ((False, True, True), (False, True, True), 1),
        ((False, True, True), (True, False, False), 2),
        ((False, False, False), (False, False, False), 1),
    ],
)
def test_the_old_cells_keep_their_features(block, trained, refined, factor):
    """Every 2nd (4th, 8th) cell of the finer grid is a cell of the grid of the training."""
    settings = TRAINED.model_copy(update={"block": block, "dilate": trained})
    coarse, fine = trunk(settings), ResNet(settings).eval()
    refine_grid(fine, refined)
    fine.load_state_dict(coarse.state_dict())
    images = torch.rand(2, 1, 96, 64)
    with torch.no_grad():
        wanted, found = coarse(images), fine(images)
    rows, columns = wanted.shape[2:]
    assert found.shape[2:] == (rows * factor, columns * factor)
    torch.testing.assert_close(found[:, :, ::factor, ::factor], wanted, rtol=1e-4, atol=1e-5)
    if factor > 1:  # the new ones are no copies
        assert not torch.allclose(found[:, :, 1::factor, ::factor], wanted, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("stages", [(False, False, True), (False, True, True)])
def test_a_refined_resnet_50_is_one_that_was_made_with_dilation(stages):
    refined = trunk(TRAINED)
    made = ResNet(TRAINED.model_copy(update={"dilate": stages})).eval()
    made.load_state_dict(refined.state_dict())
    refine_grid(refined, stages)
    images = torch.rand(2, 1, 64, 64)
    with torch.no_grad():
        torch.testing.assert_close(refined(images), made(images))
