"""Texts that a spreadsheet would compute, and how a CSV keeps them as texts."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# What a spreadsheet computes begins so; -1+cmd|… is a formula, -1 is a number.
FORMULA = re.compile(r"[=@\t\r]|[+-](?!(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$)")


def inert(texts: "pd.Series") -> "pd.Series":
    """Escape texts for a CSV: an apostrophe before what a spreadsheet takes for a formula."""
    return texts.map(inert_text, na_action="ignore")


def inert_text(text: str) -> str:
    """Escape one text."""
    return f"'{text}" if FORMULA.match(text) else text
