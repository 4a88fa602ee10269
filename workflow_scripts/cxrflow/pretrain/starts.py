"""Text encoders before their training: their weights and frozen layers."""

from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.encoders.bert import initialised
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, require_layers, text_projection
from cxrflow.encoders.settings import LinearHeadSettings, TextPooling
from cxrflow.models.run_record import read_run, relates_sentences


def start_text(
    folder: str | Path,
    dropout: float,
    attention_dropout: float,
    pooling: TextPooling = "cls",
    new_projection: bool = False,
) -> CXRBert:
    """A text encoder that starts from a model folder, with this stage's dropout and pooling.

    ``new_projection``: the caller replaces its projection. Otherwise this one goes on being trained
    as that to the joint space, and a classifier of sentence pairs is refused.
    """
    if not new_projection and relates_sentences(read_run(Path(folder))):
        raise InputError(
            f"{folder}: is a model of the program sentence_pairs, whose projection says how two "
            "sentences relate; expected a text encoder, such as the one that it started from"
        )
    text = load_text_encoder(Path(folder))
    text.set_dropout(dropout, attention_dropout)
    text.set_pooling(pooling)
    return text


def start_classifier(folder: Path, dropout: float, classes: int) -> CXRBert:
    """The same with a new projection of [CLS], linear, with one dimension for each class."""
    text = start_text(folder, dropout, dropout, new_projection=True)
    if type(text) is not CXRBert or text.config.type_vocab_size < 2:
        raise InputError(
            f"{folder}: its text encoder does not tell two texts apart; expected a BERT with "
            "type_vocab_size 2 in config.json"
        )
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
