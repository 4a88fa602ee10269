"""The configuration of a run: validate it, print it, keep it.

    cxrflow config check --configfile paper.yaml
    cxrflow config show --model biovil/biovil

``check`` prints what is made and exits with 0, or names key and file and exits with 2. It opens a
hospital's own folder, counts what is in it, and says what will be trained on. ``show``
prints YAML: the whole configuration, or with ``--model`` the settings that its training program
receives. ``record`` is called by the workflow. It keeps the configuration of a run as a JSON file:
the given ``values``, the complete configuration as ``resolved``, the names of its files as
``configfiles``.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from cxr_files.atomic import write_json
from cxr_files.program import parser, run
from cxrflow.config import Config, load_config, make_config
from cxrflow.config.loading import add_files, in_order
from cxrflow.config.plan import announcement, require_models


def opened_folders(config: Config) -> Iterator[str]:
    """Open each folder whose layout has an account of it, and say what is in it.

    Raises:
        InputError: one is of another form, or lacks what a model of the run needs.
    """
    for name in config.datasets:
        root, layout = config.data.present[name].root, config.data.layout(name)
        if root is None or layout.account is None:
            continue
        cohorts = {
            cohort: config.cohorts[cohort].recipe.settings()
            for cohort in config.whole.cohorts
            if config.cohorts[cohort].dataset == name
            and config.cohorts[cohort].recipe.kind == "pairs"
        }
        trained = [config.models[model] for model in config.whole.models]
        trained = [model for model in trained if model.trained and model.recipe.cohort in cohorts]
        compares = next((model.name for model in trained if "frames" in model.offers), None)
        learners = {
            cohort: ", ".join(m.name for m in trained if m.recipe.cohort == cohort) or "no model"
            for cohort in cohorts
        }
        described = {f"{name}, for {learners[name]}": cohorts[name] for name in cohorts}
        yield f"{name}: {root}"
        about = config.values.reports.settings(), described, compares
        yield from (f"  {line}" for line in layout.accounts(Path(root), *about))


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    actions = arguments.add_subparsers(dest="action", required=True)
    check = actions.add_parser("check", help="check the configuration and print a line")
    show = actions.add_parser("show", help="print the configuration with every default filled in")
    record = actions.add_parser("record", help="write a resolved configuration to a file")
    for reader in (check, show, record):
        add_files(reader, typed=reader is not record)
    show.add_argument("--model", help="only this model's resolved settings")
    record.add_argument(
        "--values", required=True, metavar="JSON", help="values of the files, merged"
    )
    record.add_argument(
        "--output", type=Path, required=True, metavar="FILE", help="JSON file to write"
    )
    options = arguments.parse_args(argv)

    if options.action == "record":
        files = list(map(str, options.configfile))
        config = make_config(json.loads(options.values), files, check_roots=False)
        values = {"values": config.values.model_dump(mode="json"), "resolved": config.resolved()}
        write_json(options.output, values | {"configfiles": files})
        return
    files = list(map(str, in_order(options.configfile)))
    config = load_config(files, typed=options.config)
    if options.action == "check":
        require_models(config, config.library.chosen)
        opened = list(opened_folders(config))
        print(
            f"{' + '.join(files)}: valid; scale {config.values.scale}, "
            f"papers {', '.join(config.library.chosen)}, {len(config.models)} models"
        )
        print("".join(f"{line}\n" for line in opened), end="")
        print(announcement(config, dict.fromkeys(config.library.chosen, config.values.extent)))
        return
    values = config.models[options.model].described() if options.model else config.described()
    print(yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=100), end="")


if __name__ == "__main__":
    run(main)
