"""Real reports and radiographs, labelled and made into cohorts (needs CXR_REAL_DATA)."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cxr_labels.observations import OBSERVATIONS
from cxr_labels.scope.labeller import ScopeLabeller
from cxr_labels.sentences import RuleSplitter
from cxr_labels.settings import ReportSettings
from cxrflow.commands.audit.audit import main as audit
from cxrflow.data.cohorts.build_cohort import main
from cxrflow.data.layouts import layout
from cxrflow.data.readers.common_tables import Request
from cxrflow.data.readers.open_i import read_reports, read_term_labels
from cxrflow.programs.source_code import PACKAGE
from cxrflow.reports.corpus import build_corpus
from cxrflow.reports.texts import read_texts

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


def test_labels_agree_with_the_human_index_terms() -> None:
    """Positive against not positive; the published NIH labeller has a total F1 of about 0.90."""
    texts = {
        report.study_id: report.sections or {} for report in read_texts("open_i", real("open_i"))
    }
    truth = read_term_labels(real("open_i"))
    splitter = RuleSplitter()
    sentences = [
        [
            sentence
            for section in ("findings", "impression")
            for sentence in splitter.split_one(texts[study].get(section, ""))
        ]
        for study in truth["study_id"]
    ]
    ours_NC = np.array(ScopeLabeller().label(sentences)) == 1
    written_N = np.array([bool(report) for report in sentences])
    ours_NC, given_NC = ours_NC[written_N], truth[list(OBSERVATIONS)].to_numpy()[written_N] == 1
    hits_C = (ours_NC & given_NC).sum(0)
    sizes_C = ours_NC.sum(0) + given_NC.sum(0)
    assert 2 * hits_C.sum() / sizes_C.sum() >= 0.93
    for name, hits, size, cases in zip(OBSERVATIONS, hits_C, sizes_C, given_NC.sum(0), strict=True):
        if cases >= 30:
            assert 2 * hits / size >= 0.75, name


def test_every_index_term_is_explained() -> None:
    page = (PACKAGE.parents[1] / "docs" / "open_i_terms.md").read_text().lower()
    names = {
        " ".join(term.split("/")[0].lower().split())
        for report in read_reports(real("open_i"))[0]
        for term in report.terms
    }
    assert len(names) > 100
    assert not [name for name in sorted(names) if name not in page]


def test_copies_of_another_edition_are_found(tmp_path: Path) -> None:
    """The later edition's files are smaller and compressed anew; nothing else looks like them."""
    editions = [str(real(name)) for name in ("covid_chestxray", "covid_chestxray_2020_07")]
    audit([*editions, "--output", str(tmp_path / "audit")])
    account = json.loads((tmp_path / "audit/audit.json").read_text())
    (copies,) = [one for one in account["findings"] if "as a copy" in one["what"]]
    assert (copies["count"], copies["of"]) == (118, 130)
    pictures = pd.read_csv(tmp_path / "audit/pictures.csv")
    in_both = pictures.groupby("image")["set"].nunique() == 2
    same = pictures.groupby("image")["picture"].nunique() == 1
    assert int((in_both & same).sum()) == 118
