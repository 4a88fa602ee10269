"""Reports word by word: greedy and beam search of a report decoder, in batches, with a cache.

What has been read is kept as keys and values of every block; a step reads one token a sequence.
Both searches give what transformers' ``generate`` gives (``early_stopping`` false). The beams of a
study stand side by side and share the keys and values of its image.

Shapes: B studies, K beams of each, R = B*K sequences, L tokens that are read at once, S places of
the cache, H heads of width d, D width, M patches of width P, V vocabulary.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear, scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

from cxrflow.encoders.cross_attention import by_head
from cxrflow.encoders.report_decoder import ReportDecoder

_GROWTH = 64  # places that the cache grows by
_REST = 0.75  # with no more than this share of a batch unfinished, the others are let go
_NEVER = -1e9  # score of what must not be chosen


class Search(NamedTuple):
    """How reports are written."""

    longest: int  # tokens, the end included
    end: int  # id of the token that ends a report
    beams: int = 1
    length_penalty: float = 1.0  # of beams: log-likelihood over length to this power


@torch.inference_mode()
def decode(
    decoder: ReportDecoder, prefixes: Sequence[Sequence[int]], patches_BMP: Tensor, search: Search
) -> list[list[int]]:
    """The ids that follow each of B prefixes, without the end."""
    reading = Reading(decoder, patches_BMP)
    hidden_BD = reading.prefixes(prefixes)
    return follow(decoder, reading, hidden_BD, search)


def follow(decoder: Any, reading: Any, hidden_BD: Tensor, search: Search) -> list[list[int]]:
    """The ids that follow B beginnings that end in these states, without the end.

    ``decoder.cls`` gives logits [R, V] of states; ``reading`` goes on as :class:`Reading` does.
    """
    written = _greedy if search.beams == 1 else _beams
    rows = written(decoder, reading, hidden_BD, search).tolist()
    return [row[: row.index(search.end)] if search.end in row else row for row in rows]


class Reading:
    """The cache of R sequences, all blocks."""

    def __init__(self, decoder: ReportDecoder, patches_BMP: Tensor) -> None:
        self.bert, self.width = decoder.bert, decoder.config.hidden_size
        self.heads = decoder.config.num_attention_heads
        self.layers: list[Any] = list(
            zip(decoder.bert.encoder.layer, decoder.cross.layer, strict=True)
        )
        patches_BMD = decoder.cross.patches(patches_BMP)
        self.patches = [
            [
                by_head(layer(patches_BMD), self.heads)
                for layer in (guide.self.key, guide.self.value)
            ]
            for _, guide in self.layers
        ]
        self.fused = [_fused(layer.attention.self) for layer, _ in self.layers]
        self.cache: list[Tensor] = []  # keys and values by layer, [2, R, H, S, d]
        self.length = 0

    def prefixes(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """Read the beginnings of B sequences, and give the states [B, D] of their last tokens."""
        device = self.patches[0][0].device
        rows = [torch.tensor(prefix, device=device) for prefix in prefixes]
        # On the left, so that all sequences go on at the same place.
        ids_BL = pad_sequence(rows, batch_first=True, padding_side="left")
        self.lengths_R = torch.tensor([len(prefix) for prefix in prefixes], device=device)
        behind_L = torch.arange(ids_BL.shape[1], 0, -1, device=device)
        self.there_RS = behind_L <= self.lengths_R[:, None]
        self.padded = not bool(self.there_RS.all())
        position_BL = (self.there_RS.cumsum(1) - 1).clamp(min=0)
        length = ids_BL.shape[1]
        seen_LL = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        itself_LL = torch.eye(length, dtype=torch.bool, device=device)  # padding sees something
        seen_B1LL = (seen_LL & self.there_RS[:, None, None]) | itself_LL
        return self._read(ids_BL, position_BL, seen_B1LL)

    def next(self, token_R: Tensor) -> Tensor:
        """Read a token of every sequence, and give its states [R, D]."""
        there_R1 = torch.ones_like(token_R, dtype=torch.bool)[:, None]
        self.there_RS = torch.cat([self.there_RS, there_R1], dim=1)
        seen_R11S = self.there_RS[:, None, None] if self.padded else None
        position_R1, self.lengths_R = self.lengths_R[:, None], self.lengths_R + 1
        return self._read(token_R[:, None], position_R1, seen_R11S)

    def take(self, rows_R: Tensor, studies_B: Tensor | None = None) -> None:
        """Go on with these sequences, and with these studies where not with all."""
        self.cache = [states[:, rows_R] for states in self.cache]
        self.there_RS, self.lengths_R = self.there_RS[rows_R], self.lengths_R[rows_R]
        if studies_B is not None:
            self.patches = [[states[studies_B] for states in pair] for pair in self.patches]

    def _read(self, ids_RL: Tensor, position_RL: Tensor, mask: Tensor | None) -> Tensor:
        rows, length = ids_RL.shape
        begin, self.length = self.length, self.length + length
        hidden = self.bert.embeddings(ids_RL, position_RL, torch.zeros_like(ids_RL))
        for number, (layer, guide) in enumerate(self.layers):
            qkv = linear(hidden, *self.fused[number])
            q, *kv = (by_head(states, self.heads) for states in qkv.chunk(3, dim=-1))
            keys, values = self._keep(number, torch.stack(kv), begin)
            context = scaled_dot_product_attention(q, keys, values, attn_mask=mask)
            attended = layer.attention.output(_joined(context), hidden)
            # The beams of a study as tokens of one text: they share the patches.
            studies = len(self.patches[number][0])
            q = by_head(guide.self.query(attended).view(studies, -1, self.width), self.heads)
            keys, values = self.patches[number]
            context = _joined(scaled_dot_product_attention(q, keys, values))
            attended = guide.output(context.view(rows, length, -1), attended)
            hidden = layer.output(layer.intermediate(attended), attended)
        return hidden[:, -1]

    def _keep(self, layer: int, kv_2RHLd: Tensor, begin: int) -> tuple[Tensor, Tensor]:
        """Add to the cache, and give all keys and values of a layer."""
        if layer == len(self.cache):
            self.cache.append(kv_2RHLd[:, :, :, :0])
        cache = self.cache[layer]
        if cache.shape[3] < self.length:
            two, rows, heads, _, width = kv_2RHLd.shape
            room = cache.new_empty(two, rows, heads, self.length + _GROWTH - begin, width)
            cache = self.cache[layer] = torch.cat([cache[:, :, :, :begin], room], dim=3)
        cache[:, :, :, begin : self.length] = kv_2RHLd
        keys, values = cache[:, :, :, : self.length]
        return keys, values


def _fused(attention: Any) -> tuple[Tensor, Tensor]:
    """Query, key and value as one linear layer."""
    layers = (attention.query, attention.key, attention.value)
    weights, biases = [layer.weight for layer in layers], [layer.bias for layer in layers]
    return torch.cat(weights), torch.cat(biases)


def _joined(context: Tensor) -> Tensor:
    """[R, H, L, d] to [R, L, D]."""
    return context.transpose(1, 2).flatten(2)


def _greedy(decoder: ReportDecoder, reading: Reading, hidden_RD: Tensor, search: Search) -> Tensor:
    """The likeliest token at each step: [B, longest], the end from where it is."""
    device = hidden_RD.device
    written_BT = torch.full((len(hidden_RD), search.longest), search.end, device=device)
    rows_R = torch.arange(len(hidden_RD), device=device)
    open_R = torch.ones_like(rows_R, dtype=torch.bool)
    for step in range(search.longest):
        token_R = decoder.cls(hidden_RD).argmax(dim=1).where(open_R, search.end)
        written_BT[rows_R, step] = token_R
        open_R = token_R != search.end
        unfinished = int(open_R.sum())
        if unfinished == 0 or step + 1 == search.longest:
            break
        if unfinished <= _REST * len(rows_R):
            kept_R = open_R.nonzero().flatten()
            rows_R, token_R, open_R = rows_R[kept_R], token_R[kept_R], open_R[kept_R]
            reading.take(kept_R, kept_R)
        hidden_RD = reading.next(token_R)
    return written_BT


class _Hypotheses(NamedTuple):
    """K of each of B studies: their tokens and scores; of a running one its log-likelihood."""

    tokens_BKT: Tensor
    score_BK: Tensor

    def pick(self, index_BK: Tensor, score_BK: Tensor) -> "_Hypotheses":
        """Those at these places, with new scores."""
        longest = self.tokens_BKT.shape[2]
        index_BKT = index_BK[:, :, None].expand(-1, -1, longest)
        return _Hypotheses(self.tokens_BKT.gather(1, index_BKT), score_BK)

    def rows(self, rows_B: Tensor) -> "_Hypotheses":
        return _Hypotheses(self.tokens_BKT[rows_B], self.score_BK[rows_B])


def _beams(decoder: ReportDecoder, reading: Reading, hidden_BD: Tensor, search: Search) -> Tensor:
    """Beam search: [B, longest], the best finished report of each study.

    A finished report scores its log-likelihood over its length to the power of the penalty. A
    study is done when its K finished ones are better than the best running one would be.
    """
    (studies, _), beams, device = hidden_BD.shape, search.beams, hidden_BD.device
    written_BT = torch.full((studies, search.longest), search.end, device=device)
    empty_BKT = torch.full((studies, beams, search.longest), search.end, device=device)
    running = _Hypotheses(empty_BKT, torch.full((studies, beams), _NEVER, device=device))
    running.score_BK[:, 0] = 0.0  # all beams begin as one
    finished = _Hypotheses(empty_BKT, torch.full((studies, beams), _NEVER, device=device))
    study_B = torch.arange(studies, device=device)
    reading.take(study_B.repeat_interleave(beams))
    hidden_RD = hidden_BD.repeat_interleave(beams, dim=0)
    first_2K = torch.arange(2 * beams, device=device) < beams
    for step in range(search.longest):
        log_BKV = decoder.cls(hidden_RD).float().log_softmax(dim=1).unflatten(0, (-1, beams))
        vocabulary = log_BKV.shape[2]
        score_B2, index_B2 = (log_BKV + running.score_BK[:, :, None]).flatten(1).topk(2 * beams)
        beam_B2, token_B2 = index_B2 // vocabulary, index_B2 % vocabulary
        candidates = running.pick(beam_B2, score_B2)
        candidates.tokens_BKT[:, :, step] = token_B2
        stops_B2 = (token_B2 == search.end) | (step + 1 == search.longest)
        # Only what is among the K best may end; the others are there so that K go on.
        ends_B2 = score_B2 / (step + 1) ** search.length_penalty
        ends_B2 = ends_B2.masked_fill(~(stops_B2 & first_2K), _NEVER)
        pool = _Hypotheses(
            torch.cat([finished.tokens_BKT, candidates.tokens_BKT], dim=1),
            torch.cat([finished.score_BK, ends_B2], dim=1),
        )
        best_BK, place_BK = pool.score_BK.topk(beams)
        finished = pool.pick(place_BK, best_BK)
        score_BK, place_BK = score_B2.masked_fill(stops_B2, _NEVER).topk(beams)
        running = candidates.pick(place_BK, score_BK)
        beam_BK = beam_B2.gather(1, place_BK)
        hope_B = running.score_BK[:, 0] / (step + 1) ** search.length_penalty
        open_B = hope_B > finished.score_BK.amin(dim=1)
        written_BT[study_B] = finished.tokens_BKT[:, 0]
        if step + 1 == search.longest or not bool(open_B.any()):
            break
        kept_B = torch.arange(len(open_B), device=device)
        if not bool(open_B.all()):
            kept_B = open_B.nonzero().flatten()
            running, finished, study_B = (
                running.rows(kept_B),
                finished.rows(kept_B),
                study_B[kept_B],
            )
        rows_R = (kept_B[:, None] * beams + beam_BK[kept_B]).flatten()
        reading.take(rows_R, kept_B if len(kept_B) < len(open_B) else None)
        hidden_RD = reading.next(running.tokens_BKT[:, :, step].flatten())
    return written_BT
