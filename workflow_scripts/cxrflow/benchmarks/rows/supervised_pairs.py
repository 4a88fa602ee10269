"""The ceiling of pairs of sentences: heads that read both, and learn from labels of other pairs.

One is a logistic regression on the words that stand in both sentences, and in one of them alone, on
the pairs of words of which each stands in one alone, and on what the rules of denial and change
say. Where labels are of paraphrases, which are symmetric, a second head stands beside it, which
knows no pair of words: each word has weights for three unnamed meanings, a sentence's are the
softmax of their sum, and two sentences are alike as far as their meanings agree. So what a word
means is learnt from all its pairs, and holds for two words that never met.

Scores are out of fold, and both directions of a pair are in one fold. Pairs of other parts of the
data set are learnt from as well.

Shapes: N pairs, V words, R starts of the second head, K meanings.
"""

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from cxr_files.errors import InputError
from cxrflow.benchmarks.language.paraphrase_detection import OPPOSED, SIMILAR
from cxrflow.benchmarks.language.sentence_pair_rows import pair_numbers
from cxrflow.benchmarks.rows.words import changes, count_words, denies
from cxrflow.metrics.intervals import Floats

PARAPHRASE = "paraphrase"
FOLDS = 10  # as paraphrase detection tunes its threshold
_RULE = 4.0  # a rule's value beside that of a word
_MEANINGS, _STARTS, _STEPS, _RATE, _PENALTY = 3, 8, 100, 0.1, 0.3

#: The scores of judged pairs, by a head that learns from pairs with their answers.
Head = Callable[[pd.DataFrame, NDArray[np.int64], pd.DataFrame], Floats]


def out_of_fold(pairs: pd.DataFrame, answers_N: NDArray[np.int64], head: Head) -> Floats:
    """The scores [N] of a head that has not seen the pair; it learns from answers of 0 or more.

    Raises:
        InputError: an answer has fewer pairs of sentences than there are folds.
    """
    from sklearn.model_selection import StratifiedGroupKFold

    number_N = pair_numbers(pairs)
    for answer in sorted({*answers_N[answers_N >= 0]}):
        count = len({*number_N[answers_N == answer]})
        if count < FOLDS:
            label = pairs["label"][answers_N == answer].iloc[0]
            raise InputError(
                f"samples.parquet: {count} pairs of sentences with the label '{label}'; expected "
                f"{FOLDS} or more, as the ceiling learns from nine tenths of them"
            )
    scores_N = np.full(len(pairs), np.nan)
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=0)
    for learnt, judged in folds.split(pairs, answers_N, number_N):
        learnt = learnt[answers_N[learnt] >= 0]
        scores_N[judged] = head(pairs.iloc[learnt], answers_N[learnt], pairs.iloc[judged])
    return scores_N


def similarity(pairs: pd.DataFrame) -> Floats:
    """How similar [N] two sentences are, in [0, 1]; learnt from those similar or opposed."""
    answers_N = np.where(
        pairs["label"].isin(SIMILAR), 1, np.where(pairs["label"] == OPPOSED, 0, -1)
    )
    is_symmetric = PARAPHRASE in {*pairs["label"]}
    return out_of_fold(pairs, answers_N, _by_both if is_symmetric else _by_words)


def classes(pairs: pd.DataFrame, answers_N: NDArray[np.int64]) -> NDArray[np.int64]:
    """The class [N] of pairs, of those in the answers [N]."""

    def head(learnt: pd.DataFrame, of_learnt: NDArray[np.int64], judged: pd.DataFrame) -> Floats:
        pipeline = _pair_words(balanced=False).fit(_words(learnt), of_learnt)
        return np.asarray(pipeline.predict(_words(judged)), dtype=np.float64)

    return out_of_fold(pairs, answers_N, head).astype(np.int64)


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


def _words(pairs: pd.DataFrame) -> list[dict[str, float]]:
    return list(map(words_of_pair, pairs["premise"], pairs["hypothesis"]))


def _pair_words(balanced: bool) -> Any:
    """A logistic regression on the words of pairs; ``balanced``: all classes count the same."""
    from sklearn.feature_extraction import DictVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    weights = "balanced" if balanced else None
    return make_pipeline(DictVectorizer(), LogisticRegression(max_iter=1000, class_weight=weights))


def _by_words(learnt: pd.DataFrame, answers_N: NDArray[np.int64], judged: pd.DataFrame) -> Floats:
    """The probability [N] of the regression that two sentences are similar."""
    head = _pair_words(balanced=True).fit(_words(learnt), answers_N)
    return np.asarray(head.predict_proba(_words(judged))[:, 1])


def _by_both(learnt: pd.DataFrame, answers_N: NDArray[np.int64], judged: pd.DataFrame) -> Floats:
    """The mean of the probabilities [N] of both heads."""
    return (_by_words(learnt, answers_N, judged) + _by_meanings(learnt, answers_N, judged)) / 2


def _by_meanings(
    learnt: pd.DataFrame, answers_N: NDArray[np.int64], judged: pd.DataFrame
) -> Floats:
    """The probability [N] that meanings agree, by the best of several starts on what it learns.

    Adam on the cross-entropy, both classes counting the same, with a penalty on the weights.
    """
    sides = [*learnt[["premise", "hypothesis"]].to_numpy().T]
    vocabulary = sorted({word for side in sides for text in side for word in count_words(text)})
    place = {word: number for number, word in enumerate(vocabulary)}

    def bags(texts: Iterable[str]) -> Tensor:
        rows = [[place[word] for word in count_words(text) if word in place] for text in texts]
        bag_NV = torch.zeros(len(rows), len(place))
        for row_V, words in zip(bag_NV, rows, strict=True):
            row_V[words] = 1
        return bag_NV

    random = torch.Generator().manual_seed(0)
    weight_VRK = torch.randn(len(place), _STARTS * _MEANINGS, generator=random)
    weight_VRK = (0.3 * weight_VRK).requires_grad_()
    scale_R = torch.full((_STARTS,), 4.0, requires_grad=True)
    bias_R = torch.full((_STARTS,), -1.0, requires_grad=True)

    def logits(first_NV: Tensor, second_NV: Tensor) -> Tensor:
        first, second = (
            (bag_NV @ weight_VRK).unflatten(1, (_STARTS, _MEANINGS)).softmax(-1)
            for bag_NV in (first_NV, second_NV)
        )
        return scale_R * (first * second).sum(-1) + bias_R

    learnt_bags = [bags(side) for side in sides]
    answer_NR = torch.from_numpy(answers_N)[:, None].float().expand(-1, _STARTS)
    share = float(answers_N.mean())
    weight_NR = torch.where(answer_NR == 1, 0.5 / share, 0.5 / (1 - share))
    optimiser = torch.optim.Adam([weight_VRK, scale_R, bias_R], lr=_RATE)
    for _ in range(_STEPS):
        optimiser.zero_grad()
        entropy_NR = binary_cross_entropy_with_logits(
            logits(*learnt_bags), answer_NR, weight_NR, reduction="none"
        )
        size_R = weight_VRK.square().unflatten(1, (_STARTS, _MEANINGS)).sum((0, 2))
        loss_R = entropy_NR.mean(0) + _PENALTY * size_R / len(answers_N)
        loss_R.sum().backward()
        optimiser.step()
    with torch.no_grad():
        judged_NR = logits(bags(judged["premise"]), bags(judged["hypothesis"])).sigmoid()
    return judged_NR[:, int(loss_R.argmin())].double().numpy()
