"""Reports as MGCA's published code cleans them, and a tokenizer that cleans texts alike.

IMPRESSION and FINDINGS are one text. It is split at full stops and at list numbers, which are
numbers with a full stop; so a number with a decimal point is split, too. A sentence is its words in
lower case, made of letters, digits and underscores. A sentence of a single word is dropped.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, normalizers

from cxrflow.text.tokenizer import read_tokenizer

FEWEST_WORDS = 3  # of a report that is read
_BORDERS = re.compile(r"[0-9]+\.|\.")
_WORDS = re.compile(r"\w+")


def cleaned_sentences(sections: Iterable[object]) -> list[str]:
    """The sentences of a report, of its sections in this order; what is no text is left out."""
    report = " ".join(text for text in sections if isinstance(text, str))
    sentences = []
    for sentence in _BORDERS.split(report):
        words = _WORDS.findall(sentence.lower())
        if len(words) < 2:
            continue
        in_ascii = [word.encode("ascii", "ignore").decode("ascii") for word in words]
        if cleaned := " ".join(filter(None, in_ascii)):
            sentences.append(cleaned)
    return sentences


def count_words(sentences: Iterable[str]) -> int:
    """The words of cleaned sentences."""
    return sum(len(sentence.split()) for sentence in sentences)


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
