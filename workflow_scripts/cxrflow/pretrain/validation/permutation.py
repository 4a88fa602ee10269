"""Has a training learnt? Its validation beside that of permuted pairs.

Every term pairs something: an image with its text, a masked place with its word. It scores the
pairs of a validation batch, true and false ones, by :class:`Comparisons`, and says with ``pairs``
what it pairs. From that follow (:mod:`cxrflow.metrics.permuted_pairs`):

- whether its loss differs from that of permuted pairs, at 5 %, whatever its temperature;
- how well it tells pairs apart: the percentile rank of the true one.

*Patients.* A patient's images are alike, and so are the reports, whether or not a model has learnt
how they belong together. So each patient counts once, by the first sample that is validated.

*The best of several validations.* Weights are kept because their validation loss was the smallest,
which is so by luck as well. The loss is therefore compared with the smallest of as many
validations for each permutation (the max-statistic of Westfall and Young 1993). The permutations
are the same ones in every validation.

*Several terms.* Terms that pair the same things answer one question, and their smallest p counts,
times their number. A model differs from permuted pairs if it does in every question.

*Twins.* An untrained model of images and texts differs as well, given pairs enough. So whether such
a model has learnt is asked by its rank beside those of untrained starts, where a training has
them (:mod:`cxrflow.pretrain.validation.twins`), and by permuted pairs in its other questions.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxrflow.metrics.permuted_pairs import (
    DRAWS,
    ROUNDING,
    RankSums,
    permutation_p,
    permuted_sums,
)
from cxrflow.metrics.twins import twin_p
from cxrflow.training.processes import Processes
from cxrflow.training.program import Losses

ALPHA = 0.05
#: What terms pair that untrained starts are asked as well: the start of a text encoder reads masked
#: words already, and a joint training need not teach it more.
QUESTIONS = ("image and text", "side of image and text")


class PairGroup(NamedTuple):
    """K pairs that may be permuted among each other."""

    score_KK: Tensor  # of question i beside answer j, the true pairs on the diagonal
    samples_K: NDArray[np.int64]  # of the batch: the number of the one that each pair is of


class Comparisons(NamedTuple):
    """The scores of a term's pairs in a validation batch.

    The term's loss is a constant less ``slope`` times the mean score of the pairs: what a
    permutation of answers within their group does not change, such as the sum over all candidates
    of a softmax, need not be in the score.
    """

    groups: Sequence[PairGroup]
    slope: float = 1.0

    @classmethod
    def of_batch(cls, score_NN: Tensor, slope: float = 1.0) -> "Comparisons":
        """Those of a term that compares each sample with each other."""
        return cls([PairGroup(score_NN, np.arange(len(score_NN)))], slope)

    def counted(self, counts: NDArray[np.bool_] | None) -> Iterator[NDArray[np.float64]]:
        """The scores [K, K] of each group of two pairs or more of samples that count, [N]."""
        for group in self.groups:
            score_KK = group.score_KK.double().cpu().numpy()
            if counts is not None:
                counts_K = counts[group.samples_K]
                score_KK = score_KK[np.ix_(counts_K, counts_K)]
            if len(score_KK) > 1:
                yield score_KK


class Validated(NamedTuple):
    """A batch of a validation."""

    losses: Losses
    comparisons: Mapping[str, Comparisons | None]  # by term
    counts: NDArray[np.bool_] | None = None  # [N]: the first sample of its patient; None: all are


@dataclass
class ScoreSums:
    """Sums of a term's scores over a validation, times its slope."""

    pairs: int = 0
    true: float = 0.0
    size: float = 0.0  # of the scores, whatever their sign
    permuted_D: NDArray[np.float64] = field(default_factory=lambda: np.zeros(DRAWS))
    ranks: RankSums = field(default_factory=RankSums)

    def __add__(self, other: "ScoreSums") -> "ScoreSums":
        return ScoreSums(
            self.pairs + other.pairs,
            self.true + other.true,
            self.size + other.size,
            self.permuted_D + other.permuted_D,
            self.ranks + other.ranks,
        )

    @classmethod
    def of(cls, batch: Validated, name: str, number: int) -> "ScoreSums":
        """The sums of a term in batch ``number``, by which permutations are drawn."""
        tally, compared = cls(), batch.comparisons[name]
        if compared is None:
            return tally
        generator = np.random.default_rng(number)
        for score_KK in compared.counted(batch.counts):
            true_K, slope = np.diag(score_KK), compared.slope
            tally += cls(
                len(score_KK),
                slope * float(true_K.sum()),
                slope * float(np.abs(true_K).sum()),
                slope * permuted_sums(score_KK, generator),
                RankSums.of(score_KK),
            )
        return tally


class Validation:
    """The batches of a validation, in all processes."""

    def __init__(self, batches: Iterable[Validated], processes: Processes) -> None:
        losses_here, tallies = [], defaultdict[str, ScoreSums](ScoreSums)
        for place, batch in enumerate(batches):
            losses = batch.losses
            values = {n: float(v) for n, v in {**losses.terms, "loss": losses.total}.items()}
            losses_here.append((losses.samples, values))
            number = place * processes.world + processes.rank
            for name in batch.comparisons:
                tallies[name] += ScoreSums.of(batch, name, number)
        self.losses = [batch for batches in processes.collect(losses_here) for batch in batches]
        self.tallies: dict[str, ScoreSums] = {}
        for tallies_of_process in processes.collect(dict(tallies)):
            for name, tally in tallies_of_process.items():
                self.tallies[name] = self.tallies.get(name, ScoreSums()) + tally

    def means(self) -> dict[str, float]:
        """Losses by name, each the mean weighted by the batches' samples."""
        total = sum(samples for samples, _ in self.losses)
        return {
            name: sum(samples * values[name] for samples, values in self.losses) / total
            for name in self.losses[0][1]
        }

    def permuted(self) -> Iterator[tuple[str, Tensor]]:
        """The losses [D] of permuted pairs, of each term that has pairs to permute."""
        means = self.means()
        for name, tally in self.tallies.items():
            if tally.pairs:
                gain_D = (tally.true - tally.permuted_D) / tally.pairs
                yield name, torch.from_numpy(means[name] + gain_D)

    def add_smallest(self, smallest: dict[str, Tensor]) -> None:
        """Lower the losses [D] by term, the smallest of earlier validations, to this one's."""
        for name, permuted_D in self.permuted():
            smallest[name] = torch.fmin(permuted_D, smallest.get(name, permuted_D))

    def record(
        self,
        pairs: Mapping[str, str],
        smallest: Mapping[str, Tensor] | None = None,
        twins: Mapping[str, Sequence[float]] | None = None,
        shuffled: Mapping[str, Sequence[float]] | None = None,
    ) -> dict[str, Any]:
        """For run.json: whether the model has learnt, by each question that its terms answer.

        ``pairs``: what each term pairs. ``smallest``: losses [D] of the permutations, the smallest
        of the validations of which the best is kept; without, they are this one's. ``twins``: by
        term the ranks of its twins, which answer in the place of permuted pairs; ``shuffled``: of
        those among them that were trained, on shuffled pairs. One of images and texts that no term
        answers leaves ``pairs_learnt`` None, unless another is answered no.
        """
        means, permuted = self.means(), dict(self.permuted())
        terms: dict[str, dict[str, Any]] = {}
        questions = defaultdict[str, list[float]](list)
        for name, question in pairs.items():
            terms[name] = {"loss": means[name], "p": None, "permuted": None, "rank": None}
            if name not in permuted:
                continue
            tally = self.tallies[name]
            limit_D = (permuted if smallest is None else smallest)[name].numpy()
            p = permutation_p(means[name], limit_D, ROUNDING * tally.size / tally.pairs)
            interval = {
                "value": float(permuted[name].mean()),
                "low": float(np.quantile(limit_D, ALPHA)),
                "high": float(np.quantile(permuted[name].numpy(), 1 - ALPHA)),
            }
            terms[name] |= {"p": p, "permuted": interval, "rank": tally.ranks.interval()}
            questions[question].append(p)
        p_of = {question: min(1.0, len(ps) * min(ps)) for question, ps in questions.items()}
        differs = _every(p_of)
        beside = self._beside_twins(pairs, twins or {}, shuffled or {})
        p_of |= {question: answer["p"] for question, answer in beside.items()}
        # Of a term that gives no comparisons nothing is known: others do not answer for it.
        unanswered = {*pairs.values()} & {*QUESTIONS} - p_of.keys()
        pairs_learnt = None if unanswered and _every(p_of) else _every(p_of)
        record = {"permuted_pairs": {"differs": differs, "terms": terms}}
        return {"pairs_learnt": pairs_learnt, **record, **({"twins": beside} if beside else {})}

    def _beside_twins(
        self,
        pairs: Mapping[str, str],
        twins: Mapping[str, Sequence[float]],
        shuffled: Mapping[str, Sequence[float]],
    ) -> dict[str, dict[str, Any]]:
        """By question: the p of the model's ranks among its twins', and the ranks by term."""
        terms = defaultdict[str, dict[str, dict[str, Any]]](dict)
        for name, ranks in twins.items():
            rank = self.tallies[name].ranks.mean if name in self.tallies else None
            if rank is not None:
                trained = {"shuffled": [*shuffled[name]]} if shuffled else {}
                terms[pairs[name]][name] = {"rank": rank, "untrained": list(ranks), **trained}
        return {
            question: {
                "p": twin_p(
                    [term["rank"] for term in by_term.values()],
                    [term["untrained"] + term.get("shuffled", []) for term in by_term.values()],
                ),
                "terms": by_term,
            }
            for question, by_term in terms.items()
        }


def _every(p_of: Mapping[str, float]) -> bool | None:
    """True if every question has a small p; None where there is no question."""
    return all(p <= ALPHA for p in p_of.values()) if p_of else None
