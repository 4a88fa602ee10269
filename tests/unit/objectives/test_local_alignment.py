"""Local alignment against a literal float64 transcription, of words that pieces are joined to."""

import math
from collections.abc import Callable

import pytest
import torch
from literal import identical, same
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from torch.utils._python_dispatch import TorchDispatchMode

from cxrflow.encoders.word_aggregation import aggregate_words
from cxrflow.objectives.biovil import symmetric_cross_entropy
from cxrflow.objectives.local_alignment import Matching, local_similarity

LENGTHS = [4, 1, 7, 2, 5]
MATCHINGS = {
    "published code": Matching(),
    "mean over words": Matching(aggregation="mean"),
    "one softmax": Matching(word_softmax=False),
    "low-data equations": Matching(2.0, 2.0, word_softmax=False, match="dot"),
}


def draw(lengths: list[int], seed: int = 0, regions: int = 6, width: int = 3) -> tuple[Tensor, ...]:
    """Regions and padded words in float64; what stands behind a text is not a number."""
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(len(lengths), regions, width, generator=generator, dtype=torch.float64)
    words = torch.randn(len(lengths), 7, width, generator=generator, dtype=torch.float64)
    for text, length in zip(words, lengths, strict=True):
        text[length:] = math.nan
    return images.requires_grad_(), words.requires_grad_()


def local_loss(images, words, lengths, matching=MATCHINGS["published code"], temp3=10.0, **budget):
    """The loss of pairs, as the term of that name makes it of all similarities."""
    similarity = local_similarity(images, words, lengths, matching, **budget)
    return symmetric_cross_entropy(temp3 * similarity)


def literal_similarity(
    images: Tensor, words: Tensor, lengths: list[int], matching: Matching
) -> Tensor:
    """Z of the module's text, one exponential at a time; images x texts."""
    rows = []
    for image in images:
        row = []
        for text, length in zip(words, lengths, strict=True):
            s = torch.stack([torch.stack([t @ v for v in image]) for t in text[:length]])
            p = torch.exp(s) / torch.exp(s).sum(0) if matching.word_softmax else s
            a = torch.exp(matching.temp1 * p)
            a = a / a.sum(1, keepdim=True)
            inside = []
            for t, shares in zip(text[:length], a, strict=True):
                c = sum(share * v for share, v in zip(shares, image, strict=True))
                score = t @ c
                if matching.match == "cosine":
                    score = score / (torch.sqrt(t @ t) * torch.sqrt(c @ c))
                inside.append(torch.exp(matching.temp2 * score))
            total = torch.stack(inside)
            row.append(torch.log(total.sum() if matching.aggregation == "sum" else total.mean()))
        rows.append(torch.stack(row))
    return torch.stack(rows)


def literal_loss(z: Tensor, temp3: float) -> Tensor:
    exponentials = torch.exp(temp3 * z)
    matched = exponentials.diagonal()
    terms = torch.log(matched / exponentials.sum(0)) + torch.log(matched / exponentials.sum(1))
    return -terms.mean()


@pytest.fixture(params=[False, True], ids=["text by text", "as on a GPU"])
def together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over words text by text, and of all texts of a chunk at once."""
    monkeypatch.setattr("cxrflow.objectives.local_alignment._together", lambda _: request.param)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("matching", MATCHINGS.values(), ids=MATCHINGS)
@pytest.mark.parametrize("lengths", [LENGTHS, [1, 1, 1], [7, 7]], ids=str)
def test_loss_and_gradients_are_the_equations(lengths: list[int], matching: Matching) -> None:
    images, words = draw(lengths)
    literal = literal_loss(literal_similarity(images, words, lengths, matching), 10.0)
    same(local_loss(images, words, lengths, matching), literal, images, words)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("matching", MATCHINGS.values(), ids=MATCHINGS)
def test_scores_without_gradients_are_the_equations(matching: Matching) -> None:
    images, words = draw(LENGTHS)
    expected = literal_similarity(images, words, LENGTHS, matching)
    with torch.inference_mode():
        ours = local_similarity(images, torch.nan_to_num(words), LENGTHS, matching, 1)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("kept", [0, 1, 2, 99])
@pytest.mark.parametrize("texts_a_chunk", [1, 2, 3, 5])
def test_chunks_and_what_is_kept_change_nothing(texts_a_chunk: int, kept: int) -> None:
    lengths = [3, 3, 3, 3, 3]
    images, words = draw(lengths)
    text_bytes = 3 * len(images) * images.shape[1] * 8
    chunk_bytes = text_bytes * texts_a_chunk
    # Of a chunk both its attention (6 regions) and its contexts (3 features) are kept.
    kept_bytes = kept * (text_bytes + text_bytes // 2)
    literal = literal_loss(literal_similarity(images, words, lengths, Matching()), 3.0)
    budget = {"chunk_bytes": chunk_bytes, "kept_bytes": kept_bytes}
    ours = local_loss(images, words, lengths, temp3=3.0, **budget)
    same(ours, literal, images, words)


@pytest.mark.usefixtures("together")
@pytest.mark.parametrize("matching", MATCHINGS.values(), ids=MATCHINGS)
def test_gradcheck(matching: Matching) -> None:
    lengths = [2, 1, 3]
    images, words = draw(lengths, regions=4)

    def similarity(images: Tensor, words: Tensor) -> Tensor:
        return local_similarity(images, torch.nan_to_num(words), lengths, matching, 1, 200)

    known = words.detach().nan_to_num().requires_grad_()
    assert torch.autograd.gradcheck(similarity, (images, known))


def test_one_pair_costs_nothing_and_leaves_the_next_batch_alone() -> None:
    batch, pair = draw(LENGTHS), draw([3], seed=1)
    before = local_loss(*batch, LENGTHS)
    alone = local_loss(*pair, [3])
    alone.backward()
    assert alone.item() == 0
    assert all(torch.nan_to_num(side.grad).abs().max() == 0 for side in pair)
    assert torch.equal(local_loss(*batch, LENGTHS), before)


def test_the_same_inputs_give_the_same_bits_also_for_a_second_backward() -> None:
    images, words = (side.detach().float().requires_grad_() for side in draw(LENGTHS))
    loss = local_loss(images, words, LENGTHS)
    first = torch.autograd.grad(loss, (images, words), retain_graph=True)
    again = torch.autograd.grad(loss, (images, words))
    third = torch.autograd.grad(local_loss(images, words, LENGTHS), (images, words))
    identical(again, first)
    identical(third, first)


@pytest.mark.usefixtures("together")
def test_large_similarities_do_not_overflow() -> None:
    images, words = (100 * side.detach().float() for side in draw(LENGTHS))
    images.requires_grad_()
    loss = local_loss(images, words, LENGTHS)
    (gradient,) = torch.autograd.grad(loss, images)
    assert loss.isfinite() and gradient.isfinite().all()


def test_a_word_of_zeros_has_a_finite_gradient() -> None:
    images, words = draw([2, 2])
    words = words.detach()
    words[0, 0] = 0
    words.requires_grad_()
    gradients = torch.autograd.grad(local_loss(images, words, [2, 2]), (images, words))
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_autocast_changes_nothing() -> None:
    """Products would be bfloat16 under autocast, with errors of one in a hundred."""
    images, words = (side.detach().float().requires_grad_() for side in draw(LENGTHS, width=32))
    plain = local_loss(images, words, LENGTHS)
    expected = torch.autograd.grad(plain, (images, words))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = local_loss(images, words, LENGTHS)
        gradients = torch.autograd.grad(loss, (images, words))
    identical((loss, *gradients), (plain, *expected))


def test_bfloat16_features_are_summed_in_float32() -> None:
    rounded = [side.detach().bfloat16() for side in draw(LENGTHS, width=32)]
    images, words = (side.clone().requires_grad_() for side in rounded)
    loss = local_loss(images, words, LENGTHS)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, local_loss(*(side.float() for side in rounded), LENGTHS))
    loss.backward()
    assert images.grad is not None and images.grad.dtype == torch.bfloat16


class Largest(TorchDispatchMode):
    """Bytes of the largest storage that any operator returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Callable, types: object, args: tuple = (), kwargs: dict | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(value, Tensor):
                self.bytes = max(self.bytes, value.untyped_storage().nbytes())
        return result


def largest(texts: int, **budget: int) -> int:
    """Of a forward and a backward pass with 4 images of 400 regions and texts of 5 words."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(4, 400, 8, generator=generator).requires_grad_()
    words = torch.randn(texts, 5, 8, generator=generator).requires_grad_()
    with Largest() as watch:
        local_similarity(images, words, [5] * texts, **budget).sum().backward()
    return watch.bytes


def test_no_tensor_grows_with_the_texts() -> None:
    one_text = 5 * 4 * 400 * 4
    assert largest(40, chunk_bytes=2 * one_text) == 2 * one_text
    assert largest(80, chunk_bytes=2 * one_text) == 2 * one_text
    assert largest(80, chunk_bytes=1) == 4 * 400 * 8 * 4  # the regions themselves
    assert largest(40, chunk_bytes=40 * one_text) == 40 * one_text  # what the watch would see


@pytest.mark.parametrize("kept_texts", [0, 3])
def test_no_more_is_kept_than_allowed(kept_texts: int) -> None:
    images, words = draw([3, 3, 3, 3, 3])
    one_text = 3 * 5 * (6 + 3) * 8
    saved: list[int] = []

    def pack(value: Tensor) -> Tensor:
        saved.append(value.nbytes)
        return value

    def kept_by(kept_bytes: int) -> int:
        saved.clear()
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            local_similarity(images, words, [3] * 5, chunk_bytes=1, kept_bytes=kept_bytes)
        return sum(saved)

    assert kept_by(kept_texts * one_text + 1) - kept_by(0) == kept_texts * one_text


def test_the_low_data_equations_on_their_own_scale() -> None:
    """Eq. 2 to 4 with tau = tau_2 = tau_3 = 0.5, written with the paper's own symbols."""
    tau = 0.5
    images, words = draw(LENGTHS)
    v, t = normalize(images.detach(), dim=2), normalize(torch.nan_to_num(words.detach()), dim=2)
    z = torch.zeros(5, 5, dtype=torch.float64)
    for k in range(5):
        for i, length in enumerate(LENGTHS):
            c = torch.softmax(t[i, :length] @ v[k].T / tau, 1) @ v[k]
            z[k, i] = tau * torch.logsumexp((c * t[i, :length]).sum(1) / tau, 0)
    target = torch.arange(5)
    paper = (cross_entropy(z / tau, target) + cross_entropy(z.T / tau, target)) / 2
    matching = Matching(1 / tau, 1 / tau, word_softmax=False, match="dot")
    ours = local_loss(v, t, LENGTHS, matching, temp3=tau / tau) / 2
    torch.testing.assert_close(ours, paper, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("lengths", "regions", "words"),
    [
        ([2, 0], (2, 4, 3), (2, 5, 3)),
        ([2, 6], (2, 4, 3), (2, 5, 3)),
        ([2], (2, 4, 3), (2, 5, 3)),
        ([2, 2], (2, 4, 3), (2, 5, 4)),
    ],
    ids=["no words", "too long", "a length missing", "widths differ"],
)
def test_what_does_not_fit_is_refused(lengths, regions, words):
    with pytest.raises(ValueError, match="words|features"):
        local_similarity(torch.ones(regions), torch.ones(words), lengths)


PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "no", "pleural", "##effusion", "##s", "heart"]
TEXTS = [
    "[CLS] no ##effusion ##s [SEP] [PAD] [PAD]",
    "[CLS] pleural ##s heart ##effusion no [SEP]",
    "[CLS] [UNK] [SEP] [PAD] [PAD] [PAD] [PAD]",
    "##s ##s heart [PAD] ##effusion no [SEP]",
    "heart [SEP] [PAD] [PAD] [PAD] [PAD] [PAD]",
]
IDS = torch.tensor([[PIECES.index(piece) for piece in text.split()] for text in TEXTS])
CONTINUES = torch.tensor([piece.startswith("##") for piece in PIECES])


def table(*dropped: str) -> Tensor:
    return torch.tensor([piece in dropped for piece in PIECES])


def layer_states(layers: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (layers, *IDS.shape, 3)
    states = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return [state.requires_grad_() for state in states]


def literal(layers: list[Tensor], dropped: tuple[str, ...]) -> list[list[Tensor]]:
    """Words of every text, piece by piece."""
    texts = []
    for row, text in enumerate(TEXTS):
        words: list[Tensor] = []
        for place, piece in enumerate(text.split()):
            if piece in dropped:
                continue
            state = sum((layer[row, place] for layer in layers), torch.zeros(3).to(layers[0]))
            if piece.startswith("##") and words:
                words[-1] = words[-1] + state
            else:
                words.append(state)
        texts.append(words)
    return texts


@pytest.mark.parametrize("layers", [1, 4])
@pytest.mark.parametrize("dropped", [("[SEP]", "[PAD]"), ("[CLS]", "[SEP]", "[PAD]")])
def test_words_and_gradients_equal_a_literal_loop(dropped: tuple[str, ...], layers: int) -> None:
    states = layer_states(layers)
    words, lengths = aggregate_words(states, IDS, CONTINUES, table(*dropped))
    wanted = literal(states, dropped)
    assert lengths == [len(text) for text in wanted]
    assert words.shape == (len(TEXTS), max(lengths), 3)
    slope = torch.randn(words.shape, generator=torch.Generator().manual_seed(1)).double()
    total = torch.zeros((), dtype=torch.float64)
    for row, text in enumerate(wanted):
        assert not words[row, len(text) :].any()
        for place, word in enumerate(text):
            torch.testing.assert_close(words[row, place], word)
            total = total + (word * slope[row, place]).sum()
    found = torch.autograd.grad(words, states, slope)
    torch.testing.assert_close(found, torch.autograd.grad(total, states))


def test_a_text_of_dropped_pieces_has_no_words() -> None:
    (states,) = layer_states(1)
    everything = torch.ones(len(PIECES), dtype=torch.bool)
    words, lengths = aggregate_words([states], IDS, CONTINUES, everything)
    assert lengths == [0] * len(TEXTS) and words.shape == (len(TEXTS), 0, 3)


def test_bfloat16_states_give_bfloat16_words() -> None:
    states = layer_states(4, torch.bfloat16)
    exact = aggregate_words([s.double() for s in states], IDS, CONTINUES, table("[PAD]")).word_BWD
    words = aggregate_words(states, IDS, CONTINUES, table("[PAD]")).word_BWD
    assert words.dtype == torch.bfloat16
    torch.testing.assert_close(words.double(), exact, rtol=0.02, atol=0.05)


def test_local_alignment_takes_the_words_as_they_are() -> None:
    """What stands behind a text is not read, so a longer batch gives the same similarities."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(len(TEXTS), 6, 3, generator=generator, dtype=torch.float64)
    states = layer_states(2)
    words, lengths = aggregate_words(states, IDS, CONTINUES, table("[SEP]", "[PAD]"))
    padded = torch.cat([words, torch.full_like(words, 9.0)], 1)
    similarity = local_similarity(images, words, lengths)
    torch.testing.assert_close(similarity, local_similarity(images, padded, lengths))
    similarity.sum().backward()
    assert all(state.grad is not None and state.grad.isfinite().all() for state in states)


@pytest.mark.parametrize("layers", [[], [torch.zeros(5, 6, 3)]], ids=["none", "shorter"])
def test_words_that_do_not_fit_are_refused(layers: list[Tensor]) -> None:
    with pytest.raises(ValueError, match="do not fit ids"):
        aggregate_words(layers, IDS, CONTINUES, table())
