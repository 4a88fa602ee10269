"""Entity matching against a literal transcription of BioViL-T's sums, and cases worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrflow.metrics.entity_match import corpus_f1, set_counts
from cxrflow.metrics.intervals import bootstrap

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8)
REFERENCES = [["new", "stable", "new"], ["worse"], [], []]
HYPOTHESES = [["new", "new", "improved"], [], ["stable"], []]


def equations_3_and_4(references, hypotheses):
    """BioViL-T's sums, one report after the other."""
    common = generated = truth = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        common += len([entity for entity in set(hypothesis) if entity in reference])
        generated += len(set(hypothesis))
        truth += len(set(reference))
    if generated == truth == 0:
        return float("nan")
    if common == 0:
        return 0.0
    return 2 / (generated / common + truth / common)  # of precision and recall


def f1(references, hypotheses):
    return corpus_f1(set_counts(references, hypotheses), np.ones(len(references)))


@given(PAIRS)
def test_the_score_equals_its_transcription(pairs) -> None:
    references, hypotheses = [a for a, _ in pairs], [b for _, b in pairs]
    expected = equations_3_and_4(references, hypotheses)
    np.testing.assert_allclose(f1(references, hypotheses), expected)


def test_by_hand() -> None:
    """Report 1: {new, stable} against {new, improved}; 2: none told; 3: none true; 4: none."""
    counts = set_counts(REFERENCES, HYPOTHESES)
    np.testing.assert_array_equal(counts, [[1, 2, 2], [0, 0, 1], [0, 1, 0], [0, 0, 0]])
    assert f1(REFERENCES, HYPOTHESES) == pytest.approx(1 / 3)  # new; of 2 + 1 on each side


def test_what_is_not_defined_is_nan() -> None:
    assert f1([["new"]], [[]]) == f1([[]], [["new"]]) == 0
    assert np.isnan(f1([[]], [[]])) and np.isnan(f1([], []))


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="1 references, 2 hypotheses"):
        set_counts([[]], [[], []])


def test_weights_count_reports_as_often() -> None:
    counts = set_counts(REFERENCES, HYPOTHESES)
    repeated = [0, 0, 0, 2, 3, 3]
    again = ([REFERENCES[i] for i in repeated], [HYPOTHESES[i] for i in repeated])
    values = corpus_f1(counts, np.array([[1, 1, 1, 1], [3, 0, 1, 2]]))
    assert values.tolist() == [f1(REFERENCES, HYPOTHESES), f1(*again)]


def test_intervals_come_from_resampled_reports() -> None:
    counts = set_counts(REFERENCES * 10, HYPOTHESES * 10)
    estimates = bootstrap(lambda w: {"f1": corpus_f1(counts, w)}, np.arange(40), {"f1": 40}, 200)
    assert estimates["f1"].value == pytest.approx(1 / 3)
    assert estimates["f1"].low < 1 / 3 < estimates["f1"].high
