"""The inputs and the program of joint training, for pairs, studies and images with their priors."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tokenizers import Tokenizer

from cxr_files.errors import InputError
from cxrflow.data.true_boxes import TrueBoxMasks
from cxrflow.encoders.cxr_bert import (
    CXRBert,
    require_embeddings,
    require_positions,
    text_projection,
)
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.arguments import Prepared
from cxrflow.pretrain.image_starts import start_image
from cxrflow.pretrain.inputs import Run, images_record, model_fingerprint
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.pretrain.pairs.tables import PairTable, pair_texts
from cxrflow.pretrain.report_text import Texts
from cxrflow.pretrain.resident_images import SMALLER_IMAGES, StudyImages, other_patients
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.starts import start_text
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.samples import SampleTable


@dataclass(frozen=True)
class PairMethod:
    """The differences between the programs of images and texts.

    Attributes:
        table: reads the pairs of the cohort.
        program: the program that is made of them.
        texts: makes the texts of the samples of a split.
        start: makes the image encoder, with the weights of a model folder if there is one.
        new_projection: the text encoder gets a projection like that of the images.
    """

    table: type[PairTable] = PairTable
    program: type[ImageTextProgram] = ImageTextProgram
    texts: Callable[[Any, pd.DataFrame, Tokenizer, bool], Texts] = pair_texts
    start: Callable[[Path | None, ImageEncoderSettings], ImageEncoder] = start_image
    new_projection: bool = False


def prepare_pairs(
    options: Namespace, settings: JointPretrainingSettings, run: Run, method: PairMethod
) -> Prepared:
    """Read the pairs and make the program of them and of the encoders that training starts from.

    It can be drawn again: from what was read, and from torch's random state.
    """
    pairs = method.table(options.pairs, settings.share(run.seed))
    store = PixelStore(options.pixels)
    tokenizer = read_tokenizer(options.text)
    priors = settings.encoder.takes_prior
    images, texts, samples = {}, dict[str, Texts](), dict[str, SampleTable]()
    for split in ("train", "validate"):
        rows = pairs.rows(split, settings, store, priors)
        reports = pairs.samples_of(rows)
        image_reports = reports
        if settings.shuffled_pairs and split == "train":
            image_reports = reports.iloc[other_patients(reports["subject_id"], run.seed)]
        images[split] = pairs.images(store, rows, image_reports, run.device, priors)
        with_prior = images[split].priors >= 0 if priors else None
        samples[split] = pairs.samples(reports, with_prior=with_prior)
        texts[split] = method.texts(settings, reports, tokenizer, split == "train")

    def draw() -> ImageTextProgram:
        # The image encoder first: new weights are drawn in this order.
        image = method.start(options.image, settings.encoder)
        text = start_text(
            options.text,
            settings.dropout,
            settings.attention_dropout,
            settings.text_pooling,
            method.new_projection,
        )
        if method.new_projection:
            renew_projection(text, settings.encoder)
        require_embeddings(text, tokenizer.get_vocab_size(), options.text)
        require_positions(text, settings.length)
        program = method.program(settings, run, samples, images, texts, image, text, options.text)
        for name, term in program.terms.items():
            if term.needs.true_boxes and getattr(options, "truth", None) is None:
                raise InputError(
                    f"settings: terms.{name} reads the boxes of findings, but --truth is missing; "
                    "expected `truth: true` in the recipe, and a synthetic hospital with "
                    "finding_truth"
                )
            if term.needs.true_boxes:
                control: Any = term
                control.true_boxes = TrueBoxMasks(options.truth, store, images["train"].rows)
        return program

    program = draw()
    data: dict[str, Any] = {
        **images_record(pairs, store, samples),
        "text": model_fingerprint(options.text),
        "image": model_fingerprint(options.image),
    }
    train_images = images["train"]
    if isinstance(train_images, StudyImages):
        data["train_images"] = len(train_images.rows)
    if samples["train"].with_prior is not None:
        data["train_samples_with_prior"] = int(samples["train"].with_prior.sum())
    memory_advice = ("a smaller training.batch_size", "a smaller length", SMALLER_IMAGES)
    return Prepared(program, data, memory_advice, draw)


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
