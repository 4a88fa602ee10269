"""A text that is brought into another form, and the place of each character in the original."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class NormalText:
    """A text in its normal form; ``origins`` holds the place of each character in the original."""

    text: str
    origins: list[int] | None = field(default=None, repr=False)  # None: of a text left as it is
    original_length: int = 0
    container: str | None = None
    failure: str | None = None

    def origin(self, place: int) -> int:
        """The place in the original of the character at ``place`` (its end, for the text's end)."""
        if self.origins is None:
            return place
        return self.origins[place] if place < len(self.origins) else self.original_length

    def replace(self, pattern: re.Pattern[str], by: Callable[[re.Match[str]], str] | str) -> None:
        """Replace all matches; characters of a replacement stand where the match began."""
        pieces: list[tuple[str, int, int]] = []
        end = 0
        for match in pattern.finditer(self.text):
            new = by if isinstance(by, str) else by(match)
            if new == match[0] or match.start() == match.end():
                continue
            pieces += [(self.text[end : match.start()], end, match.start())]
            pieces += [(new, match.start(), match.end())]
            end = match.end()
        if pieces:
            self.assemble([*pieces, (self.text[end:], end, len(self.text))])

    def assemble(self, pieces: list[tuple[str, int, int]]) -> None:
        """Make the text of pieces, each for the characters ``start`` to ``end`` of the text now.

        Characters stand one for one where they can, so that a span of the original stays exact.
        """
        places = self.origins if self.origins is not None else list(range(len(self.text)))
        origins: list[int] = []
        for new, start, end in pieces:
            if len(new) == end - start:
                origins += places[start:end]
            elif new:
                at = places[start:end] or [self.origin(start)]
                origins += [at[min(i, len(at) - 1)] for i in range(len(new))]
        self.text, self.origins = "".join(piece[0] for piece in pieces), origins
