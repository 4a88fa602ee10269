"""Masked-token prediction on validation reports: does the encoder know the language?

BioViL section 4.2, Table 3: top-1 accuracy with 15 % masking. Each section of a report is one
sequence in its written sentence order. The mask of a sequence depends on its study and the
settings only, so all models with one vocabulary predict the same tokens. A prediction counts as
right when the greatest logit is the true piece. Beside it stands what a model would reach that
always answers the piece most frequent among the targets of the training split.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.language.settings import MaskPredictionSettings
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.metrics.intervals import Floats, clusters_of, ratio
from cxrflow.text.report_batch import MaskedBatch, ReportTokens, Section, WordMasker
from cxrflow.text.tokenizer import VocabularyInfo

COLUMNS = ("study_id", "subject_id", "split")

# The piece [M] at each masked place of a batch, whose attention mask [B, L] is beside it.
Answer = Callable[[MaskedBatch, torch.Tensor], NDArray[np.int64]]


def sequence_keys(study_ids: Sequence[str], section: str) -> torch.Tensor:
    """Return a key [N] for each study and section that does not depend on the table."""
    digests = [
        hashlib.blake2b(f"{section}/{study}".encode(), digest_size=8).digest()
        for study in study_ids
    ]
    # Signed, as the keys are an int64 tensor.
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


def predict_masked(
    answer: Answer, masked_reports: MaskedReports, frequent: int, settings: MaskPredictionSettings
) -> pd.DataFrame:
    """Return a row for each sequence: its targets, and how many are hit by both answers."""
    frames = []
    for section in settings.sections:
        for rows, masked, attention in masked_reports.batches(section, settings.batch_size):
            right = np.zeros(0, dtype=bool)
            if len(masked.positions):
                right = answer(masked, attention) == masked.targets.numpy()
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
        # No model runs here, so larger batches fit.
        for _, masked, _ in masked_reports.batches(section, 4 * settings.batch_size):
            counts += np.bincount(masked.targets.numpy(), minlength=size)
    if not counts.any():
        raise InputError(f"pairs: no masked token in sections {settings.sections} of the baseline")
    return counts


def statistic(predictions: pd.DataFrame, settings: MaskPredictionSettings) -> CountedStatistic:
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

    def size(name: str) -> int:
        _, _, chosen = name.partition("/")
        return int(total[section == chosen].sum() if chosen else total.sum())

    def behind(name: str) -> dict[str, int]:
        _, _, chosen = name.partition("/")
        rows = section == chosen if chosen else np.ones(len(total), dtype=bool)
        return {"masked": int(total[rows].sum()), "most_frequent": int(frequent[rows].sum())}

    return CountedStatistic(metrics, size, behind=behind)


def clusters(predictions: pd.DataFrame, unit: str) -> NDArray[np.int64]:
    """Return cluster numbers [N]; the sections of a study always stay together.

    ``unit``: "subject" resamples patients, "sample" studies. A study of an unknown patient is a
    cluster of its own.
    """
    owners = predictions["subject_id"] if unit == "subject" else predictions["study_id"]
    return clusters_of(owners.where(owners.notna(), "study " + predictions["study_id"].astype(str)))


class MaskedWords(NamedTuple):
    """How masked words are answered.

    ``answer_of`` gets the masked reports of the baseline, and the piece most frequent there.
    """

    tokenizer: Any
    max_length: int
    answer_of: Callable[[MaskedReports, int], Answer]


def scores(inputs: ModelInputs, settings: MaskPredictionSettings) -> MaskedWords:
    """The answers of a model."""
    model = inputs.model
    if model.text_encoder is None:
        raise InputError("the model has no text encoder")
    encoder = model.text_encoder
    device = next(encoder.parameters()).device

    @torch.inference_mode()
    def answer(masked: MaskedBatch, attention: torch.Tensor) -> NDArray[np.int64]:
        hidden = encoder.hidden_states(masked.input_ids.to(device), attention.to(device))
        logits = encoder.predict_tokens(hidden, masked.positions.to(device))
        return np.asarray(logits.float().cpu().numpy().argmax(-1))

    longest = int(encoder.config.max_position_embeddings)
    max_length = min(settings.max_length, longest)
    return MaskedWords(model.tokenizer, max_length, lambda *baseline: answer)


def predict(inputs: ModelInputs, settings: MaskPredictionSettings) -> Predictions:
    """Compare answers with the masked pieces of the reports."""
    tokenizer, max_length, answer_of = inputs.ask(scores, settings)
    evaluated = inputs.rows(settings.split)
    training = inputs.rows(settings.baseline_split)
    vocabulary = VocabularyInfo.from_tokenizer(tokenizer)
    baseline = mask_reports(training, tokenizer, max_length, settings)
    frequent = int(count_targets(baseline, vocabulary.size, settings).argmax())
    masked = mask_reports(evaluated, tokenizer, max_length, settings)
    predictions = predict_masked(answer_of(baseline, frequent), masked, frequent, settings)
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "reports": len(evaluated),
            "sequences": len(predictions),
            "truncated": sum(masked.tokens.truncated[section] for section in settings.sections),
        },
        {
            "max_length": max_length,
            "vocabulary": vocabulary.fingerprint,
            "most_frequent_token": vocabulary.pieces[frequent],
            "sentence_order": "as written",
        },
    )
