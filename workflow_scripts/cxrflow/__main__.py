"""From chest radiographs and reports to vision-language models, and the models to tables.

    cxrflow label --input reports.csv --output labels.csv
    cxrflow ground --model results/models/biovil/biovil/seed0 --image x.dcm --phrase "Edema"

``cxrflow COMMAND --help`` explains a command. ``python -m cxrflow`` is the same program.
"""

import ast
import difflib
import runpy
import sys

from cxr_files import program
from cxr_files.extras import lacking
from cxr_files.program import EXIT_INPUT
from cxrflow import __version__
from cxrflow.programs.fixed import COMMANDS, SHEETS
from cxrflow.programs.registry import PROGRAMS, STAGES
from cxrflow.programs.source_code import find_module, full_name

HEADINGS = {
    "Commands": COMMANDS,
    "Stages, as the workflow runs them": STAGES,
    "Sheets of the synthetic hospital": SHEETS,
}


def summary(module: str) -> str:
    """The first line of a program's docstring, which is not imported for it."""
    name = full_name(module)
    file = find_module(f"{name}.__main__") or find_module(name)
    assert file is not None, name
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0].replace("``", "`")


def overview() -> str:
    """All commands, a line each."""
    lines = ["usage: cxrflow COMMAND ...", "", (__doc__ or "").strip().replace("``", "`")]
    for heading, names in HEADINGS.items():
        lines += ["", f"{heading}:"]
        lines += [f"  {name:24} {summary(module)}" for name, module in names.items()]
    return "\n".join(lines)


def main() -> None:
    """Start the program that the first argument names, as ``python -m`` would."""
    name, arguments = (sys.argv[1] if len(sys.argv) > 1 else None), sys.argv[2:]
    if name in ("-h", "--help"):
        print(overview())
        sys.exit()
    elif name == "--version":
        print(f"cxrflow {__version__}")
    elif name is None:
        print(overview(), file=sys.stderr)
        sys.exit(EXIT_INPUT)
    elif name not in PROGRAMS:
        near = difflib.get_close_matches(name, PROGRAMS, n=1)
        hint = f"did you mean '{near[0]}'?" if near else "`cxrflow --help` lists them"
        print(f"error: there is no command '{name}'; {hint}", file=sys.stderr)
        sys.exit(EXIT_INPUT)
    else:
        sys.argv[1:] = arguments
        module = full_name(PROGRAMS[name])
        program.COMMANDS[module] = f"cxrflow {name}"
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except ModuleNotFoundError as error:
            line = lacking(error)
            if line is None:
                raise
            print(f"error: {line}", file=sys.stderr)
            sys.exit(EXIT_INPUT)


if __name__ == "__main__":
    main()
