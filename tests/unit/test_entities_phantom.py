"""True entities of the synthetic reports: every word list of the wording has its tags."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from cxrflow.phantom.entities import tag_sentence
from cxrflow.phantom.grammar import alternatives, write
from cxrflow.phantom.wording import devices, entities, places
from cxrflow.phantom.wording.context import ABSENT
from cxrflow.phantom.wording.observations import WORDINGS
from cxrflow.phantom.wording.spelling import MISSPELLINGS
from cxrflow.reports.entities.tagged_text import read_tagged
from cxrflow.reports.entities.taggers import TYPES
from cxrflow.reports.entities.temporal import is_temporal_entity, temporal_words

JOINING = {"the", "to", "of", "area"}
WHERE = {"interstitial", "alveolar"}  # kinds of edema by their place
BIOES = re.compile(r"(?:O|S|BI*E)*")


def kinds(sentence: str) -> dict[str, str]:
    """Lower-case tokens with the types of their tags."""
    tagged = tag_sentence(sentence)
    return {sentence[t.start : t.end].lower(): t.tag[2:] for t in tagged}


def test_alternatives() -> None:
    assert alternatives("{a|b*3} {|very {c|d}}<Px+>") == [
        *("a", "a very c", "a very d", "b", "b very c", "b very d")
    ]
    template = places.noun("left", "lower")
    texts, rng = set(alternatives(template)), np.random.default_rng(1)
    written = {write(template, rng).text for _ in range(200)}
    assert {text[0].upper() + text[1:] for text in texts} == written
    with pytest.raises(KeyError, match="side"):
        alternatives("the $side lung")


def test_the_types_are_the_taggers() -> None:
    assert tuple(entities.WORDS) == TYPES


def test_a_sentence_by_hand() -> None:
    assert kinds("Mild left basilar atelectasis cannot be excluded, ETT in place.") == {
        "mild": "OBSERVATION_MODIFIER",
        "left": "ANATOMY_MODIFIER",
        "basilar": "ANATOMY",
        "atelectasis": "OBSERVATION",
        "cannot": "UNCERTAINTY",
        "be": "UNCERTAINTY",
        "excluded": "UNCERTAINTY",
        **dict.fromkeys((",", "in", "place", "."), ""),
        "ett": "OBSERVATION",
    }
    assert [token.tag for token in tag_sentence("New median sternotomy wires.")] == [
        *("S-OBSERVATION_MODIFIER", "B-OBSERVATION", "I-OBSERVATION", "E-OBSERVATION", "O")
    ]


def test_severities_and_places_and_absences_have_tags() -> None:
    for name, wording in WORDINGS.items():
        for degree in (text for row in wording.degrees.values() for text in alternatives(row)):
            tags = kinds(degree).items()
            types = {word: kind for word, kind in tags if word not in JOINING | WHERE}
            assert set(types.values()) <= {"OBSERVATION_MODIFIER"}, (name, degree, types)
    for side in ("left", "right", "both", "none"):
        for zone in places._ONE_SIDE_NOUN:
            for template in (places.noun(side, zone), places.adjective(side, zone)):
                for place in alternatives(template):
                    tags = kinds(place.replace(" -sided", "-sided")).items()
                    types = {word: kind for word, kind in tags if word not in JOINING}
                    assert set(types.values()) <= {"ANATOMY", "ANATOMY_MODIFIER"}, (place, types)
    for name, template in ABSENT.items():
        for text in alternatives(template):
            assert list(kinds(text).values())[-1] == "OBSERVATION", (name, text)


def test_devices_are_one_entity() -> None:
    for nouns, _ in devices.DEVICES.values():
        for name in (text for noun in nouns for text in alternatives(noun.replace("$lat", ""))):
            tags = [token.tag for token in tag_sentence(name)]
            assert {tag[2:] for tag in tags} == {"OBSERVATION"}, name
            assert len([tag for tag in tags if tag[0] in "BS"]) == 1, name


def test_a_misspelt_word_has_the_tag_of_the_right_one() -> None:
    wrong = {option: kinds(option)[option] for row in MISSPELLINGS.values() for option in row}
    right = {o: kinds(word)[word] for word, options in MISSPELLINGS.items() for o in options}
    assert wrong == right and wrong["effuson"] == "OBSERVATION"


def test_tags_of_the_written_sentences(written: Path) -> None:
    base = written / "stanza_entities"
    counts = json.loads((base / "MANIFEST.json").read_text())["counts"]
    used, texts = set(), {}
    for part in ("train", "dev", "test"):
        sentences = read_tagged(base / f"{part}.bioes")
        assert len(sentences) == counts[f"{part}_sentences"] > 5
        texts[part] = [sentence.text for sentence in sentences]
        for sentence in sentences:
            assert BIOES.fullmatch("".join(tag[0] for tag in sentence.tags)), sentence
            between = "".join(sentence.tokens)
            assert between == "".join(sentence.text.split())
            for kind, start, end in sentence.spans():
                text = sentence.text[start:end]
                used.add(kind)
                if text.lower() in temporal_words():
                    assert is_temporal_entity(kind, text), sentence
    assert {"ANATOMY", "OBSERVATION", "OBSERVATION_MODIFIER", "ANATOMY_MODIFIER"} <= used
    paragraphs = (written / "stanza_text" / "train.txt").read_text()
    assert all(text in paragraphs for text in texts["train"] + texts["test"])
