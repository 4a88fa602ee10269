"""Agreement of two sets of report labels, finding by finding (Irvin et al. 2019, "Evaluation").

A label is 1 (positive), 0 (negative), -1 (uncertain) or NaN (blank: not mentioned). Everything here
follows from the confusions ``[..., F, 4, 4]``: counts of reports by our state (rows) and the
reference's (columns), for each of F findings, states in the order of ``STATES``. Any leading shape
will do, so one call also does a bootstrap: R resamples are ``[R, F, 4, 4]``.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Codes = NDArray[np.int64]
Floats = NDArray[np.float64]

STATES: Final = ("positive", "negative", "uncertain", "blank")
CLASSES: Final = STATES[:3]  # those scored; a blank asserts nothing
POSITIVE, NEGATIVE, UNCERTAIN, BLANK = range(4)
SCORES: Final = ("precision", "recall", "f1")


def state_codes(
    labels_NF: ArrayLike, uncertain: Literal["apart", "negative", "positive"] = "apart"
) -> Codes:
    """Places in ``STATES`` of the labels, ``[N, F]``.

    ``uncertain``: -1 counts as a state of its own, as absent, or as present. Raises ValueError for
    a label other than 1, 0, -1 and NaN.

    >>> from cxr_labels.agreement import state_codes
    >>> state_codes([[1.0, 0.0, -1.0, float("nan")]]).tolist()
    [[0, 1, 2, 3]]
    """
    labels = np.asarray(labels_NF, dtype=np.float64)
    codes = np.full(labels.shape, BLANK, dtype=np.int64)
    counted = {"apart": UNCERTAIN, "negative": NEGATIVE, "positive": POSITIVE}[uncertain]
    for value, code in ((1.0, POSITIVE), (0.0, NEGATIVE), (-1.0, counted)):
        codes[labels == value] = code
    wrong = ~np.isnan(labels) & ~np.isin(labels, (1.0, 0.0, -1.0))
    if wrong.any():
        raise ValueError(f"labels hold {labels[wrong][0]:g}; want only 1, 0, -1 and NaN")
    return codes


def confusions(ours_NF: Codes, reference_NF: Codes, clusters_N: ArrayLike | None = None) -> Floats:
    """Counts ``[F, 4, 4]`` of our and the reference's states; with clusters ``[G, F, 4, 4]``.

    ``clusters_N`` are whole numbers from 0 to G - 1, such as those of patients.

    >>> from cxr_labels.agreement import confusions, state_codes
    >>> ours, reference = state_codes([[1], [1], [0]]), state_codes([[1], [0], [0]])
    >>> confusions(ours, reference)[0, :2, :2].tolist()  # of one finding; rows are ours
    [[1.0, 1.0], [0.0, 1.0]]
    """
    if ours_NF.shape != reference_NF.shape or ours_NF.ndim != 2:
        shapes = f"ours {ours_NF.shape} and reference {reference_NF.shape}"
        raise ValueError(f"{shapes}: want equal [N, F]")
    count, findings = ours_NF.shape
    group_N = np.zeros(count, dtype=np.int64) if clusters_N is None else np.asarray(clusters_N)
    groups = int(group_N.max(initial=-1)) + 1 if clusters_N is not None else 1
    # One number a cell of all G x F x 4 x 4 tables, so that a single bincount fills them.
    cells_NF = (group_N[:, None] * findings + np.arange(findings)) * 16 + ours_NF * 4 + reference_NF
    counts = np.bincount(cells_NF.ravel(), minlength=groups * findings * 16).astype(np.float64)
    shape = (findings, 4, 4)
    return counts.reshape(shape if clusters_N is None else (groups, *shape))


def differing(ours_NF: Codes, reference_NF: Codes, positives_only: bool) -> NDArray[np.bool_]:
    """True ``[N, F]`` where states differ; with ``positives_only`` only in being positive."""
    if positives_only:
        return np.asarray((ours_NF == POSITIVE) != (reference_NF == POSITIVE))
    return np.asarray(ours_NF != reference_NF)


def class_scores(confusion: Floats, state: int) -> dict[str, Floats]:
    """Precision, recall and F1 of one state against the other three; ``[..., 4, 4]`` to ``[...]``.

    Undefined is NaN: precision where we never have the state, recall where the reference never
    does, F1 where neither does.

    >>> from cxr_labels.agreement import class_scores, confusions, state_codes
    >>> ours, reference = state_codes([[1], [1], [0]]), state_codes([[1], [0], [0]])
    >>> class_scores(confusions(ours, reference), state=0)["precision"].tolist()  # 0: positive
    [0.5]
    """
    hits = confusion[..., state, state]
    ours, reference = confusion[..., state, :].sum(-1), confusion[..., :, state].sum(-1)
    return {
        "precision": ratio(hits, ours),
        "recall": ratio(hits, reference),
        "f1": ratio(2 * hits, ours + reference),
    }


def micro_scores(confusion: Floats, state: int) -> dict[str, Floats]:
    """Scores of all findings' decisions pooled, ``[..., F, 4, 4]`` to ``[...]``."""
    return class_scores(confusion.sum(axis=-3), state)


def macro_scores(confusion: Floats, state: int) -> dict[str, Floats]:
    """Mean scores over the findings that have the state in the reference; ``[...]``.

    A finding that never has it in our labels has precision 0. NaN if the reference has none.
    """
    in_reference = confusion[..., :, state].sum(-1) > 0
    count = in_reference.sum(-1).astype(np.float64)
    return {
        name: ratio(np.where(in_reference, np.nan_to_num(values), 0.0).sum(-1), count)
        for name, values in class_scores(confusion, state).items()
    }


def cohens_kappa(confusion: Floats) -> Floats:
    """Agreement beyond chance (Cohen 1960), ``[..., K, K]`` to ``[...]``.

    NaN where chance agreement is 1: both sides give every report one and the same state.

    >>> from cxr_labels.agreement import cohens_kappa, confusions, state_codes
    >>> ours, reference = state_codes([[1], [1], [0]]), state_codes([[1], [0], [0]])
    >>> cohens_kappa(confusions(ours, reference)).round(3).tolist()
    [0.4]
    """
    total = confusion.sum((-2, -1))
    share = confusion / np.where(total > 0, total, np.nan)[..., None, None]
    agreed = np.trace(share, axis1=-2, axis2=-1)
    chance = (share.sum(-1) * share.sum(-2)).sum(-1)
    return ratio(agreed - chance, 1 - chance)


def positive_or_not(confusion: Floats) -> Floats:
    """Positive against everything else, ``[..., 4, 4]`` to ``[..., 2, 2]``."""
    rows = np.stack([confusion[..., 0, :], confusion[..., 1:, :].sum(-2)], axis=-2)
    return np.stack([rows[..., 0], rows[..., 1:].sum(-1)], axis=-1)


def agreement_metrics(
    confusion: Floats,
    findings: Sequence[str],
    classes: Mapping[str, Sequence[str]],
    *,
    positives_only: bool,
    no_finding: str,
) -> dict[str, Floats]:
    """Every number of the benchmark by name, ``[..., F, 4, 4]`` to ``[...]`` each.

    Args:
        findings: the F names.
        classes: each scored class with the findings it is scored for.
        positives_only: the reference lists positives and nothing else, so agreement and kappa
            are those of positive against the rest.
        no_finding: the finding without which totals are computed as well.

    Returns:
        ``f1/<class>/<finding>`` (and precision, recall), ``micro_f1/<class>``,
        ``macro_f1/<class>``, for positive both ``…_without_no_finding`` too; ``kappa/<finding>``,
        ``macro_kappa`` (mean of those that are defined) and ``agreement`` (share of all labels).
    """
    metrics: dict[str, Floats] = {}
    for name, scored in classes.items():
        state = STATES.index(name)
        for finding in scored:
            scores = class_scores(confusion[..., findings.index(finding), :, :], state)
            metrics |= {f"{score}/{name}/{finding}": value for score, value in scores.items()}
        groups = {"": scored}
        abnormal = [finding for finding in scored if finding != no_finding]
        if name == "positive" and 0 < len(abnormal) < len(scored):
            groups["_without_no_finding"] = abnormal
        for suffix, members in groups.items():
            selected = confusion[..., [findings.index(finding) for finding in members], :, :]
            for average, totals in (("micro", micro_scores), ("macro", macro_scores)):
                scores = totals(selected, state)
                metrics |= {f"{average}_{k}{suffix}/{name}": v for k, v in scores.items()}
    agreed = positive_or_not(confusion) if positives_only else confusion
    kappas = cohens_kappa(agreed)
    metrics |= {f"kappa/{finding}": kappas[..., i] for i, finding in enumerate(findings)}
    defined = np.isfinite(kappas)
    metrics["macro_kappa"] = ratio(np.where(defined, kappas, 0.0).sum(-1), defined.sum(-1) * 1.0)
    diagonal = np.trace(agreed, axis1=-2, axis2=-1).sum(-1)
    metrics["agreement"] = ratio(diagonal, agreed.sum((-3, -2, -1)))
    return metrics


def ratio(above: Floats, below: Floats) -> Floats:
    """Quotient; NaN where the denominator is not positive."""
    return np.asarray(above / np.where(below > 0, below, np.nan))
