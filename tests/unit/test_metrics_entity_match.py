"""Entity matching against literal transcriptions of each definition, and cases worked by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrflow.metrics.entity_match import corpus_f1, ifcc_f1, set_counts, set_f1, vilmedic_f1
from cxrflow.metrics.intervals import bootstrap

WORDS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)
PAIRS = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8)
REFERENCES = [["new", "stable", "new"], ["worse"], [], []]
HYPOTHESES = [["new", "new", "improved"], [], ["stable"], []]


def equations_3_and_4(references, hypotheses):
    """BioViL-T's sums, one report after the other."""
    both = told = truth = 0
    for reference, hypothesis in zip(references, hypotheses, strict=True):
        both += len([entity for entity in set(hypothesis) if entity in reference])
        told += len(set(hypothesis))
        truth += len(set(reference))
    precision = both / told if told else float("nan")
    recall = both / truth if truth else float("nan")
    if told == truth == 0:
        return precision, recall, float("nan")
    if both == 0:
        return precision, recall, 0.0
    return precision, recall, 2 / (1 / precision + 1 / recall)


def radeval(reference, hypothesis, epsilon=1e-10):
    """One report, with the small number that is added there."""
    reference, hypothesis = set(reference), set(hypothesis)
    if not reference:
        return epsilon if hypothesis else 1.0
    hits = len(reference & hypothesis)
    precision = (hits + epsilon) / (len(hypothesis) + epsilon)
    recall = (hits + epsilon) / (len(reference) + epsilon)
    return 2 * precision * recall / (precision + recall + epsilon)


def ifcc(reference, hypothesis):
    """One report, by dictionaries from an entity to its mentions, the slip included."""
    mentions_in_reference: dict[str, list[int]] = {}
    for place, entity in enumerate(reference):
        mentions_in_reference.setdefault(entity, []).append(place)
    mentions_in_hypothesis: dict[str, list[int]] = {}
    for place, entity in enumerate(hypothesis):
        mentions_in_hypothesis[entity] = [place]  # forgets those before
    hits = total = 0
    for entity, places in mentions_in_hypothesis.items():
        for _ in places:
            total += 1
            hits += entity in mentions_in_reference
    precision = hits / total if total else 0.0
    hits = total = 0
    for entity, places in mentions_in_reference.items():
        for _ in places:
            total += 1
            hits += entity in mentions_in_hypothesis
    recall = hits / total if total else 0.0
    both_positive = precision > 0 and recall > 0
    return 2 * precision * recall / (precision + recall) if both_positive else 0.0


def vilmedic(reference, hypothesis):
    """One report: the hypothesis's hits over both lengths."""
    hits = 0.0
    for entity in hypothesis:
        if entity in reference:
            hits += 1.0
    precision = hits / len(hypothesis) if hypothesis else 0.0
    recall = hits / len(reference) if reference else 0.0
    both_positive = precision > 0 and recall > 0
    return 2 * precision * recall / (precision + recall) if both_positive else 0.0


@given(PAIRS)
def test_functions_equal_their_transcriptions(pairs) -> None:
    references, hypotheses = [a for a, _ in pairs], [b for _, b in pairs]
    found = corpus_f1(set_counts(references, hypotheses))
    np.testing.assert_allclose(
        [found["precision"], found["recall"], found["f1"]],
        equations_3_and_4(references, hypotheses),
    )
    for function, slow in ((set_f1, radeval), (ifcc_f1, ifcc), (vilmedic_f1, vilmedic)):
        expected = [slow(a, b) for a, b in pairs]
        np.testing.assert_allclose(function(references, hypotheses), expected, atol=1e-9)


def test_by_hand() -> None:
    """Report 1: {new, stable} against {new, improved}; 2: none told; 3: none true; 4: none."""
    found = corpus_f1(set_counts(REFERENCES, HYPOTHESES))
    assert (found["precision"], found["recall"]) == (1 / 3, 1 / 3)  # new; of 2 + 1 on each side
    assert found["f1"] == pytest.approx(1 / 3)
    np.testing.assert_allclose(set_f1(REFERENCES, HYPOTHESES), [0.5, 0, 0, 1])
    # ifcc: precision 1 of {new, improved}, recall 2 of 3 mentions: 2 (1/2 2/3) / (7/6) = 4/7.
    np.testing.assert_allclose(ifcc_f1(REFERENCES, HYPOTHESES), [4 / 7, 0, 0, 0])
    # ViLMedic: two hits, of 3 told and of 3 true.
    np.testing.assert_allclose(vilmedic_f1(REFERENCES, HYPOTHESES), [2 / 3, 0, 0, 0])


def test_the_example_in_vilmedics_code() -> None:
    """Its comment says 0.4 and 1.0 for these reports' single-token entities."""
    references = [["pleural", "effusions"], ["heart"]]
    hypotheses = [["pleural", "effusion", "heart"], ["heart"]]
    np.testing.assert_allclose(vilmedic_f1(references, hypotheses), [0.4, 1.0])


def test_vilmedics_score_can_exceed_one() -> None:
    assert vilmedic_f1([["effusion"]], [["effusion"] * 3])[0] == pytest.approx(1.5)
    assert ifcc_f1([["effusion"]], [["effusion"] * 3])[0] == 1.0


def test_what_is_not_defined_is_nan() -> None:
    nothing_told = corpus_f1(set_counts([["new"]], [[]]))
    assert np.isnan(nothing_told["precision"])
    assert (nothing_told["recall"], nothing_told["f1"]) == (0, 0)
    nothing_true = corpus_f1(set_counts([[]], [["new"]]))
    assert np.isnan(nothing_true["recall"])
    assert (nothing_true["precision"], nothing_true["f1"]) == (0, 0)
    for references in ([[]], []):
        assert all(np.isnan(v) for v in corpus_f1(set_counts(references, references)).values())
    assert all(len(f([], [])) == 0 for f in (set_f1, ifcc_f1, vilmedic_f1))


def test_lists_of_different_length_are_refused() -> None:
    for function in (set_counts, set_f1, ifcc_f1, vilmedic_f1):
        with pytest.raises(ValueError, match="1 references, 2 hypotheses"):
            function([[]], [[], []])


def test_weights_count_reports_as_often() -> None:
    counts = set_counts(REFERENCES, HYPOTHESES)
    weights = np.array([[1, 1, 1, 1], [3, 0, 1, 2]])
    repeated = [0, 0, 0, 2, 3, 3]
    again = set_counts([REFERENCES[i] for i in repeated], [HYPOTHESES[i] for i in repeated])
    for name, values in corpus_f1(counts, weights).items():
        assert values.shape == (2,)
        assert values[0] == corpus_f1(counts)[name]
        assert values[1] == corpus_f1(again)[name]


def test_intervals_come_from_resampled_reports() -> None:
    counts = set_counts(REFERENCES * 10, HYPOTHESES * 10)
    sizes = dict.fromkeys(("precision", "recall", "f1"), 40)
    found = bootstrap(lambda weights: corpus_f1(counts, weights), np.arange(40), sizes, 200)
    assert found["f1"].value == pytest.approx(1 / 3)
    assert found["f1"].low < 1 / 3 < found["f1"].high
