"""The page of a run that goes on."""

import shutil
from pathlib import Path

import pytest

from cxrflow.config.cost import Job
from cxrflow.console.growing_page import GrowingPage


def job(rule: str, *outputs: Path) -> Job:
    return Job(rule, rule, frozenset(), frozenset(map(str, outputs)), 0, 1)


@pytest.fixture
def growing(synthetic: Path, tmp_path: Path) -> GrowingPage:
    """The page of a run whose products are all there but for the page."""
    folder = tmp_path / "results"
    shutil.copytree(synthetic, folder)
    jobs = [
        job("make_page", folder / "report/index.html"),
        job("make_table", folder / "tables/biovil/table5.csv"),
    ]
    page = GrowingPage.of(jobs)
    assert page is not None and page.results == folder
    return page


def test_before_the_first_table_each_score_of_a_model_is_shown(growing: GrowingPage) -> None:
    assert growing.ended("score_reference", "") == "" and growing.process is None
    growing.ended("evaluate", "no table yet")
    first = growing.process
    assert first is not None and first.wait() == 0
    assert "no table yet" in growing.path.read_text()
    growing.ended("make_table", "1 of 2")
    second = growing.process
    assert second is not None and second is not first and second.wait() == 0
    growing.ended("evaluate", "1 of 2, later")
    assert growing.process is second


def test_after_a_table_the_page_is_there_and_where_is_said_once(growing: GrowingPage) -> None:
    assert growing.ended("score_reference", "0 of 2") == "" and growing.process is None
    assert growing.ended("make_table", "09:30:00: 1 of 2 tables are made") == ""
    assert growing.process is not None and growing.process.wait() == 0
    html = growing.path.read_text()
    assert "09:30:00: 1 of 2 tables are made" in html and 'content="30"' in html
    assert growing.ended("evaluate", "") == f"the page so far: {growing.path}"
    assert growing.ended("evaluate", "") == ""
    assert not growing.page.exists()


def test_one_at_a_time_and_the_last_table_is_shown(growing: GrowingPage) -> None:
    growing.ended("make_table", "1 of 2")
    first = growing.process
    growing.ended("make_table", "2 of 2")
    assert growing.process is first and growing.due
    assert first is not None and first.wait() == 0
    growing.ended("evaluate", "2 of 2, later")
    assert growing.process is not first and growing.process is not None
    growing.process.wait()
    assert "2 of 2, later" in growing.path.read_text()


def test_at_the_end_it_leads_to_the_page(growing: GrowingPage) -> None:
    growing.ended("make_table", "1 of 1")
    assert growing.process is not None
    growing.process.wait()
    growing.page.write_text("the page")
    growing.ended("make_page", "")
    assert "url=index.html" in growing.path.read_text()
    beside = [*growing.path.with_name("so_far_files").iterdir()]
    assert len(beside) == 2 and all("url=../index.html" in page.read_text() for page in beside)
    assert growing.page.read_text() == "the page"


def test_what_fails_is_in_its_log_and_stops_nothing(growing: GrowingPage) -> None:
    growing.config.write_text("{}")
    growing.ended("make_table", "1 of 1")
    assert growing.process is not None and growing.process.wait() == 2
    assert growing.ended("evaluate", "") == "" and not growing.path.exists()
    log = growing.results / "logs/make_page/so_far.log"
    assert "field 'values' is missing" in log.read_text()


def test_a_run_without_page_or_tables_has_none(tmp_path: Path) -> None:
    page, table = job("make_page", tmp_path / "index.html"), job("make_table", tmp_path / "t.csv")
    paper = job("make_page", tmp_path / "biovil.html")
    for jobs in ([], [page], [table], [paper, table]):
        assert GrowingPage.of(jobs) is None
