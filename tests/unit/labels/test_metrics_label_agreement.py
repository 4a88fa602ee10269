"""Label agreement against scikit-learn, and against cases worked out by hand."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, confusion_matrix, precision_recall_fscore_support

from cxr_labels.agreement import (
    BLANK,
    CLASSES,
    NEGATIVE,
    POSITIVE,
    STATES,
    UNCERTAIN,
    agreement_metrics,
    class_scores,
    cohens_kappa,
    confusions,
    differing,
    macro_scores,
    micro_scores,
    positive_or_not,
    state_codes,
)

NAN = float("nan")
NAMES = ["No Finding", "Edema", "Fracture"]


def drawn(count: int = 400, findings: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels of both sides, equal for about two thirds."""
    rng = np.random.default_rng(seed)
    values = np.array([1.0, 0.0, -1.0, NAN])
    reference = rng.choice(values, size=(count, findings), p=[0.3, 0.2, 0.1, 0.4])
    random = rng.choice(values, size=(count, findings))
    return np.where(rng.random(reference.shape) < 0.6, reference, random), reference


def test_states_and_what_uncertain_counts_as():
    labels = [[1.0, 0.0, -1.0, NAN]]
    assert state_codes(labels).tolist() == [[POSITIVE, NEGATIVE, UNCERTAIN, BLANK]]
    assert state_codes(labels, "negative").tolist() == [[POSITIVE, NEGATIVE, NEGATIVE, BLANK]]
    assert state_codes(labels, "positive").tolist() == [[POSITIVE, NEGATIVE, POSITIVE, BLANK]]
    with pytest.raises(ValueError, match="labels hold 2; want only 1, 0, -1 and NaN"):
        state_codes([[1.0, 2.0]])


def test_everything_against_scikit_learn():
    ours, reference = (state_codes(side) for side in drawn())
    counts = confusions(ours, reference)
    for number in range(3):
        theirs = confusion_matrix(ours[:, number], reference[:, number], labels=range(4))
        assert (counts[number] == theirs).all()
        kappa = cohen_kappa_score(ours[:, number], reference[:, number])
        assert cohens_kappa(counts[number]) == pytest.approx(kappa)
        kappa = cohen_kappa_score(ours[:, number] == POSITIVE, reference[:, number] == POSITIVE)
        assert cohens_kappa(positive_or_not(counts[number])) == pytest.approx(kappa)
        scores = precision_recall_fscore_support(
            reference[:, number], ours[:, number], labels=range(3), zero_division=np.nan
        )
        for state in range(3):
            mine = class_scores(counts[number], state)
            assert list(mine.values()) == pytest.approx([row[state] for row in scores[:3]])
    for state in range(3):
        truth, predicted = reference == state, ours == state
        for average, totals in (("micro", micro_scores), ("macro", macro_scores)):
            theirs = precision_recall_fscore_support(truth, predicted, average=average)[:3]
            assert list(totals(counts, state).values()) == pytest.approx(theirs), average


def test_a_case_worked_by_hand():
    ours = state_codes(np.array([[1], [1], [0], [-1], [NAN], [1], [NAN], [0]]))
    reference = state_codes(np.array([[1], [0], [0], [1], [1], [1], [NAN], [-1]]))
    counts = confusions(ours, reference)[0]
    #                           given: +  -  ?  blank
    assert counts.tolist() == [[2, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [1, 0, 0, 1]]
    positive = class_scores(counts, POSITIVE)
    assert [positive[name] for name in ("precision", "recall", "f1")] == [2 / 3, 2 / 4, 4 / 7]
    assert class_scores(counts, UNCERTAIN)["f1"] == 0
    # Agreed 4 of 8; by chance 3/8 4/8 + 2/8 2/8 + 1/8 1/8 + 2/8 1/8 = 19/64.
    assert cohens_kappa(counts) == pytest.approx((4 / 8 - 19 / 64) / (1 - 19 / 64))


def test_what_is_undefined_is_nan_and_what_is_missed_is_nought():
    counts = np.zeros((2, 4, 4))
    counts[0, BLANK, POSITIVE] = 3  # the reference says it, we never do
    counts[0, BLANK, BLANK] = 7
    counts[1, POSITIVE, BLANK] = 2  # we say it, the reference never does
    counts[1, BLANK, BLANK] = 8
    missed, invented = (class_scores(counts[i], POSITIVE) for i in (0, 1))
    assert np.isnan(missed["precision"]) and missed["recall"] == missed["f1"] == 0
    assert np.isnan(invented["recall"]) and invented["precision"] == invented["f1"] == 0
    assert all(np.isnan(value) for value in class_scores(counts[0], NEGATIVE).values())
    # Only the first counts for the mean, and has precision 0 there.
    assert macro_scores(counts, POSITIVE) == {"precision": 0, "recall": 0, "f1": 0}
    counts[0, POSITIVE, POSITIVE] = 3
    assert macro_scores(counts, POSITIVE) == {"precision": 1, "recall": 0.5, "f1": 6 / 9}
    assert micro_scores(counts, POSITIVE) == {"precision": 3 / 5, "recall": 0.5, "f1": 6 / 11}
    assert all(np.isnan(value) for value in macro_scores(counts, UNCERTAIN).values())
    same = np.zeros((4, 4))
    same[BLANK, BLANK] = 5
    assert np.isnan(cohens_kappa(same)) and np.isnan(cohens_kappa(np.zeros((4, 4))))


def test_clusters_sum_to_the_whole_and_resamples_have_their_own_scores():
    ours, reference = (state_codes(side) for side in drawn(seed=1))
    clusters = np.arange(400) // 3
    by_cluster = confusions(ours, reference, clusters)
    assert by_cluster.shape == (134, 3, 4, 4)
    assert (by_cluster.sum(axis=0) == confusions(ours, reference)).all()
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 3, size=(5, 134)).astype(float)
    many = np.tensordot(weights, by_cluster, axes=1)
    metrics = agreement_metrics(
        many, NAMES, dict.fromkeys(CLASSES, NAMES), positives_only=False, no_finding=NAMES[0]
    )
    repeated = np.repeat(np.arange(400), weights[3].astype(int)[clusters])
    alone = agreement_metrics(
        confusions(ours[repeated], reference[repeated]), NAMES, dict.fromkeys(CLASSES, NAMES),
        positives_only=False, no_finding=NAMES[0],
    )  # fmt: skip
    assert metrics.keys() == alone.keys()
    for name, values in metrics.items():
        assert values.shape == (5,)
        assert values[3] == pytest.approx(float(alone[name])), name


def test_names_and_totals():
    ours, reference = (state_codes(side) for side in drawn(seed=2))
    counts = confusions(ours, reference)
    classes = {"positive": NAMES, "negative": NAMES[1:]}
    table = agreement_metrics(counts, NAMES, classes, positives_only=False, no_finding="No Finding")
    assert "f1/positive/No Finding" in table and "f1/negative/No Finding" not in table
    assert not any("uncertain" in name for name in table)
    assert table["micro_f1/negative"] == micro_scores(counts[1:], NEGATIVE)["f1"]
    assert table["micro_f1/positive"] == micro_scores(counts, POSITIVE)["f1"]
    without = table["macro_f1_without_no_finding/positive"]
    assert without == macro_scores(counts[1:], POSITIVE)["f1"]
    assert table["agreement"] == pytest.approx((ours == reference).mean())
    kappas = [table[f"kappa/{name}"] for name in NAMES]
    assert table["macro_kappa"] == pytest.approx(np.mean(kappas))


def test_a_reference_of_positives_is_positive_against_the_rest():
    ours, reference = (state_codes(side) for side in drawn(seed=3))
    reference[reference != POSITIVE] = BLANK
    metrics = agreement_metrics(
        confusions(ours, reference), NAMES, {"positive": NAMES}, positives_only=True,
        no_finding="No Finding",
    )  # fmt: skip
    predicted, truth = ours == POSITIVE, reference == POSITIVE
    assert (differing(ours, reference, positives_only=True) == (predicted != truth)).all()
    assert (differing(ours, reference, positives_only=False) == (ours != reference)).all()
    assert metrics["agreement"] == pytest.approx((predicted == truth).mean())
    assert metrics["kappa/Edema"] == pytest.approx(cohen_kappa_score(predicted[:, 1], truth[:, 1]))
    assert {name.split("/")[1] for name in metrics if name.startswith("f1/")} == {"positive"}


def test_shapes_that_do_not_fit_are_refused():
    codes = np.zeros((3, 2), dtype=np.int64)
    with pytest.raises(ValueError, match=r"ours \(3, 2\) and reference \(2, 2\): want equal"):
        confusions(codes, codes[:2])
    assert len(STATES) == 4
