"""Bad reports of the hospital: counted and left out one by one, refused in one line when too many.

Everything that was not damaged must still be there, unchanged.
"""

from pathlib import Path

import pandas as pd
import pytest
from programs import absent, dropped
from tiny_hospital import Stages

from cxrflow.files import read_json

REPORTS = {
    "no sections": (b" \n FINAL REPORT \n", "no usable section"),
    "empty": (b"", "empty file"),
    "blank": (b" \n\t \n", "empty file"),
    "wrong encoding": ("IMPRESSION: Küntscher-Nagel, Herzgröße.".encode("latin-1"), "not UTF-8"),
    "UTF-16": ("FINDINGS: Clear.\n".encode("utf-16"), "not UTF-8"),
    "NUL bytes": (b"FINDINGS:\x00\x00\x00\x00", "not text (NUL bytes)"),
    "gone": (None, "file not found"),
}


@pytest.mark.parametrize("damage", REPORTS)
def test_bad_report_is_counted_and_the_others_are_kept(
    stages: Stages, tmp_path: Path, damage: str
) -> None:
    before = pd.read_parquet(stages.corpus / "sections.parquet").set_index("study_id")
    study = pd.read_parquet(stages.cohort / "pairs.parquet")["study_id"].iloc[0]
    content, reason = REPORTS[damage]
    [path] = stages.data("mimic_cxr").glob(f"files/p*/p*/s{study}.txt")
    (stages.data("mimic_cxr") / "mimic-cxr-reports.zip").unlink(missing_ok=True)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    stages.make_corpus(tmp_path / "corpus", max_failed_share=0.5).succeeds()
    _, read = read_json(tmp_path / "corpus" / "corpus.json")["steps"]
    [failed] = read["dropped"]
    assert reason in failed["reason"] and failed["count"] == 1 and failed["examples"] == [study]
    after = pd.read_parquet(tmp_path / "corpus" / "sections.parquet").set_index("study_id")
    assert reason in after.loc[study, "outcome"] and after.loc[[study], "impression"].isna().all()
    pd.testing.assert_frame_equal(after.drop(study), before.drop(study))

    stages.make_cohort(tmp_path / "cohort", tmp_path / "corpus").succeeds()
    counts = dropped(read_json(tmp_path / "cohort" / "flow.json"))
    assert counts[f"no impression ({after.loc[study, 'outcome']})"] == 1


def test_too_many_bad_reports_end_the_corpus(stages: Stages, tmp_path: Path) -> None:
    for path in stages.data("mimic_cxr").glob("files/p*/p*/s*.txt"):
        path.write_bytes(b"")
    end = stages.make_corpus(tmp_path / "corpus", real=True)
    end.refuses(stages.data("mimic_cxr"), "failed", "max_failed_share 0.05", "empty file")
    assert absent(tmp_path / "corpus")
