"""What every program of the workflow shares: arguments, settings, logging, errors.

A program is ``python -m cxrflow.<package>.<module>``. It reads its settings from ``--settings``,
either the path of a YAML file or inline JSON (what the Snakemake rules pass), and takes paths as
named options. Bad input ends it with one line and exit code 2.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cxrflow.errors import InputError, InterruptedRun

SettingsT = TypeVar("SettingsT", bound=BaseModel)
log = logging.getLogger("cxrflow")


class Settings(BaseModel):
    """Base of every settings class: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def explain(error: ValidationError, source: str) -> str:
    """Turn pydantic's errors into lines that name the source, the key, the value and the wish."""
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"]) or "(top level)"
        if item["type"] == "extra_forbidden":
            lines.append(f"{source}: unknown key '{key}'")
        elif item["type"] == "missing":
            lines.append(f"{source}: key '{key}' is missing")
        else:
            lines.append(f"{source}: key '{key}' is {item['input']!r}: {item['msg']}")
    return "\n".join(lines)


def read_settings(source: str, kind: type[SettingsT]) -> SettingsT:
    """Read ``source`` (YAML file, or inline JSON starting with a brace) as ``kind``."""
    if source.lstrip().startswith("{"):
        values: Any = json.loads(source)
        name = "settings"
    else:
        path = Path(source)
        if not path.is_file():
            raise InputError(f"{path}: settings file not found")
        values, name = yaml.safe_load(path.read_text(encoding="utf-8")) or {}, str(path)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, name)) from None


def parser(description: str | None) -> argparse.ArgumentParser:
    """An argument parser with ``--settings``; the description is the module's docstring."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--settings", default="{}", help="YAML file, or inline JSON; see docs/configuration.md"
    )
    return made


def run(main: Callable[[Sequence[str] | None], None]) -> None:
    """Run a program's ``main``: log to stderr, print user errors as one line, exit with a code."""
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    try:
        main(None)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except InterruptedRun as error:
        print(f"interrupted: {error}", file=sys.stderr)
        sys.exit(75)
