"""The settings of a table's reports, which pydantic made and checked when the page was built.

Stands in the page in place of ``cxr_labels.settings``: pydantic's core does not run there.
"""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

BUILT: dict[str, Any] = json.loads(Path(__file__).with_name("built.json").read_text("utf-8"))


class SectionSettings(SimpleNamespace):
    """How a report's text becomes sections."""


class LabellerSettings(SimpleNamespace):
    """How labels are read off a report."""


class ReportSettings(SimpleNamespace):
    """Everything that reads a report needs; of one layout, :func:`of_layout` checks which."""

    def __init__(self) -> None:
        values: dict[str, Any] = BUILT["settings"]
        sections, labels = (
            SectionSettings(**values["sections"]),
            LabellerSettings(**values["labels"]),
        )
        super().__init__(**{**values, "sections": sections, "labels": labels})

    def of_layout(self, layout: str) -> "ReportSettings":
        """These settings, which are those of the layout that the page was built for."""
        if layout != BUILT["layout"]:
            raise ValueError(f"layout {layout!r}; the page was built for {BUILT['layout']!r}")
        return self
