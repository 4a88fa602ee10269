"""The meshed-memory transformer: Caption-Transformer (Cornia et al. 2020).

Equations are those of the paper; dropout and initial values are its authors' code's. That code
also normalises each C of Eq. 6 with a shortcut and divides the sum by the root of the number of
levels, which the equations do not.

Shapes: B images, M patches of F features, L tokens, R = B*K sequences, D width, H heads of width d,
S places that are attended to.
"""

from math import sqrt

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from cxrflow.encoders.attention import Dropout
from cxrflow.encoders.captioning import Caption, Captioner, CaptionerConfig
from cxrflow.encoders.cross_attention import by_head
from cxrflow.encoders.settings import TransformerCaptioningSettings

Attended = tuple[Tensor, Tensor]  # keys and values, [B, H, S, d] both


class MemoryAttention(nn.Module):
    """Multi-head attention; with ``memory`` keys and values of its own beside the given (Eq. 2)."""

    def __init__(self, settings: TransformerCaptioningSettings, memory: int = 0) -> None:
        super().__init__()
        width, self.heads = settings.width, settings.heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        for layer in (self.query, self.key, self.value, self.out):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.memory_key, self.memory_value = (
            nn.Parameter(torch.randn(memory, width) / sqrt(size)) if memory else None
            for size in (width // settings.heads, memory or 1)
        )

    def attended(self, states_BSD: Tensor) -> Attended:
        """Return the keys and values of these states, with those of the memory."""
        keys, values = self.key(states_BSD), self.value(states_BSD)
        if self.memory_key is not None and self.memory_value is not None:
            memory = (
                slots.expand(len(keys), -1, -1) for slots in (self.memory_key, self.memory_value)
            )
            keys, values = (
                torch.cat([states, slots.to(states.dtype)], dim=1)
                for states, slots in zip((keys, values), memory, strict=True)
            )
        return by_head(keys, self.heads), by_head(values, self.heads)

    def forward(self, states_BLD: Tensor, attended: Attended, causal: bool = False) -> Tensor:
        q_BHLd = by_head(self.query(states_BLD), self.heads)
        context = scaled_dot_product_attention(q_BHLd, *attended, is_causal=causal)
        return self.out(context.transpose(1, 2).flatten(2))


class AddNorm(nn.Module):
    """A shortcut around a change, normalised."""

    def __init__(self, settings: TransformerCaptioningSettings) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(settings.width), Dropout(settings.dropout)

    def forward(self, states: Tensor, change: Tensor) -> Tensor:
        return self.norm(states + self.dropout(change))


class PositionwiseFeedForward(nn.Sequential):
    """U relu(V x + b) + c (Eq. 3)."""

    def __init__(self, settings: TransformerCaptioningSettings) -> None:
        super().__init__(
            nn.Linear(settings.width, settings.feed_forward),
            nn.ReLU(),
            Dropout(settings.dropout),
            nn.Linear(settings.feed_forward, settings.width),
        )


class EncoderLayer(nn.Module):
    """Memory-augmented attention between patches (section 3.1)."""

    def __init__(self, settings: TransformerCaptioningSettings) -> None:
        super().__init__()
        self.attention = MemoryAttention(settings, settings.memory)
        self.feed_forward = PositionwiseFeedForward(settings)
        self.after_attention, self.after_feed_forward = AddNorm(settings), AddNorm(settings)

    def forward(self, patches_BMD: Tensor) -> Tensor:
        change = self.attention(patches_BMD, self.attention.attended(patches_BMD))
        states = self.after_attention(patches_BMD, change)
        return self.after_feed_forward(states, self.feed_forward(states))


class DecoderLayer(nn.Module):
    """Words that attend to all levels of the encoder, each through its gate (section 3.2)."""

    def __init__(self, settings: TransformerCaptioningSettings) -> None:
        super().__init__()
        self.own, self.cross = MemoryAttention(settings), MemoryAttention(settings)
        width = settings.width
        self.gates = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(settings.layers))
        for gate in self.gates:
            assert isinstance(gate, nn.Linear)
            nn.init.xavier_uniform_(gate.weight)
            nn.init.zeros_(gate.bias)
        self.feed_forward = PositionwiseFeedForward(settings)
        self.after_own, self.after_mesh = AddNorm(settings), AddNorm(settings)
        self.after_feed_forward = AddNorm(settings)

    def forward(
        self, words_RLD: Tensor, levels: list[Attended], before: Attended | None
    ) -> tuple[Tensor, Attended]:
        """Return the words' states, and the keys and values that later words attend to.

        ``before`` are those of earlier words. Words of several sequences of an image look at it as
        if they were of one.
        """
        words = self.own.attended(words_RLD)
        if before is not None:
            keys, values = zip(before, words, strict=True)
            words = torch.cat(keys, dim=2), torch.cat(values, dim=2)
        change = self.own(words_RLD, words, causal=before is None)
        y_RLD = self.after_own(words_RLD, change)
        y_BTD = y_RLD.view(len(levels[0][0]), -1, y_RLD.shape[2])
        mesh = torch.zeros_like(y_BTD)
        for gate, level in zip(self.gates, levels, strict=True):
            context = self.cross(y_BTD, level)  # C(X^i, Y), of one C for all levels
            alpha = gate(torch.cat([y_BTD, context], dim=-1)).sigmoid()  # Eq. 7
            mesh = mesh + alpha * context  # Eq. 5
        z_RLD = self.after_mesh(y_RLD, mesh.view_as(y_RLD))
        return self.after_feed_forward(z_RLD, self.feed_forward(z_RLD)), words


class Decoder(Captioner):
    """Encoder of patches and decoder of words."""

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        settings = config.captioning
        assert isinstance(settings, TransformerCaptioningSettings)
        width = settings.width
        self.patches = nn.Sequential(
            nn.Linear(config.features, width),
            nn.ReLU(),
            Dropout(settings.dropout),
            nn.LayerNorm(width),
        )
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.layers))
        self.words = nn.Embedding(config.vocab_size, width)
        places = sinusoids(settings.report_length + 1, width)
        self.register_buffer("places", places, persistent=False)
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.layers))
        self.cls = nn.Linear(width, config.vocab_size, bias=False)

    def forward(self, input_ids_BL: Tensor, patches_BMF: Tensor, positions_N: Tensor) -> Caption:
        reading = Reading(self, patches_BMF)
        hidden_BLD = reading.read(input_ids_BL)
        return Caption(self.cls(hidden_BLD.flatten(0, 1)[positions_N]), None)

    def levels(self, patches_BMF: Tensor) -> list[Tensor]:
        """Return the states of the patches after each layer of the encoder, [B, M, D]."""
        states, levels = self.patches(patches_BMF), []
        for layer in self.encoder:
            states = layer(states)
            levels.append(states)
        return levels

    def reading(self, patches_BMF: Tensor) -> "Reading":
        return Reading(self, patches_BMF)


class Reading:
    """Keys and values of the patches, and of what R sequences have read, by layer."""

    def __init__(self, decoder: Decoder, patches_BMF: Tensor) -> None:
        self.decoder, levels = decoder, decoder.levels(patches_BMF)
        self.levels: list[list[Attended]] = [
            [layer.cross.attended(level) for level in levels]  # type: ignore[union-attr,operator]
            for layer in decoder.layers
        ]
        self.before: list[Attended | None] = [None] * len(self.levels)
        self.length = 0

    def read(self, ids_RL: Tensor) -> Tensor:
        """Read all tokens of texts, or one more of each, and give their states [R, L, D]."""
        begin, self.length = self.length, self.length + ids_RL.shape[1]
        places: Tensor = self.decoder.places  # type: ignore[assignment]
        states = self.decoder.words(ids_RL) + places[begin : self.length]
        for number, layer in enumerate(self.decoder.layers):
            states, self.before[number] = layer(states, self.levels[number], self.before[number])
        return states

    def next(self, token_R: Tensor) -> Tensor:
        return self.read(token_R[:, None])[:, 0]

    def take(self, rows_R: Tensor, images_B: Tensor | None = None) -> None:
        self.before = [cache and (cache[0][rows_R], cache[1][rows_R]) for cache in self.before]
        if images_B is not None:
            self.levels = [
                [(keys[images_B], values[images_B]) for keys, values in levels]
                for levels in self.levels
            ]


def sinusoids(places: int, width: int) -> Tensor:
    """[places, width] (Vaswani et al. 2017, section 3.5), places counted from 1: 0 is padding."""
    place = torch.arange(1, places + 1).float()[:, None]
    angle = place / 10000 ** (torch.arange(0, width, 2).float() / width)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)
