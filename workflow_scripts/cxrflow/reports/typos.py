"""Spelling corrections for single studies, from a list: study_id,wrong,right.

A public list of this kind exists for MIMIC-CXR (BioViL-T points to it). A correction applies to
whole words, whatever their case, and before the report is cut into sections.
"""

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
        """Read a CSV with the columns study_id (with or without 's'), wrong and right."""
        path = Path(path)
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
        return re.subn(pattern, lambda m: words[m.group().lower()], text, flags=re.IGNORECASE)
