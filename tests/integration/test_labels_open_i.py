"""Labels of real reports against what people said they show (needs CXR_REAL_DATA)."""

import os
from pathlib import Path

import numpy as np
import pytest

from cxrflow.data.readers.open_i import read_reports
from cxrflow.data.readers.open_i_terms import read_term_labels
from cxrflow.files.source_code import ROOT
from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.labels.scope.labeller import ScopeLabeller
from cxrflow.reports.sentences import RuleSplitter
from cxrflow.reports.texts import read_texts

REAL = os.environ.get("CXR_REAL_DATA")
pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not REAL, reason="CXR_REAL_DATA is not set: no folder with open_i/"),
]


@pytest.fixture(scope="module")
def root() -> Path:
    return Path(str(REAL)) / "open_i"


def test_labels_agree_with_the_human_index_terms(root: Path) -> None:
    """Positive against not positive; the published NIH labeller has a total F1 of about 0.90."""
    texts = {report.study_id: report.sections or {} for report in read_texts("open_i", root)}
    truth = read_term_labels(root)
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


def test_every_index_term_is_explained(root: Path) -> None:
    page = (ROOT.parent / "docs" / "open_i_terms.md").read_text().lower()
    names = {
        " ".join(term.split("/")[0].lower().split())
        for report in read_reports(root)[0]
        for term in report.terms
    }
    assert len(names) > 100
    assert not [name for name in sorted(names) if name not in page]
