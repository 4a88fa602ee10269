"""One command with many programs: ``cxrflow label``, ``cxr-hospital draw``."""

import ast
import difflib
import runpy
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from cxr_files import program
from cxr_files.extras import lacking


def summary(module: str) -> str:
    """The first line of a program's docstring; the program itself is not imported for it."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return "not installed"
    file = Path(spec.origin)
    if file.name == "__init__.py":
        file = file.with_name("__main__.py")
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`")


def overview(command: str, about: str, programs: Mapping[str, Mapping[str, str]]) -> str:
    """All programs of a command, a line each, under their headings."""
    lines = [f"usage: {command} COMMAND ...", "", about.strip().replace("``", "`")]
    for heading, modules in programs.items():
        lines += ["", f"{heading}:"]
        lines += [f"  {name:24} {summary(module)}" for name, module in modules.items()]
    return "\n".join(lines)


def start(
    command: str, version: str, about: str, programs: Mapping[str, Mapping[str, str]]
) -> None:
    """Start the program that the first argument names, as ``python -m`` would.

    Args:
        command: what is typed, before the program's name.
        version: what ``--version`` prints.
        about: the first lines of ``--help``.
        programs: modules by their names, under headings.
    """
    name, arguments = (sys.argv[1] if len(sys.argv) > 1 else None), sys.argv[2:]
    modules = {name: module for group in programs.values() for name, module in group.items()}
    if name in ("-h", "--help"):
        print(overview(command, about, programs))
        sys.exit()
    elif name == "--version":
        print(f"{command} {version}")
    elif name is None:
        print(overview(command, about, programs), file=sys.stderr)
        sys.exit(program.EXIT_INPUT)
    elif name not in modules:
        near = difflib.get_close_matches(name, modules, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"`{command} --help` lists them"
        print(f"error: there is no command '{name}'; {hint}", file=sys.stderr)
        sys.exit(program.EXIT_INPUT)
    else:
        sys.argv[1:] = arguments
        program.COMMANDS[modules[name]] = f"{command} {name}"
        try:
            runpy.run_module(modules[name], run_name="__main__", alter_sys=True)
        except ModuleNotFoundError as error:
            line = lacking(error)
            if line is None:
                raise
            print(f"error: {line}", file=sys.stderr)
            sys.exit(program.EXIT_INPUT)
