"""Text encoders before their training: their weights and frozen layers."""

from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.encoders.bert import initialised
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, require_layers, text_projection
from cxrflow.encoders.settings import LinearHeadSettings, TextPooling


def start_text(
    folder: str | Path, dropout: float, attention_dropout: float, pooling: TextPooling = "cls"
) -> CXRBert:
    """A text encoder that starts from a model folder, with this stage's dropout and pooling."""
    text = load_text_encoder(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    text.set_pooling(pooling)
    return text


def start_classifier(folder: Path, dropout: float, classes: int) -> CXRBert:
    """The same with a new projection of [CLS], which is linear and has a dimension a class."""
    text = start_text(folder, dropout, dropout)
    if type(text) is not CXRBert:
        raise InputError(f"{folder}: its text encoder is no BERT, which reads sentences as pairs")
    head = {"projection_size": classes, "projection_head": LinearHeadSettings()}
    text.config = text.config.model_copy(update=head)
    projection = text_projection(text.config)
    text.cls_projection_head = initialised(projection, text.config.initializer_range)
    train_only(text, tokens=False, projection=True)
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
