"""Spelling corrections for single studies.

From a CSV with study_id,wrong,right, or from the public list for MIMIC-CXR that BioViL-T points to
(appendix E, footnote): the dictionary ``{"s5…": [["wrong", "right"], …]}`` in that fork's
section_parser.py, which is read and never run. A correction applies to whole words, whatever
their case, and before the report is cut into sections.
"""

import ast
import csv
import re
from pathlib import Path

from cxrflow.errors import InputError

COLUMNS = ("study_id", "wrong", "right")


class TypoList:
    """Corrections by study; a study without any is returned as it is."""

    def __init__(self, corrections: dict[str, dict[str, str]]):
        self._corrections = corrections

    def __len__(self) -> int:
        return sum(len(words) for words in self._corrections.values())

    @classmethod
    def read(cls, path: str | Path) -> "TypoList":
        """Read a CSV (study_id with or without 's', wrong, right) or a Python source file."""
        path = Path(path)
        if path.suffix == ".py":
            return cls(_corrections_in_source(path))
        corrections: dict[str, dict[str, str]] = {}
        try:
            with open(path, encoding="utf-8", newline="") as handle:
                rows = csv.DictReader(handle)
                for column in COLUMNS:
                    if column not in (rows.fieldnames or ()):
                        raise InputError(f"{path}: column '{column}' is missing")
                for number, row in enumerate(rows, start=2):
                    study, wrong, right = ((row[c] or "").strip() for c in COLUMNS)
                    if not study or not wrong:
                        raise InputError(f"{path}: line {number}: study_id or wrong is empty")
                    corrections.setdefault(study.removeprefix("s"), {})[wrong.lower()] = right
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path}: cannot read the typo list ({error})") from None
        return cls(corrections)

    def correct(self, study_id: str, text: str) -> tuple[str, int]:
        """The text with its study's corrections made, and how many places changed."""
        words = self._corrections.get(study_id)
        if not words:
            return text, 0
        longest_first = sorted(words, key=len, reverse=True)
        pattern = r"(?<!\w)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\w)"

        def right(found: re.Match[str]) -> str:
            # A dotless i matches "i" without regard to case, but is not its lower case.
            return words.get(found[0].lower(), found[0])

        return re.subn(pattern, right, text, flags=re.IGNORECASE)


def _corrections_in_source(path: Path) -> dict[str, dict[str, str]]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path}: cannot read the typo list ({error})") from None
    corrections: dict[str, dict[str, str]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Dict):
            continue
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant) and re.fullmatch(r"s\d{8}", str(key.value)):
                words = _pairs(value)
                if words:
                    corrections.setdefault(str(key.value)[1:], {}).update(words)
    if not corrections:
        raise InputError(f"{path}: holds no corrections (like 's50000000': [['wrong', 'right']])")
    return corrections


def _pairs(value: ast.expr) -> dict[str, str]:
    """``[["wrong", "right"], …]`` as a dictionary; anything else is empty."""
    try:
        pairs = ast.literal_eval(value)
        return {wrong.lower(): right for wrong, right in pairs}
    except (ValueError, TypeError, AttributeError):
        return {}
