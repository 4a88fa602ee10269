"""Bad settings, configurations and roots: one clear line with exit code 2, nothing left behind."""

from pathlib import Path

import pytest
from programs import absent, program
from tiny_hospital import Stages


def test_missing_root_of_every_reader(stages: Stages, tmp_path: Path) -> None:
    moved = Stages(tmp_path / "nowhere", stages.results)
    ends = {
        "mimic_cxr": [
            moved.make_corpus(tmp_path / "result"),
            moved.make_cohort(tmp_path / "result"),
            moved.make_pixels(tmp_path / "result"),
        ],
        "ms_cxr": [moved.make_grounding(tmp_path / "result")],
        "rsna": [moved.make_rsna(tmp_path / "result")],
        "mimic_iii": [moved.collect_notes(tmp_path / "result")],
    }
    for name, found in ends.items():
        for end in found:
            end.refuses(tmp_path / "nowhere" / name)
    assert absent(tmp_path / "result")


IMAGES = {"pixels": "x", "model": "m", "cohort": "c"}
FEATURES = {"features": "f", "model": "m", "cohort": "c"}
TEXT = {"model": "m", "cohort": "c"}
TRAINING = {"pairs": "p", "model": "m", "seed": 0, "state": "state"}
MIMIC = {"layout": "mimic_cxr", "root": "."}
COUNTED = {"dataset": "d", "root": ".", "studies_layout": "mimic_cxr", "studies_root": "."}
PROGRAMS: dict[str, dict[str, object]] = {
    "cxr_hospital.draw result": {"layout": "rsna", "output": None},
    "reports.corpus": MIMIC,
    "data.cohorts.build_cohort": MIMIC,
    "images.store_pixels": {"root": ".", "images": "i", "geometry": "shorter32"},
    "text.corpus": {"layout": "pubmed", "root": "."},
    "text.vocabulary": {"documents": "d"},
    "text.tokens": {"documents": "d", "vocabulary": "v"},
    "pretrain.text": {**TRAINING, "vocabulary": "v"},
    "pretrain.image": {**TRAINING, "pixels": "x"},
    "pretrain.caption": {**TRAINING, "pixels": "x", "vocabulary": "v"},
    "pretrain.joint": {**TRAINING, "pixels": "x", "text": "t"},
    "benchmarks.extract_features": IMAGES,
    "benchmarks.evaluate phrase_grounding": IMAGES,
    "benchmarks.evaluate zero_shot_classification": FEATURES,
    "benchmarks.evaluate linear_probe": FEATURES,
    "benchmarks.evaluate linear_classification": {**IMAGES, "state": "s"},
    "benchmarks.evaluate fine_tuned_classification": {**IMAGES, "state": "s"},
    "benchmarks.evaluate segmentation": IMAGES,
    "benchmarks.evaluate mask_prediction": TEXT,
    "benchmarks.evaluate natural_language_inference": {**TEXT, "training": "t"},
    "benchmarks.evaluate sentence_similarity": TEXT,
    "benchmarks.evaluate vocabulary": {"vocabulary": "v", "cohort": "c"},
    "benchmarks.evaluate ms_cxr_statistics": COUNTED,
    "benchmarks.compare_rows": {"predictions": "p"},
}


@pytest.mark.parametrize("line", PROGRAMS)
def test_wrong_settings_of_a_program(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module, *words = line.split()
    values = {"output": "result", **PROGRAMS[line]}
    named = {name: value for name, value in values.items() if value is not None}
    end = program(module, {"nothing": 1}, *words, **named)
    # What is missing is one more thing wrong with the same settings, and may be said too.
    assert end.code == 2 and "Traceback" not in end.stderr
    assert "error: settings: unknown key 'nothing'" in end.stderr or any(
        said == "settings: unknown key 'nothing'" for said in end.errors
    )
    assert list(tmp_path.iterdir()) == []
