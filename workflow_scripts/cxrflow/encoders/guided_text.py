"""Layers beside a text encoder by which it predicts masked words while looking at an image.

BioViL-T section 3.2: in this pass alone the tokens attend to the projected patches, and the first
is [MLM] in place of [CLS]. All of it lies in a file of its own, ``cross_attention.safetensors``,
beside the text encoder's, which stays plain BERT with the vocabulary it has.

Shapes: B texts of L tokens, D width, M patches of width P.
"""

from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from cxrflow.encoders.cross_attention import CrossAttention
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.weights import load_weights, read_weights

FILE = "cross_attention.safetensors"
TOKEN = "mlm_token"


class GuidedText(nn.Module):
    """Cross-attention in every block and, with ``own_token``, the word embedding of [MLM]."""

    def __init__(self, text: CXRBert, patch_width: int, cls_id: int, own_token: bool) -> None:
        super().__init__()
        self.cross = CrossAttention(text.config, patch_width)
        # It starts from [CLS], of which the encoder knows what to make.
        cls_D = text.bert.embeddings.word_embeddings.weight[cls_id].detach().clone()
        self.register_parameter(TOKEN, nn.Parameter(cls_D) if own_token else None)

    def states(
        self, text: CXRBert, input_ids_BL: Tensor, attention_mask_BL: Tensor, patches_BMP: Tensor
    ) -> Tensor:
        """Last-layer states [B, L, D] of padded texts, each beside its image's patches."""
        first_D: Tensor | None = getattr(self, TOKEN)
        return self.cross.states(
            text.bert, input_ids_BL, attention_mask_BL, patches_BMP, causal=False, first_D=first_D
        )


def save_guidance(guided: GuidedText, folder: Path) -> None:
    """Write ``cross_attention.safetensors``."""
    weights = {name: value.detach().cpu() for name, value in guided.state_dict().items()}
    save_file(weights, folder / FILE)


def load_guidance(folder: Path, text: CXRBert) -> GuidedText:
    """Read the file of :func:`save_guidance`; an :class:`InputError` if it does not fit ``text``.

    Released text encoders have none (docs/weights.md).
    """
    weights = read_weights(folder / FILE)
    width = weights["cross.patches.weight"].shape[1] if "cross.patches.weight" in weights else 1
    with torch.random.fork_rng(devices=[]):
        guided = GuidedText(text, width, 0, TOKEN in weights)
    load_weights(guided, weights, folder / FILE)
    return guided.eval()
