"""BERT (Devlin et al. 2019): its modules and initial weights, with transformers' parameter names.

Importing transformers' own costs every job some four seconds. Of a layer there is what comes before
and after attention; attention itself is that of :mod:`.attention`. A model has the values that
transformers would draw from the same seed, bit for bit.

Shapes: T tokens, D width, V vocabulary.
"""

from collections.abc import Iterable
from functools import partial
from typing import Literal, TypeVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import gelu

from cxr_files.settings import Settings
from cxrflow.encoders.attention import Dropout
from cxrflow.encoders.settings import (
    BiovilHeadSettings,
    ProjectionHeadKind,
    TextPooling,
    equal_heads,
)

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class BertConfig(Settings, extra="ignore"):
    """``config.json`` of a text encoder: transformers' keys, and ours of the projection."""

    vocab_size: int = Field(ge=1)
    hidden_size: int = Field(ge=1)
    num_hidden_layers: int = Field(ge=1)
    num_attention_heads: int = Field(ge=1)
    intermediate_size: int = Field(ge=1)
    hidden_act: Literal["gelu"] = "gelu"
    hidden_dropout_prob: float = Field(0.1, ge=0, lt=1)
    attention_probs_dropout_prob: float = Field(0.1, ge=0, lt=1)
    max_position_embeddings: int = Field(512, ge=1)
    type_vocab_size: int = Field(2, ge=1)
    initializer_range: float = Field(0.02, gt=0)
    layer_norm_eps: float = Field(1e-12, gt=0)
    pad_token_id: int = Field(0, ge=0)
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    projection_size: int = Field(ge=2)
    projection_head: ProjectionHeadKind = BiovilHeadSettings()
    text_pooling: TextPooling = "cls"

    _heads = equal_heads("hidden_size", "num_attention_heads")


class Embeddings(nn.Module):
    """Word, position and segment; the sum is normalised."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.word_embeddings = nn.Embedding(config.vocab_size, width, config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, width)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, width)
        self.LayerNorm = nn.LayerNorm(width, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(
        self, token_T: Tensor, position_T: Tensor, segment_T: Tensor, first_D: Tensor | None = None
    ) -> Tensor:
        """States [T, D]; ``first_D``: of a first token that the vocabulary lacks."""
        word_TD = self.word_embeddings(token_T)
        if first_D is not None:
            word_TD = torch.where(position_T[:, None] == 0, first_D, word_TD)
        states_TD = word_TD + self.token_type_embeddings(segment_T)
        return self.dropout(self.LayerNorm(states_TD + self.position_embeddings(position_T)))


class SelfAttention(nn.Module):
    """Query, key and value; what attends with them is the caller's."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.heads, width = config.num_attention_heads, config.hidden_size
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.dropout = Dropout(config.attention_probs_dropout_prob)

    @property
    def rate(self) -> float:
        """The share of the weights of attention that is dropped now."""
        return self.dropout.p * self.training

    def forward(self, hidden_TD: Tensor) -> Tensor:
        """Query, key and value of each token, [T, 3D], in one product."""
        layers = (self.query, self.key, self.value)
        return nn.functional.linear(
            hidden_TD,
            torch.cat([layer.weight for layer in layers]),
            torch.cat([layer.bias for layer in layers]),
        )


class Output(nn.Module):
    """Linear layer, dropout, the shortcut's states added, normalised."""

    def __init__(self, inputs: int, config: BertConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.dropout = Dropout(config.hidden_dropout_prob)

    def forward(self, inputs: Tensor, shortcut_TD: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(inputs)) + shortcut_TD)


class Attention(nn.Module):
    """Holds what comes before and after attention under their published names."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.self = SelfAttention(config)
        self.output = Output(config.hidden_size, config)


class Dense(nn.Module):
    """Linear layer and GELU; with ``eps`` normalised after it."""

    def __init__(self, inputs: int, outputs: int, eps: float | None = None) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, outputs)
        self.LayerNorm = nn.Identity() if eps is None else nn.LayerNorm(outputs, eps)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.LayerNorm(gelu(self.dense(inputs)))


class Layer(nn.Module):
    """One layer without its attention."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.intermediate = Dense(config.hidden_size, config.intermediate_size)
        self.output = Output(config.intermediate_size, config)

    @property
    def heads(self) -> int:
        return self.attention.self.heads

    @property
    def rate(self) -> float:
        return self.attention.self.rate

    def before_attention(self, hidden_TD: Tensor) -> Tensor:
        """Query, key and value of each token, [T, 3D]."""
        return self.attention.self(hidden_TD)

    def after_attention(self, context_TD: Tensor, hidden_TD: Tensor) -> Tensor:
        """Return the layer's states from the tokens' contexts and the states that entered it."""
        # A compiler would take the two numbers of tokens for unrelated. Elsewhere the check would
        # import sympy.
        if torch.compiler.is_compiling():
            torch._check(context_TD.shape[0] == hidden_TD.shape[0])
        attended_TD = self.attention.output(context_TD, hidden_TD)
        return self.output(self.intermediate(attended_TD), attended_TD)


class Encoder(nn.Module):
    """Holds the layers under their published name."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layer = nn.ModuleList(layers)


class Bert(nn.Module):
    """Embeddings and layers, without a pooler."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(Layer(config) for _ in range(config.num_hidden_layers))
        self.final = nn.Identity()  # CLIP's has a normalisation there


class TokenPredictions(nn.Module):
    """States [..., D] to logits [..., V]; weights tied to the word embeddings by the caller."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.transform = Dense(width, width, config.layer_norm_eps)
        self.decoder = nn.Linear(width, config.vocab_size)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, hidden: Tensor) -> Tensor:
        return self.decoder(self.transform(hidden))


class TokenHead(nn.Module):
    """Holds the predictions under their published name."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.predictions = TokenPredictions(config)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.predictions(hidden)


def initialised(module: ModuleT, deviation: float) -> ModuleT:
    """``module`` with BERT's initial weights, drawn submodule by submodule, inner ones first."""
    return module.apply(partial(_initialise, deviation))


@torch.no_grad()
def _initialise(deviation: float, module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        module.weight.normal_(0.0, deviation)
    if isinstance(module, nn.Linear):
        module.bias.zero_()
    if isinstance(module, nn.Embedding) and module.padding_idx is not None:
        module.weight[module.padding_idx].zero_()
