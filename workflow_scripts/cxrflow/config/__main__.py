"""``python -m cxrflow.config check|show``: validate the configuration, print what it resolves to.

    python -m cxrflow.config check --configfile config.yaml paper.yaml
    python -m cxrflow.config show --configfile config.yaml --model biovil

``check`` prints one line and exits with 0, or names key and file and exits with 2. ``show`` prints
YAML: the whole configuration, or with ``--model`` the settings that its training program receives.
"""

import argparse
from collections.abc import Sequence

import yaml

from cxrflow.command import run
from cxrflow.config import load_config


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m cxrflow.config",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("action", choices=["check", "show"])
    parser.add_argument(
        "--configfile",
        nargs="+",
        default=["config.yaml"],
        metavar="FILE",
        help="later files are laid over earlier ones (default: config.yaml)",
    )
    parser.add_argument("--model", help="show the resolved settings of this model only")
    options = parser.parse_args(argv)

    config = load_config(options.configfile)
    if options.action == "check":
        print(
            f"{' + '.join(options.configfile)}: valid; scale {config.scale}, "
            f"papers {', '.join(config.papers)}, {len(config.recipes)} models"
        )
        return
    values = config.model(options.model).described() if options.model else config.described()
    print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100), end="")


if __name__ == "__main__":
    run(main)
