"""The words of change: BioViL-T's list, and finding them in a text as RadEval does."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cxrflow.reports.entities.taggers import KEYWORD, Entity, KeywordTagger
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
