"""The option that all programs of the configuration share."""

from argparse import ArgumentParser
from pathlib import Path


def add_files(arguments: ArgumentParser) -> None:
    """``--configfile``: what the configuration is read from."""
    arguments.add_argument(
        "--configfile",
        type=Path,
        nargs="+",
        default=[Path("config.yaml")],
        metavar="FILE",
        help="later files are laid over earlier ones (default: config.yaml)",
    )
