"""The configuration of `make real` on real, public data, at tiny sizes, end to end to the page."""

import json
import os
import re
from html import unescape
from pathlib import Path

import pandas as pd
import pytest

from cxrflow.papers import load_paper
from small_sizes import SIZES

from .conftest import ROOT, Checkout, copy_of

pytestmark = pytest.mark.slow
DATA = os.environ.get("CXR_REAL_DATA", "")
SNIPPET = 30  # characters of a sentence that would not stand on the page by chance
# What open_i's publisher counts.
REPORTS, WITH_BOTH_SECTIONS = 3955, 3419
MODELS = load_paper("biovil").models


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout in which the real configuration has run; not to be changed."""
    if not DATA:
        pytest.skip("CXR_REAL_DATA is not set: it names the folder of open_i and covid_chestxray")
    if not Path(DATA).is_dir():
        pytest.skip("CXR_REAL_DATA names a folder that is not there")
    checkout = Checkout(copy_of(ROOT, tmp_path_factory.mktemp("real")), ("real.yaml",)).write(
        "tiny_real.yaml",
        {
            "models": {f"biovil/{name}": SIZES[model.program] for name, model in MODELS.items()},
            "vocabularies": {"biovil/cxr_bert": {"size": 400}},
            "tasks": {"biovil/mask_prediction": {"intervals": {"replicates": 100}}},
        },
    )
    folder = str(Path(DATA).resolve())
    done = checkout.snakemake("--cores", "2", "--show-failed-logs", CXR_REAL_DATA=folder)
    assert done.returncode == 0, done.stdout[-6000:]
    return checkout


@pytest.fixture(scope="module")
def results(made: Checkout) -> Path:
    return made.folder / "results/real"


@pytest.fixture(scope="module")
def html(results: Path) -> str:
    return (results / "report/index.html").read_text(encoding="utf-8")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_page_says_what_the_data_are(html):
    assert "small data proves the path, not the science" in html
    assert 'class="ribbon"' not in html
    assert "--configfile real.yaml tiny_real.yaml" in html


def test_nothing_synthetic_was_made(results):
    assert not (results / "phantom").exists()
    benchmarks = list((results / "benchmarks").rglob("metrics.json"))
    runs = list((results / "models").rglob("run.json"))
    assert benchmarks and runs
    for path in [*benchmarks, *runs]:
        assert read(path)["data"]["synthetic"] is False, path


def test_every_report_is_counted(results):
    corpus = read(results / "corpus/open_i/corpus.json")
    assert corpus["reports"] == REPORTS
    assert sum(corpus["outcomes"].values()) == REPORTS
    sections = pd.read_parquet(results / "corpus/open_i/sections.parquet")
    filled = sections[["findings", "impression"]].fillna("").ne("").all(axis=1)
    assert filled.sum() == WITH_BOTH_SECTIONS
    flow = read(results / "cohorts/biovil/mimic_cxr_reports/flow.json")
    assert flow["steps"][-1]["kept"] == WITH_BOTH_SECTIONS
    assert sum(split["studies"] for split in flow["splits"].values()) == WITH_BOTH_SECTIONS


def test_follow_ups_have_their_priors(results):
    pairs = pd.read_parquet(results / "cohorts/biovil/mimic_cxr/pairs.parquet")
    assert pairs["prior_image_id"].notna().sum() > 0


def sentences_of(results: Path) -> list[str]:
    """Sentences of the reports, and the notes of the radiographs, long enough to be told apart."""
    reports = pd.read_parquet(results / "corpus/open_i/sections.parquet")
    notes = pd.read_csv(Path(DATA) / "covid_chestxray/metadata.csv")["clinical notes"]
    texts = pd.concat([reports["findings"], reports["impression"], notes]).dropna()
    found = {piece.strip() for text in texts for piece in re.split(r"[.\n]+", text)}
    return sorted(piece for piece in found if len(piece) >= SNIPPET)


def test_no_sentence_of_a_patient_is_on_the_page(results, html):
    page = re.sub(r"\s+", " ", unescape(html)).lower()
    pieces = sentences_of(results)
    assert len(pieces) > 1000
    # The prompts in a paper's table are phrases that reports use too; they come from its file.
    papers = (ROOT / "workflow_scripts/cxrflow/papers").rglob("*.yaml")
    own = re.sub(r"\s+", " ", " ".join(path.read_text() for path in papers)).lower()
    snippets = {re.sub(r"\s+", " ", piece)[:SNIPPET].lower() for piece in pieces}
    assert [snippet for snippet in sorted(snippets) if snippet in page and snippet not in own] == []
