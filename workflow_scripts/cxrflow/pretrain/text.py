"""Pretrain CXR-BERT (BioViL section 2.1 and Appendix E.1).

Phase II reads packed corpora (``--tokens``) and starts from random weights; phase III reads the
FINDINGS-IMPRESSION pairs of the cohort and goes on from phase II (``--start``), with section
matching and MLM or, for the ablation of Table 4, with MLM alone (``rsm.weight`` 0).
"""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cxrflow.command import run
from cxrflow.errors import InputError
from cxrflow.pretrain.arguments import start, training_parser
from cxrflow.pretrain.settings import TextPretrainingSettings

if TYPE_CHECKING:
    from cxrflow.training.processes import Processes


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of ``python -m cxrflow.pretrain.text``."""
    arguments = training_parser(__doc__)
    arguments.add_argument("--vocabulary", type=Path, required=True, help="tokenizer folder")
    arguments.add_argument(
        "--tokens", type=Path, nargs="+", default=[], help="token folders (phase II)"
    )
    arguments.add_argument("--start", type=Path, help="model folder to go on from")
    given = arguments.parse_args(argv)
    start(given, TextPretrainingSettings, run_training)


def run_training(
    given: Namespace, settings: TextPretrainingSettings, processes: "Processes"
) -> None:
    """The share of one of ``processes`` in the training."""
    if settings.rsm.weight > 0 and given.tokens:
        raise InputError(
            f"settings: key 'rsm.weight' is {settings.rsm.weight} with {len(given.tokens)} token "
            "folders; section matching (phase III) reads --pairs alone, packed corpora (phase II) "
            "have no sections; expected 0, or no --tokens"
        )

    from cxrflow.encoders.cxr_bert import CXRBert, require_positions
    from cxrflow.pretrain.inputs import (
        Pairs,
        model_fingerprint,
        require_same_vocabulary,
        seeded,
    )
    from cxrflow.pretrain.packed_corpus import PackedCorpusProgram
    from cxrflow.pretrain.report_text import start_text
    from cxrflow.pretrain.section_pairs import SectionPairsProgram
    from cxrflow.text.masking import WordMasker
    from cxrflow.text.packing import PackedCorpus
    from cxrflow.text.report_batch import SECTIONS, ReportTokens
    from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer
    from cxrflow.training.engine import Engine
    from cxrflow.training.precision import choose_device

    vocabulary = Path(given.vocabulary)
    tokenizer, pieces = read_tokenizer(vocabulary), VocabularyInfo.from_folder(vocabulary)
    pairs = Pairs(given.pairs)
    seeded(given.seed)
    if given.start:
        require_same_vocabulary(Path(given.start), pieces, vocabulary)
        text = start_text(given.start, settings.dropout, settings.attention_dropout)
    else:
        text = CXRBert.build(settings.encoder, pieces.size, pieces.pad)
        text.set_dropout(settings.dropout, settings.attention_dropout)
    require_positions(text, settings.length)
    device = choose_device(settings.training.device)
    masker = WordMasker.from_settings(pieces, settings.mlm.masking)
    data: dict[str, Any] = {
        "vocabulary": pieces.fingerprint,
        "start": model_fingerprint(given.start),
    }
    common = (text, masker, vocabulary, given.seed, device, processes)
    remedies = ["a smaller training.batch_size", "a smaller length"]
    program: SectionPairsProgram | PackedCorpusProgram
    if not given.tokens:
        frames = [pairs.split(name, SECTIONS) for name in ("train", "validate")]
        train, validation = (ReportTokens(f, tokenizer, settings.length) for f in frames)
        data |= {"train_samples": len(train), "validation_samples": len(validation)}
        program = SectionPairsProgram(
            settings, train, validation, frames[0]["study_id"].tolist(), *common
        )
    else:
        corpus = PackedCorpus([Path(p) for p in given.tokens], settings.length, pieces)
        validation = ReportTokens(pairs.split("validate"), tokenizer, settings.length)
        data |= {
            "train_samples": corpus.rows,
            "validation_samples": len(validation),
            "tokens": corpus.fingerprint,
        }
        program = PackedCorpusProgram(settings, corpus, validation, *common)
        remedies.insert(0, "a larger training.accumulate")
    identity = {
        "model": given.model,
        "program": "text",
        "seed": given.seed,
        "settings": settings.model_dump(mode="json"),
        "data": {**pairs.describe(), **data},
    }
    engine = Engine(program, settings.training, given.seed, identity, remedies, processes)
    engine.run(given.state, given.output)


if __name__ == "__main__":
    run(main)
