"""What every program of the workflow shares: arguments, settings, logging, errors.

A program is ``python -m cxrflow.<package>.<module>``. It reads its settings from ``--settings``,
either the path of a YAML file or inline JSON (what the Snakemake rules pass), and takes paths as
named options. Bad input, or a disk or file that cannot be used, ends it with one line and exit
code 2; other failures are defects and keep their traceback.
"""

import argparse
import errno
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from cxrflow.errors import InputError, InterruptedRun
from cxrflow.outputs import require_own

SettingsT = TypeVar("SettingsT", bound=BaseModel)
log = logging.getLogger("cxrflow")

# What the machine refuses, whatever the program does: no space, over quota, too large, read-only,
# may not.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
REFUSALS = (*FULL, errno.EACCES, errno.EPERM)
# Options that name what a program writes.
WRITTEN = ("output", "reasons", "state")
EXIT_INPUT = 2
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: run it again
EXIT_KEYBOARD = 128 + 2  # what a shell reports for SIGINT
EXIT_PIPE = 128 + 13  # and for SIGPIPE


class Settings(BaseModel):
    """Base of every settings class: unknown keys are errors, values never change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def explain(error: ValidationError, source: str) -> str:
    """Turn pydantic's errors into lines that name the source, the key, the value and the wish."""
    lines = []
    for item in error.errors():
        key = ".".join(str(part) for part in item["loc"]) or "(top level)"
        message = item["msg"].removeprefix("Value error, ")
        lines.append(problem(item, source, key, message))
    return "\n".join(lines)


def problem(item: ErrorDetails, source: str, key: str, message: str) -> str:
    """One of pydantic's errors as a line."""
    if item["type"] == "extra_forbidden":
        return f"{source}: unknown key '{key}'"
    if item["type"] == "missing":
        return f"{source}: key '{key}' is missing"
    if item["type"] == "value_error":
        return f"{source}: key '{key}': {message}"
    return f"{source}: key '{key}' is {item['input']!r}: {message}"


# libyaml is ten times faster; every job of the workflow reads a paper's tables.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Of a key that stands twice, PyYAML silently keeps the last; here it is an error."""

    def construct_document(self, node: yaml.Node) -> Any:
        _refuse_doubles(node, set())
        return super().construct_document(node)


def _refuse_doubles(node: yaml.Node, seen: set[int]) -> None:
    if id(node) in seen or isinstance(node, yaml.ScalarNode):
        return
    seen.add(id(node))
    keys: set[str] = set()
    for child in node.value:
        if isinstance(node, yaml.MappingNode):
            key, child = child
            name = str(key.value)
            if name in keys:
                raise yaml.MarkedYAMLError(
                    problem=f"key '{name}' stands twice", problem_mark=key.start_mark
                )
            keys.add(name)
        _refuse_doubles(child, seen)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Keys and values of a YAML file; nothing in it is no keys. Other content is an error."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = yaml.load(text, _Loader)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error})") from None
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise InputError(f"{path}: not valid YAML ({place})") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, found a {type(values).__name__}")
    return values


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


def read_settings(source: str, kind: type[SettingsT]) -> SettingsT:
    """Read ``source`` (YAML file, or inline JSON starting with a brace) as ``kind``."""
    if source.lstrip().startswith("{"):
        name = "settings"
        try:
            values: Any = json.loads(source)
        except json.JSONDecodeError as error:
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


class Parser(argparse.ArgumentParser):
    """Refuses an output that may not be written, before any work is done."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """The options; see :func:`cxrflow.outputs.require_own` for what is refused."""
        options = super().parse_args(args)
        values = vars(options)
        for name in WRITTEN:
            if values.get(name) is not None:
                others = {key: value for key, value in values.items() if key != name}
                require_own(Path(values[name]), paths(others))
        return options


def paths(options: Mapping[str, Any]) -> Iterator[Path]:
    """What options name: those of type Path, ``NAME=PATH``, and a file of settings."""
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Path):
                yield item
            elif name == "settings":
                yield from [Path(item)] if os.path.isfile(item) else []
            elif isinstance(item, str) and "=" in item:
                yield Path(item.rpartition("=")[2])


def parser(description: str | None, settings: bool = True) -> Parser:
    """An argument parser, with ``--settings``; the description is the module's docstring."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    made = Parser(
        prog=f"python -m {module.name.removesuffix('.__main__')}" if module else None,
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if settings:
        made.add_argument(
            "--settings", default="{}", help="YAML file, or inline JSON; see docs/configuration.md"
        )
    return made


def run(main: Callable[[Sequence[str] | None], None]) -> None:
    """Run a program's ``main``: log to stderr, print user errors as one line, exit with a code.

    0 done, 2 wrong input or a file that cannot be used, 75 stopped with its state saved, 130
    interrupted from the keyboard, 141 nobody reads the output, 1 a defect.
    """
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(message)s",
        datefmt="%H:%M:%S",
        stream=sys.stderr,
    )
    try:
        main(None)
        sys.stdout.flush()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(EXIT_INPUT)
    except InterruptedRun as error:
        print(f"interrupted: {error}", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        print("interrupted from the keyboard", file=sys.stderr)
        sys.exit(EXIT_KEYBOARD)
    except BrokenPipeError:
        # Whoever read our output has left; Python's own last flush must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE)
    except Exception as error:
        line = refusal(error)
        if line is None:
            raise
        print(f"error: {line}", file=sys.stderr)
        sys.exit(EXIT_INPUT)


def refusal(error: Exception) -> str | None:
    """What the machine refused, as one line with the file as far as it is known; else None.

    Libraries in Rust and C++ raise errors of their own, with the system's words but no number.
    """
    if isinstance(error, OSError) and error.errno in REFUSALS:
        names = " and ".join(str(name) for name in (error.filename, error.filename2) if name)
        return f"{names or 'writing a result'}: {error.strerror or os.strerror(error.errno)}"
    if any(os.strerror(number) in str(error) for number in FULL):
        return " ".join(str(error).split())
    return None
