"""The files of a figure of cells: the picture, and beside it a JSON that says what it shows."""

import io
from argparse import Namespace
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from cxr_files.atomic import write_png, write_sealed
from cxr_files.errors import InputError
from cxrflow.papers.figures import BarsFigure, CurveFigure
from cxrflow.show.tables.cells import Cell
from cxrflow.show.tables.notes import note_on_data
from cxrflow.show.tables.results import Results, read_paper, read_results, results_parser
from cxrflow.show.tables.tests import read_tests


def read_figure(
    argv: Sequence[str] | None,
    description: str | None,
    kind: type[CurveFigure] | type[BarsFigure],
    trainings: bool = False,
) -> Namespace:
    """What a program draws: ``paper``, ``figure``, ``results``, ``tests``, ``ours`` and ``output``.

    ``ours`` is the legend's name of our values; ``trainings`` the run.json files that a
    program may be given beside the metrics. InputError if the paper has no such figure.
    """
    arguments = results_parser(description)
    arguments.add_argument("--figure", required=True, help="key under its `figures:`")
    arguments.add_path("--output", "picture to write, a JSON beside it")
    if trainings:
        help_ = "run.json of the models shown: how many pairs they read, and which"
        arguments.add_argument("--trainings", type=Path, nargs="*", default=[], help=help_)
    options = arguments.parse_args(argv)
    paper, results = read_paper(options), read_results(options.metrics)
    figure = paper.figures.get(options.figure)
    if not isinstance(figure, kind):
        (name,) = get_args(kind.model_fields["kind"].annotation)
        raise InputError(f"paper {paper.name}: no figure '{options.figure}' of the kind {name}")
    return Namespace(
        paper=paper,
        figure=figure,
        results=results,
        tests=read_tests(options.tests),
        ours="ours, on synthetic data" if results.synthetic else "ours",
        output=options.output,
        trainings=options.trainings if trainings else [],
    )


def drawn(cell: Cell) -> dict[str, float | str | None]:
    """What a figure draws of a cell, and the reason if ours are missing."""
    return {
        "ours": cell.ours if isinstance(cell.ours, float) else None,
        "low": cell.low,
        "high": cell.high,
        "published": None if cell.published is None else float(cell.published),
        "reason": cell.reason,
    }


def png_bytes(canvas: Any) -> bytes:
    """Return a figure of matplotlib as PNG, the same bytes whenever it is drawn."""
    buffer = io.BytesIO()
    canvas.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def write_picture(
    path: Path,
    png: bytes,
    figure: CurveFigure | BarsFigure,
    results: Results,
    lines: Sequence[str],
    reasons: Collection[str | None],
    values: Mapping[str, Any],
) -> None:
    """Write the picture at ``path`` and its JSON.

    Args:
        lines: the picture in words.
        reasons: why values of ours are missing; None: one is not.
        values: what is drawn, for programs.
    """
    write_png(path, png)
    missing = sorted(reason for reason in reasons if reason is not None)
    caption = [note_on_data(results), *([f"Not drawn: {'; '.join(missing)}."] if missing else [])]
    write_sealed(
        path.with_suffix(".json"),
        {
            "kind": figure.kind,
            "title": figure.title,
            "data": {"name": ", ".join(results.datasets), "synthetic": results.synthetic},
            "shows": [],
            "caption": " ".join(caption),
            "lines": list(lines),
            **values,
        },
    )
