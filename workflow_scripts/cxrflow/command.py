"""What every program of the workflow shares: arguments, settings, logging, errors.

A program is ``cxrflow <name>`` (:mod:`cxrflow.programs`). It reads its settings from
``--settings``, either the path of a YAML file or inline JSON (what the Snakemake rules pass), and
takes paths as named options. Bad input, or a disk or file that cannot be used, ends it with one
line and exit code 2; other failures are defects and keep their traceback.
"""

import argparse
import contextlib
import errno
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from cxrflow.attempts import keep, refuse_again
from cxrflow.errors import InputError, InterruptedRun
from cxrflow.outputs import remove_unfinished, require_own
from cxrflow.programs import usage

SettingsT = TypeVar("SettingsT", bound=BaseModel)

# What the machine refuses, whatever the program does: no space, over quota, too large, read-only,
# broken, may not; a name that is too long, a folder in a file's place and the other way round.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
REFUSALS = (*FULL, *NAMES, errno.EACCES, errno.EPERM)
# Options that name what a program writes.
WRITTEN = ("output", "page", "reasons", "state")
TERMINAL = "CXRFLOW_TERMINAL"  # names the descriptor of the workflow's stderr
EXIT_INPUT = 2
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: run it again
EXIT_KEYBOARD = 128 + 2  # what a shell reports for SIGINT
EXIT_PIPE = 128 + 13  # and for SIGPIPE
NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"  # of what is a part of paths, patterns and options
# Settings that change no result of a run that reaches its end: how often something is logged or
# saved, how much damage is too much.
OPERATIONS = ("log_steps", "save_minutes", "max_failed_share")
MOST_CORES = 1024  # of one machine: more is a slip of the keyboard
MOST_NODES = 100_000  # of a YAML file with its aliases written out; the longest paper has 7,000

#: What seeds a generator: numpy's take 32 bits.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class Settings(BaseModel):
    """Base of all settings: unknown keys are errors, values never change, numbers are finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def explain(error: ValidationError, source: str) -> str:
    """Turn pydantic's errors into lines that name the source, the key, the value and the wish."""
    return "\n".join(problem(item, source, item["loc"]) for item in error.errors())


def dotted(key: Sequence[str | int]) -> str:
    """A key as errors name it."""
    return ".".join(map(str, key)) or "(top level)"


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


# libyaml is ten times faster; every job of the workflow reads a paper's tables.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Refuses a key that stands twice, of which PyYAML silently keeps the last, and aliases that
    stand inside what they name or multiply it."""

    def construct_document(self, node: yaml.Node) -> Any:
        _written_out(node, {})
        return super().construct_document(node)


def _written_out(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many nodes there are below this one with aliases written out; ``sizes``: known ones."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    size = sizes.get(id(node))
    if size == 0:
        raise yaml.MarkedYAMLError(
            problem="an alias stands inside what it names", problem_mark=node.start_mark
        )
    if size is not None:
        return size
    sizes[id(node)] = 0
    size, keys = 1, set()
    for child in node.value:
        if isinstance(node, yaml.MappingNode):
            key, child = child
            name = str(key.value)
            if name in keys:
                raise yaml.MarkedYAMLError(
                    problem=f"key '{name}' stands twice", problem_mark=key.start_mark
                )
            keys.add(name)
        size += _written_out(child, sizes)
    if size > MOST_NODES:
        raise yaml.MarkedYAMLError(
            problem=f"aliases multiply to more than {MOST_NODES:,} entries",
            problem_mark=node.start_mark,
        )
    sizes[id(node)] = size
    return size


def unwritable(text: str) -> str | None:
    """What of a text no path and no UTF-8 file can hold: NUL, half a surrogate pair."""
    if "\0" in text:
        return "a NUL character"
    return "half a surrogate pair" if any("\ud800" <= c <= "\udfff" for c in text) else None


def _refuse_unwritable(value: Any, key: tuple[str, ...] = ()) -> None:
    """ValueError with the key of a text that holds what cannot be written."""
    if isinstance(value, str):
        held = unwritable(value)
        if held is not None:
            raise ValueError(f"key '{dotted(key)}' holds {held}")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            _refuse_unwritable(name, key)
            _refuse_unwritable(item, (*key, str(name)))
    elif isinstance(value, list):
        for item in value:
            _refuse_unwritable(item, key)


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Keys and values of a YAML file; nothing in it is no keys. Other content is an error."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = yaml.load(text, _Loader)
        _refuse_unwritable(values)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error})") from None
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise InputError(f"{path}: not valid YAML ({place})") from None
    except ValueError as error:  # a number of 5,000 digits, a thirteenth month
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
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
            _refuse_unwritable(values)
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
                remove_unfinished(Path(values[name]))
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


def whole(low: int, high: int) -> Callable[[str], int]:
    """What reads a whole number of an option, from ``low`` to ``high``."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 20 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(
                f"{text[:20]!r}: expected a whole number from {low} to {high}"
            )
        return int(text)

    return read


#: Types of ``--threads`` and ``--seed``.
thread_count, seed_number = whole(1, MOST_CORES), whole(0, 2**32 - 1)


def parser(description: str | None, settings: bool = True) -> Parser:
    """An argument parser, with ``--settings``; the description is the module's docstring."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    made = Parser(
        prog=usage(module.name) if module else None,
        description=description and description.replace("``", "`"),
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
        datefmt="%Y-%m-%d %H:%M:%S",
        stream=sys.stderr,
    )
    try:
        refuse_again()
        main(None)
        sys.stdout.flush()
    except InputError as error:
        keep(error)
        _say(f"error: {error}")
        sys.exit(EXIT_INPUT)
    except InterruptedRun as error:
        _say(f"interrupted: {error}")
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        _say("interrupted from the keyboard")
        sys.exit(EXIT_KEYBOARD)
    except BrokenPipeError:
        # Whoever read our output has left; Python's own last flush must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE)
    except Exception as error:
        line = refusal(error)
        if line is None:
            raise
        _say(f"error: {line}")
        sys.exit(EXIT_INPUT)


def _say(line: str) -> None:
    """Print a line on stderr, or where that is a log on a full disk, on the workflow's own.

    Rules keep theirs under :data:`TERMINAL` before they send this program's into a log.
    """
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        with contextlib.suppress(OSError, ValueError):
            os.write(int(os.environ.get(TERMINAL, "")), f"{line}\n".encode())
        # Python's own last flush would end it with another code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


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
