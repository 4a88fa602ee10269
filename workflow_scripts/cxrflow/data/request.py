"""What a cohort asks of a reader, so that no more files are opened than it needs."""

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """Attributes:
    threads: processes or threads for work a file.
    headers: open the image files' headers (view, date, size, damage) where the lists lack these.
    images: only these image ids matter; None for all.
    """

    threads: int = 1
    headers: bool = True
    images: Set[str] | None = None
