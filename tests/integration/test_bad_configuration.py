"""Bad settings, configurations and roots: one clear line with exit code 2, nothing left behind."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
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


@pytest.mark.parametrize(
    ("module", "settings", "key"),
    [
        ("phantom", {"patientz": 3}, "unknown key 'patientz'"),
        ("phantom", {"patients": "many"}, "key 'patients' is 'many'"),
        ("reports.corpus", {"sections": {"max_character": 3}}, "'sections.max_character'"),
        ("data.build_cohort", {"views": "PA"}, "key 'views' is 'PA'"),
        ("data.build_cohort", {"splits": {"shares": {"train": 0.5}}}, "key 'splits.shares'"),
        ("images.store_pixels", {"min_side": 1}, "key 'min_side' is 1"),
        ("text.corpus", {"bracket": "keep"}, "unknown key 'bracket'"),
        ("text.vocabulary", {"size": 3.5}, "key 'size' is 3.5"),
        ("text.tokens", {"cache": 1}, "unknown key 'cache'"),
        ("pretrain.text", {"training": {"epoch": 3}}, "unknown key 'training.epoch'"),
        ("pretrain.image", {"training": {"steps": "two"}}, "'training.steps'"),
        (
            "pretrain.joint",
            {"terms": {"global_alignment": {"temperature": -1}}},
            "'terms.global_alignment.temperature' is -1",
        ),
        ("pretrain.text", {"terms": {"mlm": None}}, "'terms': names no term; expected one of"),
        ("benchmarks.evaluate phrase_grounding", {"space": "pixel"}, "key 'space' is 'pixel'"),
        (
            "benchmarks.evaluate zero_shot_classification",
            {"temperature": None},
            "key 'temperature' is None",
        ),
        ("benchmarks.extract_features", {"batch_size": 0}, "key 'batch_size' is 0"),
        ("benchmarks.evaluate linear_probe", {"fractions": []}, "key 'fractions' is []"),
        ("benchmarks.evaluate segmentation", {"scale": "max"}, "key 'scale' is 'max'"),
        ("benchmarks.evaluate mask_prediction", {"sections": []}, "key 'sections' is []"),
        ("benchmarks.evaluate natural_language_inference", {"epochs": 0}, "key 'epochs' is 0"),
        ("benchmarks.evaluate sentence_similarity", {"splits": 1}, "unknown key 'splits'"),
        ("benchmarks.compare_vocabularies", {"word": []}, "unknown key 'word'"),
        ("benchmarks.count_ms_cxr", {"tokens": "letters"}, "key 'tokens' is 'letters'"),
        ("benchmarks.compare_rows", {"comparisons": [{}]}, "'comparisons.0.task' is missing"),
    ],
)
def test_wrong_settings_of_a_program(
    module: str, settings: dict[str, object], key: str, tmp_path: Path
) -> None:
    output = tmp_path / "result"
    inputs = {
        "phantom": {"dataset": "rsna"},
        "reports.corpus": {"layout": "mimic_cxr", "root": tmp_path},
        "data.build_cohort": {"layout": "mimic_cxr", "root": tmp_path},
        "images.store_pixels": {"root": tmp_path, "images": "i", "geometry": "shorter32"},
        "text.corpus": {"layout": "pubmed", "root": tmp_path},
        "text.vocabulary": {"documents": "d"},
        "text.tokens": {"documents": "d", "vocabulary": "v"},
        "pretrain.text": {"vocabulary": "v", "pairs": "p"},
        "pretrain.image": {"pixels": "x", "pairs": "p"},
        "pretrain.joint": {"pixels": "x", "pairs": "p", "text": "t"},
        "benchmarks.evaluate zero_shot_classification": {"features": "f"},
        "benchmarks.evaluate linear_probe": {"features": "f"},
        "benchmarks.evaluate mask_prediction": {},
        "benchmarks.evaluate natural_language_inference": {"training": "t"},
        "benchmarks.evaluate sentence_similarity": {},
        "benchmarks.compare_vocabularies": {"vocabulary": "a=v", "cohort": "c"},
        "benchmarks.count_ms_cxr": {
            "root": tmp_path,
            "studies_layout": "mimic_cxr",
            "studies_root": tmp_path,
        },
        "benchmarks.compare_rows": {"predictions": "p"},
    }.get(module, {"pixels": "x"})
    if module.startswith(("benchmarks.evaluate", "benchmarks.extract_features")):
        inputs |= {"model": "m", "cohort": "c"}
    if module.startswith("pretrain"):
        inputs |= {"model": "m", "seed": 0, "state": tmp_path / "state"}
    name, *words = module.split()
    end = program(name, settings, *words, **inputs, output=output)
    # A wrong length is one more thing wrong with the same settings, and may be said too.
    assert end.code == 2 and "Traceback" not in end.stderr
    assert any("settings: " in line and key in line for line in end.errors), end.stderr
    assert absent(output) and not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pixels: {geometri: shorter64}\n", ["unknown key 'pixels.geometri'"]),
        ("seeds: zero\n", ["key 'seeds' is 'zero'"]),
        ("synthetic_hospital: {patients: [3]}\n", ["key 'synthetic_hospital.patients'"]),
        ("models: {biovil/biovil: {momentum: 1}}\n", ["biovil/biovil", "momentum"]),
        ("pixels: {geometry: [unclosed\n", ["not valid YAML"]),
        ("- a list\n", ["expected keys and values"]),
    ],
)
def test_wrong_configuration(tmp_path: Path, text: str, words: list[str]) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text(text)
    end = program("config", None, "check", configfile=["config.yaml", overlay])
    end.refuses("overlay.yaml", *words)


def test_configuration_with_a_missing_data_root(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    moved = {"pubmed": {"root": str(tmp_path / "nowhere")}}
    overlay.write_text(yaml.safe_dump({"datasets": moved}))
    end = program("config", None, "check", configfile=["config.yaml", overlay], real=True)
    end.refuses(overlay, "datasets.pubmed.root", tmp_path / "nowhere", "no such folder")


def test_wrong_configuration_stops_the_workflow_before_it_runs(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("pixels: {geometri: shorter64}\n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n", "--configfile", overlay],
        capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode != 0
    assert "overlay.yaml: unknown key 'pixels.geometri'" in done.stderr + done.stdout
    assert "Traceback" not in done.stderr + done.stdout


@pytest.mark.parametrize("content", ["{", "patients: [", "- 3\n", "\xff"])
def test_settings_that_are_no_mapping(tmp_path: Path, content: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_bytes(content.encode("latin-1"))
    given = content if content == "{" else path
    end = program("phantom", None, "--settings", given, dataset="rsna", output=tmp_path / "rsna")
    end.refuses("settings")
    assert absent(tmp_path / "rsna")
