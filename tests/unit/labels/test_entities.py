"""Entities of reports: their list, the synthetic hospital's tagged text, files and scores."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxr_files.errors import InputError
from cxr_hospital.entities import tag_sentence
from cxr_hospital.grammar import alternatives, write
from cxr_hospital.wording import devices, entities, places
from cxr_hospital.wording.context import ABSENT
from cxr_hospital.wording.observations import WORDINGS
from cxr_hospital.wording.spelling import MISSPELLINGS
from cxr_hospital.writers.stanza_entities import tagged_lines
from cxrflow.reports.entities.tagged_text import read_tagged, span_scores
from cxrflow.reports.entities.taggers import KEYWORD, TYPES, Entity, KeywordTagger
from cxrflow.reports.entities.temporal import is_temporal_entity, temporal_words

PIECES = st.sampled_from(
    ["new", "New", "unchanged", "change", "changed", "worse", " ", " ", "-", "_", "___", "/"]
    + ["\n", ".", ",", "(", "'", "é", "3", "ß"]
)


def test_the_list_is_the_papers() -> None:
    words = temporal_words()
    assert len(words) == len(set(words)) == 44
    assert words[0] == "bigger" and words[-1] == "unaltered"
    assert all(word == word.lower() and word.isalpha() for word in words)
    # Inflections that the paper does not list stay out.
    assert {"worsen", "worsened", "worsening"} <= set(words) and "worsens" not in words
    assert "change" in words and not {"changed", "changes", "progressed"} & set(words)


@pytest.mark.parametrize(
    ("type", "text", "counts"),
    [
        ("OBSERVATION", "enlargement", True),
        ("OBSERVATION_MODIFIER", "New", True),
        ("OBSERVATION_MODIFIER", "new or increased", False),
        ("OBSERVATION_MODIFIER", "small", False),
        ("ANATOMY_MODIFIER", "new", False),
        ("UNCERTAINTY", "stable", False),
    ],
)
def test_temporal_entities(type: str, text: str, counts: bool) -> None:
    assert is_temporal_entity(type, text) is counts


def test_keywords_have_their_place_in_the_text() -> None:
    text = "Newly placed tube; NEW, re-enlarged___unchanged (worse)."
    (entities,) = KeywordTagger().tag([text])
    assert entities == [
        Entity("new", KEYWORD, 19, 22),
        Entity("enlarged", KEYWORD, 27, 35),
        Entity("unchanged", KEYWORD, 38, 47),
        Entity("worse", KEYWORD, 49, 54),
    ]
    assert [text[e.start : e.end].lower() for e in entities] == [e.text for e in entities]
    assert KeywordTagger().tag(["", "improved/resolved"]) == [[], []]


def cleaned(text: str) -> str:
    """The text as RadEval cleans it before it looks for words."""
    text = re.sub(r"\n+", " ", text)
    text = re.sub(r"[_-]+", " ", text)
    text = re.sub(r"[^\w\s.,:;()-]", "", text)
    return re.sub(r"\s{2,}", " ", text).strip()


@given(st.lists(PIECES, max_size=12).map("".join))
def test_keywords_are_radevals(text: str) -> None:
    pattern = r"\b(" + "|".join(temporal_words()) + r")\b"
    expected = [match.group() for match in re.finditer(pattern, cleaned(text).lower())]
    (entities,) = KeywordTagger().tag([text])
    assert [entity.text for entity in entities] == expected


SENTENCE = "Small right pleural effusion, PICC line unchanged."


def test_spans_of_the_phantoms_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.bioes").write_text(tagged_lines(SENTENCE) + tagged_lines("No rib fracture."))
    first, second = read_tagged(tmp_path / "a.bioes")
    assert [(kind, SENTENCE[start:end]) for kind, start, end in first.spans()] == [
        ("OBSERVATION_MODIFIER", "Small"),
        ("ANATOMY_MODIFIER", "right"),
        ("ANATOMY", "pleural"),
        ("OBSERVATION", "effusion"),
        ("OBSERVATION", "PICC line"),
        ("OBSERVATION_MODIFIER", "unchanged"),
    ]
    assert second.spans() == [("ANATOMY", 3, 6), ("OBSERVATION", 7, 15)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.bioes: no sentence in it"),
        ("rib\tS-ANATOMY\n", "a.bioes:1: .*expected '# text = '"),
        ("# text = A rib.\nA\tO\nrib\tX-ANATOMY\n", "a.bioes:3: tag 'X-ANATOMY'"),
        ("# text = A rib.\nA\tO\nrib\n", "a.bioes:3: tag ''"),
        ("\n# text = A rib.\nrib\tO\nA\tO\n", "a.bioes:4: the token is not in the rest"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.bioes").write_text(content)
    with pytest.raises(InputError, match=message):
        read_tagged(tmp_path / "a.bioes")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="b.bioes: file not found"):
        read_tagged(tmp_path / "b.bioes")
    (tmp_path / "b.bioes").write_bytes(b"# text = \xff\n")
    with pytest.raises(InputError, match="b.bioes: not UTF-8"):
        read_tagged(tmp_path / "b.bioes")


def test_scores_by_hand() -> None:
    truth = [[("ANATOMY", 0, 3), ("OBSERVATION", 4, 9)], [("OBSERVATION", 0, 4)]]
    predicted = [[("ANATOMY", 0, 3), ("OBSERVATION", 4, 8)], [("ANATOMY", 0, 4)]]
    scores = span_scores(truth, predicted)
    assert scores["all"] == {"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3, "n": 3}
    assert scores["ANATOMY"] == {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "n": 1}
    assert scores["OBSERVATION"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "n": 2}
    assert scores["UNCERTAINTY"] == {"precision": None, "recall": None, "f1": None, "n": 0}


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
