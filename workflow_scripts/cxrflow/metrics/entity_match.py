"""How well the entities of generated reports match those of the reference reports.

Every function takes one list of entity strings a report, N of reference and N of generated
("hypothesis") reports; two entities match when their strings are equal. Which entities are counted,
and in which case, is the caller's choice. The public definitions differ:

* :func:`set_counts` and :func:`corpus_f1`: BioViL-T's TEM (appendix D.1, Eqs. 3 and 4), one
  precision and recall over all reports, each string once a report;
* :func:`set_f1`: RadEval's temporal F1, taken from Libra, one F1 a report, to be averaged;
* :func:`ifcc_f1`: the exact entity match of ifcc (Miura et al., NAACL 2021), likewise;
* :func:`vilmedic_f1`: ViLMedic's version of that, likewise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats, ratio

Reports = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Counts:
    """Distinct entities a report: in both, in the hypothesis, in the reference; each ``[N]``."""

    both: Floats
    hypothesis: Floats
    reference: Floats


def _pairs(references: Reports, hypotheses: Reports) -> list[tuple[Sequence[str], Sequence[str]]]:
    if len(references) != len(hypotheses):
        raise ValueError(f"{len(references)} references, {len(hypotheses)} hypotheses: want equal")
    return list(zip(references, hypotheses, strict=True))


def _harmonic(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def set_counts(references: Reports, hypotheses: Reports) -> Counts:
    """What :func:`corpus_f1` sums up, report by report; repeats inside a report count once."""
    rows = [
        (len(set(told) & set(truth)), len(set(told)), len(set(truth)))
        for truth, told in _pairs(references, hypotheses)
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, 3)
    return Counts(table[:, 0], table[:, 1], table[:, 2])


def corpus_f1(counts: Counts, weights: ArrayLike | None = None) -> dict[str, Floats]:
    """Precision, recall and F1 over all reports (BioViL-T, Eqs. 3 and 4).

    ``weights`` is ``[..., N]``: how often each report counts (ones, or the resampling counts of
    :mod:`cxrflow.metrics.intervals`); results have the leading shape. Precision is NaN without any
    entity in the hypotheses, recall without any in the references, F1 without any in either; a
    report that has none on either side changes nothing.
    """
    weight = np.ones(len(counts.both)) if weights is None else np.asarray(weights, dtype=np.float64)
    both, told, truth = (weight @ one for one in (counts.both, counts.hypothesis, counts.reference))
    return {
        "precision": ratio(both, told),
        "recall": ratio(both, truth),
        "f1": ratio(2 * both, told + truth),  # the harmonic mean of the two
    }


def set_f1(references: Reports, hypotheses: Reports) -> Floats:
    """F1 ``[N]`` of the distinct entities of each report; 1 where both sides have none.

    As RadEval computes it, but for the 1e-10 that it adds against divisions by zero.
    """
    return np.array(
        [
            2 * len(set(told) & set(truth)) / (len(set(told)) + len(set(truth)))
            if told or truth
            else 1.0
            for truth, told in _pairs(references, hypotheses)
        ]
    )


def ifcc_f1(references: Reports, hypotheses: Reports) -> Floats:
    """F1 ``[N]`` as ifcc counts it; 0 where either side has no entity, both included.

    A repeated entity counts as often as it stands in the reference, but once in the hypothesis:
    ifcc's check for a known entity looks into the wrong dictionary and forgets earlier mentions.
    """
    scores = []
    for truth, told in _pairs(references, hypotheses):
        known, distinct = set(truth), set(told)
        precision = len(distinct & known) / len(distinct) if distinct else 0.0
        recall = sum(entity in distinct for entity in truth) / len(truth) if truth else 0.0
        scores.append(_harmonic(precision, recall))
    return np.array(scores)


def vilmedic_f1(references: Reports, hypotheses: Reports) -> Floats:
    """F1 ``[N]`` as ViLMedic counts it; 0 where either side has no entity.

    Repeats count on both sides, and recall is the hypothesis's hits over the reference's
    entities: a repetitive hypothesis can have a recall, and an F1, above 1.
    """
    scores = []
    for truth, told in _pairs(references, hypotheses):
        known = set(truth)
        hits = sum(entity in known for entity in told)
        scores.append(_harmonic(hits / len(told), hits / len(truth)) if told and truth else 0.0)
    return np.array(scores)
