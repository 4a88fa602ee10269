"""Cross-attention over patches against transformers' BERT with the same weights, both ways."""

import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertLMHeadModel

from cxrflow.encoders.cross_attention import CrossAttention
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings

SIZES = TextEncoderSettings(
    layers=2, width=32, heads=4, feed_forward=48, positions=40, projection=16
)
LENGTHS = (9, 4, 40, 9, 33)


def text_and_cross(patch_width: int = 6) -> tuple[CXRBert, CrossAttention]:
    torch.manual_seed(0)
    text = CXRBert.build(SIZES, vocabulary_size=50, pad_id=0).eval()
    cross = CrossAttention(text.config, patch_width).eval()
    for parameter in cross.parameters():  # larger than at the start, when they hardly matter
        nn.init.normal_(parameter, std=0.3)
    return text, cross


def in_transformers(text: CXRBert, cross: CrossAttention) -> BertLMHeadModel:
    """The same network; what it attends to is patches after their linear layer."""
    sizes = {**text.config.model_dump(), "is_decoder": True, "add_cross_attention": True}
    theirs = BertLMHeadModel(BertConfig(**sizes)).eval()
    weights = {n: v for n, v in text.state_dict().items() if not n.startswith("cls_proj")}
    for name, value in cross.state_dict().items():
        if not name.startswith("patches."):
            _, number, rest = name.split(".", 2)
            weights[f"bert.encoder.layer.{number}.crossattention.{rest}"] = value
    theirs.load_state_dict(weights)
    return theirs


def batch() -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.randint(5, 50, (len(LENGTHS), max(LENGTHS)))
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return ids * mask, mask, torch.randn(len(LENGTHS), 7, 6)


@pytest.mark.parametrize("causal", [True, False])
def test_states_and_gradients_equal_those_of_transformers(causal: bool) -> None:
    text, cross = text_and_cross()
    theirs = in_transformers(text, cross)
    ids, mask, patches = batch()
    weight = torch.randn(*ids.shape, SIZES.width) * mask[:, :, None]

    states = cross.states(text.bert, ids, mask, patches, causal)
    (states * weight).sum().backward()

    seen = mask
    if not causal:
        for layer in theirs.bert.encoder.layer:
            layer.attention.self.is_causal = False
        seen = (1.0 - mask[:, None, None].expand(-1, -1, ids.shape[1], -1)) * -1e9
    expected = (
        theirs.bert(
            ids, attention_mask=seen, encoder_hidden_states=cross.patches(patches)
        ).last_hidden_state
        * mask[:, :, None]
    )
    cross_patches = cross.patches.weight.grad
    assert cross_patches is not None
    found = cross_patches.clone()
    cross.zero_grad()
    (expected * weight).sum().backward()

    torch.testing.assert_close(states, expected, atol=2e-5, rtol=1e-4)
    assert not states[1, 4:].any()
    torch.testing.assert_close(found, cross.patches.weight.grad, atol=1e-4, rtol=1e-3)
    keys = [dict(one.named_parameters()) for one in (text.bert, theirs.bert)]
    for name, parameter in keys[0].items():
        torch.testing.assert_close(
            parameter.grad, keys[1][name].grad, atol=1e-3, rtol=1e-3, msg=name
        )


def test_a_token_of_a_causal_text_does_not_see_what_follows() -> None:
    text, cross = text_and_cross()
    ids, mask, patches = batch()
    changed = ids.clone()
    changed[:, 3] = 49
    one, other = (cross.states(text.bert, i, mask, patches, causal=True) for i in (ids, changed))
    assert torch.equal(one[:, :3], other[:, :3])
    assert not torch.allclose(one[:, 3], other[:, 3])


def test_each_text_looks_at_its_own_image() -> None:
    text, cross = text_and_cross()
    ids, mask, patches = batch()
    other = patches.clone()
    other[2] += 1
    one, two = (cross.states(text.bert, ids, mask, p, causal=False) for p in (patches, other))
    same = [torch.equal(a, b) for a, b in zip(one, two, strict=True)]
    assert same == [True, True, False, True, True]


def test_initial_weights_are_berts() -> None:
    torch.manual_seed(1)
    cross = CrossAttention(CXRBert.build(SIZES, 50, 0).config, 6)
    assert cross.patches.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not cross.layer[1].self.query.bias.any()
    assert (cross.layer[1].output.LayerNorm.weight == 1).all()
