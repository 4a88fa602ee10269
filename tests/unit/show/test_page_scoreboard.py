"""The head of the page and its table of all scores."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from page_fixtures import pages, words
from PIL import Image
from table_fixtures import estimate, write_result

from cxrflow.commands.verify_results import root_of as verified_root
from cxrflow.papers import Paper
from cxrflow.show.page.album import INK, without_paper
from cxrflow.show.page.living import json_text, living_table
from cxrflow.show.page.page import FRONT, Place, command
from cxrflow.show.page.root import root_of
from cxrflow.show.page.scoreboard import BoardLine, board_line, headline
from cxrflow.show.page.scores import COLUMNS, PaperScores, score_lines
from cxrflow.show.page.svg import Interval, interval_chart
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.tests import Tests as Inference

ROWS = [
    {"label": "Ours", "model": "p/ours", "share": "1"},
    {"label": "Theirs", "model": "p/theirs", "share": "1"},
    {"label": "Ours, all labels", "model": "p/ours", "share": "100"},
    {"label": "Pixels, 1 %", "model": "reference/pixels", "share": "1"},
    {"label": "Brightness, 1 % of labels", "model": "reference/brightness", "share": "1"},
    {"label": "Pixels, 100 %", "model": "reference/pixels", "share": "100"},
]
VALUES = {
    "p/ours": {"1": 0.8, "100": 0.9},
    "p/theirs": {"1": 0.7},
    "reference/pixels": {"1": 0.6, "100": 0.85},
    "reference/brightness": {"1": 0.65},
}
CLAIMS = [
    {"claim": "Not run", "table": "t", "column": "a", "rows": ["Ours", "Nobody"]},
    {"claim": "Ours beats theirs", "table": "t", "column": "a", "rows": ["Ours", "Theirs"]},
    {"claim": "A second", "table": "t", "column": "a", "rows": ["Theirs", "Ours"]},
    {"claim": "Of ours alone", "ours": True, "table": "t", "column": "a",
     "rows": ["Theirs", "Ours"]},
]  # fmt: skip


def scores(
    root: Path, claims: list[dict], seeds: int = 3, values: dict | None = None
) -> PaperScores:
    """The scores of a paper of one table, an interval of 0.04 around each."""
    nobody = {"label": "Nobody", "reason": "nobody made it"}
    column = {"key": "a", "label": "AUROC", "metric": "auroc"}
    table = {"title": "Table 9. Made up", "source": "S", "task": "p/t", "columns": [column],
             "rows": [*ROWS, nobody]}  # fmt: skip
    paper = Paper.model_validate(
        {"name": "p", "tables": {"t": table}, "orderings": claims}, context={"paper": "p"}
    )
    files = [
        write_result(
            root / f"{model}/{seed}.json", "p/t", model, seed,
            {f"auroc/{share}": estimate(v + apart, v - 0.02, v + 0.02, 400)
             for share, v in of.items()},
            learnt=None if model.startswith("reference") else True,
        )
        for model, of in (VALUES if values is None else values).items()
        for seed, apart in enumerate(
            (-0.001, 0, 0.001) if seeds == 3 and not model.startswith("reference") else (0,)
        )
    ]  # fmt: skip
    return PaperScores(paper, ["t"], read_results(files), {"t": Inference()})


def test_a_paper_stands_by_the_first_claim_that_can_be_judged(tmp_path):
    line = board_line("p", "P", scores(tmp_path, CLAIMS), [])
    assert (line.claim, line.place) == ("Ours beats theirs", "Table 9, AUROC")
    assert [(m.label, m.value) for m in line.measured] == [
        ("Ours", "0.800"), ("Theirs", "0.700"), ("Brightness, 1 % of labels", "0.650"),
    ]  # fmt: skip
    assert (line.verdict, line.why) == ("holds", "")
    assert dict(line.tally) == {"holds": 1, "opposite": 1}  # none of ours, none that was not run
    assert "Ours 0.800; Theirs 0.700" in line.chart
    assert headline([line]) == "P: Ours beats theirs: holds"


def test_one_seed_judges_nothing_and_is_said(tmp_path):
    line = board_line("p", "P", scores(tmp_path, CLAIMS, seeds=1), [])
    assert (line.claim, line.verdict, line.why) == ("Ours beats theirs", "not shown", "one seed")


def test_of_neighbours_the_worst_verdict_is_the_claims(tmp_path):
    claim = {"claim": "In this order", "table": "t", "column": "a",
             "rows": ["Ours, all labels", "Theirs", "Ours"]}  # fmt: skip
    line = board_line("p", "P", scores(tmp_path, [claim]), [])
    assert line.verdict == "opposite" and len(line.measured) == 4


def test_without_a_value_the_claim_stands_alone(tmp_path):
    line = board_line("p", "P", scores(tmp_path, CLAIMS, values={}), [])
    assert (line.claim, line.measured, line.verdict) == ("Not run", (), "not run")
    assert board_line("p", "P", scores(tmp_path, []), []).claim == ""


CARD = {
    "label": "AUROC", "meaning": "0.5 is chance", "row": "Ours",
    "shown": {"value": "0.80", "interval": "0.7 to 0.9"},
    "compared": [{"what": "its base", "verdict": "Above", "label": "Base", "value": "0.6",
                  "judged": True}],
}  # fmt: skip


def test_what_claims_nothing_stands_by_the_number_it_leads_with(tmp_path):
    line = board_line("p", "P", scores(tmp_path, []), [CARD])
    assert (line.claim, line.verdict) == ("AUROC: 0.5 is chance", "above its base")
    assert [m.value for m in line.measured] == ["0.80", "0.6"]


def of(verdict: str) -> BoardLine:
    return BoardLine("p", "P", "C", verdict=verdict, tally=[(verdict, 1)])


def test_the_title_says_what_was_found():
    five = [of("holds"), of("holds"), of("opposite"), of("not shown"), of("not shown")]
    said = "Of five leading claims two hold, one is reversed, two are not shown"
    assert headline(five) == said
    assert (
        headline([of("holds"), of("not run")]) == "Of two leading claims one holds, one is not run"
    )
    assert headline([of("holds")] * 12) == "Of 12 leading claims 12 hold"


def test_each_score_stands_beside_the_strongest_baseline_of_its_budget(tmp_path):
    lines = score_lines("P", scores(tmp_path, []))
    assert all(len(line) == len(COLUMNS) for line in lines)
    beside = {line[2]: (line[4], line[7], line[14]) for line in lines}
    assert beside["Ours"] == ("1 %", "Brightness, 1 % of labels", 0.65)
    assert beside["Ours, all labels"] == ("100 %", "Pixels, 100 %", 0.85)
    assert beside["Pixels, 1 %"] == ("1 %", "", None)
    assert "Nobody" not in beside
    own = next(line for line in lines if line[2] == "Ours")
    assert own[5:7] == ["0.800", own[6]] and own[9] < own[15] == 0.8 < own[10]


def test_texts_stand_once_and_cannot_end_the_script():
    table = living_table(COLUMNS[:2], [["</script>", 1.5], ["</script>", None]], "a.csv")
    assert table["texts"] == ["</script>"] and table["rows"] == [[0, [1.5]], [0, [None]]]
    assert "</" not in json_text(table)
    assert json.loads(json_text(table)) == table


def test_the_page_holds_every_score_and_the_root_that_verify_prints(synthetic):
    front = pages(synthetic)["index.html"]
    (packed,) = re.findall(r'type="application/json"[^>]*>(.*?)</script>', front)
    content = json.loads(packed)
    assert len(content["rows"]) > 300 and len(content["columns"]) == len(COLUMNS)
    assert root_of(synthetic) == verified_root(synthetic)
    assert root_of(synthetic) in front
    assert len(re.findall("synthetic", words(front.partition("<script")[0]), re.I)) < 6


def test_links_between_pages_work_from_disk():
    front, paper = Place("my page", FRONT), Place("my page", "biovil")
    assert front.href("biovil", "t") == "my%20page_files/biovil.html#t"
    assert paper.href(FRONT) == "../my%20page.html" and paper.href("convirt") == "convirt.html"
    assert paper.href("biovil") == "#top" and front.href(FRONT, "why") == "#why"


def test_a_command_is_broken_between_words_alone():
    said = command("a --forcerun make_page\n  <b>")
    assert words(said) == "a --forcerun make_page\n  <b>"
    assert '<span class="word">--forcerun</span>' in said and "&lt;b&gt;" in said


def test_an_interval_chart_places_values_on_one_axis():
    chart = interval_chart([Interval("series0", 0.5, 0.0, 1.0), Interval("floor", 1, 1, 1)], "said")
    first, second = map(float, re.findall(r'cx="([\d.]+)"', chart))
    low, high = map(float, re.search(r"M([\d.]+) 10H([\d.]+)", chart).groups())
    assert low < first < high == second and 'aria-label="said"' in chart
    assert first == pytest.approx((low + high) / 2, abs=0.1)


def test_the_paper_of_a_sheet_is_clear_and_its_radiographs_are_whole():
    values = np.full((100, 160, 3), 255, np.uint8)
    values[20:90, 10:80] = np.arange(70)[:, None, None]
    values[40:50, 30:40] = 255  # white within a radiograph
    values[20:90, 84:90] = (200, 30, 30)  # the scale
    values[5:12, 10:14] = 0  # a letter above
    clear = np.asarray(without_paper(Image.fromarray(values)))
    assert clear.shape == (85, 80, 4)  # cropped to what is not paper
    radiograph = clear[15:85, :70]
    assert (radiograph[..., 3] == 255).all()
    assert (radiograph[..., :3] == values[20:90, 10:80]).all()
    assert (clear[:7, :4] == (INK, INK, INK, 255)).all() and (clear[0:7, 10:, 3] == 0).all()
    assert (clear[15:85, 74:80, 3] == 255).all() and (clear[15:85, 70:74, 3] == 0).all()
