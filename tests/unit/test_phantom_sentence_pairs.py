"""The RadNLI and MedNLI copies: layout, labels that are true, balance, words of their own."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from phantom_fixtures import SETTINGS

from cxrflow.phantom.claims import CONTRADICTION, ENTAILMENT, NEUTRAL, Claim, Topics
from cxrflow.phantom.clinical_pairs import clinical_pairs, draw_premise
from cxrflow.phantom.patient import make_patient
from cxrflow.phantom.radiology_pairs import (
    DIRECTIONS,
    absences_of,
    claims_of,
    denied,
    opposed,
    radiology_pairs,
    say,
    weaker,
)
from cxrflow.phantom.wording import clinical_claims, radiology_claims
from cxrflow.phantom.writers.mednli import binary_parse, parse

# A toy topic of which a patient may have one on each side, and its more general parent.
TOY = Topics(parents={"spot": "mark"}, places={"spot": ("side",), "mark": ("side",)})
GRADES, CHANGES = ("mild", "severe"), ("new", "worsened")


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def worlds() -> list[dict[str, object]]:
    """Every chest: on each side no spot, or one of a grade and a change; and marks besides.

    A side has a mark where it has a spot, and may have one without; a mark that is no spot has
    nothing else to be told about it. What is absent may have been there before.
    """
    spots = [None, *itertools.product(GRADES, CHANGES)]
    combinations = []
    for a, b in itertools.product(spots, spots):
        for other_left, other_right in itertools.product([False, True], repeat=2):
            gone = [False, True] if a is None and b is None else [False]
            for was in gone:
                spot = {"left": a, "right": b}
                mark = {"left": a or other_left, "right": b or other_right}
                combinations.append({"spot": spot, "mark": mark, "was": was})
    return combinations


def true_in(claim: Claim, world: dict) -> bool:
    """Literally: is the claim true there?"""
    spots = world[claim.topic]
    if not claim.present:
        sides = [claim.side] if claim.side else ["left", "right"]
        return not any(spots[side] for side in sides) and (not claim.change or world["was"])

    def fits(side: str) -> bool:
        if not spots[side]:
            return False
        grade, change = spots[side] if isinstance(spots[side], tuple) else ("", "")
        return (not claim.grade or claim.grade == grade) and (
            not claim.change or claim.change == change
        )

    if claim.side == "both":
        return fits("left") and fits("right")
    return any(fits(side) for side in ([claim.side] if claim.side else ["left", "right"]))


def test_relations_are_those_of_all_possible_worlds() -> None:
    """Entailment: true wherever the premise is; contradiction: nowhere beside it."""
    possible = worlds()
    present = [
        Claim("spot", side=side, grade=grade, change=change)
        for side in ("", "left", "right", "both")
        for grade in ("", *GRADES)
        for change in ("", *CHANGES)
    ]
    absent = [Claim("spot", False, side=side) for side in ("", "left", "right")]
    general = [Claim("mark"), Claim("mark", side="left"), Claim("mark", False)]
    general.append(Claim("mark", False, side="right"))
    claims = [*present, *absent, *general, Claim("spot", False, change="resolved")]
    met = Counter()
    for a, b in itertools.product(claims, claims):
        inside = [true_in(b, world) for world in possible if true_in(a, world)]
        expected = ENTAILMENT if all(inside) else NEUTRAL if any(inside) else CONTRADICTION
        got = TOY.relation((a,), (b,))
        assert got == expected, (a, b)
        met[got] += 1
    assert min(met.values()) > 100


def test_several_claims() -> None:
    present, gone, unrelated = Claim("spot"), Claim("spot", False), Claim("x", False)
    assert TOY.relation((present, unrelated), (present,)) == ENTAILMENT
    assert TOY.relation((present,), (present, unrelated)) == NEUTRAL
    assert TOY.relation((present, unrelated), (gone,)) == CONTRADICTION
    assert TOY.relation((Claim("mark", False),), (gone,)) == ENTAILMENT
    assert TOY.relation((gone,), (Claim("mark", False),)) == NEUTRAL


def test_radnli_layout_and_balance(written: Path) -> None:
    for name in ("radnli_dev_v1.jsonl", "radnli_test_v1.jsonl"):
        rows = lines(written / "radnli" / name)
        assert len(rows) == SETTINGS.radnli_pairs
        assert all(list(row) == ["pair_id", "sentence1", "sentence2", "gold_label"] for row in rows)
        assert len({row["pair_id"] for row in rows}) == len(rows)
        label = {(row["sentence1"], row["sentence2"]): row["gold_label"] for row in rows}
        assert len(label) == len(rows)
        kinds: Counter = Counter()
        for (premise, hypothesis), forward in label.items():
            kinds[forward, label[hypothesis, premise]] += 1  # both directions are there
        count = len(rows) / 2
        for (forward, backward), share in DIRECTIONS.items():
            lines_of_kind = kinds[forward, backward] + (
                kinds[backward, forward] if forward != backward else 0
            )
            assert abs(lines_of_kind / 2 - share * count) <= 1, (forward, backward)
        assert Counter(label.values())[NEUTRAL] / len(rows) == pytest.approx(0.7, abs=0.02)


def test_radnli_files_share_no_pair(written: Path) -> None:
    files = [
        {frozenset((row["sentence1"], row["sentence2"])) for row in lines(written / "radnli" / n)}
        for n in ("radnli_dev_v1.jsonl", "radnli_test_v1.jsonl")
    ]
    assert not files[0] & files[1]


def test_mednli_layout_and_balance(written: Path) -> None:
    for name, share in (("train", 1.0), ("dev", 0.124), ("test", 0.127)):
        rows = lines(written / "mednli" / f"mli_{name}_v1.jsonl")
        assert abs(len(rows) - share * SETTINGS.mednli_pairs) < 3
        assert set(rows[0]) == {
            *("gold_label", "pairID", "sentence1", "sentence2", "sentence1_parse"),
            *("sentence2_parse", "sentence1_binary_parse", "sentence2_binary_parse"),
        }
        assert len({row["pairID"] for row in rows}) == len(rows)
        counted = Counter(row["gold_label"] for row in rows)
        assert counted == dict.fromkeys((ENTAILMENT, CONTRADICTION, NEUTRAL), len(rows) // 3)
        for row in rows:
            for side in ("1", "2"):
                for kind in ("parse", "binary_parse"):
                    tree = row[f"sentence{side}_{kind}"]
                    assert tree.count("(") == tree.count(")") > 0


def test_parses() -> None:
    assert parse("No (new) rash.") == (
        "(ROOT (FRAG (X No) (X -LRB-) (X new) (X -RRB-) (X rash) (. .)))"
    )
    assert binary_parse("No rash.") == "( No ( rash . ) )"


def test_the_domains_share_no_topic_words(written: Path) -> None:
    """What carries over from notes to reports is the logic: "no", sides, degrees, change."""

    def words(path: Path) -> Counter:
        texts = [row[key] for row in lines(path) for key in ("sentence1", "sentence2")]
        return Counter(w for text in texts for w in text.lower().replace(".", " ").split())

    report = words(written / "radnli/radnli_test_v1.jsonl")
    note = words(written / "mednli/mli_train_v1.jsonl")
    for noun in ("pneumothorax", "consolidation", "atelectasis", "effusion", "cardiomegaly"):
        assert report[noun] and not note[noun]
    for noun in ("patient", "history", "pain", "denies"):
        assert note[noun] and not report[noun]
    for word in ("no", "left", "severe", "improved", "unchanged"):
        assert note[word]


def test_pairs_repeat_with_the_seed() -> None:
    again = [list(radiology_pairs(SETTINGS, 40, 0, set())) for _ in range(2)]
    assert again[0] == again[1]
    seven = SETTINGS.model_copy(update={"seed": 7})
    assert list(radiology_pairs(seven, 40, 0, set())) != again[0]
    assert list(clinical_pairs(seven, 30, 0, set())) != list(clinical_pairs(SETTINGS, 30, 0, set()))


def test_every_claim_of_a_study_can_be_said_weakened_and_opposed() -> None:
    rng = np.random.default_rng(0)
    weakened = 0
    for index in range(60):
        study = make_patient(SETTINGS, 500 + index).studies[-1]
        for claims in [*[(claim,) for claim in claims_of(study)], *absences_of(study)]:
            assert say(claims, rng).endswith(".")
            less = weaker(claims, rng)
            assert radiology_claims.TOPICS.relation(claims, less) == ENTAILMENT
            weakened += less != claims
            against = opposed(claims, rng)
            assert radiology_claims.TOPICS.relation(claims, against) == CONTRADICTION
            assert radiology_claims.TOPICS.relation(against, claims) == CONTRADICTION
    assert weakened > 100


def test_sentences_name_what_they_claim() -> None:
    rng = np.random.default_rng(1)
    effusion = Claim("Pleural Effusion", side="both", grade="severe", change="improved")
    for _ in range(30):
        text = say((effusion,), rng).lower()
        assert "effusions" in text and "bilateral" in text
        assert any(word in text for word in ("large", "severe", "extensive")), text
        assert "no " not in text and "$" not in text and "{" not in text
        plain = say((Claim("Pleural Effusion"),), rng).lower()
        assert "effusions" not in plain and "large" not in plain and "left" not in plain
        assert "right" in say((Claim("Pneumothorax", False, side="right"),), rng)
    clear = denied(next(topics for topics in radiology_claims.TOGETHER if "Edema" in topics))
    assert "clear" in say(clear, rng)


def test_topics_are_complete() -> None:
    for words in (radiology_claims, clinical_claims):
        topics = set(words.NOUNS)
        assert set(words.TOPICS.parents) | set(words.TOPICS.parents.values()) <= topics
        assert set(words.TOPICS.places) <= topics
    rng = np.random.default_rng(0)
    premises = {claim.topic for _ in range(2000) for claim in draw_premise(rng)}
    assert premises == set(clinical_claims.SYMPTOMS) | set(clinical_claims.SIDED) | set(
        clinical_claims.CONDITIONS
    )
