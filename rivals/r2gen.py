"""R2Gen (Chen et al. 2020): a transformer whose layer normalisation is driven by a memory.

A relational memory reads each token that is written. What it holds shifts the gains and the biases
of the decoder's normalisations (MCLN). Equations are those of the paper's sections 2.2 and 2.3.
Sizes and what the paper leaves open are of the public code, cuhksz-nlp/R2Gen; where the two part,
both are options. docs/rivals.md says what differs here.

Shapes: B images, M patches of F features, L tokens, R = B*K sequences, D width, S slots of the
memory, H heads of width d, X states.
"""

import math
from collections.abc import Callable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from cxrflow.encoders.attention import Dropout
from cxrflow.encoders.captioning import Caption, Captioner, CaptionerConfig
from cxrflow.encoders.captioning_transformer import sinusoids
from cxrflow.encoders.cross_attention import by_head
from cxrflow.encoders.settings import CaptioningSettings, equal_heads

Attended = tuple[Tensor, Tensor]  # keys and values, [B, H, X, d] both


class R2GenSettings(CaptioningSettings):
    """Sizes, and what paper and public code do not share; the defaults are the paper's."""

    layers: int = Field(3, ge=1, description="of the encoder, and of the decoder")
    width: int = Field(512, ge=2, multiple_of=2, description="of transformer and memory")
    heads: int = Field(8, ge=1)
    feed_forward: int = Field(512, ge=1, description="width inside; the code's")
    slots: int = Field(3, ge=1, description="rows of the memory")
    memory_heads: int = Field(8, ge=1)
    dropout: float = Field(0.1, ge=0, lt=1, description="the code's")
    patch_dropout: float = Field(0.5, ge=0, lt=1, description="of projected patches; the code's")
    norm: Literal["after", "before"] = Field(
        "after",
        description="after: an MCLN takes what attention gives, and the third is the layer's "
        "output (section 2.3). before: it stands before each, with a plain one at the end (code)",
    )
    gate_bias: bool = Field(False, description="false: Eq. 8 and 9. true: the code")
    report_length: int = Field(100, ge=4, description="tokens with the end; the code's")

    _heads = equal_heads()
    _memory_heads = equal_heads(heads="memory_heads")


class Attention(nn.Module):
    """Multi-head attention, with dropout of its weights."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def attended(self, states_BXD: Tensor) -> Attended:
        """The keys and values of these states."""
        keys, values = self.key(states_BXD), self.value(states_BXD)
        return by_head(keys, self.heads), by_head(values, self.heads)

    def forward(self, states_BLD: Tensor, attended: Attended, causal: bool = False) -> Tensor:
        q_BHLd = by_head(self.query(states_BLD), self.heads)
        rate = self.dropout if self.training else 0.0
        context = scaled_dot_product_attention(q_BHLd, *attended, is_causal=causal, dropout_p=rate)
        return self.out(context.transpose(1, 2).flatten(2))


class RelationalMemory(nn.Module):
    """Slots that attend to themselves and the last token, and keep of it what gates let through."""

    def __init__(self, settings: R2GenSettings) -> None:
        super().__init__()
        self.slots, width = settings.slots, settings.width
        self.attention = Attention(width, settings.memory_heads, settings.dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.of_token = nn.Linear(width, 2 * width, bias=settings.gate_bias)  # W^f beside W^i
        self.of_memory = nn.Linear(width, 2 * width, bias=settings.gate_bias)  # U^f beside U^i

    def first(self, like_RD: Tensor) -> Tensor:
        """Before any token: rows of the identity [R, S, D], as in the code."""
        rows, width = like_RD.shape
        return torch.eye(self.slots, width).to(like_RD).expand(rows, -1, -1)

    def forward(self, memory_RSD: Tensor, token_RD: Tensor) -> Tensor:
        """M_t of M_{t-1} and the embedding of the token written last (Eq. 6 to 10)."""
        token_R1D = token_RD[:, None]
        read = self.attention.attended(torch.cat([memory_RSD, token_R1D], dim=1))
        candidate = memory_RSD + self.attention(memory_RSD, read)
        candidate = candidate + self.mlp(candidate)
        gates = self.of_token(token_R1D) + self.of_memory(memory_RSD.tanh())
        forget, admit = gates.sigmoid().chunk(2, dim=-1)
        return forget * memory_RSD + admit * candidate.tanh()


class Norm(nn.Module):
    """Layer normalisation by the deviation of a sample, as in the code."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, states: Tensor, memory: Tensor | None = None) -> Tensor:
        return self.scaled(states, self.gain, self.shift)

    @staticmethod
    def scaled(states: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
        centred = states - states.mean(-1, keepdim=True)
        return gain * centred / (states.std(-1, keepdim=True) + 1e-6) + shift


class MemoryNorm(Norm):
    """MCLN: gain and shift change with the memory, whose rows are one vector (Eq. 11 to 15)."""

    def __init__(self, settings: R2GenSettings) -> None:
        width = settings.width
        super().__init__(width)
        self.of_gain, self.of_shift = (
            nn.Sequential(
                nn.Linear(settings.slots * width, width), nn.ReLU(), nn.Linear(width, width)
            )
            for _ in range(2)
        )
        for layer in (*self.of_gain, *self.of_shift):
            if isinstance(layer, nn.Linear):
                nn.init.constant_(layer.bias, 0.1)

    def forward(self, states: Tensor, memory: Tensor | None = None) -> Tensor:
        """Of states [R, L, D] and memories [R, L, S*D]."""
        gain, shift = self.gain + self.of_gain(memory), self.shift + self.of_shift(memory)
        return self.scaled(states, gain, shift)


class Shortcut(nn.Module):
    """A shortcut around a change of the states, with its normalisation."""

    def __init__(self, settings: R2GenSettings, norm: Norm) -> None:
        super().__init__()
        self.norm, self.before = norm, settings.norm == "before"
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, states: Tensor, change: Callable[[Tensor], Tensor], memory: Tensor | None = None
    ) -> Tensor:
        if self.before:
            return states + self.dropout(change(self.norm(states, memory)))
        return self.norm(states + self.dropout(change(states)), memory)


def feed_forward(settings: R2GenSettings) -> nn.Sequential:
    """A layer's second half."""
    inner = nn.Linear(settings.width, settings.feed_forward)
    outer = nn.Linear(settings.feed_forward, settings.width)
    return nn.Sequential(inner, nn.ReLU(), Dropout(settings.dropout), outer)


class EncoderLayer(nn.Module):
    """Attention between patches."""

    def __init__(self, settings: R2GenSettings) -> None:
        super().__init__()
        self.own = Attention(settings.width, settings.heads, settings.dropout)
        self.feed_forward = feed_forward(settings)
        self.shortcuts = nn.ModuleList(Shortcut(settings, Norm(settings.width)) for _ in range(2))

    def forward(self, states_BMD: Tensor) -> Tensor:
        around_own, around_feed_forward = self.shortcuts
        states = around_own(states_BMD, lambda own: self.own(own, self.own.attended(own)))
        return around_feed_forward(states, self.feed_forward)


class Earlier:
    """The keys and values of the words that a layer has read."""

    kept: Attended | None = None

    def add(self, fresh: Attended) -> Attended:
        """Keep these behind those, and give all."""
        if self.kept is not None:
            (keys, values), (more_keys, more_values) = self.kept, fresh
            fresh = torch.cat([keys, more_keys], dim=2), torch.cat([values, more_values], dim=2)
        self.kept = fresh
        return fresh


class DecoderLayer(nn.Module):
    """Words that attend to earlier words and to patches, three MCLN between."""

    def __init__(self, settings: R2GenSettings) -> None:
        super().__init__()
        sizes = settings.width, settings.heads, settings.dropout
        self.own, self.cross = Attention(*sizes), Attention(*sizes)
        self.feed_forward = feed_forward(settings)
        self.shortcuts = nn.ModuleList(Shortcut(settings, MemoryNorm(settings)) for _ in range(3))

    def forward(
        self, words_RLD: Tensor, memory: Tensor, patches: Attended, earlier: Earlier
    ) -> Tensor:
        causal = earlier.kept is None
        around_own, around_cross, around_feed_forward = self.shortcuts

        def own(words: Tensor) -> Tensor:
            return self.own(words, earlier.add(self.own.attended(words)), causal)

        def cross(words: Tensor) -> Tensor:
            # Beams of an image look at its patches as words of one text.
            of_images = words.reshape(len(patches[0]), -1, words.shape[-1])
            return self.cross(of_images, patches).view_as(words)

        states = around_cross(around_own(words_RLD, own, memory), cross, memory)
        return around_feed_forward(states, self.feed_forward, memory)


class R2Gen(Captioner):
    """Encoder of patches, memory, and decoder of words."""

    # By this the package finds the class of its settings; the property of the base is of texts.
    settings: R2GenSettings  # type: ignore[assignment]

    def __init__(self, config: CaptionerConfig) -> None:
        super().__init__(config)
        settings = config.captioning
        assert isinstance(settings, R2GenSettings)
        width, before = settings.width, settings.norm == "before"
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.layers))
        self.words = nn.Embedding(config.vocab_size, width)
        self.memory = RelationalMemory(settings)
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.layers))
        self.ends = nn.ModuleList(Norm(width) if before else nn.Identity() for _ in range(2))
        for weight in self.parameters():
            if weight.dim() > 1:
                nn.init.xavier_uniform_(weight)
        # These two begin as torch begins them.
        self.patches = nn.Sequential(
            nn.Linear(config.features, width), nn.ReLU(), Dropout(settings.patch_dropout)
        )
        self.cls = nn.Linear(width, config.vocab_size)
        self.dropout, self.scale = Dropout(settings.dropout), math.sqrt(width)
        first = torch.tensor([0.0, 1.0]).repeat(width // 2)[None]  # the code counts from 0
        places = torch.cat([first, sinusoids(settings.report_length, width)])
        self.register_buffer("places", places, persistent=False)

    def forward(self, input_ids_BL: Tensor, patches_BMF: Tensor, positions_N: Tensor) -> Caption:
        hidden_BLD = Reading(self, patches_BMF).read(input_ids_BL)
        return Caption(self.cls(hidden_BLD.flatten(0, 1)[positions_N]), None)

    def reading(self, patches_BMF: Tensor) -> "Reading":
        return Reading(self, patches_BMF)


class Reading:
    """Memory of R sequences, and keys and values of words and patches, by layer."""

    def __init__(self, decoder: Any, patches_BMF: Tensor) -> None:
        states = decoder.patches(patches_BMF)
        for layer in decoder.encoder:
            states = layer(states)
        states = decoder.ends[0](states)
        self.decoder, self.length = decoder, 0
        self.patches = [layer.cross.attended(states) for layer in decoder.layers]
        self.earlier = [Earlier() for _ in decoder.layers]
        self.memory_RSD = decoder.memory.first(states[:, 0])

    def read(self, ids_RL: Tensor) -> Tensor:
        """Read all tokens of texts, or one more of each, and give their states [R, L, D]."""
        decoder, begin = self.decoder, self.length
        self.length += ids_RL.shape[1]
        words = decoder.words(ids_RL) * decoder.scale + decoder.places[begin : self.length]
        memory_RLm = self.remember(decoder.dropout(words))
        states = decoder.dropout(words)  # anew, as in the code
        for layer, patches, earlier in zip(decoder.layers, self.patches, self.earlier, strict=True):
            states = layer(states, memory_RLm, patches, earlier)
        return decoder.ends[1](states)

    def remember(self, words_RLD: Tensor) -> Tensor:
        """The memory after each word, as one vector [R, L, S*D]."""
        memories = []
        for word_RD in words_RLD.unbind(1):
            self.memory_RSD = self.decoder.memory(self.memory_RSD, word_RD)
            memories.append(self.memory_RSD.flatten(1))
        return torch.stack(memories, dim=1)

    def next(self, token_R: Tensor) -> Tensor:
        return self.read(token_R[:, None])[:, 0]

    def take(self, rows_R: Tensor, images_B: Tensor | None = None) -> None:
        self.memory_RSD = self.memory_RSD[rows_R]
        for earlier in self.earlier:
            if earlier.kept is not None:
                keys, values = earlier.kept
                earlier.kept = keys[rows_R], values[rows_R]
        if images_B is not None:
            self.patches = [(keys[images_B], values[images_B]) for keys, values in self.patches]
