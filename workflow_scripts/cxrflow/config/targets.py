"""List what can be made: the targets of a configuration, as Snakemake takes them.

    cxrflow targets --configfile paper.yaml
    cxrflow targets --config papers='[my_method.yaml]'
    snakemake --cores all results/tables/biovil/table5.html

Making a target also makes everything it needs that does not exist yet. Tables and models for which
the run has no data are left out.
"""

from collections.abc import Iterator, Sequence

from cxr_files.program import parser, run
from cxrflow.config import Config, load_config
from cxrflow.config.loading import add_files, in_order


def targets(config: Config) -> Iterator[tuple[str, str]]:
    """Yield each target of ``snakemake --cores all`` with its meaning."""
    yield "all", f"the papers' tables ({config.values.extent}) and the page; also without a target"
    for paper, chosen_paper in config.library.chosen.items():
        yield paper, chosen_paper.title or "every row of its tables"
    yield "labels", "how well report labels agree with given ones; needs no model"
    yield "controls", "models that must fail, in every task that they can do"
    yield "released", "published weights in every cell that needs no training, with a verdict"
    for paper in config.library.chosen:
        for name in config.results[paper].tables("all"):
            if config.results[paper].cells(name):
                table = config.results[paper].table(name)
                yield f"{config.values.results}/tables/{paper}/{name}.html", table.title
    for name in config.whole.models:
        for seed in config.models.seeds_of(name):
            program = config.models[name].recipe.program
            yield f"{config.values.results}/models/{name}/seed{seed}/run.json", f"model ({program})"


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    add_files(arguments)
    options = arguments.parse_args(argv)
    rows = list(targets(load_config(in_order(options.configfile), typed=options.config)))
    width = max(len(name) for name, _ in rows)
    for name, meaning in rows:
        print(f"{name:{width}}  {' '.join(meaning.split())}")


if __name__ == "__main__":
    run(main)
