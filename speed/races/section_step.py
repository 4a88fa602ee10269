"""A training step of phase III: SectionPairsProgram against four padded passes of the same BERT."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize
from transformers import BertTokenizerFast, DataCollatorForLanguageModeling

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.section_pairs import SectionPairsProgram
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.pretrain.terms.settings import (
    MaskedLanguageSettings,
    SectionMatchingSettings,
    TextTerms,
)
from cxrflow.text.report_batch import SECTIONS, ReportTokens, Section, WordMasker
from cxrflow.text.settings import MaskingSettings
from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer
from cxrflow.training.precision import Precision
from cxrflow.training.processes import ALONE
from cxrflow.training.sampler import UniformSampler
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import TrainingSettings
from speed.race import Race
from speed.text_steps import (
    PIECES,
    TOLERANCE,
    WORDS,
    TrainingStep,
    describe,
    in_transformers,
    invent_vocabulary,
    precisions,
    require_agreement,
)

PAIRS, REPORTS, SEED = 32, 2000, 0
MEAN: dict[Section, float] = {"findings": 58, "impression": 30}  # tokens; FINDINGS: section 2.1
LONGEST: dict[Section, int] = {"findings": 256, "impression": 160}
ENCODER = TextEncoderSettings(layers=4, width=256, heads=4, feed_forward=1024)


def invent_reports() -> pd.DataFrame:
    """Sections of sentences of 4 to 15 words, of log-normal length in tokens."""
    rng = np.random.default_rng(SEED)
    columns = {}
    for section in SECTIONS:
        spread = 0.55
        lengths = rng.lognormal(np.log(MEAN[section]) - spread**2 / 2, spread, REPORTS)
        columns[f"{section}_sentences"] = [
            _sentences(rng, int(length) - 2) for length in lengths.clip(min=8, max=LONGEST[section])
        ]
    return pd.DataFrame(columns)


def _sentences(rng: np.random.Generator, tokens: int) -> list[str]:
    found = []
    while tokens > 1:
        count = min(int(rng.integers(4, 16)), tokens - 1)
        words = (WORDS ** rng.random(count)).astype(int) - 1
        found.append(" ".join(f"w{word}" for word in words) + ".")
        tokens -= count + 1
    return found


def races(encoder: TextEncoderSettings = ENCODER, pairs: int = PAIRS) -> list[Race]:
    """One race for each arithmetic that the CPU has."""
    return [_race(encoder, pairs, precision) for precision in precisions()]


def _race(encoder: TextEncoderSettings, pairs: int, precision: Precision) -> Race:
    with TemporaryDirectory(prefix="cxrflow-race-") as name:
        root = Path(name)
        invent_vocabulary(root)
        vocabulary, tokenizer = VocabularyInfo.from_folder(root), read_tokenizer(root)
        plain = BertTokenizerFast.from_pretrained(root)
    reports = ReportTokens(invent_reports(), tokenizer, max(LONGEST.values()))
    settings = TextPretrainingSettings(
        encoder=encoder,
        length=reports.max_length,
        training=TrainingSettings(batch_size=pairs, steps=1000),
        terms=TextTerms(
            section_matching=SectionMatchingSettings(), mlm=MaskedLanguageSettings(weight=0.1)
        ),
        dropout=0.25,
        attention_dropout=0.25,
    )
    torch.manual_seed(SEED)
    text = CXRBert.build(encoder, PIECES, vocabulary.pad)
    text.set_dropout(settings.dropout, settings.attention_dropout)
    theirs = in_transformers(text)
    masker = WordMasker(vocabulary, MaskingSettings())
    rows = SampleTable([str(number) for number in range(len(reports))])
    samples = {"train": rows, "validate": rows}
    program = SectionPairsProgram(
        settings, Run(SEED, torch.device("cpu"), ALONE), samples, reports, reports, text, root
    )
    collator = DataCollatorForLanguageModeling(plain, mlm_probability=0.15)
    sampler = UniformSampler(len(reports), pairs, SEED)
    sequences = {section: _sequences(reports, section) for section in SECTIONS}

    def objective(intact: list[Any], masked: list[Any]) -> Tensor:
        first, second = (
            normalize(theirs.cls_projection_head(theirs.bert(**batch).last_hidden_state[:, 0]))
            for batch in intact
        )
        logits, target = first.float() @ second.float().T / 0.5, torch.arange(pairs)
        matching = cross_entropy(logits, target) + cross_entropy(logits.T, target)
        return matching + 0.1 * (theirs(**masked[0]).loss + theirs(**masked[1]).loss) / 2

    def library(turn: int) -> Tensor:
        intact, masked = [], []
        for section in SECTIONS:
            rows = sampler.rows(0, turn)
            chosen = [{"input_ids": sequences[section][row]} for row in rows]
            intact.append(plain.pad(chosen, return_tensors="pt"))
            masked.append(collator(chosen))
        return objective(intact, masked)

    def library_compared() -> Tensor:
        intact, masked = [], []
        for section in SECTIONS:
            rows = sampler.rows(0, 0)
            batch = reports.batch(rows, section, SEED, 0)
            found = masker(
                batch["input_ids"], batch["attention_mask"].bool(), batch.pop("keys"), SEED, 0
            )
            labels = torch.full_like(found.input_ids, -100)
            labels.view(-1)[found.positions] = found.targets
            intact.append(batch)
            masked.append({**batch, "input_ids": found.input_ids, "labels": labels})
        return objective(intact, masked)

    return Race(
        name=f"section_step_{precision}",
        what=f"a training step of phase III on {pairs} pairs of sections in {precision}",
        ours=TrainingStep(
            text,
            lambda turn: program.losses(program.prepare(0, turn), 0, 1).total,
            lambda: program.losses(program.prepare(0, 0), 0, 1).total,
            precision,
        ),
        peers={"transformers": TrainingStep(theirs, library, library_compared, precision)},
        check=lambda a, b: require_agreement(a, b, TOLERANCE[precision]),
        gates={"transformers": 2.5},
        amount=pairs,
        unit="pair",
        notes=[
            describe(encoder),
            f"compared before timing, dropout off: loss and gradient to {TOLERANCE[precision]:g}",
            "timed: gathering, masking, forward, backward, AdamW, dropout 0.25 with attention",
            *(
                f"{section}: {reports.lengths(section).mean():.0f} tokens on average, "
                f"{reports.lengths(section).max()} at most"
                for section in SECTIONS
            ),
            "transformers: intact and masked sections in a pass each, padded to the longest of the "
            "batch, every place projected to the vocabulary",
        ],
    )


def _sequences(reports: ReportTokens, section: Section) -> list[list[int]]:
    """Every report's ids, without padding."""
    batch = reports.batch(range(len(reports)), section, SEED, 0)
    lengths = reports.lengths(section)
    return [row[:n] for row, n in zip(batch["input_ids"].tolist(), lengths, strict=True)]
