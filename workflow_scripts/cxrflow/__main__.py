"""From chest radiographs and reports to vision-language models, and the models to tables.

    cxrflow label --input reports.csv --output labels.csv
    cxrflow ground --model results/models/biovil/biovil/seed0 --image x.dcm --phrase "Edema"

``cxrflow COMMAND --help`` explains a command. ``python -m cxrflow`` is the same program.

Commands:
"""

from cxr_files.commands import start
from cxrflow import __version__
from cxrflow.programs.fixed import COMMANDS
from cxrflow.programs.registry import STAGES
from cxrflow.programs.source_code import full_name


def main() -> None:
    """Start the program that the first argument names."""
    programs = {name: full_name(module) for name, module in COMMANDS.items()}
    stages = {name: full_name(module) for name, module in STAGES.items()}
    start("cxrflow", __version__, __doc__ or "", programs, stages)


if __name__ == "__main__":
    main()
