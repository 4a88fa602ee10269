"""Joint training on images with their priors (BioViL-T section 3).

Global and local alignment of images with their IMPRESSION, and masked words of the report that are
predicted by looking at the image. Starts from a text model folder and, if given, from an image
model folder. The model folder it writes holds both halves and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cxrflow.pretrain.arguments import image_text_parser, start, train
from cxrflow.pretrain.settings import TemporalPretrainingSettings
from cxrflow.programs.program import run

if TYPE_CHECKING:
    from cxrflow.pretrain.objective import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_temporal``."""
    start(image_text_parser(__doc__).parse_args(argv), TemporalPretrainingSettings, run_training)


def run_training(given: Namespace, settings: TemporalPretrainingSettings, run: "Run") -> None:
    """This process's share of the training."""
    from cxrflow.encoders.cxr_bert import require_embeddings, require_positions
    from cxrflow.files.atomic import file_digest
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.frame_text_pairs import (
        FrameTextProgram,
        Split,
        joined_sections,
        require_earlier_priors,
        start_trunk,
    )
    from cxrflow.pretrain.image_text_pairs import pair_texts
    from cxrflow.pretrain.inputs import Pairs, model_fingerprint
    from cxrflow.pretrain.joint import required_section
    from cxrflow.pretrain.report_text import start_text
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages, other_patients
    from cxrflow.text.tokenizer import read_tokenizer

    pairs, store = Pairs(given.pairs, settings.training_share), PixelStore(given.pixels)
    require_earlier_priors(pairs)
    text = start_text(
        given.text, settings.dropout, settings.attention_dropout, settings.text_pooling
    )
    tokenizer = read_tokenizer(given.text)
    require_embeddings(text, tokenizer.get_vocab_size(), given.text)
    require_positions(text, settings.length)
    sections, splits, samples = (required_section(settings),), {}, {}
    for name in ("train", "validate"):
        frame = pairs.split(name, sections, store, settings.max_dropped_share, priors=True)
        shown, training = frame, name == "train"
        if settings.shuffled_pairs and training:
            shown = frame.iloc[other_patients(frame["subject_id"], run.seed)]
        images = SplitImages(store, shown, run.device, priors=True)
        texts = pair_texts(settings, frame, tokenizer, training)
        samples[name] = pairs.samples(frame, with_prior=images.priors >= 0)
        masked = joined_sections(settings, texts, frame, tokenizer)
        splits[name] = Split(images, texts, masked)
    image = start_trunk(given.image, settings.encoder)
    program = FrameTextProgram(settings, run, samples, splits, image, text, given.text)
    data = {
        **pairs.describe(),
        "geometry": str(store.geometry),
        "pixels": file_digest(given.pixels / "store.json")[:16],
        "text": model_fingerprint(given.text),
        "image": model_fingerprint(given.image),
        "train_samples": len(samples["train"]),
        "train_samples_with_prior": int((splits["train"].images.priors >= 0).sum()),
        "validation_samples": len(samples["validate"]),
    }
    remedies = ("a smaller training.batch_size", "a smaller length", SMALLER_IMAGES)
    train(given, program, "temporal", data, remedies)


if __name__ == "__main__":
    run(main)
