"""A hospital whose reports are one block of text, with dates and views: from folder to page."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from cxrflow.papers import load_paper
from small_sizes import SIZES

from .conftest import ROOT, Checkout, copy_of

pytestmark = pytest.mark.slow
STUDIES, OF_A_PATIENT = 60, 3
FINDINGS = ("pneumonia", "cardiomegaly", "a pleural effusion", "atelectasis", "edema")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hospital's studies; not to be changed."""
    folder = tmp_path_factory.mktemp("hospital")
    rng = np.random.default_rng(0)
    for name in ("images", "reports"):
        (folder / name).mkdir()
    lines = ["study_id,patient_id,date,view"]
    for n in range(STUDIES):
        lines.append(f"s{n},p{n // OF_A_PATIENT},2026-01-{1 + n % OF_A_PATIENT:02d},PA;LATERAL")
        text = f"There is {FINDINGS[n % 5]} on day {n}. No {FINDINGS[(n + 1) % 5]} is seen."
        (folder / f"reports/s{n}.txt").write_text(f"IMPRESSION: {text}\n")
        for image in (1, 2):
            pixels = rng.integers(0, 255, (64, 64), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"images/s{n}_{image}.png")
    (folder / "studies.csv").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def made(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout in which the run is over; not to be changed."""
    papers = {name: load_paper(name).models for name in ("biovil", "biovil_t")}
    views = {"views": ["PA"]}
    checkout = Checkout(
        copy_of(ROOT, tmp_path_factory.mktemp("run")), ("hospital.yaml", "hospital_over_time.yaml")
    ).write(
        "tiny.yaml",
        {
            "models": {
                f"{paper}/{name}": SIZES[model.program]
                for paper, models in papers.items()
                for name, model in models.items()
                if model.program in SIZES
            },
            "vocabularies": {"biovil/cxr_bert": {"size": 200}},
            "cohorts": {
                f"{paper}/{name}": views
                for paper, name in (
                    *(("biovil", "mimic_cxr"), ("biovil_t", "mimic_cxr")),
                    ("biovil", "mimic_cxr_reports"),
                )
            },
        },
    )
    done = checkout.snakemake("--cores", "2", "--show-failed-logs", CXR_HOSPITAL=str(folder))
    assert done.returncode == 0, done.stdout[-6000:]
    return checkout


def test_reports_of_one_block_train_and_are_said(made: Checkout) -> None:
    results = made.folder / "results/hospital"
    run = json.loads((results / "models/biovil/cxr_bert/seed0/run.json").read_text())
    assert run["data"]["notice"].startswith("No training report has FINDINGS and IMPRESSION")
    assert set(run["permuted_pairs"]["terms"]) == {"mlm"}
    pages = (results / "report/index_files").glob("*.html")
    assert any(run["data"]["notice"] in page.read_text(encoding="utf-8") for page in pages)
    flow = json.loads((results / "cohorts/biovil/mimic_cxr/flow.json").read_text())
    assert flow["texts"] == {"both": 0, "findings": 0, "impression": STUDIES}


def test_dates_give_priors_and_views_leave_laterals_out(made: Checkout) -> None:
    results = made.folder / "results/hospital"
    pairs = pd.read_parquet(results / "cohorts/biovil_t/mimic_cxr/pairs.parquet")
    assert pairs["prior_image_id"].notna().sum() == STUDIES - STUDIES // OF_A_PATIENT
    assert set(pairs["view"]) == {"PA"} and pairs["image_id"].str.endswith("_1").all()
    scores = pd.read_csv(results / "tables/own_data_over_time/retrieval.csv")
    assert scores.loc[scores["row"].str.startswith("BioViL-T"), "ours"].notna().all()


def test_an_edited_list_of_studies_is_read_again(made: Checkout, folder: Path) -> None:
    def planned() -> set[str]:
        return set(made.planned(CXR_HOSPITAL=str(folder)))

    assert planned() == set()
    studies = folder / "studies.csv"
    text, time = studies.read_text(), studies.stat().st_mtime_ns
    studies.write_text(text.replace("s0,p0,", "s0,p1,"))
    assert {"process_reports", "build_pairs", "pretrain_joint", "make_page"} <= planned()
    studies.write_text(text)
    os.utime(studies, ns=(time, time))
    (folder / "images/s0_1.png").touch()
    assert planned() == set()
