"""The cohort program as tests call it, and a step of what it counts."""

import json
from pathlib import Path
from typing import Any

from cxrflow.data.cohorts.build_cohort import main


def make(output: Path, *options: object, **settings: object) -> dict[str, Any]:
    main([*map(str, options), "--settings", json.dumps(settings), "--output", str(output)])
    flow: dict[str, Any] = json.loads((output / "flow.json").read_text())
    return flow


def step(flow: dict[str, Any], name: str, unit: str) -> tuple[int, dict[str, int]]:
    found = next(s for s in flow["steps"] if s["name"] == name and s["unit"] == unit)
    return found["kept"], {drop["reason"]: drop["count"] for drop in found["dropped"]}
