"""Baselines and the ceiling of pairs of sentences, without a model (not of the papers).

Rules compare two sentences by their words. A word is BERT's, in lower case; punctuation is none.
Each rule gives a similarity in [0, 1], so that a threshold of a model's
cosines fits it too. For inference, a logistic regression on the rule takes the place of the
fine-tuned encoder: it learns from the same training pairs, and the accuracy on the same validation
pairs chooses the strength of its penalty, as it chooses a model's epoch. ``hypothesis`` sees the
words of the hypothesis and never the premise (Gururangan et al. 2018).

``supervised``, the ceiling, learns from labels of the data set that is scored, in folds
(:mod:`cxrflow.benchmarks.rows.supervised_pairs`).
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.language.natural_language_inference import (
    InferenceAnswers,
    InferencePairs,
    classes_of,
)
from cxrflow.benchmarks.language.settings import (
    NaturalLanguageInferenceSettings,
    SentenceSimilaritySettings,
)
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.rows.words import Counts, changes, count_words, denies
from cxrflow.data.readers.nli import LABELS
from cxrflow.metrics.intervals import Floats

SUPERVISED = "supervised"
_PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)  # the inverse of their strength


class Sentences(Row):
    """Compares two sentences by a rule.

    ``tfidf`` weighs words by all sentences of the cohort, whose labels it does not see.
    """

    def __init__(self, name: str, settings: Any) -> None:
        super().__init__(name, settings)
        self.protocol["embedding"] = name
        if isinstance(settings, SentenceSimilaritySettings):
            self.protocol["projection_trained"] = None

    def scores(self, inputs: Inputs, samples: pd.DataFrame, settings: Any) -> Floats:
        """The similarity [N] of premise and hypothesis."""
        if self.name == SUPERVISED:
            from cxrflow.benchmarks.rows import supervised_pairs  # it alone needs torch

            pairs = inputs.cohort.table
            is_scored_N = pairs["sample_id"].isin(samples["sample_id"]).to_numpy()
            return supervised_pairs.similarity(pairs)[is_scored_N]
        corpus = [text for side in _sentences(inputs.cohort.table) for text in side]
        return similarities(self.name, *_sentences(samples), corpus)


class Inference(Row):
    """Infers from rules; ``tfidf`` weighs words by the training pairs."""

    def scores(
        self, inputs: Inputs, pairs: InferencePairs, settings: NaturalLanguageInferenceSettings
    ) -> InferenceAnswers:
        """The class [N] of each test pair for each run seed; only draws differ between runs."""
        self.protocol["head"] = self.name
        if self.name == "random":
            count = len(pairs.test)
            return InferenceAnswers(
                {
                    seed: np.random.default_rng(seed).integers(0, len(LABELS), count)
                    for seed in settings.run_seeds
                }
            )
        tables = (pairs.train, pairs.validation, pairs.test)
        if self.name == SUPERVISED:
            from cxrflow.benchmarks.rows import supervised_pairs

            table = pd.concat([pairs.validation, pairs.test], ignore_index=True)
            answers_N = supervised_pairs.classes(table, classes_of(table["label"]))
            of_test_N = answers_N[len(pairs.validation) :]
            return InferenceAnswers(dict.fromkeys(settings.run_seeds, of_test_N))
        from sklearn.linear_model import LogisticRegression

        train_NF, validation_NF, test_NF = described(self.name, tables, pairs.train)
        train, validation = (classes_of(table["label"]) for table in tables[:2])
        heads = [
            LogisticRegression(C=penalty, max_iter=1000).fit(train_NF, train)
            for penalty in _PENALTIES
        ]
        best = max(heads, key=lambda head: float(head.score(validation_NF, validation)))
        return InferenceAnswers(dict.fromkeys(settings.run_seeds, best.predict(test_NF)))


def _sentences(pairs: pd.DataFrame) -> tuple[list[str], list[str]]:
    return pairs["premise"].tolist(), pairs["hypothesis"].tolist()


def described(
    name: str, pairs: Sequence[pd.DataFrame], training: pd.DataFrame
) -> list[NDArray[np.float64]]:
    """Return the features [N, F] of each table of pairs, as a rule sees them."""
    if name == "hypothesis":
        from sklearn.feature_extraction import DictVectorizer

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


def cosine(first: Counts, second: Counts, weight: Callable[[str], float]) -> float:
    """Return the cosine of two vectors of word counts, each word with its weight."""
    product = sum(first[word] * second[word] * weight(word) ** 2 for word in first)
    lengths = (
        sum((count * weight(word)) ** 2 for word, count in words.items())
        for words in (first, second)
    )
    return product / math.sqrt(math.prod(lengths)) if product else 0.0


def inverse_document_frequency(corpus: Sequence[str]) -> Callable[[str], float]:
    """Return the weight of a word by the texts of a corpus, smoothed: log((1 + N) / (1 + n)) + 1.

    N: texts, n: those with the word (Salton and Buckley 1988; scikit-learn's default).
    """
    texts = Counter(word for text in corpus for word in count_words(text))
    return lambda word: math.log((1 + len(corpus)) / (1 + texts[word])) + 1


def similarities(
    rule: str, first: Sequence[str], second: Sequence[str], corpus: Sequence[str]
) -> Floats:
    """Return the similarity [N] of N pairs of sentences by a rule.

    ``nothing``: the same for every pair, whose accuracy is the majority's. ``negation``: 1 where
    both sentences deny or neither does, else 0. ``change_words``: 1 where both have words of the
    same directions of change (BioViL-T, Table F.3), else 0. ``words``: cosine of word counts.
    ``tfidf``: the same, rare words of ``corpus`` counting more. ``overlap``: words in both, of the
    words in either. ``length``: the shorter's number of words, of the longer's. ``random``: uniform
    draws.
    """
    if rule == "random":
        return np.random.default_rng(0).random(len(first))
    weight = inverse_document_frequency(corpus)
    compare: dict[str, Callable[[Counts, Counts], float]] = {
        "nothing": lambda a, b: 0.0,
        "change_words": lambda a, b: float(changes(a) == changes(b)),
        "negation": lambda a, b: float(denies(a) == denies(b)),
        "words": lambda a, b: cosine(a, b, lambda word: 1.0),
        "tfidf": lambda a, b: cosine(a, b, weight),
        "overlap": lambda a, b: len(a.keys() & b.keys()) / max(1, len(a.keys() | b.keys())),
        "length": lambda a, b: min(a.total(), b.total()) / max(1, a.total(), b.total()),
    }
    pairs = zip(map(count_words, first), map(count_words, second), strict=True)
    return np.array([compare[rule](*pair) for pair in pairs])
