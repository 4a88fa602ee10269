"""Phrases and words of the labelling engines, of headings, and of MIMIC-CXR's section parser."""

from pathlib import Path
from typing import Any

from cxr_files.yaml_file import read_yaml


def read_rules(name: str) -> dict[str, Any]:
    """Read ``<name>.yaml`` of this folder."""
    return read_yaml(Path(__file__).parent / f"{name}.yaml")
