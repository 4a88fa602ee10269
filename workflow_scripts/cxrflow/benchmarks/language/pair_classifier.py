"""Fine-tuning of a text encoder to classify the relation of two sentences (BioViL section 4.2).

A linear layer on the last-layer [CLS] of "[CLS] premise [SEP] hypothesis [SEP]" gives the logits of
the classes; all of the encoder is trained with it. The encoder works on real tokens alone
(``encoders.attention``), so batches need not be of similar length to be quick.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.benchmarks.language.settings import NaturalLanguageInferenceSettings
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.text.sentence_pairs import PairBatch, PairTokens
from cxrflow.training.optimiser import build
from cxrflow.training.precision import Precision, autocast, choose_precision
from cxrflow.training.settings import OptimiserSettings, ScheduleSettings
from cxrflow.training.step import learning_rate_factor

log = logging.getLogger("cxrflow")

_TEST_BATCH = 128


@dataclass(frozen=True)
class LabelledSentencePairs:
    """N pairs of sentences and their classes."""

    tokens: PairTokens
    classes_N: NDArray[np.int64]


@dataclass(frozen=True)
class FineTuningRun:
    """The predictions of a run's best epoch for the N test pairs, and the run's course."""

    seed: int
    predictions_N: NDArray[np.int64]
    best_epoch: int  # from 1
    epochs: int  # before patience ended the run
    validation_accuracy: float  # of the best epoch


class PairClassifier(nn.Module):
    """An encoder and a linear head on [CLS]."""

    def __init__(self, encoder: CXRBert, classes: int, dropout: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(encoder.config.hidden_size, classes)
        # As BERT initialises a new layer (Devlin et al. 2019).
        nn.init.normal_(self.head.weight, std=encoder.config.initializer_range)
        nn.init.zeros_(self.head.bias)

    def forward(self, batch: PairBatch) -> Tensor:
        """Return logits [B, C] of a batch."""
        device = self.head.weight.device
        hidden_BLD = self.encoder.hidden_states(
            batch.input_ids.to(device), batch.attention_mask, batch.segment_ids.to(device)
        )
        logits: Tensor = self.head(self.dropout(hidden_BLD[:, 0]))
        return logits


def fine_tune(
    encoder: CXRBert,
    weights: Mapping[str, Tensor],
    train: LabelledSentencePairs,
    validation: LabelledSentencePairs,
    test: PairTokens,
    classes: int,
    seed: int,
    settings: NaturalLanguageInferenceSettings,
) -> FineTuningRun:
    """Train ``encoder`` from ``weights`` and a new head; test the best epoch.

    The test pairs are classified at each new best validation accuracy, so that no copy of the
    weights is needed. Their accuracy has no part in the choice of the epoch.

    Raises:
        InputError: the loss is not finite.
    """
    torch.manual_seed(seed)
    order = np.random.default_rng(seed)
    encoder.load_state_dict(weights)  # the run before has trained it
    encoder.set_dropout(settings.dropout, settings.dropout)
    device = next(encoder.parameters()).device
    precision = choose_precision("auto", device)
    model = PairClassifier(encoder, classes, settings.dropout).to(device)
    rate = OptimiserSettings(
        learning_rate=settings.learning_rate, weight_decay=settings.weight_decay
    )
    optimiser = build(rate, {"bert": encoder.bert, "head": model.head})
    schedule = ScheduleSettings(decay="linear", warmup=settings.warmup)
    batches = -(-len(train.tokens) // settings.batch_size)
    best, best_epoch, predictions_N = -1.0, 0, np.zeros(len(test), dtype=np.int64)
    for epoch in range(settings.epochs):
        model.train()
        total = torch.zeros((), device=device)
        rows = order.permutation(len(train.tokens))
        for index in range(batches):
            chosen = rows[index * settings.batch_size : (index + 1) * settings.batch_size]
            step = epoch * batches + index
            factor = learning_rate_factor(schedule, step, settings.epochs * batches)
            for group in optimiser.param_groups:
                group["lr"] = settings.learning_rate * factor
            with autocast(device, precision):
                logits_BC = model(train.tokens.batch(chosen))
            target_B = torch.from_numpy(train.classes_N[chosen]).to(device)
            loss = nn.functional.cross_entropy(logits_BC.float(), target_B)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), settings.gradient_clip)
            optimiser.step()
            total += loss.detach()
        mean = float(total) / batches
        if not np.isfinite(mean):
            raise InputError(
                f"settings: key 'learning_rate' is {settings.learning_rate:g}, with which the loss "
                f"of run seed {seed} is not finite in epoch {epoch + 1}; expected a lower one"
            )
        correct_N = classify(model, validation.tokens, precision) == validation.classes_N
        validation_accuracy = float(correct_N.mean())
        if validation_accuracy > best:
            best, best_epoch = validation_accuracy, epoch + 1
            predictions_N = classify(model, test, precision)
        log.info(
            "run seed %d, epoch %d of %d: loss %.4f, validation accuracy %.4f%s",
            *(seed, epoch + 1, settings.epochs, mean, validation_accuracy),
            " (best)" if best_epoch == epoch + 1 else "",
        )
        if settings.patience is not None and epoch + 1 - best_epoch >= settings.patience:
            break
    return FineTuningRun(seed, predictions_N, best_epoch, epoch + 1, best)


@torch.inference_mode()
def classify(model: PairClassifier, pairs: PairTokens, precision: Precision) -> NDArray[np.int64]:
    """Return the class [N] with the greatest logit of each pair."""
    model.eval()
    device = model.head.weight.device
    classes_N = np.zeros(len(pairs), dtype=np.int64)
    for batch in pairs.by_length(_TEST_BATCH):
        with autocast(device, precision):
            logits_BC = model(batch)
        classes_N[batch.rows] = logits_BC.float().argmax(1).cpu().numpy()
    return classes_N
