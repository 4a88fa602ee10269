"""MGCA's losses: equal to what its published code gives, and to their equations in float64."""

from pathlib import Path

import numpy as np
import pytest
import torch
from literal import in_float64
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import global_alignment
from cxrflow.objectives.prototypes import prototype_alignment, sinkhorn
from cxrflow.objectives.token_alignment import TokenMatching, token_alignment, token_weights

__all__ = ["in_float64"]
# Losses that MGCA's published code gave for random features: 6 pairs of up to 9 words and 16
# patches of 12 features. Attention is that of [CLS], of images by each of 3 heads.
PUBLISHED = {name: torch.from_numpy(np.array(value)) for name, value in
             np.load(Path(__file__).with_name("mgca_losses.npz")).items()}  # fmt: skip
PLACES = torch.arange(PUBLISHED["words"].shape[1])
IS_WORD = PUBLISHED["lengths"][:, None] > PLACES
AS_CODED = TokenMatching(padding=True, unit_context=False)


def tokens() -> tuple[Tensor, ...]:
    """The arguments of token alignment."""
    return (
        PUBLISHED["words"],
        IS_WORD,
        token_weights(PUBLISHED["word_attention"]),
        PUBLISHED["patches"],
        token_weights(PUBLISHED["patch_attention"].mean(1)),
    )


def units(name: str) -> Tensor:
    return normalize(PUBLISHED[name], dim=1)


def test_global_alignment_in_float32_is_near_the_published_one() -> None:
    ours = global_alignment(PUBLISHED["image"], PUBLISHED["report"], temperature=0.07)
    assert float(ours) == pytest.approx(float(PUBLISHED["loss_ita"]), abs=2e-5)


@pytest.mark.usefixtures("in_float64")
def test_global_alignment_is_the_published_one() -> None:
    ours = global_alignment(PUBLISHED["image"], PUBLISHED["report"], temperature=0.07)
    assert ours.dtype == torch.float64
    assert float(ours) == pytest.approx(float(PUBLISHED["loss_ita"]), abs=1e-12)
    some = [PUBLISHED[name].clone().requires_grad_() for name in ("image", "report")]
    assert gradcheck(lambda v, t: global_alignment(v, t, temperature=0.07), some)


def test_token_alignment_is_the_published_one() -> None:
    ours = token_alignment(*tokens(), AS_CODED).mean()
    assert float(ours) == pytest.approx(float(PUBLISHED["loss_local"]), abs=1e-7)
    assert float(token_alignment(*tokens()).mean()) != pytest.approx(float(ours), abs=1e-3)


def test_prototype_alignment_is_the_published_one() -> None:
    ours = prototype_alignment(units("image"), units("report"), PUBLISHED["prototypes"])
    assert float(ours) == pytest.approx(float(PUBLISHED["loss_proto"]), abs=1e-7)


@pytest.mark.parametrize("padding", [False, True])
@pytest.mark.parametrize("unit_context", [False, True])
def test_token_alignment_is_its_equation(padding: bool, unit_context: bool) -> None:
    """Word by word and patch by patch, one pair after the other."""
    matching = TokenMatching(0.1, padding, unit_context)
    words, _, word_weights, patches, patch_weights = tokens()
    for pair, loss in enumerate(token_alignment(*tokens(), matching)):
        length = int(PUBLISHED["lengths"][pair])
        count = len(words[pair]) if padding else length
        word, patch = (normalize_numpy(x[pair].numpy()) for x in (words, patches))
        real = word[:length]
        seen = [attended(w, patch, unit=True) for w in word[:count]]
        expected = matched(word[:count], seen, word_weights[pair].numpy())
        seen = [attended(p, real, unit_context) for p in patch]
        expected += matched(patch, seen, patch_weights[pair].numpy())
        assert float(loss) == pytest.approx(expected, abs=1e-10)


def normalize_numpy(values: np.ndarray) -> np.ndarray:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def attended(token: np.ndarray, others: np.ndarray, unit: bool) -> np.ndarray:
    """What a token sees of others."""
    weights = np.exp(others @ token / 0.1)
    context = weights / weights.sum() @ others
    return context / np.linalg.norm(context) if unit else context


def matched(tokens: np.ndarray, seen: list[np.ndarray], weights: np.ndarray) -> float:
    """Half of the weighted cross-entropies, token by token."""
    total = 0.0
    for i, token in enumerate(tokens):
        row = np.array([token @ context / 0.1 for context in seen])
        column = np.array([other @ seen[i] / 0.1 for other in tokens])
        right = token @ seen[i] / 0.1
        total += weights[i] * (np.log(np.exp(row).sum()) + np.log(np.exp(column).sum()) - 2 * right)
    return float(total / 2)


def test_padding_is_no_word_unless_it_counts() -> None:
    """What stands behind a report changes nothing, not even by its number; as coded it does."""
    words, is_word, weights, *patches = tokens()
    other = words.where(is_word[:, :, None], torch.randn_like(words))
    longer = torch.cat([other, torch.randn(6, 5, 12, dtype=torch.float64)], dim=1)
    is_longer = torch.cat([is_word, torch.zeros(6, 5, dtype=torch.bool)], dim=1)
    padded = torch.cat([weights, torch.zeros(6, 5)], dim=1)
    before = token_alignment(*tokens())
    assert torch.allclose(token_alignment(longer, is_longer, padded, *patches), before, atol=1e-12)
    coded = token_alignment(*tokens(), AS_CODED)
    assert not torch.allclose(token_alignment(other, is_word, weights, *patches, AS_CODED), coded)


def test_weights_are_clipped_to_quantiles() -> None:
    attention = PUBLISHED["word_attention"]
    for row, weights in zip(attention, token_weights(attention), strict=True):
        real = row[row > 0].numpy()
        low, high = np.quantile(real, 0.1), np.quantile(real, 0.9)
        expected = np.where(row > 0, np.clip(row.numpy(), low, high), 0)
        assert np.allclose(weights, expected / expected.sum(), rtol=0, atol=1e-15)
    with pytest.raises(ValueError, match="no token"):
        token_weights(torch.zeros(1, 4))


def test_weights_on_a_gpu_are_not_waited_for() -> None:
    """Nothing is asked of values; where no token has any, the weights are not numbers."""
    with FakeTensorMode():
        assert token_weights(torch.empty(2, 4, device="cuda")).shape == (2, 4)
    attention = torch.tensor([[0.2, 0.0, 0.6], [0.0, 0.0, 0.0]])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch.Tensor, "device", torch.device("cuda"))
        of_one, of_none = token_weights(attention)
    assert torch.equal(of_one, token_weights(attention[:1])[0]) and of_none.isnan().all()


def test_gradients_are_those_of_finite_differences() -> None:
    words, is_word, weights, patches, patch_weights = tokens()
    some = (words[:2].clone().requires_grad_(), patches[:2].clone().requires_grad_())
    for matching in (TokenMatching(), AS_CODED):
        assert gradcheck(
            lambda w, p, matching=matching: token_alignment(
                w, is_word[:2], weights[:2], p, patch_weights[:2], matching
            ),
            some,
        )


def test_prototype_gradients_leave_the_codes_out() -> None:
    """Finite differences of the predictions, with codes that stay as they are."""
    image, text = units("image"), units("report")
    prototypes = PUBLISHED["prototypes"].clone().requires_grad_()
    prototype_alignment(image, text, prototypes).backward()
    codes = [sinkhorn(x @ PUBLISHED["prototypes"].T) for x in (image, text)]

    def predicted(weights: Tensor) -> Tensor:
        logs = [(x @ weights.T / 0.2).log_softmax(1) for x in (text, image)]
        return -sum((c * log).sum() for c, log in zip(codes, logs, strict=True)) / 12

    expected = torch.autograd.functional.jacobian(predicted, PUBLISHED["prototypes"])
    assert torch.allclose(prototypes.grad, expected, atol=1e-12)
    assert gradcheck(predicted, prototypes)


def test_sinkhorn_balances_prototypes() -> None:
    """Codes of a sample add up to 1; with more iterations every prototype has the same share."""
    scores = units("image") @ PUBLISHED["prototypes"].T
    for iterations in (3, 300):
        code = sinkhorn(scores, iterations)
        assert torch.allclose(code.sum(1), torch.ones(6, dtype=torch.float64))
    shares = code.sum(0) / 6
    assert torch.allclose(shares, torch.full_like(shares, 1 / 20), atol=1e-6)
    # Half precision comes in, float32 goes out, and a large common offset does not matter.
    half = sinkhorn(scores.bfloat16())
    assert half.dtype == torch.float32
    assert torch.allclose(sinkhorn(scores + 100), sinkhorn(scores))


def test_codes_of_groups_are_those_of_each_alone() -> None:
    image, text, prototypes = units("image"), units("report"), PUBLISHED["prototypes"]
    grouped = prototype_alignment(image, text, prototypes, group=3)
    alone = [prototype_alignment(image[r], text[r], prototypes) for r in (slice(3), slice(3, 6))]
    assert float(grouped) == pytest.approx(float(sum(alone) / 2))
    shares = [prototype_alignment(image, text, prototypes, rows=slice(a, a + 2)) for a in (0, 2, 4)]
    whole = prototype_alignment(image, text, prototypes)
    assert float(sum(shares)) == pytest.approx(float(whole))
