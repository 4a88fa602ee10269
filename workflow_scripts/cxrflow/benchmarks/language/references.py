"""Reference rows of sentence pairs: what their words alone tell, and what a draw scores.

In place of a model's cosine stands the similarity of ``word_rules``, with the model's threshold and
folds. For inference, a logistic regression on the rule takes the place of the fine-tuned encoder:
it learns from the same training pairs, and the accuracy on the same validation pairs chooses the
strength of its penalty, as it chooses a model's epoch. ``hypothesis`` sees the words of the
hypothesis and never the premise (Gururangan et al. 2018). Not in the papers.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.language import natural_language_inference as inference
from cxrflow.benchmarks.language import paraphrase_detection, sentence_similarity
from cxrflow.benchmarks.language.settings import (
    NaturalLanguageInferenceSettings,
    ParaphraseDetectionSettings,
    SentenceSimilaritySettings,
)
from cxrflow.benchmarks.language.word_rules import count_words, denies, similarities
from cxrflow.benchmarks.result import Predictions
from cxrflow.data.readers.nli import LABELS
from cxrflow.metrics.intervals import Floats

_PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # the inverse of their strength


def _sentences(pairs: pd.DataFrame) -> tuple[list[str], list[str]]:
    return pairs["premise"].tolist(), pairs["hypothesis"].tolist()


def described(
    name: str, pairs: Sequence[pd.DataFrame], training: pd.DataFrame
) -> list[NDArray[np.float64]]:
    """Return the features [N, F] of each table of pairs, as a reference row sees them."""
    if name == "hypothesis":
        counts = [list(map(count_words, table["hypothesis"])) for table in pairs]
        words = DictVectorizer(sparse=False).fit(list(map(count_words, training["hypothesis"])))
        return [words.transform(each) for each in counts]
    premises, hypotheses = _sentences(training)
    corpus = [*premises, *hypotheses]
    features = []
    for table in pairs:
        columns = [similarities(name, *_sentences(table), corpus)]
        if name == "negation":  # and which of the two it is that denies
            columns += [
                np.array([float(denies(count_words(text))) for text in side])
                for side in _sentences(table)
            ]
        features.append(np.stack(columns, axis=1))
    return features


def infer(
    name: str, pairs: inference.InferencePairs, settings: NaturalLanguageInferenceSettings
) -> dict[int, NDArray[np.int64]]:
    """Return the class [N] of each test pair for each run seed; only draws differ between runs."""
    if name == "random":
        count = len(pairs.test)
        return {
            seed: np.random.default_rng(seed).integers(0, len(LABELS), count)
            for seed in settings.run_seeds
        }
    tables = (pairs.train, pairs.validation, pairs.test)
    train_NF, validation_NF, test_NF = described(name, tables, pairs.train)
    train, validation = (inference.classes_of(table["label"]) for table in tables[:2])
    heads = [
        LogisticRegression(C=penalty, max_iter=1000).fit(train_NF, train) for penalty in _PENALTIES
    ]
    best = max(heads, key=lambda head: float(head.score(validation_NF, validation)))
    return dict.fromkeys(settings.run_seeds, best.predict(test_NF))


def predict(
    name: str,
    inputs: Inputs,
    settings: (
        NaturalLanguageInferenceSettings | ParaphraseDetectionSettings | SentenceSimilaritySettings
    ),
) -> Predictions:
    """Compare or classify the pairs by a reference row (docs/references.md).

    ``tfidf`` weighs words by all sentences of the cohort, whose labels it does not see; for
    inference by the training pairs.
    """
    if isinstance(settings, NaturalLanguageInferenceSettings):
        pairs = inference.read_pairs(inputs, settings)
        answers = infer(name, pairs, settings)
        return inference.predictions_of(inputs, pairs, answers, settings, {}, {"head": name})
    corpus = [text for side in _sentences(inputs.cohort.table) for text in side]

    def compare(samples: pd.DataFrame) -> Floats:
        return similarities(name, *_sentences(samples), corpus)

    if isinstance(settings, ParaphraseDetectionSettings):
        return paraphrase_detection.classify(inputs, settings, compare, {"embedding": name})
    protocol = {"embedding": name, "projection_trained": None}
    return sentence_similarity.compare(inputs, settings, compare, protocol)
