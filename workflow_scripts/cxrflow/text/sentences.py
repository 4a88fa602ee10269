"""The sentences of a report's section, as the table of pairs holds them."""

import unicodedata
from typing import Any

import numpy as np
import pandas as pd

from cxrflow.errors import InputError


def sentences_of(pairs: pd.DataFrame, section: str) -> list[list[str]]:
    """The section's sentences of every row; a text without a list is one; a missing text none."""
    if f"{section}_sentences" not in pairs.columns and section not in pairs.columns:
        raise InputError(f"pairs: columns '{section}_sentences' and '{section}' are both missing")
    empty: list[Any] = [None] * len(pairs)
    lists = pairs.get(f"{section}_sentences", empty)
    texts = pairs.get(section, empty)
    found: list[list[str]] = []
    for sentences, text in zip(lists, texts, strict=True):
        if isinstance(sentences, list | tuple | np.ndarray) and len(sentences):
            found.append([str(sentence) for sentence in sentences])
        else:
            found.append([text] if isinstance(text, str) and text.strip() else [])
    return found


def has_text(sentences: list[str]) -> bool:
    """Whether anything is left once a tokenizer has cleaned: no control, blank or bare accent."""
    return any(
        unicodedata.category(character)[0] not in "CZM" and character != "\ufffd"
        for sentence in sentences
        for character in sentence
    )
