"""Masked-token prediction on validation reports: does the encoder know the language?

BioViL section 4.2, Table 3: top-1 accuracy with 15 % masking. Each section of a report is one
sequence in its written sentence order. The mask of a sequence depends on its study and the
settings only, so all models with one vocabulary predict the same tokens. A prediction counts as
right when the greatest logit is the true piece. Beside it stands what a model would reach that
always answers the piece most frequent among the targets of the training split.
"""

import hashlib
import logging
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

import cxrflow
from cxrflow.benchmarks.inputs import Cohort, choose_split, read_cohort
from cxrflow.benchmarks.language.settings import MaskPredictionSettings
from cxrflow.benchmarks.result import Result, estimates
from cxrflow.errors import InputError
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, clusters_of, ratio
from cxrflow.text.masking import MaskedBatch, WordMasker
from cxrflow.text.report_batch import ReportTokens, Section
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

FILE = "pairs.parquet"
COLUMNS = ("study_id", "subject_id", "split")


def sequence_keys(study_ids: Sequence[str], section: str) -> torch.Tensor:
    """Return a key [N] for each study and section that does not depend on the table."""
    digests = [
        hashlib.blake2b(f"{section}/{study}".encode(), digest_size=8).digest()
        for study in study_ids
    ]
    numbers = [int.from_bytes(digest, "little", signed=True) for digest in digests]
    return torch.tensor(numbers, dtype=torch.int64)


@dataclass(frozen=True)
class MaskedReports:
    """Tokenised reports and how they are masked."""

    reports: pd.DataFrame
    tokens: ReportTokens
    masker: WordMasker
    seed: int

    def batches(
        self, section: Section, size: int
    ) -> Iterator[tuple[NDArray[np.int64], MaskedBatch, torch.Tensor]]:
        """Yield rows [B], masked batch and attention mask [B, L] of sequences of similar length.

        Reports without the section are left out.
        """
        rows = np.flatnonzero(self.tokens.present[section])
        rows = rows[np.argsort(self.tokens.lengths(section)[rows], kind="stable")]
        keys = sequence_keys(self.reports["study_id"].astype(str).tolist(), section)
        for start in range(0, len(rows), size):
            chosen = rows[start : start + size]
            # Epoch 0 for all: each model with this vocabulary must predict the same tokens.
            batch = self.tokens.batch(chosen, section, seed=self.seed, epoch=0, shuffle=False)
            masked = self.masker(
                batch["input_ids"],
                batch["attention_mask"].bool(),
                keys[chosen],
                seed=self.seed,
                epoch=0,
            )
            yield chosen, masked, batch["attention_mask"]


def mask_reports(
    reports: pd.DataFrame, tokenizer: Any, max_length: int, settings: MaskPredictionSettings
) -> MaskedReports:
    """Tokenise the reports."""
    masker = WordMasker(VocabularyInfo.from_tokenizer(tokenizer), settings.masking)
    return MaskedReports(
        reports, ReportTokens(reports, tokenizer, max_length), masker, settings.mask_seed
    )


@torch.inference_mode()
def predict(
    model: Any, masked_reports: MaskedReports, frequent: int, settings: MaskPredictionSettings
) -> pd.DataFrame:
    """Return a row for each sequence: its targets, and how many the model and ``frequent`` hit."""
    device = next(model.text_encoder.parameters()).device
    frames = []
    for section in settings.sections:
        for rows, masked, attention in masked_reports.batches(section, settings.batch_size):
            right = np.zeros(0, dtype=bool)
            if len(masked.positions):
                hidden = model.text_encoder.hidden_states(
                    masked.input_ids.to(device), attention.to(device)
                )
                logits = model.text_encoder.predict_tokens(hidden, masked.positions.to(device))
                right = logits.float().cpu().numpy().argmax(-1) == masked.targets.numpy()
            owner = (masked.positions // masked.input_ids.shape[1]).numpy()
            always = masked.targets.numpy() == frequent
            frames.append(
                pd.DataFrame(
                    {
                        "study_id": masked_reports.reports["study_id"].to_numpy()[rows],
                        "subject_id": masked_reports.reports["subject_id"].to_numpy()[rows],
                        "section": section,
                        "targets": np.bincount(owner, minlength=len(rows)),
                        "correct": np.bincount(owner, right, len(rows)).astype(np.int64),
                        "correct_most_frequent": np.bincount(owner, always, len(rows)).astype(
                            np.int64
                        ),
                    }
                )
            )
    if not sum(frame["targets"].sum() for frame in frames):
        raise InputError(f"pairs: no masked token in sections {settings.sections} of the split")
    return pd.concat(frames, ignore_index=True)


def count_targets(
    masked_reports: MaskedReports, size: int, settings: MaskPredictionSettings
) -> NDArray[np.int64]:
    """Return how often each piece [V] is a target."""
    counts = np.zeros(size, dtype=np.int64)
    for section in settings.sections:
        for _, masked, _ in masked_reports.batches(section, 4 * settings.batch_size):
            counts += np.bincount(masked.targets.numpy(), minlength=size)
    if not counts.any():
        raise InputError(f"pairs: no masked token in sections {settings.sections} of the baseline")
    return counts


def statistics(predictions: pd.DataFrame, settings: MaskPredictionSettings) -> Statistic:
    """Accuracy over all targets, of model and baseline, their margin, and accuracy by section."""
    section = predictions["section"].to_numpy()
    total = predictions["targets"].to_numpy()
    correct = predictions["correct"].to_numpy()
    frequent = predictions["correct_most_frequent"].to_numpy()

    def metrics(counts: Floats) -> dict[str, Floats]:
        accuracy, baseline = (ratio(counts @ hits, counts @ total) for hits in (correct, frequent))
        scores = {
            "mask_accuracy": accuracy,
            "most_frequent_accuracy": baseline,
            "margin": accuracy - baseline,
        }
        for name in settings.sections:
            rows = section == name
            weights = counts[:, rows]
            scores[f"mask_accuracy/{name}"] = ratio(weights @ correct[rows], weights @ total[rows])
        return scores

    return metrics


def clusters(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Return cluster numbers [N]; the sections of a study always stay together.

    ``unit``: "subject" resamples patients, "sample" studies. A study of an unknown patient is a
    cluster of its own.
    """
    owners = predictions["subject_id"] if unit == "subject" else predictions["study_id"]
    return clusters_of(owners.where(owners.notna(), "study " + predictions["study_id"].astype(str)))


def summarise(predictions: pd.DataFrame, settings: MaskPredictionSettings) -> dict[str, Estimate]:
    section = predictions["section"].to_numpy()
    total = predictions["targets"].to_numpy()
    names = ("mask_accuracy", "most_frequent_accuracy", "margin")
    sizes = dict.fromkeys(names, int(total.sum()))
    sizes |= {
        f"mask_accuracy/{name}": int(total[section == name].sum()) for name in settings.sections
    }
    statistic = statistics(predictions, settings)
    return estimates(statistic, predictions, sizes, settings.intervals, clusters)


def evaluate(model: Any, cohort: Cohort, source: Path, settings: MaskPredictionSettings) -> Result:
    """Predict masked tokens of the reports of ``cohort``, which has all splits.

    ``source`` is the file they were read from, for errors.
    """
    if model.text_encoder is None:
        raise InputError("the model has no text half")
    longest = int(model.text_encoder.config.max_position_embeddings)
    max_length = min(settings.max_length, longest)
    evaluated = choose_split(cohort.table, settings.split, source)
    training = choose_split(cohort.table, settings.baseline_split, source)
    vocabulary = VocabularyInfo.from_tokenizer(model.tokenizer)
    baseline = mask_reports(training, model.tokenizer, max_length, settings)
    frequent = int(count_targets(baseline, vocabulary.size, settings).argmax())
    masked = mask_reports(evaluated, model.tokenizer, max_length, settings)
    predictions = predict(model, masked, frequent, settings)
    metrics = summarise(predictions, settings)
    protocol = {
        **settings.model_dump(mode="json", exclude={"batch_size", "device"}),
        "max_length": max_length,
        "vocabulary": vocabulary.fingerprint,
        "most_frequent_token": vocabulary.pieces[frequent],
        "sentence_order": "as written",
    }
    data = {
        **cohort.data,
        "reports": len(evaluated),
        "sequences": len(predictions),
        "truncated": sum(masked.tokens.truncated[section] for section in settings.sections),
    }
    return Result("mask_prediction", data, protocol, metrics, predictions)


def score(options: Namespace, settings: MaskPredictionSettings) -> Result:
    cohort = read_cohort(options.cohort, FILE, COLUMNS)
    model = cxrflow.load(options.model, choose_device(settings.device))
    result = evaluate(model, cohort, options.cohort / FILE, settings)
    metrics = result.metrics
    log.info(
        "mask accuracy %.3f, most frequent token %.3f, %d targets",
        metrics["mask_accuracy"].value,
        metrics["most_frequent_accuracy"].value,
        metrics["mask_accuracy"].n,
    )
    return result
