"""Reports as MGCA's published code cleans them, and a tokenizer that cleans texts alike.

IMPRESSION and FINDINGS are one text. It is split at full stops and at list numbers, which are
numbers with a full stop; so a number with a decimal point is split, too. A sentence is its words in
lower case, made of letters, digits and underscores. A sentence of a single word is dropped.
"""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tokenizers import Regex, normalizers

from cxrflow.text.tokenizer import read_tokenizer, rewrite_tokenizer

FEWEST_WORDS = 3  # of a report that is read
_BORDERS = re.compile(r"[0-9]+\.|\.")
_WORDS = re.compile(r"\w+")


class CleanedSentence(NamedTuple):
    """A sentence as a model reads it, and as it was written: a labeller needs its commas."""

    cleaned: str
    written: str


def cleaned_sentences(sections: Iterable[object]) -> list[CleanedSentence]:
    """The sentences of a report, of its sections in this order; what is no text is left out."""
    report = " ".join(text for text in sections if isinstance(text, str))
    sentences = []
    for written in _BORDERS.split(report):
        words = _WORDS.findall(written.lower())
        if len(words) > 1 and (cleaned := _in_ascii(words)):
            sentences.append(CleanedSentence(cleaned, written.strip()))
    return sentences


def cleaned_words(text: str) -> str:
    """The words of a text in lower case, without what is not ASCII."""
    return _in_ascii(_WORDS.findall(text.lower()))


def _in_ascii(words: Iterable[str]) -> str:
    in_ascii = (word.encode("ascii", "ignore").decode("ascii") for word in words)
    return " ".join(filter(None, in_ascii))


def count_words(sentences: Iterable[CleanedSentence]) -> int:
    """The words of cleaned sentences."""
    return sum(len(sentence.cleaned.split()) for sentence in sentences)


def clean_in_tokenizer(folder: Path) -> None:
    """Let the tokenizer of ``folder`` clean texts, so that prompts are read as reports were.

    It does not split a text into sentences, so it drops none.
    """
    tokenizer = read_tokenizer(folder)
    steps = [
        normalizers.Lowercase(),
        normalizers.Replace(Regex(r"[^\w]+"), " "),
        normalizers.Replace(Regex(r"[^\x00-\x7f]"), ""),
    ]
    tokenizer.normalizer = normalizers.Sequence([*steps, tokenizer.normalizer])
    tokenizer.save(str(folder / "tokenizer.json"))


def rewrite_with_cleaning(source: Path, target: Path) -> None:
    """Write the tokenizer of ``source`` to ``target``; it cleans texts if that of ``source`` does.

    Raises:
        InputError: as :func:`rewrite_tokenizer`.
    """
    rewrite_tokenizer(source, target)
    normaliser = read_tokenizer(source).normalizer
    if normaliser is not None and normaliser.normalize_str("a;b") == "a b":
        clean_in_tokenizer(target)
