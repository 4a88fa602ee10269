"""A table of many lines that the browser filters, sorts and writes as CSV, without a library."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from markupsafe import Markup


@dataclass(frozen=True)
class LivingColumn:
    """A column: its head, or none where it is not shown, and its name in the CSV, or none.

    ``by`` is the place of the numbers that sort it; of one with ``pick`` a value can be chosen.
    """

    head: str = ""
    csv: str = ""
    by: int | None = None
    pick: bool = False


def living_table(
    columns: Sequence[LivingColumn], lines: Sequence[Sequence[str | float | None]], file: str
) -> dict[str, Any]:
    """The content for the script: each text stands once, in a line its place among the texts.

    A number stands in a list of one. ``file`` is the name of the CSV.
    """
    texts: dict[str, int] = {}
    rows = [
        [
            texts.setdefault(entry, len(texts)) if isinstance(entry, str) else [entry]
            for entry in line
        ]
        for line in lines
    ]
    described = [
        {key: value for key, value in asdict(column).items() if value not in ("", None, False)}
        for column in columns
    ]
    return {"columns": described, "texts": list(texts), "rows": rows, "file": file}


def json_text(value: Any) -> Markup:
    """JSON for a script element, which no text in it can end."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))
