"""The configurations of real, public data, at tiny sizes and on slices, end to end to the page."""

import json
import os
import re
import shutil
import tarfile
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
EVERY = 12  # of Open-I's reports one is in the slice
TRAINED = {
    f"{paper}/{name}": SIZES[model.program]
    for paper in ("biovil", "biovil_t")
    for name, model in load_paper(paper).models.items()
    if model.program in SIZES
}
SMALL = {
    "seeds": [0],
    "vocabularies": {"biovil/cxr_bert": {"size": 400}},
    "tasks": {
        f"{paper}/{name}": {"intervals": {"replicates": 100}}
        for paper in ("biovil", "public_data", "own_data")
        for name in load_paper(paper).tasks
    },
}


def source(*folders: str) -> Path:
    """The folder of real data, with these in it."""
    if not DATA:
        pytest.skip("CXR_REAL_DATA is not set: it names the folder of real, public data")
    for name in folders:
        if not Path(DATA, name).is_dir():
            pytest.skip(f"CXR_REAL_DATA: no folder {name} in it")
    return Path(DATA).resolve()


def run(
    folder: Path, data: Path, quick: dict[str, str], overlays: tuple[str, ...], **changes: object
) -> Checkout:
    """A checkout in which a configuration has run; not to be changed."""
    models = {name: sizes for name, sizes in TRAINED.items() if name in models_of(overlays)}
    checkout = Checkout(copy_of(ROOT, folder), overlays).write(
        "tiny.yaml", {**SMALL, "models": models, **changes}
    )
    environment = {"CXR_REAL_DATA": str(data), "CXR_HOSPITAL": str(data), **quick}
    done = checkout.snakemake("--cores", "2", "--show-failed-logs", **environment)
    assert done.returncode == 0, done.stdout[-6000:]
    return checkout


def models_of(overlays: tuple[str, ...]) -> set[str]:
    """Models that overlays may name: those of the papers that they use."""
    papers = ("biovil", "biovil_t") if "hospital_over_time.yaml" in overlays else ("biovil",)
    return {name for name in TRAINED if name.split("/")[0] in papers}


def slice_of(data: Path, folder: Path) -> Path:
    """One in :data:`EVERY` of Open-I's reports with its images, and as much of RSNA."""
    open_i = folder / "open_i_pairs"
    (open_i / "images").mkdir(parents=True)
    with tarfile.open(data / "open_i_pairs/NLMCXR_reports.tgz") as archive:
        members = [m for m in archive if m.name.endswith(".xml")]
        chosen = [m for m in members if int(Path(m.name).stem) % EVERY == 1]
        for member in chosen:  # extractall has a filter since Python 3.11.4 alone
            report = archive.extractfile(member)
            assert report is not None
            file = open_i / member.name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(report.read())
    numbers = {Path(member.name).stem for member in chosen}
    for image in (data / "open_i_pairs/images").iterdir():
        if image.name.split("_")[0] in numbers:
            (open_i / "images" / image.name).symlink_to(image)
    shutil.copy(data / "open_i_pairs/indiana_projections.csv", open_i)
    rsna = folder / "rsna"
    (rsna / "stage_2_train_images").mkdir(parents=True)
    shutil.copy(next((data / "rsna").glob("*mappings*.json")), rsna)
    images = sorted((data / "rsna/stage_2_train_images").iterdir())[::4]
    for image in images:
        (rsna / "stage_2_train_images" / image.name).symlink_to(image)
    for name in ("stage_2_train_labels.csv", "stage_2_detailed_class_info.csv"):
        rows = pd.read_csv(data / "rsna" / name, dtype="str")
        rows[rows["patientId"].isin([i.stem for i in images])].to_csv(rsna / name, index=False)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, quick: dict[str, str]) -> Checkout:
    """Pairs, boxes and index terms: `real.yaml`."""
    data = slice_of(source("open_i_pairs", "rsna"), tmp_path_factory.mktemp("slice"))
    # Some of the slice's test part have fewer findings than the whole collection's.
    return run(tmp_path_factory.mktemp("real"), data, quick, ("real.yaml",))


@pytest.fixture(scope="module")
def results(made: Checkout) -> Path:
    return made.folder / "results/real"


@pytest.fixture(scope="module")
def html(results: Path) -> str:
    """The page and those beside it."""
    files = [results / "report/index.html", *sorted((results / "report/index_files").iterdir())]
    return "".join(file.read_text(encoding="utf-8") for file in files if file.suffix == ".html")


def read(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_page_says_what_the_data_are(html):
    assert "small data proves the path, not the science" in html
    assert 'class="ribbon"' not in html
    commands = re.sub(r"<[^>]*>", "", html)
    assert "--configfile real.yaml tiny.yaml" in commands


def test_the_page_leads_with_scores(html):
    assert "No number that a paper leads with is there yet" not in html
    for lead in load_paper("public_data").leads:
        assert lead.label in html


def test_nothing_synthetic_was_made(results):
    assert not (results / "phantom").exists()
    benchmarks = list((results / "benchmarks").rglob("metrics.json"))
    runs = list((results / "models").rglob("run.json"))
    assert benchmarks and runs
    for path in [*benchmarks, *runs]:
        assert read(path)["data"]["synthetic"] is False, path


def test_no_study_is_both_learnt_from_and_scored(results):
    """The pairs and the labelled images are split alike."""
    pairs = pd.read_parquet(results / "cohorts/biovil/mimic_cxr/pairs.parquet")
    labelled = pd.read_parquet(results / "cohorts/public_data/index_terms/samples.parquet")
    assert len(pairs) > 200 and len(labelled) > 100
    split = pairs.set_index("study_id")["split"]
    shared = labelled[labelled["group_id"].isin(split.index)]
    assert len(shared) > 100
    assert (split[shared["group_id"]].to_numpy() == shared["split"]).all()
    image = pairs.set_index("study_id")["image_id"]
    assert (image[shared["group_id"]].to_numpy() == shared["image_id"]).all()


def test_every_row_has_a_value_or_a_reason(results):
    for path in sorted((results / "tables/public_data").glob("*.csv")):
        cells = pd.read_csv(path)
        assert (cells["ours"].notna() | cells["reason"].notna()).all(), path
        assert cells["ours"].notna().any(), path


def test_no_sentence_of_a_patient_is_on_the_page(results, html):
    reports = pd.read_parquet(results / "corpus/open_i/sections.parquet")
    texts = pd.concat([reports["findings"], reports["impression"]]).dropna()
    found = {piece.strip() for text in texts for piece in re.split(r"[.\n]+", text)}
    pieces = sorted(piece for piece in found if len(piece) >= SNIPPET)
    assert len(pieces) > 500
    page = re.sub(r"\s+", " ", unescape(html)).lower()
    # The prompts in a paper's table are phrases that reports use too; they come from its file.
    papers = (ROOT / "workflow_scripts/cxrflow/papers").rglob("*.yaml")
    own = re.sub(r"\s+", " ", " ".join(path.read_text() for path in papers)).lower()
    snippets = {re.sub(r"\s+", " ", piece)[:SNIPPET].lower() for piece in pieces}
    assert [snippet for snippet in sorted(snippets) if snippet in page and snippet not in own] == []


def test_reports_alone_train_text_encoders(tmp_path, quick):
    """`real_text.yaml`: every report is counted, and the page has scores."""
    made = run(tmp_path, source("open_i"), quick, ("real_text.yaml",))
    results = made.folder / "results/real"
    corpus = read(results / "corpus/open_i/corpus.json")
    assert corpus["reports"] == REPORTS
    assert sum(corpus["outcomes"].values()) == REPORTS
    sections = pd.read_parquet(results / "corpus/open_i/sections.parquet")
    filled = sections[["findings", "impression"]].fillna("").ne("").all(axis=1)
    assert filled.sum() == WITH_BOTH_SECTIONS
    flow = read(results / "cohorts/biovil/mimic_cxr_reports/flow.json")
    assert flow["steps"][-1]["kept"] == WITH_BOTH_SECTIONS
    assert sum(split["studies"] for split in flow["splits"].values()) == WITH_BOTH_SECTIONS
    html = (results / "report/index.html").read_text(encoding="utf-8")
    assert "No number that a paper leads with is there yet" not in html


def test_radiographs_in_order_of_days_train_a_model_of_two_images(tmp_path, quick):
    """BioViL-T on the follow-ups of covid_chestxray and their notes."""
    data = source("covid_chestxray_2020_07")
    places = {"layout": "covid_chestxray", "root": str(data / "covid_chestxray_2020_07")}
    # A tenth of the list's files are not in the collection.
    views = {"views": ["AP", "PA", "AP SUPINE"], "max_failed_share": 0.2}
    reports = {"require": ["impression"], **views}
    made = run(
        tmp_path,
        data,
        quick,
        ("hospital.yaml", "hospital_over_time.yaml"),
        datasets={"my_hospital": {**places, "in_place_of": "mimic_cxr"}},
        cohorts={
            "biovil/mimic_cxr": views,
            "biovil_t/mimic_cxr": views,
            "biovil/mimic_cxr_reports": reports,
        },
    )
    results = made.folder / "results/hospital"
    pairs = pd.read_parquet(results / "cohorts/biovil_t/mimic_cxr/pairs.parquet")
    assert pairs["prior_image_id"].notna().sum() > 100
    assert read(results / "models/biovil_t/biovil_t/seed0/run.json")["data"]["synthetic"] is False
    scores = pd.read_csv(results / "tables/own_data_over_time/retrieval.csv")
    assert scores.loc[scores["row"].str.startswith("BioViL-T"), "ours"].notna().all()
