"""A hospital that does not exist: its data sets, and pictures of what they hold.

    cxr-hospital draw --layout mimic_cxr --patients 200 --seed 0 hospital/mimic_cxr

``cxr-hospital COMMAND --help`` explains a command. ``python -m cxr_hospital`` is the same program.

Commands:
"""

from typing import Final

from cxr_files.commands import start
from cxr_hospital import __version__

PROGRAMS: Final = {
    "draw": "cxr_hospital.draw",
    "sheet": "cxr_hospital.sheets.contact",
    "course": "cxr_hospital.sheets.course",
}


def main() -> None:
    """Start the program that the first argument names."""
    start("cxr-hospital", __version__, __doc__ or "", PROGRAMS)


if __name__ == "__main__":
    main()
