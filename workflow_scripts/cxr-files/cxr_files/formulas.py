"""Texts that a spreadsheet would compute, and how a CSV keeps them as texts."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.])")  # what a spreadsheet computes begins so


def inert(texts: "pd.Series") -> "pd.Series":
    """Escape texts for a CSV: an apostrophe before what a spreadsheet takes for a formula."""
    formula = texts.str.match(FORMULA.pattern, na=False)
    return texts.where(~formula, "'" + texts)
