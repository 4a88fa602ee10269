"""Random sentences made of the labeller's own words, marks and noise: promises that always hold."""

import random
from collections.abc import Iterator

import pytest

from cxr_labels.observations import OBSERVATIONS, OTHER_FINDING
from cxr_labels.rules import read_rules
from cxr_labels.scope.labeller import ScopeLabeller, read_sentence
from cxr_labels.scope.phrases import elements

MARKS = [*",.;:()/-?\té", "___", "XXXX", "\x07", "\u202e", "1."]
NAMES = {*OBSERVATIONS, OTHER_FINDING}


def vocabulary() -> list[str]:
    """Every word of the rules, prefixes completed."""
    mentions = read_rules("scope/mentions")
    phrases = [p for kinds in mentions.values() for ps in kinds.values() for p in ps]
    cues = read_rules("scope/cues")
    phrases += [phrase for cue in cues["cues"] for phrase in cue["phrases"]]
    phrases += [phrase for state in cues["states"].values() for phrase in state]
    phrases += cues["breaks"] + cues["verbs"] + cues["starters"]
    words = {
        word.replace("*", "ic") for p in phrases for place in elements(p) for word in place.words
    }
    return sorted(words - {"ic"})


def sentences(count: int) -> Iterator[str]:
    """Random rows of words and marks; the same in every run."""
    words, chance = vocabulary(), random.Random(20)
    for _ in range(count):
        length = chance.randint(1, 40)
        row = [chance.choice(MARKS if chance.random() < 0.2 else words) for _ in range(length)]
        yield "".join(word + chance.choice(("", " ", " ", " ")) for word in row)


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return list(sentences(4000))


def test_reasons_point_into_the_sentence(corpus: list[str]) -> None:
    asserted = 0
    for number, sentence in enumerate(corpus):
        for reason in read_sentence(sentence, number):
            asserted += 1
            assert reason.observation in NAMES and reason.value in (-1, 0, 1)
            assert reason.sentence == number
            assert 0 <= reason.start < reason.end <= len(sentence)
            assert sentence[reason.start : reason.end] == reason.phrase
            assert 0 <= reason.cue_start <= reason.cue_end <= len(sentence)
    assert asserted > 5000


def test_case_does_not_matter(corpus: list[str]) -> None:
    labeller = ScopeLabeller()
    for sentence in corpus[:1000]:
        if sentence.isascii():
            as_is, upper = labeller.label([[sentence], [sentence.upper()]])
            assert repr(as_is) == repr(upper), sentence


def test_labels_are_those_of_the_reasons(corpus: list[str]) -> None:
    """A report's value is the highest of its assertions, and the order of sentences is free."""
    labeller, rank = ScopeLabeller(), {0: 0, -1: 1, 1: 2}
    for i in range(0, 1000, 5):
        report = corpus[i : i + 5]
        labels = labeller.label([report])[0]
        assert repr(labels) == repr(labeller.label([report[::-1]])[0])
        reasons = labeller.explain(report)
        for name, value in zip(OBSERVATIONS[1:], labels[1:], strict=True):
            values = [reason.value for reason in reasons if reason.observation == name]
            assert value == max(values, key=rank.__getitem__) if values else value != value
