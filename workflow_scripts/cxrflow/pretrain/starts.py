"""Text encoders before their training: their weights, projections and frozen layers."""

from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert, load_text_half, text_projection
from cxrflow.encoders.settings import ImageEncoderSettings, TextPooling


def start_text(
    folder: str | Path, dropout: float, attention_dropout: float, pooling: TextPooling = "cls"
) -> CXRBert:
    """A text encoder that starts from a model folder, with this stage's dropout and pooling."""
    text = load_text_half(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    text.set_pooling(pooling)
    return text


def renew_projection(text: CXRBert, settings: ImageEncoderSettings) -> None:
    """Give a text encoder a new projection, of the kind and width of the image encoder's.

    It is drawn as torch draws linear layers, as that of the images is; BERT's own smaller weights
    would, in a narrow encoder, soon be lost in what all texts have in common.
    """
    head = {
        "projection_head": settings.projection_head,
        "projection_size": settings.projection,
    }
    text.config = text.config.model_copy(update=head)
    text.cls_projection_head = text_projection(text.config)


def freeze_below(text: CXRBert, layers: int) -> None:
    """Leave the first ``layers`` layers as they are and, if there are any, the embeddings."""
    if layers > text.config.num_hidden_layers:
        raise InputError(
            f"settings: key 'frozen_layers' is {layers}, but the text encoder has "
            f"{text.config.num_hidden_layers} layers; expected no more than that"
        )
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
