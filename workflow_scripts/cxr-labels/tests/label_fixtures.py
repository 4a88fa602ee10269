"""A small corpus of reports, labelled by the engine itself, and labels to compare its with."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxr_files.atomic import write_json
from cxr_labels.labeller import make_labeller
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.settings import ReportSettings

REPORTS: dict[str, list[str]] = {
    "50000001": ["Small right pleural effusion.", "No pneumothorax."],
    "50000002": ["No pneumothorax.", "Mild pulmonary edema."],
    "50000003": ["No acute cardiopulmonary process."],
    "50000004": ["No  PNEUMOTHORAX.", "Pneumonia is possible."],
    "50000005": ["No pneumothorax.", "Fuzzy grey things are seen."],
    "50000006": ["Cardiomegaly.", "No pneumothorax."],
}


def write_corpus(
    folder: Path,
    reports: Mapping[str, Sequence[str]] = REPORTS,
    *,
    dataset: str = "mimic_cxr",
    synthetic: bool = True,
    settings: ReportSettings | None = None,
) -> Path:
    """``results/corpus/<dataset>`` of impressions given as sentences; two studies a patient."""
    settings = (settings or ReportSettings()).of_layout("mimic_cxr")
    folder.mkdir(parents=True)
    studies = list(reports)
    texts = [list(sentences) for sentences in reports.values()]
    values = make_labeller(settings.labels).label(texts)
    labels = pd.DataFrame(values, columns=list(OBSERVATIONS))
    labels.insert(0, "study_id", studies)
    labels.to_parquet(folder / "labels.parquet")
    sections = pd.DataFrame(
        {
            "study_id": [*studies, "59999999"],
            "subject_id": [f"1{i // 2:07d}" for i in range(len(studies))] + ["19999999"],
            "conclusion": [" ".join(sentences) for sentences in texts] + [None],
            "conclusion_from": ["impression"] * len(studies) + [None],
            "outcome": ["impression only"] * len(studies) + ["no usable section"],
        }
    )
    sections.to_parquet(folder / "sections.parquet")
    rows = [
        (study, "impression", number, sentence)
        for study, sentences in reports.items()
        for number, sentence in enumerate(sentences)
    ]
    columns = ["study_id", "section", "index", "sentence"]
    pd.DataFrame(rows, columns=columns).to_parquet(folder / "sentences.parquet")
    corpus: dict[str, Any] = {
        "dataset": dataset,
        "synthetic": synthetic,
        "settings": settings.model_dump(mode="json"),
        "fingerprint": "0123456789abcdef",
        "settings_fingerprint": "fedcba9876543210",
    }
    write_json(folder / "corpus.json", corpus)
    return folder


def given_like(corpus: Path, **changes: Mapping[str, float]) -> pd.DataFrame:
    """The corpus's own labels, alphabetical as in MIMIC-CXR-JPG, with changes by study.

    ``given_like(corpus, s50000001={"Edema": 1.0})``
    """
    labels = pd.read_parquet(corpus / "labels.parquet").set_index("study_id")
    for study, values in changes.items():
        for finding, value in values.items():
            labels.loc[study.removeprefix("s"), finding] = value
    labels = labels[sorted(OBSERVATIONS)].reset_index()
    labels.insert(0, "subject_id", np.arange(len(labels)))
    return labels
