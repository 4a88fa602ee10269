"""The base of all settings: how they are read, laid over each other and recorded.

A *record* is what is compared to decide whether a result is still that of its settings: Snakemake's
``params``, ``run.json``, the identity of a training. It must stay the same when a field is added
whose default changes nothing, and must change for whoever uses a default that becomes another. So a
record leaves out a field that has the value of before the field existed (:class:`Before`), whatever
its default is today, and holds every other value. Read back, what it leaves out has that value
again. Programs receive all values, not a record: nothing they are given depends on a default.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_serializer,
    model_validator,
)
from pydantic_core import ErrorDetails

from cxr_files.errors import InputError
from cxr_files.reading import dotted, refuse_unwritable
from cxr_files.yaml_file import read_yaml

SettingsT = TypeVar("SettingsT", bound=BaseModel)

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"  # of what is a part of paths, patterns and options
# Settings that change no result of a run that reaches its end: how often something is logged or
# saved, how much damage is too much.
OPERATIONS = ("log_steps", "save_minutes", "max_failed_share")
MOST_CORES = 1024  # of one machine: more is a slip of the keyboard

#: What seeds a generator: numpy's take 32 bits.
Seed = Annotated[int, Field(ge=0, lt=2**32)]

RECORD: Final = "record"  # pydantic's context while a record is written or read
EFFECT: Final = "effect"  # the same of what settings do


@dataclass(frozen=True)
class Before:
    """Marks a field that came later: with ``value`` results are those of before the field existed.

    Without the mark that value is None. It never changes, even if the field's default does.
    """

    value: Any


@cache
def _values_before(cls: type[BaseModel]) -> dict[str, Any]:
    """The value of before, of each field that may be absent from a record."""
    values = {}
    for name, field in cls.model_fields.items():
        marks = [mark.value for mark in field.metadata if isinstance(mark, Before)]
        if marks or NoneType in get_args(field.annotation):
            values[name] = marks[0] if marks else None
    return values


@cache
def _numeric(cls: type[BaseModel]) -> frozenset[str]:
    """The fields that hold numbers and no truth values."""
    leaves = {name: set(_leaves(field.annotation)) for name, field in cls.model_fields.items()}
    return frozenset(
        name for name, types in leaves.items() if types & {int, float} and bool not in types
    )


def _leaves(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of."""
    arguments = get_args(annotation)
    if not arguments:
        yield annotation
    for argument in arguments:
        yield from _leaves(argument)


def _holds_truth(value: Any) -> bool:
    """True if a value is true or false, or a list or mapping with one."""
    if isinstance(value, Mapping):
        return any(map(_holds_truth, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_holds_truth, value))
    return isinstance(value, bool)


class Settings(BaseModel):
    """Base of all settings: unknown keys are errors, values never change, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    def record(self, **selection: Any) -> dict[str, Any]:
        """The plain values that tell these settings from others; ``selection`` as `model_dump`."""
        return self.model_dump(mode="json", context=RECORD, **selection)

    def effect(self) -> dict[str, Any]:
        """Plain values that two settings share if all they do is the same."""
        effect: dict[str, Any] = deciding_settings(self.model_dump(mode="json", context=EFFECT))
        return effect

    @property
    def own_effect(self) -> dict[str, Any]:
        """By field what its value comes to, where several values come to the same."""
        return {}

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        values: dict[str, Any] = dump(self) | (self.own_effect if info.context == EFFECT else {})
        before = _values_before(type(self)) if info.context == RECORD else {}
        return {
            name: value
            for name, value in values.items()
            if name not in before or getattr(self, name) != before[name]
        }

    @model_validator(mode="before")
    @classmethod
    def _restore(cls, values: Any, info: ValidationInfo) -> Any:
        """Give a field that is not in a record its value of before, not its default.

        Where a number is expected, true and false are errors, which pydantic takes for 1 and 0.
        """
        if not isinstance(values, Mapping):
            return values
        for name in _numeric(cls) & values.keys():
            if _holds_truth(values[name]):
                raise ValueError(
                    f"'{name}' is {shown(values[name])}; expected numbers, not true or false"
                )
        if info.context != RECORD:
            return values
        return _values_before(cls) | dict(values)


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
    if item["type"] in ("value_error", "kind"):
        return f"{source}: key '{key}': {message}" if place else f"{source}: {message}"
    if item["type"] == "string_pattern_mismatch" and item["ctx"]["pattern"] == NAME:
        message = "expected a name of letters, digits, _ and -"
    return f"{source}: key '{key}' is {shown(item['input'])}: {message}"


def shown(value: Any) -> str:
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


def from_record(kind: Any, values: Mapping[str, Any], source: str) -> Any:
    """Settings of class or union ``kind`` from what a program wrote down, perhaps long ago.

    Raises:
        InputError: a line for each key that is missing or wrong, with the name of the ``source``.
    """
    try:
        return TypeAdapter(kind).validate_python(values, context=RECORD)
    except ValidationError as error:
        raise InputError(explain(error, source)) from None


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
