"""The rules, read from YAML when the page was built.

Stands in the page in place of ``cxr_labels.rules``: JSON is read there in a hundredth of the time.
"""

import json
from pathlib import Path
from typing import Any


def read_rules(name: str) -> dict[str, Any]:
    """What ``<name>.yaml`` holds."""
    built = Path(__file__).parents[1] / "built.json"
    rules: dict[str, Any] = json.loads(built.read_text("utf-8"))["rules"][name]
    return rules
