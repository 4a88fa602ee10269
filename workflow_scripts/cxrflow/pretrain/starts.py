"""Text encoders before their training: their weights and frozen layers."""

from pathlib import Path

from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, require_layers
from cxrflow.encoders.settings import TextPooling


def start_text(
    folder: str | Path, dropout: float, attention_dropout: float, pooling: TextPooling = "cls"
) -> CXRBert:
    """A text encoder that starts from a model folder, with this stage's dropout and pooling."""
    text = load_text_encoder(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    text.set_pooling(pooling)
    return text


def freeze_below(text: CXRBert, layers: int) -> None:
    """Leave the first ``layers`` layers as they are and, if there are any, the embeddings."""
    require_layers(text, layers, "frozen_layers")
    if layers > 0:
        text.bert.embeddings.requires_grad_(False)
    for layer in text.bert.encoder.layer[:layers]:
        layer.requires_grad_(False)


def train_only(text: CXRBert, tokens: bool, projection: bool) -> None:
    """Freeze the head of tokens, the projection, or neither."""
    text.cls_projection_head.requires_grad_(projection)
    embeddings = text.bert.embeddings.word_embeddings.weight  # the token head's, too
    for parameter in text.cls.parameters():
        if parameter is not embeddings:
            parameter.requires_grad_(tokens)
