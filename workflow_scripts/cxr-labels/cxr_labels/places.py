"""Places of sections, sentences and phrases in a report as it was given.

Sections are cut from a text in its normal form, and sentences from sections, with blanks collapsed.
So their words are looked up again in order, and the places are mapped back to the original text.
"""

import re

from cxr_labels.characters import normal_text

Span = tuple[int, int] | tuple[None, None]
NOWHERE: Span = (None, None)


class Places:
    """Places of sections and sentences in a text.

    A word whose spelling was corrected is not in the text, so it has no place.
    """

    def __init__(self, text: str):
        self._normal = normal_text(text)
        self._first = 0  # of the section that sentences are looked for in
        self._at = 0

    def section(self, body: str) -> Span:
        """The place of a section's text; its sentences are sought from there on."""
        head, tail = body.split("\n\n", 1)[0], body.rsplit("\n\n", 1)[-1]
        start = self._normal.text.find(body)
        start, end = (start, start + len(body)) if start >= 0 else (self._normal.text.find(head), 0)
        if start < 0:
            self._first = self._at = 0
            return NOWHERE
        self._first = self._at = start
        return self._original(start, end or self._normal.text.rfind(tail) + len(tail))

    def sentence(self, sentence: str) -> "SentencePlaces":
        """The places of the next sentence of the section."""
        words = re.compile(r"\s+".join(map(re.escape, sentence.split())))
        text = self._normal.text
        match = words.search(text, self._at) or words.search(text, self._first)
        if match is None:
            return SentencePlaces(self, None)
        self._at = match.end()
        places, at = [], match.start()
        for character in sentence:
            places.append(at)
            at += 1
            while character == " " and at < match.end() and text[at].isspace():
                at += 1
        return SentencePlaces(self, [*places, match.end()])

    def _original(self, start: int, end: int) -> Span:
        last = self._normal.origin(max(end - 1, start))
        return self._normal.origin(start), max(self._normal.origin(end), last + 1)


class SentencePlaces:
    """Places of a sentence's characters in the report."""

    def __init__(self, places: Places, characters: list[int] | None):
        self._places, self._characters = places, characters

    def span(self, start: int, end: int) -> Span:
        """The place in the report of the sentence's characters ``start`` to ``end``."""
        if self._characters is None:
            return NOWHERE
        return self._places._original(self._characters[start], self._characters[end - 1] + 1)
