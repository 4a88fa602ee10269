"""Make one table of a paper from results: ``<output>.csv``, ``.md`` and ``.html``.

Every row of the paper's table is included, with the published value. Where a value of ours is
missing, the reason takes its place.
"""

import logging
from collections.abc import Sequence

from cxr_files.errors import InputError
from cxr_files.program import run
from cxrflow.papers.table import HEADLINE
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.rendering import table_csv, table_html, table_markdown
from cxrflow.show.tables.results import left_out, read_paper, read_results, results_parser
from cxrflow.show.tables.tests import read_tests
from cxrflow.show.tables.text import write_texts

log = logging.getLogger("cxrflow")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = results_parser(__doc__)
    arguments.add_argument(
        "--table",
        required=True,
        help="key under its `tables:`; headline/<key>: only the headline was asked for",
    )
    arguments.add_argument(
        "--notes", nargs="*", default=[], help="sentences for below it, beside the paper's"
    )
    arguments.add_argument("--output", required=True, help="output path without extension")
    options = arguments.parse_args(argv)
    paper = read_paper(options)
    name = options.table.removeprefix(HEADLINE)
    if name not in paper.tables:
        raise InputError(f"paper {paper.name}: no table '{name}'")
    table = paper.tables[name]
    table = table.model_copy(update={"notes": [*table.notes, *options.notes]})
    results = read_results(options.metrics, {} if name == options.table else left_out(paper))
    tests = read_tests(options.tests)
    cells = make_cells(table, results, tests)
    name = f"{paper.name}-{name}"
    texts = {
        ".csv": table_csv(cells),
        ".md": table_markdown(table, cells, results, tests),
        ".html": table_html(name, table, cells, results, tests),
    }
    write_texts(options.output, texts)
    log.info("%s: %d cells, %d with ours", name, len(cells), sum(c.ours is not None for c in cells))


if __name__ == "__main__":
    run(main)
