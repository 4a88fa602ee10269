"""Training to write the reports of images (ConVIRT section 4.3): Caption-LSTM and -Transformer.

A captioner reads the patches of an image's trunk, which may start from an image model folder. The
model folder it writes holds the trunk and the captioner, and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import CaptionTrainingSettings

if TYPE_CHECKING:
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
    reports = {name: report_texts(split, reads.sections) for name, split in splits.items()}
    prompts = {
        name: ReportPrompts([None] * len(texts), tokenizer, reads, texts)
        for name, texts in reports.items()
    }
    images = {name: SplitImages(store, split, run.device) for name, split in splits.items()}
    samples = {name: pairs.samples(split) for name, split in splits.items()}
    texts = ReportTexts(reports, prompts, options.vocabulary)
    program = CaptionProgram(settings, run, samples, images, texts, image, decoder)
    data = {
        **images_record(pairs, store, samples),
        "vocabulary": pieces.fingerprint,
        "image": model_fingerprint(options.image),
        "cut_reports": prompts["train"].cut_reports,
    }
    memory_advice = (
        "a smaller training.batch_size",
        "a smaller decoder.report_length",
        SMALLER_IMAGES,
    )
    return Prepared(program, data, memory_advice)


if __name__ == "__main__":
    run(main)
