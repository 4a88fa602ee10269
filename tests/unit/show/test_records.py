"""A run is written down, read back, and shown by pages of the documentation."""

import csv
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from page_fixtures import load, write_results

from cxr_files.errors import InputError
from cxrflow.show.records.documentation import main as render
from cxrflow.show.records.documentation import rendered, table
from cxrflow.show.records.record import main as write_record
from cxrflow.show.records.record import read_record, read_records, record
from cxrflow.show.tables.verdicts import NOT_SHOWN

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A folder with the record of a run of one paper, at one commit of a small checkout."""
    folder = tmp_path_factory.mktemp("checkout")
    write_results(folder / "results", load(extent="all"))
    (folder / "results/timings/evaluate").mkdir(parents=True)
    (folder / "results/timings/evaluate/a.tsv").write_text("s\th:m:s\n3.5\t0:00:03\n")
    for words in (["init", "-q"], ["add", "-f", "results/report"], ["commit", "-qm", "run"]):
        who = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        subprocess.run(["git", *who, *words], cwd=folder, check=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        record(Path("results"), Path("records/demo"))
    return folder


def test_a_record_says_how_the_run_was_made(recorded: Path) -> None:
    run = read_record(recorded / "records/demo").run
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=recorded, capture_output=True, text=True, check=True
    )
    assert run["commit"] == commit.stdout.strip()
    assert run["seconds"] == {"evaluate": 3.5}
    assert run["seeds"] == {"biovil": 1} and run["scale"] == "demo"
    assert run["real"] == [] and "mimic_cxr" in run["synthetic"]


def test_tables_are_the_runs_own(recorded: Path) -> None:
    table = recorded / "results/tables/biovil/table5.csv"
    assert (recorded / "records/demo/biovil/table5.csv").read_bytes() == table.read_bytes()
    comparisons = read_record(recorded / "records/demo").comparisons("biovil")
    assert {each.judged for each in comparisons if each.better_ours is not None} >= {
        (NOT_SHOWN, "one seed")
    }


def test_a_page_shows_some_rows_and_columns_of_a_table(recorded: Path) -> None:
    records = read_records(recorded / "records")
    cells = [cell for cell in records[0].table("biovil", "table5") if cell["ours"]]
    row, column = cells[-1]["row"], cells[-1]["column"]
    place = "<!-- recorded: table demo biovil table5{} -->\n<!-- end of recorded -->"
    whole = rendered(place.format(""), records, "page.md").splitlines()
    part = rendered(place.format(f": {column} of {row}"), records, "page.md").splitlines()
    assert len(whole) > len(part) == 6  # a blank line, heads, their rule, one row between comments
    assert part[4].startswith(f"| {row} | ") and part[4].count("|") == 3
    with pytest.raises(InputError, match="no value of 'no such row'"):
        rendered(place.format(f": {column} of no such row"), records, "page.md")


def test_a_table_may_have_no_value_and_a_paper_may_be_a_users_own(recorded: Path) -> None:
    run = read_record(recorded / "records/demo")
    cells = [cell for cell in run.table("biovil", "table5") if cell["ours"]]

    class Own:
        """A record whose tables are of no paper of the package."""

        def table(self, paper: str, name: str) -> list[dict[str, str]]:
            return cells if name == "mine" else []

    text = table(Own(), "my_paper", "mine")  # type: ignore[arg-type]
    assert cells[0]["column"] in text.splitlines()[0]
    assert len(table(Own(), "my_paper", "empty").splitlines()) == 2  # type: ignore[arg-type]


def test_changes_that_no_commit_holds_are_refused(recorded: Path, monkeypatch) -> None:
    monkeypatch.chdir(recorded)
    config = Path("results/report/config.json")
    before = config.read_text()
    config.write_text(before + "\n")
    with pytest.raises(InputError, match=r"the checkout has changes: results/report/config\.json"):
        record(Path("results"), Path("records/other"))
    config.write_text(before)
    assert not Path("records/other").exists()


def test_a_table_that_is_not_there_is_named(recorded: Path, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(recorded)
    table = Path("results/tables/biovil/table5.csv")
    table.rename(tmp_path / "kept.csv")
    with pytest.raises(InputError, match=r"table5\.csv: file not found; finish the run"):
        record(Path("results"), Path("records/other"))
    (tmp_path / "kept.csv").rename(table)
    assert list(Path("records").iterdir()) == [Path("records/demo")]


def test_a_record_that_a_kill_cut_off_is_none(recorded: Path, tmp_path) -> None:
    for name in ("demo", ".demo.host.17.partial"):
        shutil.copytree(recorded / "records/demo", tmp_path / name)
    assert [each.name for each in read_records(tmp_path)] == ["demo"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": 0}, "schema is 0; expected 1: record the run again"),
        ({"commit": None}, "commit"),
        ({"seconds": 3}, "seconds"),
    ],
)
def test_another_schema_is_refused(recorded: Path, tmp_path, change, said) -> None:
    run = json.loads((recorded / "records/demo/run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps(run | change))
    with pytest.raises(InputError, match=said):
        read_record(tmp_path)


def test_a_record_that_was_changed_is_refused(recorded: Path, tmp_path) -> None:
    copy = shutil.copytree(recorded / "records/demo", tmp_path / "demo")
    table = copy / "biovil/table5.csv"
    table.write_text(table.read_text().replace("BioViL", "BioVil", 1))
    with pytest.raises(InputError, match=r"biovil/table5\.csv: damaged, its SHA-256"):
        read_record(copy)
    table.unlink()
    with pytest.raises(InputError, match=r"biovil/table5\.csv: missing"):
        read_record(copy)


def test_a_record_replaces_an_earlier_one_and_nothing_else(recorded: Path, monkeypatch) -> None:
    monkeypatch.chdir(recorded)
    for _ in range(2):
        write_record(["--results", "results", "--output", "records/again"])
    Path("notes").mkdir()
    Path("notes/mine.md").write_text("mine")
    with pytest.raises(InputError, match="notes: holds files that no earlier run wrote"):
        write_record(["--results", "results", "--output", "notes"])
    with pytest.raises(InputError, match="notes: holds files that no earlier run wrote"):
        record(Path("results"), Path("notes"))
    assert Path("notes/mine.md").read_text() == "mine"
    shutil.rmtree("records/again")


def test_pages_show_what_is_recorded(recorded: Path) -> None:
    records = read_records(recorded / "records")
    page = "# A\n\n<!-- recorded: {} -->\nSTALE\n<!-- end of recorded -->\n\nB\n"
    for what in ("claims biovil", "verdicts", "runs", "table demo biovil table5"):
        text = rendered(page.format(what), records, "page.md")
        assert text.startswith("# A\n") and text.endswith("\nB\n") and "STALE" not in text
        assert rendered(text, records, "page.md") == text
    with (recorded / "records/demo/biovil/table5.csv").open() as file:
        cells = [row for row in csv.DictReader(file) if row["ours"]]
    assert all(f"{float(cell['ours']):.3g}".lstrip("-") in text for cell in cells)
    claims = rendered(page.format("claims biovil"), records, "page.md")
    assert "**not shown**: one seed | 3 seeds | demo |" in claims
    none = rendered(page.format("claims convirt"), records, "page.md")
    assert "No run of this paper is recorded." in none


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<!-- recorded: runs -->\n", "has no '<!-- end of recorded -->'"),
        (
            "<!-- recorded : runs -->\nSTALE\n<!-- end of recorded -->",
            "1 times, after 0 beginnings",
        ),
        ("<!-- recorded: claims nobody -->\n<!-- end of recorded -->", "page.md: .*nobody"),
        ("<!-- recorded: claim biovil -->\n<!-- end of recorded -->", "expected claims PAPER"),
        ("<!-- recorded: table x a b -->\n<!-- end of recorded -->", "no recorded run 'x'"),
        ("<!-- recorded: table demo a b -->\n<!-- end of recorded -->", "has no such table"),
    ],
)
def test_a_place_that_cannot_be_filled_is_named(recorded: Path, page: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rendered(page, read_records(recorded / "records"), "page.md")


def test_the_command_renders_and_checks(recorded: Path, tmp_path, capsys) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- recorded: runs -->\n<!-- end of recorded -->\n")
    typed = ["--records", str(recorded / "records"), str(page)]
    with pytest.raises(InputError, match="is not what the records give; run `make results`"):
        render([*typed, "--check"])
    render(typed)
    assert "rendered" in capsys.readouterr().out and "| demo |" in page.read_text()
    render([*typed, "--check"])


def test_the_documentation_is_what_its_records_give() -> None:
    """And above its part on earlier runs no table is typed by hand."""
    page = ROOT / "docs/results.md"
    render(["--check", "--records", str(ROOT / "docs/results"), str(page), str(ROOT / "README.md")])
    now, heading, _ = page.read_text(encoding="utf-8").partition("### Earlier runs")
    typed = re.sub(r"<!-- recorded: .*?<!-- end of recorded -->", "", now, flags=re.DOTALL)
    assert heading and "| --- |" in now and "| --- |" not in typed
