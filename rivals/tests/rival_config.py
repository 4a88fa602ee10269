"""The configuration of a rival's paper file, as its tests read it."""

from pathlib import Path
from typing import Any

import yaml

from cxrflow.config import make_config

TOP = Path(__file__).parents[2]


def config_of(rival: str, scale: str, *beside: str, **more: Any) -> Any:
    """All rows of a rival at a scale, beside others, with further keys of the configuration."""
    file = TOP / "config.yaml"
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    papers = [str(TOP / f"rivals/{name}.yaml") for name in (rival, *beside)]
    changed = {"papers": papers, "scale": scale, "extent": "all"}
    return make_config({**values, **changed, **more}, [file])
