"""fact_ENT and fact_ENTNLI by hand, by the labeller's states and by a model that was trained."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretrain.test_sentence_pairs import train, write_pairs
from rivals.fact_ent import Facts, closest_sentences, entities_of, entity_match, related_by_state
from rivals.ifcc import BertScore
from rivals.radnli_baseline import SentencePairModel
from small_text import write_text_model

from cxr_files.errors import InputError
from cxrflow.metrics.entity_match import corpus_f1, set_counts

CPU = torch.device("cpu")


def named(*phrases: str, relation: str = "neutral") -> list[Any]:
    return [(phrase, relation) for phrase in phrases]


def test_entities_are_phrases_with_what_is_said_of_them() -> None:
    assert entities_of("No pleural effusion or edema.") == (
        ("edema", "Edema", 0),
        ("effusion", "Pleural Effusion", 0),
    )
    assert entities_of("The patient is rotated.") == ()


@pytest.mark.parametrize(
    ("reference", "hypothesis", "repeated", "expected"),
    [
        (named("effusion", "edema"), named("effusion", "opacity"), False, 1 / 2),
        (named("effusion", "edema", "edema"), named("effusion"), False, 2 / 3),  # 1/2 and 1
        (named("effusion", "edema", "edema"), named("effusion"), True, 1 / 2),  # 1/3 and 1
        (named("effusion"), named("effusion", "edema", "edema"), True, 2 / 3),  # 1 and 1/2
        (named("edema", relation="contradiction"), named("edema"), False, 0.0),
        (named("edema", relation="entailment"), named("fluid"), False, 0.0),  # 1 and 0
        (named("edema", relation="entailment"), named("fluid", relation="entailment"), False, 1.0),
        (named("effusion"), [], False, 0.0),
        ([], named("effusion"), False, 0.0),
        ([], [], False, 0.0),
    ],
)
def test_entity_match_by_hand(
    reference: list[Any], hypothesis: list[Any], repeated: bool, expected: float
) -> None:
    assert entity_match(reference, hypothesis, repeated) == pytest.approx(expected)


def test_of_sets_it_is_the_f1_of_the_package() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        a, b = (["abcdef"[i] for i in generator.integers(0, 6, 4)] for _ in range(2))
        counts = set_counts([a], [b])
        match = entity_match(named(*a), named(*b), False)
        assert match == pytest.approx(float(corpus_f1(counts, [1.0])))


@pytest.mark.parametrize(
    ("reference", "hypothesis", "relation", "match"),
    [
        ("There is edema.", "There is no edema.", "contradiction", 0.0),
        ("There is edema.", "Pulmonary edema is present.", "entailment", 1.0),
        ("There is pleural fluid.", "There is a pleural effusion.", "entailment", 1.0),
        ("There may be edema.", "There is edema.", "neutral", 1.0),
        ("There is edema.", "There is a pneumothorax.", "neutral", 0.0),
    ],
)
def test_states_of_our_labeller_stand_for_inference(
    reference: str, hypothesis: str, relation: str, match: float
) -> None:
    both = related_by_state([reference], [hypothesis])
    assert {entity[1] for side in both for entity in side} == {relation}
    assert entity_match(*both, False) == match
    assert [*Facts("states")([[reference]], [[hypothesis]])] == [both]
    plain = entity_match(*next(Facts(None)([[reference]], [[hypothesis]])), False)
    same_words = {e[0] for e in both[0]} == {e[0] for e in both[1]}
    assert plain == same_words


def test_a_sentence_is_read_beside_the_closest_of_the_other_report() -> None:
    def shared_words(ones: Any, others: Any) -> list[float]:
        return [len({*a.split()} & {*b.split()}) for a, b in zip(ones, others, strict=True)]

    reports = [(["a b", "c d"], ["c", "b a", "x"]), (["a"], []), (["x y"], ["y x"])]
    assert closest_sentences(reports, shared_words) == {
        (0, 0, "a b"): "b a",
        (0, 0, "c d"): "c",
        (0, 1, "c"): "c d",
        (0, 1, "b a"): "a b",
        (0, 1, "x"): "a b",  # the first of equals
        (2, 0, "x y"): "y x",
        (2, 1, "y x"): "x y",
    }


def test_a_trained_model_says_what_contradicts(tmp_path: Path) -> None:
    """An effusion beside none: what the labeller names is kept, and the model's word decides."""
    (tmp_path / "start").mkdir()
    write_text_model(tmp_path / "start")
    folder = train(tmp_path, write_pairs(tmp_path / "pairs"))
    model, score = SentencePairModel(folder, CPU), BertScore(folder, None, CPU)
    assert model(["effusion ."] * 2, ["no effusion .", "effusion ."]) == [
        "contradiction",
        "entailment",
    ]
    assert model([], []) == []
    assert model.length == 16  # that of its training
    with pytest.raises(ValueError, match="expected a model and a score"):
        Facts("model", model)
    reports = [["effusion .", "heart ."], ["effusion ."], []], [["no effusion ."]] * 3
    one, other, empty = Facts("model", model, score)(*reports)
    said = model(["no effusion ."], ["effusion ."])
    assert one == other == [[("effusion", *said)], [("effusion", "contradiction")]]
    assert empty == [[], [("effusion", "neutral")]]  # beside nothing
    (folder / "SHA256SUMS").unlink()
    record = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**record, "pairs_learnt": False}))
    with pytest.raises(InputError, match="has not learnt; expected one that tells relations"):
        SentencePairModel(folder, CPU)
