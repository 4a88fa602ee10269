"""The paper of the tests, rehearsed: each kind of job once, marked, and a report of its cost."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from .conftest import ROOT, Checkout, copy_of

pytestmark = pytest.mark.slow


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def short(paper: dict) -> dict:
    """Of the paper of the tests two tables: phases II and III, images, two joint trainings."""
    for key, names in {
        "models": ("words", "sections", "images", "joint", "local"),
        "tasks": (
            *("phrase_grounding", "mask_prediction", "natural_language_inference"),
            *("zero_shot_classification", "sentence_similarity"),
        ),
        "tables": ("grounding", "text"),
    }.items():
        paper[key] = {name: paper[key][name] for name in names}
    grounding, text = paper["tables"].values()
    grounding["rows"] = [row for row in grounding["rows"] if row.get("model") != "frames"]
    text["columns"] = text["columns"][:3]
    orderings, headline = paper["orderings"][:1], paper["headline"][:1]
    more = {"cohorts": {}, "figures": {}, "orderings": orderings, "headline": headline}
    return paper | more


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory, quick: dict[str, str]) -> Path:
    """A checkout with the rehearsal of a paper: first with a damaged data set, then without."""
    folder = copy_of(ROOT, tmp_path_factory.mktemp("rehearsal"))
    paper = short(yaml.safe_load(Path(__file__).with_name("toy.yaml").read_text()))
    (folder / "toy.yaml").write_text(yaml.safe_dump(paper))
    shutil.copy2(Path(__file__).with_name("tiny.yaml"), folder / "tiny.yaml")
    (folder / "broken").mkdir()
    typed = ["rehearsal={samples: 8, batch: 6}", "label_agreement={comparisons: []}"]

    def rehearse(*more: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "cxrflow", "rehearse", "--configfile", "tiny.yaml"]
        done = subprocess.run(
            [*command, "--cores", "2", "--config", *typed, *more],
            cwd=folder,
            env=Checkout(folder).environment(**quick),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert "# Rehearsal of config.yaml + tiny.yaml" in done.stdout, done.stdout
        return done.returncode, done.stdout

    status, said = rehearse("datasets={mednli: {root: broken}}")
    (folder / "first.txt").write_text(f"{status}\n{said}")
    status, said = rehearse()
    assert status == 0 and "## 0 jobs failed\n" in said, said
    return folder


def test_all_but_what_is_damaged_is_made(rehearsed: Path) -> None:
    status, *said = (rehearsed / "first.txt").read_text().splitlines()
    assert status == "1"
    assert "## 1 jobs failed, 3 wait for these" in said
    assert "batches of 6 at most" in " ".join(said)
    [failed] = [line for line in said if line.startswith("- build_samples biovil/mednli")]
    assert "broken: mli_train_v1.jsonl not found" in failed
    [lost] = [line for line in said if line.startswith("cells of tables without a value: ")]
    assert "toy 1 (text 1)" in lost, lost


def test_trainings_are_saved_resumed_and_marked(rehearsed: Path) -> None:
    runs = list((rehearsed / "results/rehearsal/models/toy").glob("*/seed0/metrics.jsonl"))
    assert len(runs) == 5
    for run in runs:
        record = read(run.with_name("run.json"))
        assert record["rehearsal"] is True and record["steps"] == 5
        assert record["settings"]["training"]["batch_size"] <= 6
        starts = list(run.with_name("tensorboard").iterdir())
        assert len(starts) == 2, record["model"]


def test_nothing_can_be_taken_for_a_result(rehearsed: Path) -> None:
    assert [path.name for path in (rehearsed / "results").iterdir()] == ["rehearsal"]
    results = rehearsed / "results/rehearsal"
    words = set()
    for table in (results / "tables/toy").glob("*.csv"):
        if table.stem != "orderings":
            with table.open(encoding="utf-8", newline="") as file:
                words |= {row["ours"] for row in csv.DictReader(file)}
    assert "rehearsed" in words
    cohorts = [read(path) for path in (results / "cohorts").rglob("flow.json")]
    assert cohorts and all(flow["dataset"].startswith("rehearsal of ") for flow in cohorts)
    assert "no number here is a result" in (results / "report/toy/index.html").read_text()


def test_the_resources_are_a_configuration(rehearsed: Path) -> None:
    resources = rehearsed / "results/rehearsal/resources.yaml"
    asked = yaml.safe_load(resources.read_text())["resources"]
    assert asked["pretrain_joint"].keys() == {"threads", "mem_mb", "runtime", "gpu", "retries"}
    command = [sys.executable, "-m", "cxrflow", "config", "check", "--configfile", "tiny.yaml"]
    subprocess.run([*command, str(resources)], cwd=rehearsed, check=True)
