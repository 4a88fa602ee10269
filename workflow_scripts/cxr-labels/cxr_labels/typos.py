"""Spelling corrections for single studies.

From the public list for MIMIC-CXR that BioViL-T points to (appendix E, footnote): the dictionary
``{"s5…": [["wrong", "right"], …]}`` in that fork's section_parser.py, which is read and never run.
A correction applies to whole words, whatever their case, and before the report is cut into
sections.
"""

import ast
import re
from pathlib import Path

from cxr_files.errors import InputError


class TypoList:
    """Corrections by study; a study without any is returned as it is."""

    def __init__(self, corrections: dict[str, dict[str, str]]):
        self._corrections = corrections

    def __len__(self) -> int:
        return sum(len(words) for words in self._corrections.values())

    def correct(self, study_id: str, text: str) -> tuple[str, int]:
        """Return the corrected text and the number of changes."""
        words = self._corrections.get(study_id)
        if not words:
            return text, 0
        longest_first = sorted(words, key=len, reverse=True)
        pattern = r"(?<!\w)(?:" + "|".join(map(re.escape, longest_first)) + r")(?!\w)"

        def right(match: re.Match[str]) -> str:
            # A dotless i matches "i" without regard to case, but is not its lower case.
            return words.get(match[0].lower(), match[0])

        return re.subn(pattern, right, text, flags=re.IGNORECASE)


def read_typo_list(path: str | Path) -> TypoList:
    """The corrections in a Python source file."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
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
    return TypoList(corrections)


def _pairs(value: ast.expr) -> dict[str, str]:
    """``[["wrong", "right"], …]`` as a dictionary; anything else is empty."""
    try:
        pairs = ast.literal_eval(value)
        return {wrong.lower(): right for wrong, right in pairs}
    except (ValueError, TypeError, AttributeError):
        return {}
