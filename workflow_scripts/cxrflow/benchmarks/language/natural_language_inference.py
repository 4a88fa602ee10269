"""Natural language inference: trained on clinical notes (MedNLI), tested on radiology (RadNLI).

BioViL section 4.2, Table 3: a text encoder is fine-tuned on the training pairs of MedNLI for up to
20 epochs; the accuracy on RadNLI's development pairs chooses the epoch, and accuracy on its test
pairs is the mean of five runs. Beside it stands the accuracy of always answering the most frequent
class: RadNLI is mostly neutral, so a model that has learnt something can lie below it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.atomic import fingerprint
from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Cohort, Inputs, choose_split, read_cohort
from cxrflow.benchmarks.language.sentence_pair_rows import PAIR_COLUMNS, pair_numbers
from cxrflow.benchmarks.language.settings import NaturalLanguageInferenceSettings
from cxrflow.benchmarks.result import CountedStatistic, Predictions, by_class
from cxrflow.data.readers.nli import LABELS
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.multiclass import accuracy, class_f1

if TYPE_CHECKING:  # a reference row needs none of them
    from cxrflow.benchmarks.model_inputs import ModelInputs

COLUMNS = PAIR_COLUMNS


def statistic(
    predictions: pd.DataFrame, settings: NaturalLanguageInferenceSettings
) -> CountedStatistic:
    """Accuracy and F1 as means over the runs, the accuracy's spread, and the majority class's."""
    labels = classes_of(predictions["label"])
    by_seed = [classes_of(predictions[f"prediction_seed{seed}"]) for seed in settings.run_seeds]
    frequent = np.full(len(labels), np.bincount(labels).argmax())

    def metrics(counts: Floats) -> dict[str, Floats]:
        by_run = np.stack([accuracy(labels, answers, counts) for answers in by_seed])
        f1 = {
            name: np.mean([class_f1(labels, answers, place, counts) for answers in by_seed], axis=0)
            for place, name in enumerate(LABELS)
        }
        return {
            "accuracy": by_run.mean(axis=0),
            "accuracy_sd": by_run.std(axis=0, ddof=1),
            "majority": accuracy(labels, frequent, counts),
            "macro_f1": np.stack(list(f1.values())).mean(axis=0),
            **{f"f1/{name}": values for name, values in f1.items()},
        }

    def size(name: str) -> int:
        _, _, label = name.partition("/")
        return int((labels == LABELS.index(label)).sum()) if label else len(labels)

    counted = by_class(predictions["label"])
    return CountedStatistic(metrics, size, behind=lambda name: counted)


def classes_of(labels: pd.Series) -> NDArray[np.int64]:
    """Return the index [N] of each label in ``LABELS``."""
    return np.array([LABELS.index(label) for label in labels], dtype=np.int64)


@dataclass(frozen=True)
class InferencePairs:
    """The pairs that are trained on, those that choose the epoch, and those that are tested."""

    training: Cohort
    train: pd.DataFrame
    validation: pd.DataFrame
    test: pd.DataFrame


def read_pairs(inputs: Inputs, settings: NaturalLanguageInferenceSettings) -> InferencePairs:
    """Read the pairs of the task's two cohorts."""
    training = read_cohort(inputs.options.training, inputs.file, COLUMNS)
    source = inputs.options.training / inputs.file
    return InferencePairs(
        training,
        choose_split(training.table, settings.train_split, source),
        inputs.rows(settings.validation_split),
        inputs.rows(settings.split),
    )


class InferenceAnswers(NamedTuple):
    """The class [N] of each test pair for each run seed, and what the result says of the runs."""

    by_seed: Mapping[int, NDArray[np.int64]]
    data: Mapping[str, Any] = {}
    protocol: Mapping[str, Any] = {}


def scores(
    inputs: "ModelInputs", pairs: InferencePairs, settings: NaturalLanguageInferenceSettings
) -> InferenceAnswers:
    """Fine-tune the model on the training cohort and test it, once for each run seed."""
    from cxrflow.benchmarks.language.pair_classifier import LabelledSentencePairs, fine_tune
    from cxrflow.text.sentence_pairs import PairTokens

    model = inputs.model
    encoder = model.text_encoder
    if encoder is None:
        raise InputError("the model has no text encoder")
    max_length = min(settings.max_length, int(encoder.config.max_position_embeddings))

    def labelled(table: pd.DataFrame) -> LabelledSentencePairs:
        texts = table["premise"].tolist(), table["hypothesis"].tolist()
        tokens = PairTokens(*texts, model.tokenizer, max_length)
        return LabelledSentencePairs(tokens, classes_of(table["label"]))

    parts = train, validation, test = [
        labelled(table) for table in (pairs.train, pairs.validation, pairs.test)
    ]
    weights = {name: value.clone() for name, value in encoder.state_dict().items()}
    runs = [
        fine_tune(encoder, weights, train, validation, test.tokens, len(LABELS), seed, settings)
        for seed in settings.run_seeds
    ]
    courses = [
        {
            "seed": run.seed,
            "best_epoch": run.best_epoch,
            "epochs": run.epochs,
            "validation_accuracy": run.validation_accuracy,
            "test_accuracy": float(accuracy(test.classes_N, run.predictions_N)[0]),
        }
        for run in runs
    ]
    return InferenceAnswers(
        {run.seed: run.predictions_N for run in runs},
        {"truncated": sum(part.tokens.truncated for part in parts), "runs": courses},
        {
            "max_length": max_length,
            "input": "[CLS] premise [SEP] hypothesis [SEP], segments 0 and 1",
            "head": "linear, on the last-layer [CLS]; all of the encoder is trained",
            "optimiser": "AdamW, linear warm-up and decay over all epochs",
        },
    )


def predict(inputs: "ModelInputs", settings: NaturalLanguageInferenceSettings) -> Predictions:
    """Compare the classes that each run seed gives the test pairs with their labels."""
    pairs = read_pairs(inputs, settings)
    answers, data, protocol = inputs.ask(scores, pairs, settings)
    cohort, training, test = inputs.cohort, pairs.training, pairs.test
    columns = {
        f"prediction_seed{seed}": [LABELS[place] for place in classes_N]
        for seed, classes_N in answers.items()
    }
    predictions = test[["sample_id", "label"]].assign(pair=pair_numbers(test), **columns)
    numbers = {"train": pairs.train, "validation": pairs.validation, "test": test}
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "synthetic": bool(cohort.data["synthetic"] or training.data["synthetic"]),
            "fingerprint": fingerprint([cohort.data["fingerprint"], training.data["fingerprint"]]),
            "pairs": {name: len(table) for name, table in numbers.items()},
            **data,
        },
        {
            **protocol,
            "trained_on": training.data["name"],
            "interval_unit": "two sentences, in both directions",
        },
    )
