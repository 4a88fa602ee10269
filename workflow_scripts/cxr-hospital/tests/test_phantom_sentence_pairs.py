"""The RadNLI and MedNLI copies: layout, labels that are true, balance, words of their own."""

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from phantom_fixtures import SETTINGS

from cxr_hospital.claims import CONTRADICTION, ENTAILMENT, NEUTRAL, Claim, Topics
from cxr_hospital.clinical_pairs import clinical_pairs, draw_premise
from cxr_hospital.course import ZONES
from cxr_hospital.patient import make_patient
from cxr_hospital.radiology_pairs import DIRECTIONS, absences_of, claims_of, radiology_pairs
from cxr_hospital.radiology_relations import KINDS, StatedClaim, confined, one_of, relations
from cxr_hospital.wording import clinical_claims, radiology_claims
from cxr_hospital.wording.radiology_sentences import say
from cxr_hospital.writers.mednli import binary_parse, parse

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


def test_relations_of_places_are_those_of_all_possible_chests() -> None:
    """Patches in six zones: a claim about a side or a zone, and a patch that is there alone."""
    topics = Topics(parents={}, places={"patch": ("side", "zone")})
    chest = list(itertools.product(("left", "right"), ZONES))
    possible = [set(w) for n in range(7) for w in itertools.combinations(chest, n)]
    places = [("", ""), ("left", ""), ("right", ""), *chest]
    claims = [Claim("patch", state, side=s, zone=z) for state in (True, False) for s, z in places]

    def holds(claim: Claim, patches: set[tuple[str, str]]) -> bool:
        fitting = [s for s, z in patches if claim.side in ("", s) and claim.zone in ("", z)]
        return bool(fitting) == claim.present

    alone = [confined(claim) for claim in claims if claim.present and claim.side]
    for premise in [*((claim,) for claim in claims), *alone]:
        chests = [patches for patches in possible if all(holds(c, patches) for c in premise)]
        for claim in claims:
            inside = [holds(claim, patches) for patches in chests]
            expected = ENTAILMENT if all(inside) else NEUTRAL if any(inside) else CONTRADICTION
            assert topics.relation(premise, (claim,)) == expected, (premise, claim)


def test_what_is_implied_is_implied_over_several_steps() -> None:
    topics = radiology_claims.TOPICS
    assert topics.implied("Pneumonia") == ("Pneumonia", "Lung Opacity", "lungs", "chest")
    clear = (Claim("lungs", False),)
    for topic, label in (("nodule", ENTAILMENT), ("Pneumothorax", NEUTRAL)):
        assert topics.relation(clear, (Claim(topic, False),)) == label
    assert topics.relation((Claim("Pneumonia", side="left"),), clear) == CONTRADICTION
    assert topics.relation((Claim("mass"),), (Claim("chest"),)) == ENTAILMENT
    assert topics.related("chest", "Edema") and not topics.related("Edema", "nodule")


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


def stated(count: int) -> list[StatedClaim]:
    patients = [make_patient(SETTINGS, 500 + index).studies[-1] for index in range(count)]
    return [StatedClaim(claims_of(study), absences_of(study)) for study in patients]


def test_every_kind_gives_pairs_of_its_labels() -> None:
    """Of most starts; where a start has no such pair, another study is taken."""
    rng = np.random.default_rng(0)
    studies = stated(150)
    for directions, kinds in KINDS.items():
        for name, kind in kinds.items():
            pairs = [
                kind.pair(one_of(starts, rng), study, rng)
                for study in studies
                if (starts := kind.starts(study, rng))
            ]
            right = [relations(*pair) == directions for pair in pairs]
            assert len(pairs) > 5 and np.mean(right) > 0.5, (directions, name)


def test_contradictions_are_more_than_one_flipped_negation(written: Path) -> None:
    """They are by side, place, degree, time and finding too; and entailments flip as well."""
    deny = {"no", "not", "none", "neither", "without", "rather"}
    rows = [
        row
        for name in ("radnli_dev_v1.jsonl", "radnli_test_v1.jsonl")
        for row in lines(written / "radnli" / name)
    ]

    def flipped(label: str) -> float:
        pairs = [(r["sentence1"], r["sentence2"]) for r in rows if r["gold_label"] == label]
        states = [[bool(deny & set(t.lower().strip(".").split())) for t in p] for p in pairs]
        return float(np.mean([first != second for first, second in states]))

    assert 0.2 < flipped(CONTRADICTION) < 0.6
    assert flipped(ENTAILMENT) > 0.1


def test_a_statement_is_said_in_words_of_its_own() -> None:
    rng = np.random.default_rng(0)
    for study in stated(60):
        for claims in [*[(claim,) for claim in study.present], *study.absent]:
            texts = [say(claims, rng) for _ in range(16)]
            assert all(text.endswith(".") and "$" not in text for text in texts)
            assert len(set(texts)) > 1, texts


def test_sentences_name_what_they_claim() -> None:
    rng = np.random.default_rng(1)
    effusion = Claim("Pleural Effusion", side="both", grade="severe", change="improved")
    for _ in range(30):
        text = say((effusion,), rng).lower()
        assert "effusions" in text or "fluid collections" in text
        assert "bilateral" in text
        assert any(word in text for word in ("large", "severe", "extensive")), text
        assert "no " not in text and "{" not in text
        plain = say((Claim("Pleural Effusion"),), rng).lower()
        assert not any(word in plain for word in ("effusions", "collections", "large", "left"))
        assert "right" in say((Claim("Pneumothorax", False, side="right"),), rng)
        alone = say(confined(Claim("Consolidation", side="left", zone="upper")), rng).lower()
        assert "left" in alone and "upper" in alone and "right" not in alone
    assert "clear" in say((Claim("lungs", False),), rng)


def test_topics_are_complete() -> None:
    general = set(radiology_claims.NORMAL) - set(radiology_claims.NOUNS)
    assert general == {"lungs", "pleural spaces", "chest"} <= set(radiology_claims.ABNORMAL)
    for words, more in ((radiology_claims, general), (clinical_claims, set())):
        topics = set(words.NOUNS) | more
        assert set(words.TOPICS.parents) | set(words.TOPICS.parents.values()) <= topics
        assert set(words.TOPICS.places) <= topics
    rng = np.random.default_rng(0)
    premises = {claim.topic for _ in range(2000) for claim in draw_premise(rng)}
    assert premises == set(clinical_claims.SYMPTOMS) | set(clinical_claims.SIDED) | set(
        clinical_claims.CONDITIONS
    )
