"""The base of all settings, and how settings are read and laid over each other."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from cxrflow.errors import InputError
from cxrflow.files.yaml_file import dotted, read_yaml, refuse_unwritable

SettingsT = TypeVar("SettingsT", bound=BaseModel)

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"  # of what is a part of paths, patterns and options
# Settings that change no result of a run that reaches its end: how often something is logged or
# saved, how much damage is too much.
OPERATIONS = ("log_steps", "save_minutes", "max_failed_share")
MOST_CORES = 1024  # of one machine: more is a slip of the keyboard

#: What seeds a generator: numpy's take 32 bits.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Settings(BaseModel):
    """Base of all settings: unknown keys are errors, values never change, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def explain(error: ValidationError, source: str) -> str:
    """Turn pydantic's errors into lines that name the source, the key, the value and the wish."""
    return "\n".join(problem(item, source, item["loc"]) for item in error.errors())


def problem(item: ErrorDetails, source: str, place: Sequence[str | int]) -> str:
    """One of pydantic's errors as a line; ``place``: its key."""
    key, message = dotted(place), item["msg"].removeprefix("Value error, ")
    if item["type"] == "extra_forbidden":
        return f"{source}: unknown key '{key}'"
    if item["type"] == "missing":
        return f"{source}: key '{key}' is missing"
    if item["type"] == "value_error":
        return f"{source}: key '{key}': {message}"
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] == NAME:
        message = "expected a name of letters, digits, _ and -"
    return f"{source}: key '{key}' is {_shown(item['input'])}: {message}"


def _shown(value: Any) -> str:
    """A value as an error shows it."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 200 else f"{text[:200]}..."


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` laid over ``below``: mappings merge key by key, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[key] = overlay(old, value)
        else:
            merged[key] = value
    return merged


def deciding_settings(values: Any) -> Any:
    """Settings without those that change no result, at any depth (:data:`OPERATIONS`)."""
    if isinstance(values, Mapping):
        return {k: deciding_settings(v) for k, v in values.items() if k not in OPERATIONS}
    return values


def read_settings(source: str, kind: type[SettingsT]) -> SettingsT:
    """Read ``source`` (YAML file, or inline JSON starting with a brace) as ``kind``."""
    if source.lstrip().startswith("{"):
        name = "settings"
        try:
            values: Any = json.loads(source)
            refuse_unwritable(values)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{name}: not valid JSON ({error})") from None
    else:
        path = Path(source)
        if not path.is_file():
            raise InputError(f"{path}: settings file not found")
        name, values = str(path), read_yaml(path)
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, name)) from None
