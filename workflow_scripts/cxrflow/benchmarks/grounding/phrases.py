"""Phrases as they are given to a text encoder for grounding, and whether it has learnt them."""

import re
from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.text.sentences import sentences_of

SECTIONS = ("findings", "impression")


def plain_phrases(phrases: list[str], strip_punctuation: bool) -> list[str]:
    """The phrases, without . ! ? at their ends if asked: released BioViL code leaves these out.

    A phrase of nothing else stays as it is.
    """
    if not strip_punctuation:
        return phrases
    return [phrase.rstrip(".!? \t\n") or phrase for phrase in phrases]


def verbatim(phrases: Iterable[str], reports: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which phrases [N] are sentences of the reports; case and punctuation do not count."""
    sentences = {
        _words(sentence)
        for section in SECTIONS
        for report in sentences_of(reports, section)
        for sentence in report
    }
    return np.array([_words(phrase) in sentences for phrase in phrases])


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))
