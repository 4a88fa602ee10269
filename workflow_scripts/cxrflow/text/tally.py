"""Counts of what a reader kept and dropped, with reasons and a few ids, for corpus.json."""

from collections.abc import Iterable
from typing import Any

_EXAMPLES = 5


class Tally:
    """One step of a reader: so many kept, so many dropped for each reason."""

    def __init__(self, name: str, unit: str) -> None:
        self.name = name
        self.unit = unit
        self.kept = 0
        self._dropped: dict[str, tuple[int, list[str]]] = {}

    def drop(self, reason: str, ids: Iterable[object]) -> None:
        """Count one dropped item for each of ``ids``."""
        count, examples = self._dropped.get(reason, (0, []))
        for item in ids:
            count += 1
            if len(examples) < _EXAMPLES:
                examples.append(str(item))
        if count:
            self._dropped[reason] = (count, examples)

    def dropped(self, reason: str) -> int:
        """How many were dropped for ``reason``."""
        return self._dropped.get(reason, (0, []))[0]

    def as_json(self) -> dict[str, Any]:
        """The shape of a step in flow.json."""
        return {
            "name": self.name,
            "unit": self.unit,
            "kept": self.kept,
            "dropped": [
                {"reason": reason, "count": count, "examples": examples}
                for reason, (count, examples) in self._dropped.items()
            ],
        }
