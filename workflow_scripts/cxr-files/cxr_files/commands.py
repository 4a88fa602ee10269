"""One command with many programs: ``cxrflow label``, ``cxr-hospital draw``."""

import ast
import difflib
import runpy
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

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


OWN: Final = ("stages", "completion")  # names of what is no program
COMPLETION: Final = """\
# In ~/.bashrc or ~/.zshrc: eval "$({command} completion)"
[ -n "$ZSH_VERSION" ] && autoload -U +X bashcompinit && bashcompinit
_{name}() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words=""
    if [ "$COMP_CWORD" -eq 1 ]; then
        words="{words}"
    elif [ "${{word#-}}" != "$word" ]; then
        words="$({command} "${{COMP_WORDS[1]}}" --help 2>/dev/null | grep -oE -e '--[a-z][a-z_-]*')"
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _{name} {command}
"""


def overview(command: str, about: str, programs: Mapping[str, str]) -> str:
    """Programs of a command, a line each."""
    lines = [f"usage: {command} COMMAND ...", "", about.strip().replace("``", "`"), ""]
    return "\n".join([*lines, *(f"  {name:24} {summary(m)}" for name, m in programs.items())])


@program.quiet_pipe()
def start(
    command: str,
    version: str,
    about: str,
    programs: Mapping[str, str],
    stages: Mapping[str, str] | None = None,
) -> None:
    """Start the program that the first argument names, as ``python -m`` would.

    Args:
        command: what is typed, before the program's name.
        version: what ``--version`` prints.
        about: the first lines of ``--help``.
        programs: modules by their names, those that people type; a hyphen is as good as ``_``.
        stages: those that a workflow runs, which ``stages`` lists.
    """
    stages = stages or {}
    typed, arguments = (sys.argv[1] if len(sys.argv) > 1 else None), sys.argv[2:]
    modules = {**programs, **stages}
    name = next((name for name in modules if name == str(typed).replace("-", "_")), typed)
    if name in ("-h", "--help"):
        print(overview(command, about, programs))
        if stages:
            print(f"  {'stages':24} List what the workflow runs; each stage is a command too.")
        print(f"  {'completion':24} Print what completes commands and options in bash and zsh.")
    elif name == "--version":
        print(f"{command} {version}")
    elif name == "stages" and stages:
        print(overview(command, "Stages, as the workflow runs them:", stages))
    elif name == "completion":
        words = " ".join([*programs, *(["stages"] if stages else []), "completion", *stages])
        function = command.replace("-", "_")
        print(COMPLETION.format(command=command, name=function, words=words), end="")
    elif name is None:
        print(overview(command, about, programs), file=sys.stderr)
        sys.exit(program.EXIT_INPUT)
    elif name not in modules:
        near = difflib.get_close_matches(name, [*modules, *OWN], n=1)
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
