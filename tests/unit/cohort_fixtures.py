"""The cohort program as tests call it, its table, and a step of what it counts."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from cxrflow.data.cohorts.build_cohort import main


def make(output: Path, *options: object, **settings: object) -> dict[str, Any]:
    main([*map(str, options), "--settings", json.dumps(settings), "--output", str(output)])
    flow: dict[str, Any] = json.loads((output / "flow.json").read_text())
    return flow


def cohort(
    output: Path, *options: object, index: str | None = None, **settings: object
) -> tuple[dict[str, Any], pd.DataFrame]:
    """flow.json, and the table of pairs or of samples."""
    flow = make(output, *options, **settings)
    kind = "pairs" if settings.get("kind", "pairs") == "pairs" else "samples"
    rows = pd.read_parquet(output / f"{kind}.parquet")
    return flow, rows if index is None else rows.set_index(index)


def step(flow: dict[str, Any], name: str, unit: str) -> tuple[int, dict[str, int]]:
    found = next(s for s in flow["steps"] if s["name"] == name and s["unit"] == unit)
    return found["kept"], {drop["reason"]: drop["count"] for drop in found["dropped"]}


def dropped(flow: dict[str, Any], *names: str) -> dict[str, int]:
    """What the steps of these names, or all, have left out, by reason."""
    steps = [step for step in flow["steps"] if not names or step["name"] in names]
    assert steps, f"no step is called {names}"
    return {drop["reason"]: drop["count"] for step in steps for drop in step["dropped"]}
