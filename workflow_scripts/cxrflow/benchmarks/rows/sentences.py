"""Baselines and the ceiling of pairs of sentences, without a model (not of the papers).

Rules compare two sentences by their words. A word is BERT's, in lower case; punctuation is none.
Each rule gives a similarity in [0, 1], so that a threshold of a model's
cosines fits it too. For inference, a logistic regression on the rule takes the place of the
fine-tuned encoder: it learns from the same training pairs, and the accuracy on the same validation
pairs chooses the strength of its penalty, as it chooses a model's epoch. ``hypothesis`` sees the
words of the hypothesis and never the premise (Gururangan et al. 2018).

``supervised``, the ceiling of pairs of sentences, is a logistic regression on the words that stand
in both, and in one of them alone, on the pairs of words of which each stands in one alone, and on
what the rules of denial and change say. It learns from labels of the data set that is scored: for
inference from its validation pairs, else in ten folds that part no two directions of a pair.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
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
from cxrflow.benchmarks.language.paraphrase_detection import OPPOSED, SIMILAR
from cxrflow.benchmarks.language.sentence_pair_rows import pair_numbers
from cxrflow.benchmarks.language.settings import (
    NaturalLanguageInferenceSettings,
    SentenceSimilaritySettings,
)
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.temporal.settings import WORDS
from cxrflow.data.readers.nli import LABELS
from cxrflow.metrics.intervals import Floats
from cxrflow.text.words import words_of

Ints = NDArray[np.int64]
Counts = Counter[str]

#: Words that say that a finding is absent or that a structure is normal, in reports and notes.
DENIALS = frozenset(
    (
        *("no", "not", "none", "nor", "neither", "never", "without", "rather", "cannot"),
        *("absent", "absence", "deny", "denies", "denied", "negative", "free", "clear", "cleared"),
        *("normal", "unremarkable", "intact", "spared", "resolved", "resolution", "gone"),
    )
)
_FOLDS = 10  # as paraphrase detection tunes its threshold
_RULE = 4.0  # a rule's value beside that of a word
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
            return out_of_fold(samples)
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
            answers_N = learnt(pairs.validation, pairs.test)
            return InferenceAnswers(dict.fromkeys(settings.run_seeds, answers_N))
        from sklearn.linear_model import LogisticRegression

        train_NF, validation_NF, test_NF = described(self.name, tables, pairs.train)
        train, validation = (classes_of(table["label"]) for table in tables[:2])
        heads = [
            LogisticRegression(C=penalty, max_iter=1000).fit(train_NF, train)
            for penalty in _PENALTIES
        ]
        best = max(heads, key=lambda head: float(head.score(validation_NF, validation)))
        return InferenceAnswers(dict.fromkeys(settings.run_seeds, best.predict(test_NF)))


def words_of_pair(first: str, second: str) -> dict[str, float]:
    """What of two sentences is learnt from: words, pairs of words that differ, the rules."""
    counts = [count_words(text) for text in (first, second)]
    common = counts[0].keys() & counts[1].keys()
    firsts, seconds = (counted.keys() - common for counted in counts)
    groups = {"both": common, "first": firsts, "second": seconds}
    denials = [denies(counted) for counted in counts]
    directions = [changes(counted) for counted in counts]
    return {
        **{f"{kind} {word}": 1.0 for kind, words in groups.items() for word in words},
        **{" for ".join(sorted(pair)): 1.0 for pair in product(firsts, seconds)},
        "first denies": float(denials[0]),
        "second denies": float(denials[1]),
        "equal denial": _RULE * (denials[0] == denials[1]),
        "equal change": _RULE * (directions[0] == directions[1]),
    }


def pair_words() -> Any:
    """A logistic regression on the words of pairs; both classes count the same."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    head = LogisticRegression(max_iter=1000, class_weight="balanced")
    return make_pipeline(DictVectorizer(), head)


def learnt(train: pd.DataFrame, test: pd.DataFrame) -> Ints:
    """The class [N] of test pairs, learnt from pairs of the same data set."""
    words_N, test_N = (list(map(words_of_pair, *_sentences(table))) for table in (train, test))
    answers_N = pair_words().fit(words_N, classes_of(train["label"])).predict(test_N)
    return np.asarray(answers_N, dtype=np.int64)


def out_of_fold(samples: pd.DataFrame) -> Floats:
    """The probability [N] that two sentences are similar, by a head that has not seen the pair.

    It learns from pairs that are similar or opposed.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    words_N = np.array(list(map(words_of_pair, *_sentences(samples))), dtype=object)
    similar_N = samples["label"].isin(SIMILAR).to_numpy()
    decided_N = similar_N | (samples["label"] == OPPOSED).to_numpy()
    scores_N = np.full(len(samples), np.nan)
    folds = StratifiedGroupKFold(_FOLDS, shuffle=True, random_state=0)
    for training, judged in folds.split(words_N, similar_N, pair_numbers(samples)):
        training = training[decided_N[training]]
        head = pair_words().fit(words_N[training], similar_N[training])
        scores_N[judged] = head.predict_proba(words_N[judged])[:, 1]
    return scores_N


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


def count_words(text: str) -> Counts:
    """Return how often each word stands in a text."""
    return Counter(word for word in words_of(text) if word[0].isalnum())


def denies(words: Counts) -> bool:
    """True if a word of denial is among the words."""
    return not DENIALS.isdisjoint(words)


def changes(words: Counts) -> frozenset[str]:
    """The directions of change that have a word among the words."""
    return frozenset(
        direction for direction, terms in WORDS.items() if not words.keys().isdisjoint(terms)
    )


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
