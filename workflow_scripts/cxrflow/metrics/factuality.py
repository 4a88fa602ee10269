"""Do generated reports say what the references say: F1 between the labels of both.

Labels are CheXpert's: 1 positive, 0 negative, -1 uncertain, NaN blank. Each observation becomes
present or absent, a blank and a 0 absent; papers differ in what an uncertain one becomes, in
which observations count, and in the average. A number means something only with its convention,
and with the labeller it was measured with (published ones: CheXbert).

BioViL-T (section 4, footnote 5) reports "weighted F1" over 14 observations and does not say what
it does with uncertain ones. They count as absent here, as in CXR-RePaiR (Endo et al. 2021), from
which that paper's Table 3 takes its splits and its baselines' scores; ``uncertain`` gives the
other reading.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike

from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.label_agreement import POSITIVE, state_codes


@dataclass(frozen=True)
class Convention:
    """How labels become one score; ``observations`` None means all that are given."""

    average: Literal["micro", "macro", "weighted"]
    uncertain: Literal["positive", "negative"]
    observations: tuple[str, ...] | None = None


CONVENTIONS: Final[Mapping[str, Convention]] = MappingProxyType(
    {
        # Miura et al. 2021: the five observations of CheXpert's competition.
        "ifcc": Convention(
            "micro",
            "positive",
            ("Cardiomegaly", "Edema", "Consolidation", "Atelectasis", "Pleural Effusion"),
        ),
        # Endo et al. 2021.
        "cxr_repair": Convention("macro", "negative"),
        # Bannur et al. 2023, Table 1.
        "biovil_t": Convention("weighted", "negative"),
    }
)


def factuality(
    reference_NO: ArrayLike,
    generated_NO: ArrayLike,
    observations: Sequence[str],
    convention: str = "biovil_t",
    uncertain: Literal["positive", "negative"] | None = None,
    weights: ArrayLike | None = None,
) -> dict[str, Floats]:
    """Precision, recall and F1, and each observation's F1 as ``f1/<observation>``, all in 0–1.

    ``observations`` names the O columns; ``convention`` is a key of ``CONVENTIONS``; ``uncertain``
    replaces the convention's reading of -1. ``weights`` is ``[..., N]``, how often each report
    counts (ones, or the counts of :mod:`cxrflow.metrics.intervals`); results have its leading
    shape. Averages: micro pools the decisions, macro is the plain mean over observations, weighted
    the mean by how many references have an observation. A score with nothing below the line is 0
    (an observation that nobody mentions lowers a macro average), as in scikit-learn and the
    published evaluations.

    Raises:
        ValueError: shapes differ, a label is not 1, 0, -1 or NaN, or an observation has no column.
        KeyError: no such convention.
    """
    chosen = CONVENTIONS[convention]
    names = chosen.observations or tuple(observations)
    missing = [name for name in names if name not in observations]
    if missing:
        raise ValueError(f"observations: '{missing[0]}' is missing, {convention} needs it")
    columns = [list(observations).index(name) for name in names]
    policy = uncertain or chosen.uncertain
    reference = state_codes(reference_NO, policy) == POSITIVE
    generated = state_codes(generated_NO, policy) == POSITIVE
    expected = (len(reference), len(observations))
    for labels in (reference, generated):
        if labels.shape != expected:
            raise ValueError(f"labels {labels.shape}: want {expected}, as reports and observations")
    weight = np.ones(len(reference)) if weights is None else np.asarray(weights, dtype=np.float64)
    reference, generated = reference[:, columns], generated[:, columns]
    hits = weight @ (reference & generated)  # [..., O], as the next two
    said, true = weight @ generated, weight @ reference
    scores = _scores(hits, said, true)
    by_observation = {
        f"f1/{name}": np.asarray(scores["f1"][..., i]) for i, name in enumerate(names)
    }
    if chosen.average == "micro":
        averages = _scores(hits.sum(-1), said.sum(-1), true.sum(-1))
    else:
        share = true if chosen.average == "weighted" else np.ones_like(true)
        averages = {
            name: _ratio((values * share).sum(-1), share.sum(-1)) for name, values in scores.items()
        }
    return {**averages, **by_observation}


def _scores(hits: Floats, said: Floats, true: Floats) -> dict[str, Floats]:
    return {
        "precision": _ratio(hits, said),
        "recall": _ratio(hits, true),
        "f1": _ratio(2 * hits, said + true),
    }


def _ratio(above: Floats, below: Floats) -> Floats:
    return np.asarray(above / np.where(below > 0, below, np.inf))
