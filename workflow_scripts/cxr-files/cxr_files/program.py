"""The frame of every program: options, logging, errors.

A program reads its settings from ``--settings``, either the path of a YAML file or inline JSON
(what Snakemake rules pass), and takes paths as named options. Bad input, or a disk or file that
cannot be used, ends it with one line and exit code 2; other failures are defects and keep their
traceback.
"""

import argparse
import contextlib
import errno
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cxr_files.atomic import REFUSED
from cxr_files.attempts import keep, refuse_again
from cxr_files.errors import InputError, InterruptedRun
from cxr_files.extras import lacking
from cxr_files.outputs import remove_unfinished, require_own
from cxr_files.reading import unwritable
from cxr_files.settings import MOST_CORES

# What the machine refuses, whatever the program does, beside what its disk does: a name that is too
# long, a folder in a file's place and the other way round.
NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.EISDIR, errno.ENOTDIR)
# What it has too little of: open files, memory, processes.
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
NO_THREAD = "can't start new thread"  # Python's words, for lack of memory or processes
NO_ROOM = "failed to map segment from shared object"  # of a library that is loaded
REFUSALS = (*REFUSED, *NAMES, *SCARCE, errno.EACCES, errno.EPERM)
# Options that name what a program writes.
WRITTEN = ("output", "page", "reasons", "state")
TERMINAL = "CXRFLOW_TERMINAL"  # names the descriptor of the workflow's stderr
#: The command that starts a module, where there is one; the packages with commands fill it.
COMMANDS: dict[str, str] = {}
EXIT_INPUT = 2
EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: run it again
EXIT_KEYBOARD = 128 + 2  # what a shell reports for SIGINT
EXIT_PIPE = 128 + 13  # and for SIGPIPE


class Parser(argparse.ArgumentParser):
    """Refuses an output that may not be written, before any work is done."""

    def add_path(self, name: str, meaning: str, default: Path | None = None) -> None:
        """Add the option of a file or folder, which must be given if there is no default."""
        meaning = f"{meaning} (default: {default})" if default else meaning
        self.add_argument(name, type=Path, default=default, required=not default, help=meaning)

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: None = None
    ) -> argparse.Namespace:
        """The options; see :func:`cxr_files.outputs.require_own` for what is refused."""
        options = super().parse_args(args)
        values = vars(options)
        for name, value in values.items():
            for item in value if isinstance(value, list) else [value]:
                defect = unwritable(str(item)) if isinstance(item, str | Path) else None
                if defect is not None:
                    raise InputError(
                        f"--{name.replace('_', '-')} {ascii(str(item))}: is not UTF-8 ({defect})"
                    )
        for name in WRITTEN:
            if values.get(name) is not None:
                others = {key: value for key, value in values.items() if key != name}
                require_own(Path(values[name]), paths(others))
                remove_unfinished(Path(values[name]))
        return options


def paths(options: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the paths among options: of type Path, ``NAME=PATH``, and a file of settings."""
    for name, value in options.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Path):
                yield item
            elif name == "settings":
                yield from [Path(item)] if os.path.isfile(item) else []
            elif isinstance(item, str) and "=" in item:
                yield Path(item.rpartition("=")[2])


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return a parser of whole numbers from ``low`` to ``high``, for an option."""

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
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    module = spec.name.removesuffix(".__main__") if spec else None
    arguments = Parser(
        prog=module and COMMANDS.get(module, f"python -m {module}"),
        description=description and description.replace("``", "`"),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if settings:
        arguments.add_argument(
            "--settings", default="{}", help="YAML file, or inline JSON; see docs/configuration.md"
        )
    return arguments


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
    logging.getLogger("openjpeg").setLevel(logging.WARNING)  # it counts the tiles of every picture
    try:
        refuse_again()
        with quiet_pipe():
            main(None)
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
    except Exception as error:
        line = refusal(error)
        if line is None:
            raise
        _say(f"error: {line}")
        sys.exit(EXIT_INPUT)


@contextlib.contextmanager
def quiet_pipe() -> Iterator[None]:
    """Exit without a word where whoever read our output has left, as ``head`` does.

    The help is printed by what then exits, so the output is flushed after that too.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        # Python's own last flush must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(EXIT_PIPE)


def _say(line: str) -> None:
    """Print a line on stderr, or where that is a log on a full disk, on the workflow's own.

    Rules keep theirs under :data:`TERMINAL` before they send this program's into a log.
    """
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        tell_workflow(line)
        # Python's own last flush would end it with another code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def tell_workflow(line: str) -> None:
    """Print a line on the workflow's own stderr, where a rule runs this program."""
    with contextlib.suppress(OSError, ValueError):
        os.write(int(os.environ.get(TERMINAL, "")), f"{line}\n".encode())


def refusal(error: Exception) -> str | None:
    """Describe what the machine refused in one line, with the file if it is known; else None.

    Libraries in Rust and C++ raise errors of their own, with the system's words but no number. A
    library that is not installed is named with the extra that brings it.
    """
    if isinstance(error, MemoryError):
        said = " ".join(str(error).split())
        return f"{os.strerror(errno.ENOMEM)}{f' ({said})' if said else ''}"
    if isinstance(error, ModuleNotFoundError):
        return lacking(error)
    if isinstance(error, OSError) and error.errno in REFUSALS:
        names = " and ".join(str(name) for name in (error.filename, error.filename2) if name)
        return f"{names or 'writing a result'}: {error.strerror or os.strerror(error.errno)}"
    words = (*(os.strerror(number) for number in (*REFUSED, *SCARCE)), NO_THREAD, NO_ROOM)
    if any(word in str(error) for word in words):
        return " ".join(str(error).split())
    return None
