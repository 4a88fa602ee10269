"""Training to write the reports of images (ConVIRT section 4.3): Caption-LSTM and -Transformer.

A captioner reads the patches of an image's trunk, which may start from an image model folder; so
may the captioner, where that folder has one. Terms may read what is written with a text encoder.
The model folder it writes holds the trunk and the captioner, and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.errors import InputError
from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import CaptionTrainingSettings

if TYPE_CHECKING:
    from cxrflow.encoders.captioning import Captioner
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_caption``."""
    run_training("caption", __doc__, argv, prepare)


def prepare(options: Namespace, settings: CaptionTrainingSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.encoders.captioning import CaptionerConfig, build_captioner
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.image_starts import start_image
    from cxrflow.pretrain.inputs import Pairs, images_record, model_fingerprint
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages
    from cxrflow.pretrain.writing.captions import CaptionProgram
    from cxrflow.pretrain.writing.program import ReportTexts
    from cxrflow.text.report_prompts import ReportPrompts, report_texts
    from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer

    pairs = Pairs(options.pairs, settings.share(run.seed))
    store = PixelStore(options.pixels)
    reads = settings.decoder.report
    splits = {
        name: pairs.reported(name, reads.sections, store, settings.max_dropped_share)
        for name in ("train", "validate")
    }
    image = start_image(options.image, settings.encoder)
    image.projector = None  # captioners read the trunk
    tokenizer = read_tokenizer(options.vocabulary)
    pieces = VocabularyInfo.from_tokenizer(tokenizer)
    decoder = build_captioner(
        CaptionerConfig(
            captioning=settings.decoder,
            features=image.encoder.features,
            vocab_size=pieces.size,
            vocabulary=pieces.fingerprint,
        )
    )
    if settings.decoder_start == "image":
        start_captioner(decoder, options.image)
    reports = {name: report_texts(split, reads.sections) for name, split in splits.items()}
    prompts = {
        name: ReportPrompts([None] * len(texts), tokenizer, reads, texts)
        for name, texts in reports.items()
    }
    images = {name: SplitImages(store, split, run.device) for name, split in splits.items()}
    samples = {name: pairs.samples(split) for name, split in splits.items()}
    texts = ReportTexts(reports, prompts, options.vocabulary, options.text)
    program = CaptionProgram(settings, run, samples, images, texts, image, decoder)
    data = {
        **images_record(pairs, store, samples),
        "vocabulary": pieces.fingerprint,
        "image": model_fingerprint(options.image),
        "cut_reports": prompts["train"].cut_reports,
    }
    if options.text is not None:
        data["text"] = model_fingerprint(options.text)
    memory_advice = (
        "a smaller training.batch_size",
        "a smaller decoder.report_length",
        SMALLER_IMAGES,
    )
    return Prepared(program, data, memory_advice)


def start_captioner(captioner: "Captioner", folder: Path | None) -> None:
    """Give it the weights of a model folder's captioner, which must be of the same sizes.

    Raises:
        InputError: there is no such folder, it has no captioner, or one of another configuration.
    """
    from cxrflow.encoders.captioning import load_captioner
    from cxrflow.encoders.report_decoder import FOLDER

    if folder is None:
        raise InputError("settings: key 'decoder_start' is 'image', but there is no --image")
    start = load_captioner(folder)
    theirs, ours = start.config.model_dump(), captioner.config.model_dump()
    differing = [name for name in ours if theirs[name] != ours[name]]
    if differing:
        name = differing[0]
        raise InputError(
            f"{folder / FOLDER / 'config.json'}: key '{name}' is {theirs[name]}; expected "
            f"{ours[name]}, as of the captioner that starts from it"
        )
    captioner.load_state_dict(start.state_dict())


if __name__ == "__main__":
    run(main)
