"""Training data of a small entity tagger: files of tagged sentences, and spans from tags.

A sentence is a line ``# text = ...``, a line ``token<tab>tag`` for each of its tokens, and a blank
line. Tags are BIOES; tokens stand in the text literally and in order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cxr_files.atomic import read_text
from cxr_files.errors import InputError
from cxrflow.reports.entities.taggers import TYPES

TEXT = "# text = "
TAGS = frozenset({"O", *(f"{place}-{name}" for place in "BIES" for name in TYPES)})
Span = tuple[str, int, int]  # type, first character, end


@dataclass(frozen=True)
class TaggedSentence:
    """A sentence, its tokens with their first characters, and a tag a token."""

    text: str
    tokens: tuple[str, ...]
    starts: tuple[int, ...]
    tags: tuple[str, ...]

    def spans(self) -> list[Span]:
        """The entities that the tags name."""
        spans, first = [], 0
        for start, token, tag in zip(self.starts, self.tokens, self.tags, strict=True):
            if tag[0] in "BS":
                first = start
            if tag[0] in "ES":
                spans.append((tag[2:], first, start + len(token)))
        return spans


def read_tagged(path: str | Path) -> list[TaggedSentence]:
    """Read a file's sentences; raise :class:`InputError` with the line that is malformed."""
    path = Path(path)
    lines = read_text(path).splitlines()
    sentences = [_sentence(path, *block) for block in _blocks(lines)]
    if not sentences:
        raise InputError(f"{path}: no sentence in it")
    return sentences


def _blocks(lines: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Runs of lines without a blank one, each with the number of its first line."""
    block: list[str] = []
    for number, line in enumerate([*lines, ""], 1):
        if line:
            block.append(line)
        elif block:
            yield number - len(block), block
            block = []


def _sentence(path: Path, first: int, block: list[str]) -> TaggedSentence:
    if not block[0].startswith(TEXT):
        raise InputError(f"{path}:{first}: no sentence; expected '{TEXT}' and its text")
    text, tokens, starts, tags = block[0].removeprefix(TEXT), [], [], []
    end = 0
    for number, line in enumerate(block[1:], first + 1):
        token, _, tag = line.partition("\t")
        if tag not in TAGS:
            raise InputError(f"{path}:{number}: tag {tag!r}; expected O or BIES-TYPE after a tab")
        start = text.find(token, end)
        if start < 0:
            raise InputError(f"{path}:{number}: the token is not in the rest of its sentence")
        tokens.append(token)
        starts.append(start)
        tags.append(tag)
        end = start + len(token)
    return TaggedSentence(text, tuple(tokens), tuple(starts), tuple(tags))


def span_scores(
    reference: Sequence[Sequence[Span]], predicted: Sequence[Sequence[Span]]
) -> dict[str, dict[str, float | int | None]]:
    """Precision, recall and F1 of exact spans over all sentences, for ``all`` and each type.

    A number that is not defined (no entity of a type on one side) is None.
    """
    scores: dict[str, dict[str, float | int | None]] = {}
    for name in ("all", *TYPES):

        def chosen(spans: Sequence[Sequence[Span]], name: str = name) -> set[tuple[int, Span]]:
            numbered = ((n, span) for n, row in enumerate(spans) for span in row)
            return {(n, span) for n, span in numbered if name in ("all", span[0])}

        targets, predictions = chosen(reference), chosen(predicted)
        common, total = len(targets & predictions), len(targets) + len(predictions)
        scores[name] = {
            "precision": common / len(predictions) if predictions else None,
            "recall": common / len(targets) if targets else None,
            "f1": 2 * common / total if total else None,
            "n": len(targets),
        }
    return scores
