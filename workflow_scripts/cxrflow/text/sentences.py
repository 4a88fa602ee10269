"""The sentences of a report's section, as the table of pairs holds them."""

import unicodedata
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.errors import InputError


def sentences_of(pairs: pd.DataFrame, section: str) -> list[list[str]]:
    """The section's sentences of every row; a text without a list counts as one sentence."""
    if f"{section}_sentences" not in pairs.columns and section not in pairs.columns:
        raise InputError(f"pairs: columns '{section}_sentences' and '{section}' are both missing")
    empty: list[Any] = [None] * len(pairs)
    lists = pairs.get(f"{section}_sentences", empty)
    texts = pairs.get(section, empty)
    sentences_by_row: list[list[str]] = []
    for sentences, text in zip(lists, texts, strict=True):
        if isinstance(sentences, list | tuple | np.ndarray) and len(sentences):
            sentences_by_row.append([str(sentence) for sentence in sentences])
        else:
            sentences_by_row.append([text] if isinstance(text, str) and text.strip() else [])
    return sentences_by_row


def has_text(sentences: list[str]) -> bool:
    """True if a character survives BERT's cleaning: no control, blank or bare accent."""
    return any(
        unicodedata.category(character)[0] not in "CZM" and character != "\ufffd"
        for sentence in sentences
        for character in sentence
    )
