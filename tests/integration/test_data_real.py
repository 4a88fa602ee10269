"""Cohorts of the real Open-I reports and covid-chestxray radiographs (CXR_REAL_DATA)."""

import json
import os
from pathlib import Path

import pandas as pd
import pytest

from cxrflow.data.cohorts.build_cohort import main
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.reports.corpus import build_corpus
from cxrflow.reports.settings import ReportSettings

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not os.environ.get("CXR_REAL_DATA"),
        reason="CXR_REAL_DATA is not set: no folder with open_i/ and covid_chestxray/",
    ),
]


def real(name: str) -> Path:
    return Path(os.environ["CXR_REAL_DATA"]) / name


def cohort(tmp_path: Path, name: str, **settings: object) -> tuple[pd.DataFrame, dict]:  # type: ignore[type-arg]
    build_corpus(name, str(real(name)), tmp_path / "corpus", ReportSettings())
    main(
        [
            *("--layout", name, "--root", str(real(name)), "--corpus", str(tmp_path / "corpus")),
            *("--settings", json.dumps(settings), "--output", str(tmp_path / "cohort")),
        ]
    )
    flow = json.loads((tmp_path / "cohort/flow.json").read_text())
    return pd.read_parquet(tmp_path / "cohort/pairs.parquet"), flow


def test_open_i_has_3955_reports_and_3419_with_both_sections(tmp_path: Path) -> None:
    tables = layout("open_i").read(real("open_i"), Request())
    assert len(tables.studies) == 3955 and len(tables.images) == 7470
    assert tables.images["view"].value_counts().to_dict() == {"FRONTAL": 3818, "LATERAL": 3648}
    pairs, flow = cohort(tmp_path, "open_i", require=["findings", "impression"])
    assert len(pairs) == 3419 and pairs["image_id"].isna().all()
    assert pairs["subject_id"].isna().all() and not flow["synthetic"]
    documents = pd.read_parquet(tmp_path / "cohort/documents.parquet")
    assert len(documents) == 3955 - 28


def test_covid_chestxray_has_118_frontal_radiographs_of_158_rows(tmp_path: Path) -> None:
    pairs, flow = cohort(tmp_path, "covid_chestxray")
    steps = {(step["name"], step["unit"]): step for step in flow["steps"]}
    counts = {name: step["kept"] for name, step in steps.items()}
    assert counts["images listed", "images"] == 135  # 158 rows, 23 CT slices
    assert counts["image file usable", "images"] == 130
    assert counts["frontal view", "images"] == 118
    assert counts["has impression", "studies"] == 133
    assert len(pairs) == counts["frontal image", "studies"] == 116
    assert flow["priors"]["found"] == 39
    tables = layout("covid_chestxray").read(real("covid_chestxray"), Request())
    there = tables.images[tables.images["failure"].isna()]
    assert len(there) == 130 and there["subject_id"].nunique() == 80
    order = tables.studies.set_index("study_id")["order"]
    with_prior = pairs.dropna(subset="prior_study_id")
    assert (
        with_prior["prior_study_id"].map(order).to_numpy()
        < with_prior["study_id"].map(order).to_numpy()
    ).all()
