"""Word aggregation against a literal loop over pieces, and as input of the local loss."""

import pytest
import torch
from torch import Tensor

from cxrflow.encoders.word_aggregation import aggregate_words
from cxrflow.objectives.local_alignment import local_similarity

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


def draw(layers: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
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
    states = draw(layers)
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
    for one, other in zip(found, torch.autograd.grad(total, states), strict=True):
        torch.testing.assert_close(one, other)


def test_a_text_of_dropped_pieces_has_no_words() -> None:
    (states,) = draw(1)
    everything = torch.ones(len(PIECES), dtype=torch.bool)
    words, lengths = aggregate_words([states], IDS, CONTINUES, everything)
    assert lengths == [0] * len(TEXTS) and words.shape == (len(TEXTS), 0, 3)


def test_bfloat16_states_give_bfloat16_words() -> None:
    states = draw(4, torch.bfloat16)
    exact = aggregate_words([s.double() for s in states], IDS, CONTINUES, table("[PAD]")).word_BWD
    words = aggregate_words(states, IDS, CONTINUES, table("[PAD]")).word_BWD
    assert words.dtype == torch.bfloat16
    torch.testing.assert_close(words.double(), exact, rtol=0.02, atol=0.05)


def test_local_alignment_takes_the_words_as_they_are() -> None:
    """What stands behind a text is not read, so a longer batch gives the same similarities."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(len(TEXTS), 6, 3, generator=generator, dtype=torch.float64)
    states = draw(2)
    words, lengths = aggregate_words(states, IDS, CONTINUES, table("[SEP]", "[PAD]"))
    padded = torch.cat([words, torch.full_like(words, 9.0)], 1)
    similarity = local_similarity(images, words, lengths)
    torch.testing.assert_close(similarity, local_similarity(images, padded, lengths))
    similarity.sum().backward()
    assert all(state.grad is not None and state.grad.isfinite().all() for state in states)


@pytest.mark.parametrize("layers", [[], [torch.zeros(5, 6, 3)]], ids=["none", "shorter"])
def test_what_does_not_fit_is_refused(layers: list[Tensor]) -> None:
    with pytest.raises(ValueError, match="do not fit ids"):
        aggregate_words(layers, IDS, CONTINUES, table())
