"""The synthetic MIMIC-IV knows the sex and age of MIMIC-CXR's patients, but for a few."""

from pathlib import Path

import pandas as pd
from benchmark_fakes import metrics_of
from phantom_fixtures import SETTINGS

from cxrflow.benchmarks.evaluate import main
from cxrflow.data.readers import mimic_iv
from cxrflow.phantom.patient import hospital, of_mimic_cxr
from cxrflow.phantom.writers.mimic_iv import write_mimic_iv


def test_patients(written: Path) -> None:
    table = pd.read_csv(written / "mimic_iv" / "hosp" / "patients.csv.gz", dtype=str)
    assert list(table) == [
        "subject_id", "gender", "anchor_age", "anchor_year", "anchor_year_group", "dod",
    ]  # fmt: skip
    patients, dropped = mimic_iv.read_patients(written / "mimic_iv")
    assert dropped == [] and len(patients) == len(table)
    by_id = {int(patient.subject_id): patient for patient in hospital(SETTINGS)}
    matched = patients[patients["subject_id"].astype(int).isin(by_id)]
    assert 0 < len(matched) < len(patients)  # also patients without a radiograph
    years = matched["subject_id"].map(lambda name: float(by_id[int(name)].studies[0].time.year))
    ages = mimic_iv.ages(patients, matched["subject_id"], years)
    for name, gender, age in zip(matched["subject_id"], matched["gender"], ages, strict=True):
        assert (gender, age) == (by_id[int(name)].sex, by_id[int(name)].age)


def test_a_few_are_missing_and_the_oldest_are_91(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"patients": 400})
    write_mimic_iv(settings, tmp_path / "iv", 1)
    patients, _ = mimic_iv.read_patients(tmp_path / "iv")
    ids = set(patients["subject_id"].astype(int))
    missing = [p for p in hospital(settings) if p.subject_id not in ids]
    assert 1 <= len(missing) <= 8
    ages = set(patients["anchor_age"])
    assert min(ages) >= 18 and 90 not in ages


def test_the_dates_of_headers_and_of_the_table_give_the_same_statistics(written, tmp_path):
    asked = {"dataset": "ms_cxr", "root": written / "ms_cxr", "demographics": written / "mimic_iv"}
    first, second = (
        metrics_of(
            *(main, "ms_cxr_statistics"), output=tmp_path / layout, **asked,
            studies_layout=layout, studies_root=written / layout,
        )
        for layout in ("mimic_cxr", "mimic_cxr_jpg")
    )  # fmt: skip
    assert first["metrics"] == second["metrics"] and first["data"]["synthetic"] is True
    pairs, aged = first["metrics"]["pairs/total"]["value"], first["metrics"]["age/total"]["value"]
    assert pairs == first["data"]["pairs"] > 5 and 18 < aged < 95
    assert first["metrics"]["subjects/background"]["value"] == len(of_mimic_cxr(SETTINGS))
