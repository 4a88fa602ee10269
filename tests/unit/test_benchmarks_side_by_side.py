"""Reports of several models beside the radiologist's: which are shown, what is marked, hidden."""

import re
from pathlib import Path

import pandas as pd
import pytest
from page_fixtures import build, edit, load, write_record

from cxrflow.benchmarks.draw_figure import main
from cxrflow.benchmarks.generation.side_by_side import at_quantiles, marked_spans
from cxrflow.config.configuration import Config
from cxrflow.files.atomic import read_json, write_json

TASK, PAPER = "biovil_t/report_generation", "biovil_t"
MODELS = {"BioViL": "biovil_t/report_biovil", "BioViL-T": "biovil_t/report_biovil_t"}
REPORTS = (
    ("Effusion <script> has increased.", "Effusion has decreased."),
    ("The heart is stable.", "The heart is stable."),
    ("New opacity at the left base.", "Clear lungs."),
    ("Unchanged lines & tubes.", "Unchanged lines."),
    ("Improved edema.", "Edema has improved."),
    ("Nothing of note.", "Nothing has changed."),  # says nothing of change
    ("Pneumonia, first study.", "No prior."),  # has no prior
)


def write_results(root: Path, synthetic: bool = True) -> list[Path]:
    folders = []
    for model in MODELS.values():
        folder = root / f"benchmarks/{TASK}/{model}/seed0"
        true, said = zip(*REPORTS, strict=True)
        table = pd.DataFrame({"reference": true, "generated": said})
        table["rouge_l"] = [0.1, 0.4, 0.2, 0.5, 0.3, 0.0, 0.9]
        table = table.assign(sample_id=[f"s{number}" for number in range(len(table))])
        table = table.assign(study_id=table["sample_id"], with_prior=[True] * 6 + [False])
        folder.mkdir(parents=True)
        table.to_parquet(folder / "predictions.parquet")
        data = {"name": "mimic_cxr", "synthetic": synthetic}
        content = {"task": TASK, "benchmark": "report_generation", "model": model, "seed": 0}
        content |= {"learnt": True, "data": data, "protocol": {}, "metrics": {}}
        write_json(folder / "metrics.json", content)
        folders.append(folder)
    return folders


def write_figure(root: Path, folders: list[Path]) -> Path:
    columns = [{"label": label, "model": model} for label, model in MODELS.items()]
    settings = root / "settings.json"
    write_json(settings, {"title": "Table A.1. Reports.", "task": TASK, "columns": columns})
    output = root / f"figures/{PAPER}/table_a1.json"
    output.parent.mkdir(parents=True, exist_ok=True)
    results = ["--results", *map(str, folders)]
    main(["reports", "--settings", str(settings), *results, "--output", str(output)])
    return output


@pytest.fixture
def world(tmp_path: Path) -> tuple[Path, Config]:
    config = load(papers=[PAPER])
    write_record(tmp_path, config)
    return tmp_path, config


def article(root: Path) -> str:
    found = re.search(r'<article id="biovil_t-table_a1">.*?</article>', build(root), re.S)
    assert found
    return found[0]


def test_at_equal_distances_in_the_order_of_scores() -> None:
    scores = pd.Series({"e": 5.0, "a": 1.0, "c": 3.0, "b": 2.0, "d": 4.0})
    assert at_quantiles(scores, 1) == ["c"]
    assert at_quantiles(scores, 3) == ["b", "c", "d"]
    assert at_quantiles(scores, 9) == ["a", "b", "c", "d", "e"]
    assert at_quantiles(scores[:0], 3) == at_quantiles(scores, 0) == []


def test_words_of_change_are_marked_by_whether_the_reference_has_them() -> None:
    texts = ("Mild edema, Improved.", "improved; new effusion", "")
    parts = marked_spans(*texts)
    assert ["".join(words for words, _ in text) for text in parts] == list(texts)
    marks = [[(words, mark) for words, mark in text if mark] for text in parts]
    assert marks == [[("Improved", "stated")], [("improved", "agreed"), ("new", "other")], []]


def test_studies_that_speak_of_change_and_one_without_a_prior(world: tuple[Path, Config]) -> None:
    content = read_json(write_figure(world[0], write_results(world[0])))
    assert [row["study"] for row in content["rows"]] == ["s2", "s4", "s1", "s6"]
    assert [row["with_prior"] for row in content["rows"]] == [True, True, True, False]
    assert content["columns"] == ["Reference", "BioViL", "BioViL-T"]
    html = article(world[0])
    assert html.count("<li>") == 4 and "Of 5 studies with a prior" in html
    marks = {"stated": "Improved", "agreed": "stable"}
    assert all(f'<mark class="{kind}">{word}</mark>' in html for kind, word in marks.items())
    assert "not for clinical use" in html


def test_texts_are_escaped(world: tuple[Path, Config]) -> None:
    folders = write_results(world[0])
    for folder in folders:
        path = folder / "predictions.parquet"
        pd.read_parquet(path).iloc[[0, 3, 6]].to_parquet(path)
    write_figure(world[0], folders)
    html = article(world[0])
    assert "&lt;script&gt;" in html and "<script" not in html and "lines &amp; tubes" in html


def test_texts_are_hidden_where_privacy_says_so(world: tuple[Path, Config]) -> None:
    root, _ = world
    path = write_figure(root, write_results(root, synthetic=False))
    # Without leave the rule is not asked for; a file of an earlier run is not shown either.
    assert "biovil_t-table_a1" not in build(root) or "edema" not in article(root)
    write_record(root, load(papers=[PAPER], privacy={"show_text": True}))
    assert "edema" in article(root)
    write_record(root, load(papers=[PAPER], privacy={"show_text": False}))
    edit(path, data={"name": "mimic_cxr", "synthetic": True})
    assert "edema" not in build(root)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"generated": None}, "column 'generated' holds what is no text"),
        ({"reference": "Another."}, "its studies or their reports are not those of"),
    ],
)
def test_what_does_not_fit_is_one_line(world, change, said):
    folders = write_results(world[0])
    path = folders[1] / "predictions.parquet"
    pd.read_parquet(path).assign(**change).to_parquet(path)
    with pytest.raises(Exception, match=said):
        write_figure(world[0], folders)
