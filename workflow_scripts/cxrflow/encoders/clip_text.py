"""CLIP's text encoder: a transformer whose tokens see those before them (Radford et al. 2021, 2.4).

Its layers normalise before attention and perceptron. The state of the last token, [EOT], stands for
the text. It has the interface of CXR-BERT, so training and benchmarks use either. It has no dropout
and predicts no masked words. Where CXR-BERT reads [CLS], [EOT] is read.

Shapes: B texts, L tokens, T real tokens of a batch, D width, P joint space.
"""

from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import linear

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.bert import BertConfig, Encoder
from cxrflow.encoders.cxr_bert import CXRBert, text_projection
from cxrflow.encoders.settings import ClipHeadSettings, ProjectionHeadKind

LENGTH = 77  # tokens of a text, first and last included


class ClipTextConfig(BertConfig):
    """``config.json`` of the text encoder, under the names of CXR-BERT's."""

    hidden_act: Literal["quick_gelu"] = "quick_gelu"  # type: ignore[assignment]
    hidden_dropout_prob: float = Field(0.0, ge=0, le=0)
    attention_probs_dropout_prob: float = Field(0.0, ge=0, le=0)
    max_position_embeddings: int = Field(LENGTH, ge=1)
    layer_norm_eps: float = Field(1e-5, gt=0)
    projection_head: ProjectionHeadKind = ClipHeadSettings()


class Embeddings(nn.Module):
    """Words and positions; there are no segments."""

    def __init__(self, config: ClipTextConfig) -> None:
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)

    def forward(self, token_T: Tensor, position_T: Tensor, segment_T: Tensor) -> Tensor:
        return self.word_embeddings(token_T) + self.position_embeddings(position_T)


class Perceptron(nn.Module):
    """Two layers around x sigmoid(1.702 x)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, states: Tensor) -> Tensor:
        hidden = self.c_fc(states)
        return self.c_proj(hidden * torch.sigmoid(1.702 * hidden))


class Layer(nn.Module):
    """What comes before and after attention; ``attn`` holds the published parameters."""

    def __init__(self, config: ClipTextConfig) -> None:
        super().__init__()
        width, self.heads, self.rate = config.hidden_size, config.num_attention_heads, 0.0
        self.attn = nn.MultiheadAttention(width, self.heads)
        self.ln_1, self.ln_2 = (nn.LayerNorm(width, config.layer_norm_eps) for _ in range(2))
        self.mlp = Perceptron(width, config.intermediate_size)

    def before_attention(self, hidden_TD: Tensor) -> Tensor:
        return linear(self.ln_1(hidden_TD), self.attn.in_proj_weight, self.attn.in_proj_bias)

    def after_attention(self, context_TD: Tensor, hidden_TD: Tensor) -> Tensor:
        if torch.compiler.is_compiling():  # as in bert.py
            torch._check(context_TD.shape[0] == hidden_TD.shape[0])
        attended_TD = hidden_TD + self.attn.out_proj(context_TD)
        return attended_TD + self.mlp(self.ln_2(attended_TD))


class Transformer(nn.Module):
    """Embeddings, layers and a last normalisation."""

    def __init__(self, config: ClipTextConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(Layer(config) for _ in range(config.num_hidden_layers))
        self.final = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)


class TextEncoder(CXRBert):
    """The transformer with ``cls_projection_head``, here of [EOT]."""

    config_class: ClassVar[type[BertConfig]] = ClipTextConfig
    causal: ClassVar[bool] = True
    published: ClassVar[dict[str, Any]] = {"model_type": "clip_text", "architectures": []}

    def __init__(self, config: ClipTextConfig) -> None:
        nn.Module.__init__(self)
        self.config = config
        self.bert: Any = Transformer(config)
        self.cls: Any = nn.Identity()  # no words are predicted
        self.cls_projection_head = text_projection(config)
        self.single_position = False
        self._before_attention = Layer.before_attention
        self._after_attention = Layer.after_attention

    def set_dropout(self, hidden: float, attention: float) -> None:
        """CLIP drops nothing; rates above zero are an :class:`InputError`."""
        if hidden or attention:
            raise InputError(
                f"settings: keys 'dropout' and 'attention_dropout' are {hidden} and {attention}, "
                "but CLIP's text encoder has no dropout; expected 0 and 0"
            )

    def project(self, hidden_BLD: Tensor, attention_mask_BL: Tensor | None = None) -> Tensor:
        """Projected [EOT], [B, P]; another ``pooling`` than ``cls`` is as CXR-BERT's."""
        if attention_mask_BL is None:
            raise ValueError("the place of [EOT] needs the attention mask")
        if self.pooling != "cls":
            return super().project(hidden_BLD, attention_mask_BL)
        last_B = sent(attention_mask_BL.sum(1), hidden_BLD.device) - 1
        rows_B = torch.arange(len(last_B), device=hidden_BLD.device)
        return self.cls_projection_head(hidden_BLD[rows_B, last_B])

    def cls_attention(self, entering_BLD: Tensor, attention_mask_BL: Tensor) -> Tensor:
        raise InputError("CLIP's text encoder has no [CLS] whose attention could weigh tokens")

    def predict_tokens(self, hidden_BLD: Tensor, positions_M: Tensor) -> Tensor:
        raise InputError("CLIP's text encoder predicts no masked words; expected no term mlm")
