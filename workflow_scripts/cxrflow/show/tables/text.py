"""Our values and the published ones as text, and the files that hold them."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

import jinja2
from markupsafe import Markup, escape

from cxr_files.atomic import atomic_path
from cxr_files.csv_text import text_rows
from cxr_files.errors import InputError
from cxr_files.formulas import FORMULA
from cxrflow.papers.table import Column
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.tests import Tested

MINUS = "−"
COMMENTED = (".md", ".html")
SUM = "<!-- sha256 "


def number(value: float, column: Column, sign: bool = False) -> str:
    """A number of ours with the column's decimals, thousands apart and a true minus sign."""
    text = f"{value:{'+' if sign else ''}z,.{column.digits}f}"
    return text.replace("-", MINUS)


def split_title(title: str) -> tuple[str, str]:
    """The first sentence of a title, such as "Table 5", and the rest, without line breaks."""
    short, _, rest = " ".join(title.split()).partition(". ")
    return short, rest


def csv_text(header: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    """A CSV of these lines; empty where there is nothing.

    A text that a spreadsheet takes for a formula, such as a row "+ more data", begins with an
    apostrophe; :func:`unescaped` takes it off.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    for values in lines:
        writer.writerow([_csv_value(value) for value in values])
    return buffer.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, str) and FORMULA.match(value):
        return f"'{value}"
    return "" if value is None else format(value, ".6g") if isinstance(value, float) else value


def unescaped(line: Mapping[str, str]) -> dict[str, str]:
    """A line that was read from such a CSV, with its texts as they were."""
    return {
        name: text[1:] if text[:1] == "'" and FORMULA.match(text[1:]) else text
        for name, text in line.items()
    }


def csv_lines(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the lines of such a CSV, each with its number and its texts as they were.

    Raises:
        InputError: there is no such file, it is not UTF-8, lacks one of the ``columns``, or a line
            has another number of fields than the header.
    """
    if not path.is_file():
        raise InputError(f"{path}: file not found; expected a table as CSV")
    rows = text_rows(path)
    _, header = next(rows, (1, []))
    for name in columns:
        if name not in header:
            found = ", ".join(header) or "none"
            raise InputError(f"{path}: column '{name}' is missing; found {found}; make it again")
    for line, row in rows:
        if len(row) != len(header):
            raise InputError(f"{path}:{line}: {len(row)} fields; expected {len(header)}")
        yield line, unescaped(dict(zip(header, row, strict=True)))


def write_texts(prefix: str, texts: Mapping[str, str]) -> None:
    """Write ``prefix`` with each extension, all files or none.

    Markdown and HTML end with a comment of their SHA-256 (:func:`summed_text`); a CSV is for
    programs, which know no comments.
    """
    with ExitStack() as files:
        for extension, text in texts.items():
            path = files.enter_context(atomic_path(f"{prefix}{extension}"))
            path.write_text(f"{text}{_sum_line(extension, text)}", encoding="utf-8")


def _sum_line(extension: str, text: str) -> str:
    if extension not in COMMENTED:
        return ""
    return f"{SUM}{sha256(text.encode()).hexdigest()} -->\n"


def summed_text(path: Path) -> str:
    """Markdown or HTML of a table, which agrees with the SHA-256 in its last line, without that.

    Raises:
        InputError: it differs, or there is none.
    """
    content = path.read_bytes()
    text, mark, _ = content.decode(errors="replace").rpartition(SUM)
    if not mark or content != f"{text}{_sum_line(path.suffix, text)}".encode():
        raise InputError(f"{path}: damaged, it does not end with its SHA-256; make it again")
    return text


def ours_text(cell: Cell, column: Column) -> dict[str, str]:
    """The parts of our value: ``value``, ``spread``, ``interval`` …; empty when absent.

    An interval whose ends are printed alike is none: a count, or what is the same for all samples.
    """
    if cell.ours is None:
        return {}
    if isinstance(cell.ours, str):
        return {"value": cell.ours}
    texts = {"value": number(cell.ours, column)}
    if cell.ours_sd is not None:
        texts["spread"] = number(cell.ours_sd, column)
    if cell.low is not None and cell.high is not None:
        low, high = (number(end, column) for end in (cell.low, cell.high))
        if low != high:
            texts["interval"] = f"{low} to {high}"
    if cell.tested is not None and cell.tested.mark:
        texts["mark"] = cell.tested.mark
    if unlearnt_text(cell):
        texts["unlearnt"] = unlearnt_text(cell)
    return texts


def one_line(texts: Mapping[str, str]) -> str:
    """The parts of :func:`ours_text`, and the difference where there is one, as Markdown."""
    text = texts.get("value", "–") + texts.get("mark", "")
    text += f" ± {texts['spread']}" if "spread" in texts else ""
    text += f" ({texts['interval']})" if "interval" in texts else ""
    text += f" Δ {texts['difference']}" if "difference" in texts else ""
    return text + (f" [{texts['unlearnt']}]" if "unlearnt" in texts else "")


def unlearnt_text(cell: Cell) -> str:
    """The badge of a model that has not learnt in all or some trainings.

    None stands beside a value above the baselines without learning: the score has seen more.
    """
    if not cell.unlearnt or cell.above:
        return ""
    few = f" in {cell.unlearnt} of {cell.seeds} seeds" if cell.unlearnt < cell.seeds else ""
    return f"training not converged{few}"


def difference_text(tested: Tested, column: Column) -> str:
    """The difference from the reference row in words."""
    text = f"{column.label} {number(tested.value or 0.0, column, sign=True)}"
    if tested.low is not None and tested.high is not None:
        ends = (number(end, column, sign=True) for end in (tested.low, tested.high))
        text += f" ({' to '.join(ends)})"
    if tested.p is None or tested.p_holm is None:
        return text
    return f"{text}, p = {tested.p:.2g}, corrected {tested.p_holm:.2g}"


def published_text(cell: Cell) -> str:
    """The published value as printed in the paper."""
    if cell.published is None:
        return ""
    value = cell.published.replace("-", MINUS) if cell.difference is not None else cell.published
    return f"{value} ± {cell.published_sd}" if cell.published_sd else value


def markdown_row(values: Sequence[str]) -> str:
    """One line of a GitHub table."""
    cells = (" ".join(value.splitlines()).replace("|", "\\|") for value in values)
    return f"| {' | '.join(cells)} |"


def markdown_heads(heads: Sequence[str]) -> list[str]:
    """The lines with which a GitHub table begins."""
    return [markdown_row(heads), markdown_row(["---"] * len(heads))]


def displayed(file: str) -> str:
    """A file's path in the checkout; outside of it only its name, since pages are passed on."""
    path = PurePath(file)
    return f"…/{path.name}" if path.is_absolute() or ".." in path.parts else file


def coded(text: str) -> Markup:
    """Text of a paper's YAML as HTML: what stands between backticks is code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


@cache
def template(name: str) -> jinja2.Template:
    """A fragment of a page, by the name of its file beside this one."""
    loader = jinja2.PackageLoader("cxrflow.show.tables", "")
    environment = jinja2.Environment(
        loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["coded"] = coded
    return environment.get_template(name)


def in_ascii(html: str) -> str:
    """HTML with character references only, which reads right in any encoding."""
    return html.encode("ascii", "xmlcharrefreplace").decode("ascii")
