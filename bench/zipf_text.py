"""Invented text for the text races: words of syllables, used as often as Zipf's law says.

The law is what matters: most of a text is a few thousand words, and new words never stop coming, so
that the number of distinct words grows with the text (about 0.9 million in 150 MB).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cxrflow.text.documents import DocumentWriter

_CONSONANTS = ["", *"bcdfghklmnprstvz", "st", "tr", "pl", "ph", "th", "ch"]
_VOWELS = [*"aeiou", "ia", "eo", "ou"]
_ENDS = ["", "", "", "n", "r", "s", "l", "m", "x", "t"]
_BATCH = 1 << 18  # words drawn at once
_WORDS_PER_SENTENCE = 14
_SENTENCES_PER_DOCUMENT = 10


def lexicon(words: int, rng: np.random.Generator) -> list[str]:
    """``words`` different words, one to three syllables; the first are the short ones."""
    syllables = np.array([c + v + e for c in _CONSONANTS for v in _VOWELS for e in _ENDS])
    found: dict[str, None] = {}
    while len(found) < words:
        count = 1 if len(found) < 200 else 2 if len(found) < 5000 else 3
        drawn = rng.choice(syllables, (max(200, words // 20), count))
        found.update(dict.fromkeys(map("".join, drawn.tolist())))
    return list(found)[:words]


def documents(
    characters: int, seed: int = 0, words: int = 1_100_000, exponent: float = 1.05
) -> Iterator[str]:
    """Documents of about 1,000 characters on one line each, until ``characters`` are reached.

    Sentences begin with a capital and end with a full stop; some words are followed by a comma and
    some are numbers, as in a report. The share of word number r is proportional to r^-``exponent``.
    """
    rng = np.random.default_rng(seed)
    names = np.array(lexicon(words, rng), dtype=object)
    share = np.cumsum(np.arange(1, words + 1) ** -exponent)
    share /= share[-1]
    length = _WORDS_PER_SENTENCE * _SENTENCES_PER_DOCUMENT
    made = 0
    while made < characters:
        drawn = names[np.searchsorted(share, rng.random(_BATCH))]
        numbers = np.flatnonzero(rng.random(_BATCH) < 0.01)
        drawn[numbers] = [f"{value:.1f}" for value in rng.exponential(20, len(numbers))]
        commas = np.flatnonzero(rng.random(_BATCH) < 0.04)
        drawn[commas] = [word + "," for word in drawn[commas]]
        for start in range(0, _BATCH - length + 1, length):
            text = drawn[start : start + length].tolist()
            sentences = (
                " ".join(text[i : i + _WORDS_PER_SENTENCE]).capitalize() + "."
                for i in range(0, length, _WORDS_PER_SENTENCE)
            )
            document = " ".join(sentences)
            made += len(document) + 1
            yield document
            if made >= characters:
                return


def write_corpus(folder: Path, characters: int) -> tuple[Path, Path]:
    """The same documents twice: documents.parquet, which the programs read, and text.txt, a line
    each, which the library reads fastest."""
    parquet, text = folder / "documents.parquet", folder / "text.txt"
    with DocumentWriter(parquet) as writer, open(text, "w", encoding="utf-8") as lines:
        for number, document in enumerate(documents(characters)):
            writer.add(str(number), document)
            lines.write(document + "\n")
    return parquet, text
