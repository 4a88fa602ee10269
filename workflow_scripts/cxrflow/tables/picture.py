"""The files of a figure of cells: the picture, and beside it a JSON that says what it shows."""

import io
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from cxrflow.files.atomic import atomic_path, write_json
from cxrflow.papers.figures import BarsFigure, CurveFigure
from cxrflow.tables.notes import note_on_data
from cxrflow.tables.results import Results


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
    with atomic_path(path) as temporary:
        temporary.write_bytes(png)
    missing = sorted(reason for reason in reasons if reason is not None)
    caption = [note_on_data(results), *([f"Not drawn: {'; '.join(missing)}."] if missing else [])]
    write_json(
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
