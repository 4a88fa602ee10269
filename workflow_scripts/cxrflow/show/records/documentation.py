"""Render the tables of documentation pages from recorded runs: ``make results``.

    cxrflow render --records docs/results README.md docs/results.md

A page says between two comments what stands there; all between them is replaced::

    <!-- recorded: claims biovil -->
    <!-- end of recorded -->

- ``claims PAPER``: each comparison of the paper's claims: published, ours, the verdict, what would
  decide it, and the run it is from, that with the most seeds of those that have it.
- ``verdicts``: how many comparisons of each paper have which verdict.
- ``table RUN PAPER TABLE``: a table of a run, ours beside the published values. With
  ``: COLUMN COLUMN of ROW | ROW`` behind it these columns of these rows alone.
- ``runs``: the runs, each with commit, data, sizes and hours.

With ``--check`` nothing is written, and a page that would change is an error.
"""

import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from cxr_files.atomic import atomic_path
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxrflow.papers import load_paper
from cxrflow.show.records.record import Record, read_records
from cxrflow.show.tables.text import MINUS, markdown_heads, markdown_row
from cxrflow.show.tables.verdicts import NOT_RUN, VERDICTS, Comparison

START = re.compile(r"<!-- recorded: (?P<what>[^>]*?) -->\n")
END = "<!-- end of recorded -->"
PAPERS = ("biovil", "biovil_t", "convirt", "low_data", "medcutmix")


def rendered(text: str, records: Sequence[Record], page: str) -> str:
    """The text of a page with all that is recorded in its place.

    Raises:
        InputError: a place has no end or no beginning, or names what is not there.
    """
    pieces, position = [], 0
    for start in START.finditer(text):
        end = text.find(END, start.end())
        if start.start() < position or end < 0:
            raise InputError(f"{page}: '{start[0].strip()}' has no '{END}'")
        pieces += [text[position : start.end()], "\n", block(start["what"], records, page), "\n"]
        position = end
    if (ends := text.count(END)) > (starts := len(START.findall(text))):
        raise InputError(
            f"{page}: '{END}' stands there {ends} times, after {starts} beginnings; expected a "
            "line '<!-- recorded: … -->' before each"
        )
    return "".join([*pieces, text[position:]])


def block(place: str, records: Sequence[Record], page: str) -> str:
    """What stands in a place."""
    head, _, selection = place.partition(": ")
    kind, *names = head.split()
    if kind == "claims" and len(names) == 1:
        try:
            load_paper(names[0])
        except InputError as error:
            raise InputError(f"{page}: 'recorded: {place}': {error}") from None
        return claims(names[0], records)
    if kind == "verdicts" and not names:
        return verdicts(records)
    if kind == "table" and len(names) == 3:
        by_name = {record.name: record for record in records}
        if names[0] not in by_name:
            runs_there = ", ".join(by_name) or "none"
            raise InputError(
                f"{page}: there is no recorded run '{names[0]}'; there are {runs_there}"
            )
        columns, _, rows = selection.partition(" of ")
        paper, name = names[1:]
        try:
            return table(by_name[names[0]], paper, name, columns.split(), _names(rows))
        except KeyError as error:
            raise InputError(f"{page}: 'recorded: {place}': no value of {error} there") from None
    if kind == "runs" and not names:
        return runs(records)
    raise InputError(
        f"{page}: 'recorded: {place}'; expected claims PAPER, verdicts, table RUN PAPER TABLE "
        "[: COLUMN … of ROW | …], or runs"
    )


def chosen(paper: str, records: Sequence[Record]) -> list[tuple[Comparison, str]]:
    """Each comparison of a paper's claims, from the first run that has it, and the run's name."""
    pairs: dict[tuple[str, ...], tuple[Comparison, str]] = {}
    for record in records:
        for each in record.comparisons(paper):
            key = (each.claim, each.table, each.column, each.better, each.worse)
            if key not in pairs or pairs[key][0].verdict == NOT_RUN != each.verdict:
                pairs[key] = (each, record.name)
    titles = [claim.title for claim in load_paper(paper).orderings]
    ranked = {title: place for place, title in enumerate(titles)}
    current = [pair for pair in pairs.values() if pair[0].claim in ranked]
    return sorted(current, key=lambda pair: ranked[pair[0].claim])


def claims(paper: str, records: Sequence[Record]) -> str:
    """A table of the comparisons of a paper that were run; the other claims by name."""
    lines = markdown_heads(["claim", "published", "ours", "verdict", "to decide it", "run"])
    pairs, last = chosen(paper, records), ""
    ran = {each.claim for each, _ in pairs if each.verdict != NOT_RUN}
    incomplete_claims = dict.fromkeys(each.claim for each, _ in pairs if each.verdict == NOT_RUN)
    for each, name in pairs:
        if each.verdict == NOT_RUN:
            continue
        claim = each.claim if each.claim != last else "…"
        last = each.claim
        verdict, why = each.judged
        published = [each.better_published, each.worse_published]
        printed = "" if None in published else " and ".join(map(str, published))
        words = f"**{verdict}**: {why}" if why else f"**{verdict}**"
        sides = f"{claim}: *{each.better}* and *{each.worse}*, {each.column}"
        lines.append(markdown_row([sides, printed, ours(each), words, each.decided_by, name]))
    text = "\n".join(lines) if last else "No run of this paper is recorded."
    if not last:
        return text
    unrun = dict.fromkeys(claim.title for claim in load_paper(paper).orderings)
    lists = {
        "Run in part": [title for title in incomplete_claims if title in ran],
        "Not run": [title for title in unrun if title not in ran],
    }
    return text + "".join(
        f"\n\n{heading}: {'; '.join(each)}." for heading, each in lists.items() if each
    )


def ours(each: Comparison) -> str:
    """Both values, and the interval of their difference or the intervals of both."""

    def number(value: float) -> str:
        return f"{value:z,.{each.digits}f}".replace("-", MINUS)

    def side(value: float | None, low: float | None, high: float | None) -> str:
        text = "–" if value is None else number(value)
        if each.difference is None and low is not None and high is not None and low != high:
            text += f" ({number(low)} to {number(high)})"
        return text

    text = side(each.better_ours, each.better_low, each.better_high)
    text += f" and {side(each.worse_ours, each.worse_low, each.worse_high)}"
    if each.difference is not None:
        text += f"; difference {number(each.difference)}"
        if each.low is not None and each.high is not None:
            text += f" ({number(each.low)} to {number(each.high)})"
    return text


def verdicts(records: Sequence[Record]) -> str:
    """How many comparisons of each paper's claims have which verdict."""
    lines = markdown_heads(["paper", *VERDICTS])
    for paper in PAPERS:
        counts = Counter(each.verdict for each, _ in chosen(paper, records))
        recorded_claims = {each.claim for each, _ in chosen(paper, records)}
        counts[NOT_RUN] += sum(
            claim.title not in recorded_claims for claim in load_paper(paper).orderings
        )
        lines.append(markdown_row([paper, *(str(counts[word]) for word in VERDICTS)]))
    return "\n".join(lines)


def table(
    record: Record,
    paper: str,
    name: str,
    columns: Sequence[str] = (),
    rows: Sequence[str] = (),
) -> str:
    """A table of a run: rows that have values of ours, ours beside the published ones.

    ``columns`` and ``rows``: those that are shown, in this order; none: all.

    Raises:
        KeyError: one of them has no value in the table.
    """
    cells = {(c["row"], c["column"]): c for c in record.table(paper, name) if c["ours"]}
    rows_there = list(dict.fromkeys(row for row, _ in cells))
    columns_there = list(dict.fromkeys(column for _, column in cells))
    labels: dict[str, str] = {}
    if lost := {*rows} - {*rows_there} | {*columns} - {*columns_there}:
        raise KeyError(min(lost))
    with suppress(InputError, KeyError):  # of a paper, or a table, that is not of the package
        labels = {column.key: column.label for column in load_paper(paper).tables[name].columns}
    columns = columns or columns_there
    lines = markdown_heads(["", *(labels.get(column, column) for column in columns)])
    for row in rows or rows_there:
        values = (_cell(cells.get((row, column))) for column in columns)
        lines.append(markdown_row([row, *values]))
    return "\n".join(lines)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split("|") if name.strip()]


def _cell(cell: dict[str, str] | None) -> str:
    if cell is None:
        return "–"
    text = _short(cell["ours"])
    if cell["low"] and cell["high"] and cell["low"] != cell["high"]:
        text += f" ({_short(cell['low'])} to {_short(cell['high'])})"
    return f"{text} [{cell['published']}]" if cell["published"] else text


def _short(text: str) -> str:
    try:
        value = float(text)
    except ValueError:
        return text
    return format(value, ",.0f" if abs(value) >= 1000 else "z.3g").replace("-", MINUS)


def runs(records: Sequence[Record]) -> str:
    """A line a run."""
    heads = ["run", "commit", "date", "data", "scale", "rows", "seeds", "hours of jobs"]
    lines = markdown_heads(heads)
    for each in sorted(records, key=lambda record: record.name):
        content = each.run
        data = "synthetic" if not content["real"] else ", ".join(content["real"])
        seeds = sorted({*content["seeds"].values()})
        hours = sum(content["seconds"].values()) / 3600
        values = [each.name, content["commit"][:8], content["date"], data, content["scale"]]
        values += [content["extent"], " to ".join(map(str, seeds)), f"{hours:.1f}"]
        lines.append(markdown_row(values))
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point; see the module's docstring."""
    arguments = parser(__doc__, settings=False)
    arguments.add_path("--records", "folder of recorded runs")
    arguments.add_argument("pages", type=Path, nargs="+", help="Markdown files")
    arguments.add_argument("--check", action="store_true", help="write nothing")
    options = arguments.parse_args(argv)
    records = read_records(options.records)
    for page in options.pages:
        text = page.read_text(encoding="utf-8")
        new = rendered(text, records, str(page))
        if new == text:
            continue
        if options.check:
            raise InputError(f"{page}: is not what the records give; run `make results`")
        with atomic_path(page) as temporary:
            temporary.write_text(new, encoding="utf-8")
        print(f"{page}: rendered")


if __name__ == "__main__":
    run(main)
