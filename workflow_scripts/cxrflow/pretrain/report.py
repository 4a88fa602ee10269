"""Training to write reports (BioViL-T Appendix F.1): from the image and the prior report.

Starts from a model with both encoders, whose text encoder becomes the decoder. The model folder it
writes holds the image encoder and the decoder, and loads with ``cxrflow.load``.
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import ReportTrainingSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_report``."""
    run_training("report", __doc__, argv, prepare)


def prepare(options: Namespace, settings: ReportTrainingSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    from cxrflow.encoders.cxr_bert import load_text_encoder, require_embeddings
    from cxrflow.encoders.image_encoder import load_image_encoder
    from cxrflow.encoders.report_decoder import ReportDecoder
    from cxrflow.images.store import PixelStore
    from cxrflow.pretrain.inputs import Pairs, images_record, model_fingerprint
    from cxrflow.pretrain.pairs.tables import require_earlier_priors
    from cxrflow.pretrain.resident_images import SMALLER_IMAGES, SplitImages
    from cxrflow.pretrain.writing.program import ReportTexts
    from cxrflow.pretrain.writing.reports import ReportProgram
    from cxrflow.text.report_prompts import ReportPrompts, prior_texts, report_texts
    from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer

    pairs = Pairs(options.pairs, settings.share(run.seed))
    store = PixelStore(options.pixels)
    folder: Path = options.start
    image = load_image_encoder(folder)
    reads = settings.decoder
    priors = reads.prior_image and image.takes_prior
    if priors or reads.prior_report:
        require_earlier_priors(pairs)
    required = "impression" if "impression" in reads.sections else "findings"
    splits = {
        name: pairs.split(name, (required,), store, settings.max_dropped_share, priors)
        for name in ("train", "validate")
    }
    text = load_text_encoder(folder)
    text.set_dropout(settings.dropout, settings.attention_dropout)
    tokenizer = read_tokenizer(folder)
    require_embeddings(text, tokenizer.get_vocab_size(), folder)
    pieces = VocabularyInfo.from_tokenizer(tokenizer).fingerprint
    decoder = ReportDecoder.start(text, pieces, image.settings.projection, reads)
    reports = {name: report_texts(split, reads.sections) for name, split in splits.items()}
    earlier = {
        name: prior_texts(split, pairs.frame, reads.sections) for name, split in splits.items()
    }
    prompts = {
        name: ReportPrompts(earlier[name], tokenizer, reads, reports[name]) for name in splits
    }
    images = {name: SplitImages(store, split, run.device, priors) for name, split in splits.items()}
    samples = {name: pairs.samples(split) for name, split in splits.items()}
    texts = ReportTexts(reports, prompts, folder)
    program = ReportProgram(settings, run, samples, images, texts, image, decoder)
    learnt = prompts["train"]
    data = {
        **images_record(pairs, store, samples),
        "start": model_fingerprint(folder),
        "with_prior_report": sum(text is not None for text in earlier["train"]),
        "cut_prior_reports": learnt.cut_priors,
        "cut_reports": learnt.cut_reports,
    }
    memory_advice = ("a smaller training.batch_size", "a smaller decoder.length", SMALLER_IMAGES)
    return Prepared(program, data, memory_advice)


if __name__ == "__main__":
    run(main)
