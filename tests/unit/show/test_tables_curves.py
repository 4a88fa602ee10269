"""Figures of a paper over the share of labels, or over another axis that its cells stand on."""

import json

import pytest
from PIL import Image
from pydantic import ValidationError
from table_fixtures import estimate, write_result, write_tests

from command_options import options
from cxr_files.errors import InputError
from cxrflow.papers import Paper, load_paper
from cxrflow.show.figures import curve

TABLE = {
    "title": "Table 9. Test", "source": "Paper", "task": "t",
    "columns": [
        {"key": "few", "label": "AUROC, 1 %", "metric": "auroc/1", "scale": 100},
        {"key": "all", "label": "AUROC", "metric": "auroc/100", "scale": 100},
    ],
    "rows": [
        {"label": "Ours", "model": "m", "published": {"few": ["80", None], "all": ["90", None]}},
        {"label": "Absent", "model": "n", "published": {"all": ["95", None]}},
    ],
}  # fmt: skip
FIGURE = {
    "kind": "curve", "title": "Shares. Test", "table": "table9", "column": "few",
    "x": {"label": "labels (%)", "values": [1, 100], "log": True},
    "series": [
        {"label": "Ours", "cells": ["Ours", {"row": "Ours", "column": "all"}]},
        {"label": "Absent", "cells": [{"row": "Absent", "column": "all"}]},
    ],
}  # fmt: skip


def curve_paper(**changes):
    return Paper.model_validate(
        {"name": "p", "tables": {"table9": TABLE}, "figures": {"f": FIGURE | changes}}
    )


def test_a_series_may_be_a_row_whose_columns_are_the_axis():
    axis = FIGURE["x"] | {"columns": ["few", "all"]}
    rows = [{"label": label, "cells": [label]} for label in ("Ours", "Absent")]
    figure = curve_paper(x=axis, series=rows).figures["f"]
    assert [figure.cells(line) for line in figure.series] == [
        [("table9", label, column) for column in ("few", "all")] for label in ("Ours", "Absent")
    ]
    with pytest.raises(ValueError, match="series 'Ours' has several cells; expected a row"):
        curve_paper(x=axis)
    with pytest.raises(ValueError, match=r"columns are \['few'\]; expected 2"):
        curve_paper(x=axis | {"columns": ["few"]}, series=rows)
    with pytest.raises(ValueError, match="figures.f: table9 has not: most"):
        curve_paper(x=axis | {"columns": ["few", "most"]}, series=rows)
    with pytest.raises(ValueError, match="series 'Ours' has a column, but so has the x axis"):
        curve_paper(x=axis, series=[row | {"column": "all"} for row in rows])
    # The other way round: rows over the axis, in a column of the series.
    crossed = {
        "label": "All",
        "column": "all",
        "cells": ["Absent", {"row": "Ours", "column": "few"}],
    }
    figure = curve_paper(series=[crossed]).figures["f"]
    assert figure.cells(figure.series[0]) == [
        ("table9", "Absent", "all"),
        ("table9", "Ours", "few"),
    ]


def test_a_long_label_of_the_axis_is_drawn_whole(monkeypatch):
    canvases = []
    monkeypatch.setattr(curve, "png_bytes", canvases.append)
    label = "AUROC, text-to-image retrieval (no numbers are published)"
    curve.draw(curve_paper().figures["f"], [], label, "ours")
    (canvas,) = canvases
    canvas.draw_without_rendering()
    box = canvas.axes[0].yaxis.label.get_window_extent()
    assert canvas.bbox.y0 <= box.y0 and box.y1 <= canvas.bbox.y1


def test_ours_and_the_published_values_are_drawn_over_the_axis(tmp_path, monkeypatch):
    made = curve_paper()
    monkeypatch.setattr("cxrflow.show.tables.results.load_paper", lambda name: made)
    files = []
    for seed, value in enumerate((0.5, 0.7)):
        metrics = {"auroc/1": estimate(value, value - 0.1, value + 0.1)}
        files.append(write_result(tmp_path / f"{seed}.json", "t", "m", seed, metrics))
    output = tmp_path / "deep/f.png"
    interval = {"auroc/1": {"low": 0.45, "high": 0.75}}
    cells = [{"task": "t", "model": "m", "metrics": interval}]
    tests = write_tests(tmp_path / "f.tests.json", [], cells)
    curve.main(options(paper="p", figure="f", output=output, metrics=files, tests=tests))
    with Image.open(output) as picture:
        assert picture.format == "PNG" and len(picture.convert("RGB").getcolors(9999)) > 10
    found = json.loads(output.with_suffix(".json").read_text())
    ours, absent = found["series"]
    assert ours["points"][0] == {
        "x": 1, "ours": pytest.approx(60), "low": pytest.approx(45), "high": pytest.approx(75),
        "published": 80, "reason": None,
    }  # fmt: skip
    assert (ours["points"][1]["ours"], ours["points"][1]["published"]) == (None, 90)
    assert [point["published"] for point in absent["points"]] == [95, 95]
    assert found["lines"] == ["Ours: 60.000 at 1, – at 100", "Absent: – at 1, – at 100"]
    assert found["shows"] == [] and found["data"]["synthetic"]
    assert "synthetic data (tiny)" in found["caption"]
    assert "Not drawn: its results lack this metric; not run" in found["caption"]
    with pytest.raises(InputError, match="no figure 'g' of the kind curve"):
        curve.main(options(paper="p", figure="g", output=output))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"series": [{"label": "s", "cells": ["Ours", "Ours", "Ours"]}]}, "has 3 cells"),
        ({"series": [{"label": "s", "cells": ["Nobody"]}]}, "figures.f: table9 has not: Nobody"),
        ({"table": "table8"}, "figures.f: no table 'table8'"),
        ({"x": {"label": "x", "values": [10, 1]}}, "expected rising ones"),
        ({"x": {"label": "x", "values": [0, 1], "log": True}}, "above 0 where log"),
        ({"kind": "circle"}, "does not match any of the expected tags"),
    ],
)
def test_a_figure_that_cannot_be_drawn_is_refused(change, named):
    with pytest.raises(ValidationError, match=named):
        curve_paper(**change)


def test_the_curve_of_biovil_stands_where_its_rows_say():
    figure = load_paper("biovil").figures["labels"]
    shares = {f"{value:g}" for value in figure.x.values}
    rows = {row.label: row for row in load_paper("biovil").tables["table6"].rows}
    for series in figure.series:
        found = [rows[label].share for label in series.cells]
        assert found == [None] or set(found) == shares == set(dict.fromkeys(found))
