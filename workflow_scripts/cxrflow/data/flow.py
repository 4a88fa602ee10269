"""The account of a cohort: how many each filter kept and dropped, and why (``flow.json``)."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from cxrflow.drops import Drop, Tally

Unit = Literal["studies", "images", "patients", "samples", "boxes", "labels"]


class Flow:
    """Steps, checks and notes in the order they happened."""

    def __init__(self, source: Path, max_failed_share: float) -> None:
        self.source = source
        self.max_failed_share = max_failed_share
        self.steps: list[dict[str, Any]] = []
        self.checks: list[dict[str, Any]] = []
        self.notes: list[str] = []

    def step(self, name: str, unit: Unit, kept: int, dropped: Iterable[Drop] = ()) -> None:
        """Record a filter.

        Raises:
            InputError: damage (``Drop.failed``) is above the allowed share of what came in.
        """
        tally = Tally(name, unit, int(kept), dropped)
        self.steps.append(tally.as_json())
        tally.require_few(self.source, self.max_failed_share)

    def check(self, name: str, detail: str) -> None:
        """Record a check that was passed; one that is not raises where it is made."""
        self.checks.append({"name": name, "passed": True, "detail": detail})
