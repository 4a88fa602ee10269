"""Word aggregation against a loop over tokens, as GLoRIA and MGCA publish it."""

from collections.abc import Callable

import torch
from torch import Tensor

from cxrflow.encoders.word_aggregation import aggregate_words
from speed.race import Race

BATCH, LAYERS, LENGTH, WIDTH = 48, 4, 97, 768
PAD, CLS, SEP, PIECES, CONTINUATIONS = 0, 2, 3, 30_522, 6000

Aggregate = Callable[[list[Tensor]], Tensor]


def draw_pieces() -> Tensor:
    """Texts of 20 to 97 pieces, [CLS] and [SEP] included; about one in five continues a word."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.full((BATCH, LENGTH), PAD)
    for row in rows:
        length = int(torch.randint(20, LENGTH + 1, (), generator=generator))
        row[:length] = torch.randint(5, PIECES, (length,), generator=generator)
        row[0], row[length - 1] = CLS, SEP
    rows[:, 1] = rows[:, 1].clamp(max=PIECES - CONTINUATIONS - 1)  # no text begins inside a word
    return rows


def loop_over_tokens(layers: list[Tensor], ids: Tensor, names: dict[int, str]) -> Tensor:
    """Token by token: a word's vectors are collected and summed when the next word begins.

    [CLS] counts as a word; [SEP] ends the text and is added as one, which the slice that the loss
    takes leaves out.
    """
    embeddings = torch.stack(layers, 1).permute(0, 2, 1, 3)
    texts = []
    for vectors, row in zip(embeddings, ids, strict=True):
        words: list[Tensor] = []
        bank: list[Tensor] = []
        for vector, number in zip(vectors, row, strict=True):
            name = names[number.item()]
            if name == "[SEP]":
                words.append(torch.stack(bank).sum(0))
                words.append(vector)
                break
            if bank and not name.startswith("##"):
                words.append(torch.stack(bank).sum(0))
                bank = []
            bank.append(vector)
        found = torch.stack(words)
        padding = found.new_zeros(LENGTH - len(found), *found.shape[1:])
        texts.append(torch.cat([found, padding]))
    return torch.stack(texts).permute(0, 2, 1, 3).sum(1)


def same(ours: list[Tensor], peer: list[Tensor]) -> None:
    """The words that the loss reads, then gradients where there are any."""
    for found, wanted in zip(ours, peer, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def races() -> list[Race]:
    ids = draw_pieces()
    first = PIECES - CONTINUATIONS
    names = {i: f"##c{i}" if i >= first else f"w{i}" for i in range(PIECES)}
    names |= {PAD: "[PAD]", CLS: "[CLS]", SEP: "[SEP]"}
    continues_V = torch.arange(PIECES) >= first
    dropped_V = torch.zeros(PIECES, dtype=torch.bool)
    dropped_V[[PAD, SEP]] = True
    generator = torch.Generator().manual_seed(1)
    layers = [
        torch.randn(BATCH, LENGTH, WIDTH, generator=generator).requires_grad_()
        for _ in range(LAYERS)
    ]
    lengths = aggregate_words(layers, ids, continues_V, dropped_V).lengths
    longest = max(lengths)
    there_BW1 = (torch.arange(longest) < torch.tensor(lengths)[:, None])[:, :, None]
    slope_BWD = torch.randn(BATCH, longest, WIDTH, generator=generator) * there_BW1

    def ours(states: list[Tensor]) -> Tensor:
        return aggregate_words(states, ids, continues_V, dropped_V).word_BWD

    def loop(states: list[Tensor]) -> Tensor:
        return loop_over_tokens(states, ids, names)[:, :longest]

    def forward(aggregate: Aggregate) -> Callable[[], list[Tensor]]:
        def turn() -> list[Tensor]:
            with torch.no_grad():
                return [torch.where(there_BW1, aggregate(layers), 0.0)]

        return turn

    def both(aggregate: Aggregate) -> Callable[[], list[Tensor]]:
        def turn() -> list[Tensor]:
            return list(torch.autograd.grad(aggregate(layers), layers, slope_BWD))

        return turn

    what = f"{BATCH} texts of at most {LENGTH} pieces, {LAYERS} layers of {WIDTH} features"
    notes = [f"{sum(lengths)} words of {int((ids != PAD).sum())} pieces", "float32"]
    return [
        Race(
            name=f"word_aggregation_{name}",
            what=f"words from pieces, {said}: {what}",
            ours=kind(ours),
            peers={"loop over tokens": kind(loop)},
            check=same,
            gates={"loop over tokens": gate},
            amount=BATCH,
            unit="text",
            notes=notes,
        )
        for name, said, kind, gate in (
            ("forward", "forward alone", forward, 1.0),
            ("training", "forward and backward", both, 1.3),
        )
    ]
