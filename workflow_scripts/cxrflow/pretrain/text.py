"""Pretrain CXR-BERT (BioViL section 2.1 and Appendix E.1).

Phase II reads packed corpora (``--tokens``) and starts from random weights; phase III reads the
FINDINGS-IMPRESSION pairs of the cohort and starts from phase II (``--start``), with section
matching and MLM or, for the ablation of Table 4, with MLM alone.
"""

import logging
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxr_files.errors import InputError
from cxr_files.program import run
from cxrflow.pretrain.arguments import Prepared, run_training
from cxrflow.pretrain.settings import TextPretrainingSettings

if TYPE_CHECKING:
    from cxrflow.pretrain.inputs import Run
    from cxrflow.pretrain.objective import TermsProgram

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``cxrflow pretrain_text``."""
    run_training("text", __doc__, argv, prepare)


def prepare(options: Namespace, settings: TextPretrainingSettings, run: "Run") -> Prepared:
    """Read the inputs and make the program."""
    if settings.terms.section_matching and options.tokens:
        raise InputError(
            f"settings: key 'terms.section_matching' is there with {len(options.tokens)} token "
            "folders; section matching (phase III) reads --pairs alone, packed corpora (phase II) "
            "have no sections; expected null, or no --tokens"
        )

    if not options.tokens and settings.training.accumulate != 1:
        raise InputError(
            f"settings: key 'training.accumulate' is {settings.training.accumulate}; only batches "
            "of --tokens are computed in parts; expected 1"
        )

    from cxrflow.encoders.cxr_bert import CXRBert, require_positions
    from cxrflow.pretrain.inputs import Pairs, model_fingerprint, require_same_vocabulary
    from cxrflow.pretrain.packed_corpus import PackedCorpusProgram
    from cxrflow.pretrain.section_pairs import (
        SectionPairsProgram,
        matched_reports,
        single_section,
        words_alone,
    )
    from cxrflow.pretrain.starts import start_text
    from cxrflow.text.packing import PackedCorpus
    from cxrflow.text.report_batch import SECTIONS, ReportTokens
    from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer

    vocabulary: Path = options.vocabulary
    tokenizer, pieces = read_tokenizer(vocabulary), VocabularyInfo.from_folder(vocabulary)
    pairs = Pairs(options.pairs)
    if options.start:
        require_same_vocabulary(options.start, pieces, vocabulary)
        text = start_text(options.start, settings.dropout, settings.attention_dropout)
    else:
        text = CXRBert.build(settings.encoder, pieces.size, pieces.pad)
        text.set_dropout(settings.dropout, settings.attention_dropout)
    require_positions(text, settings.length)
    memory_advice = ["a smaller training.batch_size", "a smaller length"]
    data: dict[str, Any] = {}
    program: TermsProgram
    if options.tokens:
        corpus = PackedCorpus(options.tokens, settings.length, pieces)
        validation = ReportTokens(pairs.split("validate"), tokenizer, settings.length)
        data |= {"train_samples": corpus.rows, "tokens": corpus.fingerprint}
        program = PackedCorpusProgram(settings, run, corpus, validation, text, vocabulary)
        memory_advice.insert(0, "a larger training.accumulate")
    else:
        sections = SECTIONS
        section = single_section(pairs, settings)
        if section is not None:
            settings, sections = words_alone(settings, section), (section,)
            data["notice"] = (
                f"No training report has FINDINGS and IMPRESSION, only {section.upper()}: trained "
                "on its masked words alone"
            )
            log.warning("%s: %s", pairs.path, data["notice"])
        splits = {
            name: matched_reports(pairs, name, settings, sections) for name in ("train", "validate")
        }
        reports, validation = (
            ReportTokens(split, tokenizer, settings.length) for split in splits.values()
        )
        data |= {"train_samples": len(reports)}
        samples = {name: pairs.samples(split) for name, split in splits.items()}
        program = SectionPairsProgram(
            settings, run, samples, reports, validation, text, vocabulary, sections
        )
    data |= {
        **pairs.describe(),
        "vocabulary": pieces.fingerprint,
        "start": model_fingerprint(options.start),
        "validation_samples": len(validation),
    }
    return Prepared(program, data, memory_advice)


if __name__ == "__main__":
    run(main)
