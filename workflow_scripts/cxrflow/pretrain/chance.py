"""Has a training learnt? Its validation loss beside that of guessing.

Every term chooses answers: the text of an image among the batch's, the piece behind a mask among
the vocabulary's. Whoever knows nothing but how often each answer is right, and guesses by that, has
the entropy of that distribution as cross-entropy. Where one of N candidates is right, each as
often, it is log N. Of masked pieces it is the entropy of those that were masked, not log V: a model
that has learnt nothing but which words are frequent has not learnt to read.

A term has learnt where the upper end of the one-sided 95 % interval of its loss, Student's over
the batches of the validation, is ``LEAST_GAIN`` below chance. At 5 % a batch of 32 is, by its
perplexity, one of 27 (32 ** 0.95): a sixth of the candidates are ruled out. Chance alone does not
get there: the best of many validations on pure noise is 1 to 2 % below it. Nor would it be enough
to be surely below: over many batches half a per cent is sure, and of no use.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr, stdtrit
from torch import Tensor

from cxrflow.training.processes import Processes
from cxrflow.training.program import Losses

LEAST_GAIN = 0.05  # of the loss at chance
LEVEL = 0.95


class Answers(NamedTuple):
    """The answers that a term chooses from in a batch."""

    counts: Tensor  # [C]: how often each of C answers is right
    number: float = 1.0  # of choices in the loss; 2 where it is the sum of both directions


class Validation:
    """The batches of a validation, in all processes: the losses of each, and answers by term."""

    def __init__(
        self,
        batches: Iterable[tuple[Losses, dict[str, Answers | None]]],
        processes: Processes,
    ) -> None:
        batches_here, counts = [], dict[str, Any]()
        for losses, answers in batches:
            values = {n: float(v) for n, v in {**losses.terms, "loss": losses.total}.items()}
            numbers = {
                name: answer.number for name, answer in answers.items() if answer is not None
            }
            batches_here.append((losses.samples, values, numbers))
            for name, answer in answers.items():
                if answer is not None:
                    counts[name] = counts.get(name, 0) + answer.counts.double().cpu().numpy()
        self.batches = [batch for batches in processes.collect(batches_here) for batch in batches]
        self.counts: dict[str, Any] = {}
        for counts_of_process in processes.collect(counts):
            for name, count in counts_of_process.items():
                self.counts[name] = self.counts.get(name, 0) + count

    def means(self) -> dict[str, float]:
        """Losses by name, each the mean weighted by the batches' samples."""
        total = sum(samples for samples, _, _ in self.batches)
        return {
            name: sum(samples * values[name] for samples, values, _ in self.batches) / total
            for name in self.batches[0][1]
        }

    def chance(self, name: str) -> float | None:
        """A term's loss by guessing; None where that is not known."""
        counts = self.counts.get(name)
        if counts is None or not counts.sum():
            return None
        total = sum(samples for samples, _, _ in self.batches)
        number = sum(samples * numbers[name] for samples, _, numbers in self.batches) / total
        return float(number * entr(counts / counts.sum()).sum())

    def record(self, terms: Sequence[str]) -> dict[str, Any]:
        """For run.json: of each term its loss, the upper end of that, chance, and whether it has
        learnt (None: chance is not known); ``learnt``: no term has not."""
        means, record = self.means(), {}
        for name in terms:
            upper = upper_end([values[name] for _, values, _ in self.batches])
            chance = self.chance(name)
            learnt = None if chance is None else bool(upper < (1 - LEAST_GAIN) * chance)
            facts = {"loss": means[name], "upper": upper, "chance": chance}
            record[name] = {
                key: value if value is not None and np.isfinite(value) else None
                for key, value in facts.items()
            } | {"learnt": learnt}
        return {
            "learnt": all(answer["learnt"] is not False for answer in record.values()),
            "validation": record,
        }


def upper_end(values: Sequence[float]) -> float:
    """Of the one-sided interval of the mean of values; that of one is the value itself."""
    number = len(values)
    if number == 1:
        return float(values[0])
    error = np.std(values, ddof=1) / np.sqrt(number)
    return float(np.mean(values) + stdtrit(number - 1, LEVEL) * error)
