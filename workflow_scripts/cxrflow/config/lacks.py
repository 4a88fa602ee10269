"""What a run lacks for a model, a task or a cell of a table, and what would give it."""

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Lack:
    """Something that is not there.

    ``reason``: what, in words. ``lines``: lines of configuration, any one of which gives it, each
    with a comment that says where such data are published; none where no configuration gives it.
    """

    reason: str
    lines: tuple[str, ...] = ()

    def or_by(self, line: str) -> "Lack":
        """The same, which this line gives as well."""
        return self if line in self.lines else Lack(self.reason, (*self.lines, line))

    @property
    def remedy(self) -> str:
        """The lines in a sentence, without their comments."""
        lines = " or ".join(f"`{line.partition('  #')[0]}`" for line in self.lines)
        return f"either {lines}" if len(self.lines) > 1 else lines

    @property
    def passed_on(self) -> str:
        """The same without the folders of this machine, as tables are passed on."""
        return re.sub(r"(?<=: )/[^}]*/", "…/", self.remedy)

    def __str__(self) -> str:
        return f"{self.reason}: {' or '.join(self.lines)}" if self.lines else self.reason


Lacks = tuple[Lack, ...]


def distinct(lacks: Iterable[Lack]) -> Lacks:
    """Each reason once, with the lines that give it wherever it is lacking."""
    merged: dict[str, Lack] = {}
    for lack in lacks:
        lines = merged.get(lack.reason, lack).lines
        merged[lack.reason] = Lack(lack.reason, tuple(line for line in lines if line in lack.lines))
    return tuple(merged.values())
