"""A tokenizer written anew beside exported or imported weights, which goes on cleaning texts."""

from pathlib import Path

from cxrflow.text.cleaned_reports import clean_in_tokenizer
from cxrflow.text.tokenizer import read_tokenizer, rewrite_tokenizer


def rewrite_with_cleaning(source: Path, target: Path) -> None:
    """Write the tokenizer of ``source`` to ``target``; it cleans texts if that of ``source`` does.

    Raises:
        InputError: as :func:`rewrite_tokenizer`.
    """
    rewrite_tokenizer(source, target)
    if cleans(source):
        clean_in_tokenizer(target)


def cleans(folder: Path) -> bool:
    """True if the tokenizer of a folder cleans texts as MGCA's reports are cleaned."""
    normaliser = read_tokenizer(folder).normalizer
    return normaliser is not None and normaliser.normalize_str("a;b") == "a b"
