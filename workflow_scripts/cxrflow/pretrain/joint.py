"""Joint image-text training of BioViL (section 2.2): L_joint = lambda_GA L_GA + L_MLM.

ConVIRT, GLoRIA and BioViL-L (Table 5) are other settings of it (docs/joint_training.md).

Starts from a text model folder and, if given, from a SimCLR folder. The model folder it writes
holds both halves and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from cxrflow.pretrain.arguments import image_text_parser, start, train
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_joint``."""
    start(image_text_parser(__doc__).parse_args(argv), JointPretrainingSettings, run_training)


def run_training(given: Namespace, settings: JointPretrainingSettings, run: "Run") -> None:
    """This process's share of the training."""
    from cxrflow.encoders.cxr_bert import require_embeddings, require_positions
    from cxrflow.files.atomic import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_text_pairs import ImageTextProgram, pair_texts, start_image
    from cxrflow.pretrain.inputs import Pairs, model_fingerprint
    from cxrflow.pretrain.report_text import start_text
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages, other_patients
    from cxrflow.text.tokenizer import read_tokenizer

    pairs, store = Pairs(given.pairs, settings.training_share), PixelStore(given.pixels)
    image = start_image(given.image, settings.encoder)
    sections, share = (required_section(settings),), settings.max_dropped_share
    splits = {
        name: pairs.split(name, sections, store, share, image.takes_prior)
        for name in ("train", "validate")
    }
    text = start_text(
        given.text, settings.dropout, settings.attention_dropout, settings.text_pooling
    )
    folder: Path = given.text
    tokenizer = read_tokenizer(folder)
    require_embeddings(text, tokenizer.get_vocab_size(), folder)
    require_positions(text, settings.length)
    shown = dict(splits)
    if settings.shuffled_pairs:
        others = other_patients(splits["train"]["subject_id"], run.seed)
        shown["train"] = splits["train"].iloc[others]
    images = {
        name: SplitImages(store, split, run.device, image.takes_prior)
        for name, split in shown.items()
    }
    texts = {
        name: pair_texts(settings, split, tokenizer, training=name == "train")
        for name, split in splits.items()
    }
    samples = {
        name: pairs.samples(
            split, with_prior=images[name].priors >= 0 if image.takes_prior else None
        )
        for name, split in splits.items()
    }
    program = ImageTextProgram(settings, run, samples, images, texts, image, text, folder)
    data = {
        **pairs.describe(),
        "geometry": str(store.geometry),
        "pixels": file_digest(given.pixels / "store.json")[:16],
        "text": model_fingerprint(given.text),
        "image": model_fingerprint(given.image),
        "train_samples": len(splits["train"]),
        "validation_samples": len(splits["validate"]),
    }
    remedies = ("a smaller training.batch_size", "a smaller length", SMALLER_IMAGES)
    train(given, program, "joint", data, remedies)


def required_section(settings: JointPretrainingSettings) -> Literal["findings", "impression"]:
    """The section without which a report is left out: IMPRESSION wherever it is read."""
    drawn = settings.text == "sentence"
    return "findings" if drawn and "impression" not in settings.sentence_sections else "impression"


if __name__ == "__main__":
    run(main)
