"""Text that looks at an image: cross-attention over its patches in every block of BERT.

BioViL-T section 3.2 (masked language modelling guided by the image) and Appendix F.1 (report
generation): a linear layer brings the projected patches to BERT's width, and after the
self-attention of each block its tokens attend to them, as in transformers' BertLMHeadModel with
``add_cross_attention``. All of it stands beside the text encoder, whose folder stays plain BERT.

Shapes: B texts of L tokens, T real tokens, D width, M patches of width P, N texts of a group, W
tokens of its longest.
"""

from typing import Any

import torch
from torch import Tensor, nn

from cxrflow.encoders.attention import TokenBlocks
from cxrflow.encoders.bert import Attention, Bert, BertConfig, initialised


class CrossAttention(nn.Module):
    """The layers by which a text encoder of this ``config`` attends to patches of width P."""

    def __init__(self, config: BertConfig, patch_width: int) -> None:
        super().__init__()
        layers = (Attention(config) for _ in range(config.num_hidden_layers))
        self.patches = nn.Linear(patch_width, config.hidden_size)
        self.layer = nn.ModuleList(layers)
        initialised(self, config.initializer_range)

    def states(
        self,
        bert: Bert,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor,
        patches_BMP: Tensor,
        causal: bool,
        first_D: Tensor | None = None,
    ) -> Tensor:
        """Last-layer states [B, L, D] of texts padded on the right; zero at padding (mask 0).

        ``causal``: a token sees itself and those before it (Appendix F.1), else all of its text.
        ``first_D`` is the word embedding of a first token that the vocabulary lacks; the first of
        ``input_ids_BL`` is then not looked at.
        The mask may stay on the CPU when the rest is on a GPU, which saves waiting for the GPU.
        """
        length = input_ids_BL.shape[1]
        blocks = TokenBlocks.of(attention_mask_BL.long() - 1, input_ids_BL.device)
        ids_T = input_ids_BL.flatten()[blocks.tokens]
        place_T, segment_T = blocks.tokens % length, torch.zeros_like(ids_T)
        hidden_TD = bert.embeddings(ids_T, place_T, segment_T, first_D)
        patches_BMD = self.patches(patches_BMP)
        layers: Any = zip(bert.encoder.layer, self.layer, strict=True)
        for layer, guide in layers:
            itself = layer.attention.self
            context_TD = blocks.attend(itself(hidden_TD), itself.heads, itself.rate, causal)
            attended_TD = layer.attention.output(context_TD, hidden_TD)
            cross = guide.self
            context_TD = blocks.attend_to(
                cross.query(attended_TD),
                (cross.key(patches_BMD), cross.value(patches_BMD)),
                length,
                cross.heads,
                cross.rate,
            )
            attended_TD = guide.output(context_TD, attended_TD)
            hidden_TD = layer.output(layer.intermediate(attended_TD), attended_TD)
        return blocks.spread(hidden_TD, input_ids_BL.shape)


def by_head(states: Tensor, heads: int) -> Tensor:
    """[..., K, D] as attention takes it, [..., heads, K, D / heads]."""
    return states.unflatten(-1, (heads, -1)).transpose(-2, -3)
