"""What models write, on the page: which reports, which words are marked, what is hidden."""

import re
from pathlib import Path

import pandas as pd
import pytest
from page_fixtures import build, edit, load, write_record

from cxrflow.config.schema import Config
from cxrflow.errors import InputError
from cxrflow.files import write_json
from cxrflow.page.reports import marked

TASK, MODEL = "biovil_t/report_generation", "biovil_t/report_biovil_t"
REPORTS = (
    (
        "Effusion <script> has increased. No pneumothorax.",
        "Effusion has decreased. No pneumothorax.",
    ),
    ("The heart is stable.", "The heart is stable."),
    ("New opacity at the left base.", "Clear lungs."),
    ("Unchanged lines & tubes.", "Unchanged lines."),
    ("Improved edema.", "Edema has improved."),
    ("Worse pneumonia.", "Pneumonia has grown."),
    ("Larger effusion.", "An effusion."),
    ("Smaller effusion.", "Nothing."),
    ("Nothing of note.", "Nothing has changed."),  # says nothing of change
    ("Resolved pneumonia, first study.", "No prior."),  # has no prior
)


def write_reports(root: Path, config: Config, synthetic: bool = True) -> Path:
    folder = root / f"benchmarks/{TASK}/{MODEL}/seed0"
    true, said = zip(*REPORTS, strict=True)
    scores = [1 - number / 10 for number in range(len(REPORTS))]
    table = pd.DataFrame({"reference": true, "generated": said, "rouge_l": scores})
    table = table.assign(sample_id=[f"s{number}" for number in range(len(table))], with_prior=True)
    table.loc[len(table) - 1, "with_prior"] = False
    folder.mkdir(parents=True)
    table.to_parquet(folder / "predictions.parquet")
    content = {"task": TASK, "benchmark": "report_generation", "model": MODEL, "seed": 0}
    data = {"name": "mimic_cxr", "synthetic": synthetic, "fingerprint": "77aa"}
    content |= {"learnt": True, "data": data, "protocol": {}, "metrics": {}}
    write_json(folder / "metrics.json", content)
    return folder


@pytest.fixture
def world(tmp_path: Path) -> tuple[Path, Config]:
    config = load(papers=["biovil_t"])
    write_record(tmp_path, config)
    return tmp_path, config


def section(root: Path) -> str:
    found = re.search(r'<section id="biovil_t-reports">.*?</section>', build(root), re.S)
    assert found
    return found[0]


def test_parts_are_the_texts_again() -> None:
    true, said = "Mild  edema, improved.", "Mild edema has worsened."
    parts = marked((true, [(13, 21)]), (said, [(15, 23)]))
    assert ["".join(part["text"] for part in side) for side in parts] == [true, said]
    chosen = [[part["text"] for part in side if part["change"]] for side in parts]
    assert chosen == [["improved"], ["worsened"]]
    differing = [[part["text"] for part in side if part["differs"]] for side in parts]
    assert differing == [["improved"], ["has", "worsened"]]
    same = marked(("Stable.", []), ("stable.", []))
    assert not any(part["differs"] or part["change"] for side in same for part in side)
    assert marked(("", []), ("New", [(0, 3)]))[0] == []


def test_best_middle_and_worst_of_those_that_speak_of_change(world: tuple[Path, Config]) -> None:
    write_reports(*world)
    html = section(world[0])
    assert "report_biovil_t</code>, seed 0" in html and "Of 8 studies" in html
    ranks = re.findall(r'<span class="chip (\w+)">', html)
    assert ranks == ["best", "best", "median", "median", "worst", "worst"]
    for shown, (true, _) in enumerate(REPORTS):
        words = re.sub(r"</?(mark|u)>", "", html)
        assert (true.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") in words) == (
            shown in (0, 1, 3, 4, 6, 7)
        )
    assert "<mark><u>increased</u></mark>" in html and "<mark><u>decreased</u></mark>" in html
    assert "<mark>stable</mark>" in html and "<script" not in html
    assert "not for clinical use" in html
    assert 'href="#biovil_t-reports"' in build(world[0])


def test_texts_are_hidden_where_privacy_says_so(world: tuple[Path, Config]) -> None:
    root, config = world
    folder = write_reports(root, config, synthetic=False)
    html = section(root)
    assert "they are of real data" in html and "effusion" not in html
    write_record(root, load(papers=["biovil_t"], privacy={"show_text": True}))
    assert "Larger" in section(root) or "Smaller" in section(root)
    write_record(root, load(papers=["biovil_t"], privacy={"show_text": False}))
    edit(folder / "metrics.json", data={"name": "mimic_cxr", "synthetic": True})
    html = section(root)
    assert "the configuration forbids it" in html and "effusion" not in html


def test_what_is_missing_is_said(world: tuple[Path, Config]) -> None:
    root, config = world
    assert "has not been evaluated" in section(root)
    folder = write_reports(root, config)
    table = pd.read_parquet(folder / "predictions.parquet")
    table.assign(reference="Nothing.").to_parquet(folder / "predictions.parquet")
    assert "speaks of change" in section(root) and "<ol" not in section(root)
    table.assign(generated=None).to_parquet(folder / "predictions.parquet")
    with pytest.raises(InputError, match=r"column 'generated' holds what is no text"):
        build(root)


def test_a_paper_without_writers_has_no_such_part(tmp_path: Path) -> None:
    write_record(tmp_path, load(papers=["biovil"]))
    assert "biovil-reports" not in build(tmp_path)
