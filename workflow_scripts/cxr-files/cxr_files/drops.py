"""Accounts of what a stage leaves out and why.

A drop is damage (``failed``: a row or file that cannot be read) or choice (a view that the settings
leave out). Only damage counts against the limit.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cxr_files.errors import InputError
from cxr_files.ids import shown

EXAMPLES = 5  # ids or places kept of each reason


def printable(name: str) -> str:
    """Return a file name that can be written; names that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Drop:
    """The number left out for one reason, with examples; ``part`` is the split."""

    reason: str
    count: int
    examples: tuple[str, ...] = ()
    failed: bool = False
    part: str | None = None

    @classmethod
    def of(
        cls, reason: str, ids: Iterable[object], failed: bool = False, part: str | None = None
    ) -> "Drop":
        """Make the drop of these ids."""
        names = [printable(str(name)) for name in ids]
        return cls(reason, len(names), tuple(names[:EXAMPLES]), failed, part)

    def as_json(self) -> dict[str, Any]:
        """Return the drop as it is written everywhere; ``part`` only if there is one.

        Examples only where ids may be named (:mod:`cxr_files.ids`).
        """
        values = asdict(self) | {"examples": shown(self.examples)}
        return {key: value for key, value in values.items() if value is not None}

    def counted(self) -> dict[str, Any]:
        """Return the drop without examples, for files that must not name patients."""
        return {key: value for key, value in self.as_json().items() if key != "examples"}


class Tally:
    """A step of a stage: the number it keeps, and the drops by reason.

    ``name``: of the step; ``unit``: what is counted.
    """

    def __init__(self, name: str, unit: str, count: int = 0, drops: Iterable[Drop] = ()) -> None:
        self.name, self.unit, self.kept = name, unit, count
        self._drops: dict[tuple[str, bool], Drop] = {}
        for drop in drops:
            self.add(drop)

    def add(self, drop: Drop) -> None:
        """Add a drop to those with the same reason."""
        key = (drop.reason, drop.failed)
        if drop.count:
            old = self._drops.get(key, Drop(drop.reason, 0))
            examples = (*old.examples, *drop.examples)[:EXAMPLES]
            self._drops[key] = Drop(drop.reason, old.count + drop.count, examples, drop.failed)

    def drop(self, reason: str, ids: Iterable[object], failed: bool = False) -> None:
        """Count a drop for each of ``ids``."""
        self.add(Drop.of(reason, ids, failed))

    @property
    def drops(self) -> list[Drop]:
        """The drops in the order of their first occurrence."""
        return list(self._drops.values())

    @property
    def failed(self) -> int:
        """The number dropped as damaged."""
        return sum(drop.count for drop in self.drops if drop.failed)

    def as_json(self) -> dict[str, Any]:
        """Return the step as it is in flow.json and corpus.json."""
        dropped = [drop.as_json() for drop in self.drops]
        return {"name": self.name, "unit": self.unit, "kept": self.kept, "dropped": dropped}

    def require_few(
        self, source: str | Path, share: float, setting: str = "max_failed_share"
    ) -> None:
        """Raise InputError if damage exceeds a share of all that came in.

        Args:
            source: the file or folder that is damaged, named in the error.
            setting: what the share is called.
        """
        total = self.kept + sum(drop.count for drop in self.drops)
        if self.failed > share * total:
            worst = max((drop for drop in self.drops if drop.failed), key=lambda drop: drop.count)
            raise InputError(
                f"{source}: {self.failed} of {total} {self.unit} failed at '{self.name}', more "
                f"than {setting} {share:g} allows; most often ({worst.count}): {worst.reason}"
                + (f", e.g. {', '.join(worst.examples[:2])}" if worst.examples else "")
            )
