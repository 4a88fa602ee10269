"""The account of a cohort: how many each filter kept and dropped, and why (``flow.json``)."""

from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from cxrflow.data.tables import Drop
from cxrflow.errors import InputError

Unit = Literal["studies", "images", "patients", "samples", "boxes"]


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
        drops = [drop for drop in dropped if drop.count]
        self.steps.append(
            {
                "name": name,
                "unit": unit,
                "kept": int(kept),
                "dropped": [{key: value for key, value in asdict(drop).items()} for drop in drops],
            }
        )
        failed = [drop for drop in drops if drop.failed]
        total = kept + sum(drop.count for drop in drops)
        count = sum(drop.count for drop in failed)
        if count > self.max_failed_share * total:
            worst = max(failed, key=lambda drop: drop.count)
            raise InputError(
                f"{self.source}: {count} of {total} {unit} failed at '{name}' "
                f"({100 * count / total:.1f} %, max_failed_share allows "
                f"{100 * self.max_failed_share:g} %); most often: {worst.reason}, "
                f"e.g. {', '.join(worst.examples[:2])}"
            )

    def check(self, name: str, detail: str) -> None:
        """Record a check that was passed; one that is not raises where it is made."""
        self.checks.append({"name": name, "passed": True, "detail": detail})
