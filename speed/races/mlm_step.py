"""A training step of phase II: PackedCorpusProgram against BertForMaskedLM and its collator."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

from cxr_files.atomic import file_digest
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.packed_corpus import PackedCorpusProgram
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.pretrain.terms.settings import MaskedLanguageSettings, TextTerms
from cxrflow.text.packing import PackedCorpus
from cxrflow.text.report_batch import ReportTokens, WordMasker
from cxrflow.text.settings import MaskingSettings
from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer
from cxrflow.training.precision import Precision
from cxrflow.training.processes import ALONE
from cxrflow.training.settings import TrainingSettings
from speed.race import Race
from speed.text_steps import (
    PIECES,
    TOLERANCE,
    TrainingStep,
    describe,
    in_transformers,
    invent_vocabulary,
    precisions,
    require_agreement,
)

LENGTH, ROWS, SEED = 512, 4, 0
ENCODER = TextEncoderSettings(layers=6, width=384, heads=6, feed_forward=1536)


def write_tokens(folder: Path, sizes: np.ndarray, vocabulary: VocabularyInfo) -> PackedCorpus:
    """A corpus of documents of these ``sizes``, with tokens as unequally frequent as words are."""
    rng = np.random.default_rng(SEED)
    ordinary = np.flatnonzero(~vocabulary.special)
    ranks = (len(ordinary) ** rng.random(int(sizes.sum()))).astype(np.int64) - 1
    folder.mkdir()
    np.save(folder / "tokens.npy", rng.permutation(ordinary)[ranks].astype(np.uint16))
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum(sizes)]))
    digest = file_digest(folder / "tokens.npy")
    facts = {"vocabulary_fingerprint": vocabulary.fingerprint, "fingerprint": digest}
    (folder / "tokens.json").write_text(json.dumps(facts))
    return PackedCorpus([folder], LENGTH, vocabulary)


def races(encoder: TextEncoderSettings = ENCODER, rows: int = ROWS) -> list[Race]:
    """One race for each arithmetic that the CPU has."""
    return [_race(encoder, rows, precision) for precision in precisions()]


def _race(encoder: TextEncoderSettings, rows: int, precision: Precision) -> Race:
    with TemporaryDirectory(prefix="cxrflow-race-") as name:
        root = Path(name)
        invent_vocabulary(root)
        tokenizer, vocabulary = read_tokenizer(root), VocabularyInfo.from_folder(root)
        collator = DataCollatorForLanguageModeling(BertTokenizerFast.from_pretrained(root))
        sizes = np.random.default_rng(SEED).lognormal(np.log(200), 0.8, 2000)
        corpus = write_tokens(root / "mixed", sizes.clip(5, 2000).astype(np.int64), vocabulary)
        # On rows of one document each, attention within documents is attention within rows.
        single = write_tokens(root / "single", np.full(2 * rows, LENGTH - 2), vocabulary)
    settings = TextPretrainingSettings(
        encoder=encoder,
        length=LENGTH,
        terms=TextTerms(mlm=MaskedLanguageSettings()),
        training=TrainingSettings(batch_size=rows, steps=1000),
    )
    torch.manual_seed(SEED)
    text = CXRBert.build(encoder, PIECES, vocabulary.pad)
    text.set_dropout(settings.dropout, settings.attention_dropout)
    theirs = in_transformers(text)
    masker = WordMasker(vocabulary, MaskingSettings())
    unused = ReportTokens(pd.DataFrame({"findings": ["w1."], "impression": ["w2."]}), tokenizer, 8)
    mixed_program, single_program = (
        PackedCorpusProgram(
            settings, Run(SEED, torch.device("cpu"), ALONE), data, unused, text, root
        )
        for data in (corpus, single)
    )
    plan = corpus.plan(SEED, 0)

    def library(turn: int) -> Tensor:
        batch = corpus.batch(plan[turn * rows : (turn + 1) * rows])
        return theirs(**collator([{"input_ids": row} for row in batch["input_ids"]])).loss

    def library_compared() -> Tensor:
        batch = single.batch(single.plan(SEED, 0)[:rows])
        masked = masker(batch["input_ids"], batch["document"] >= 0, batch["keys"], SEED, 0)
        labels = torch.full_like(masked.input_ids, -100)
        labels.view(-1)[masked.positions] = masked.targets
        return theirs(input_ids=masked.input_ids, labels=labels).loss

    return Race(
        name=f"mlm_step_{precision}",
        what=f"a training step of phase II on {rows} rows of {LENGTH} tokens in {precision}",
        ours=TrainingStep(
            text,
            lambda turn: mixed_program.losses(mixed_program.prepare(0, turn), 0, 1).total,
            lambda: single_program.losses(single_program.prepare(0, 0), 0, 1).total,
            precision,
        ),
        peers={"transformers": TrainingStep(theirs, library, library_compared, precision)},
        check=lambda a, b: require_agreement(a, b, TOLERANCE[precision]),
        gates={"transformers": 1.25},
        amount=rows * LENGTH,
        unit="token",
        notes=[
            describe(encoder),
            f"compared before timing, dropout off, one document a row: loss and gradient to "
            f"{TOLERANCE[precision]:g}",
            "timed: masking, forward, backward, AdamW, dropout 0.1; documents of 5 to 2000 tokens, "
            f"median 200, packed to {100 * corpus.fill:.1f} % full",
            "transformers: BertForMaskedLM with SDPA and the standard collator (tokens, not words) "
            "on the same rows; every token of a row attends to all others, and every place is "
            "projected to the vocabulary",
            "the head's share of the work is larger here than in BERT base (48 % of the peer's "
            "products against 20 %), so the ratio is not that of full size",
        ],
    )
