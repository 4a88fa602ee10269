"""Published weights from their files to the certificate: random ones, and ours read back."""

import csv
from pathlib import Path
from typing import Any

import torch
from programs import program
from tiny_hospital import GEOMETRY, Stages

from cxr_files.atomic import read_json
from released_files import (
    SPECIAL,
    TINY,
    WORDS,
    biovil_image_shapes,
    cxr_bert_config,
    cxr_bert_shapes,
    drawn,
    write_text_folder,
)

SETTINGS: dict[str, dict[str, Any]] = {
    "phrase_grounding": {"dilate": [False, True, True]},  # of 32 pixels a map of more than one cell
    "zero_shot_classification": {"split": None},
    "segmentation": {"split": None},
    "mask_prediction": {"max_length": 48},
}


def imported(weights: Path, output: Path) -> Path:
    """The model folder of published weights, as the workflow makes it."""
    settings = {"geometry": GEOMETRY}
    given = {"kind": "biovil", "weights": weights, "model": "biovil/biovil", "seed": 0}
    program("pretrain.imported", settings, **given, output=output).succeeds()
    return output


def measured(stages: Stages, model: Path, output: Path) -> dict[str, Path]:
    """metrics.json of a model in tasks of BioViL on the tiny hospital, by task."""
    features = output / "features"
    rsna = {"cohort": stages.rsna, "pixels": stages.results / "pixels-rsna"}
    program("benchmarks.extract_features", {"device": "cpu"}, model=model, **rsna,
            output=features).succeeds()  # fmt: skip
    reads = {
        "phrase_grounding":
            {"cohort": stages.grounding, "pixels": stages.results / "pixels-grounding"},
        "zero_shot_classification": {"cohort": stages.rsna, "features": features},
        "mask_prediction": {"cohort": stages.cohort},
    }  # fmt: skip
    for name, inputs in reads.items():
        settings = {"device": "cpu", "intervals": {"replicates": 100}, **SETTINGS[name]}
        program("benchmarks.evaluate", settings, name, task=f"biovil/{name}", model=model,
                seed=0, **inputs, output=output / name).succeeds()  # fmt: skip
    return {name: output / name / "metrics.json" for name in reads}


def certificate(metrics: dict[str, Path], output: Path) -> list[dict[str, str]]:
    """Its cells."""
    program("show.tables.certificate", papers="biovil", metrics=[*metrics.values()],
            output=output).succeeds()  # fmt: skip
    assert "synthetic data" in output.with_suffix(".md").read_text().splitlines()[2]
    with output.with_suffix(".csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_random_weights_equal_nothing_that_is_published(finished: Stages, tmp_path: Path) -> None:
    sizes, source = {**TINY, "max_position_embeddings": 128}, tmp_path / "weights"
    text = drawn(cxr_bert_shapes(sizes, 6))
    write_text_folder(source, text, cxr_bert_config(sizes, 6), SPECIAL + WORDS)
    image = source / "biovil_image_resnet50_proj_size_128.pt"
    torch.save(drawn(biovil_image_shapes()), image)
    model = imported(source, tmp_path / "model")
    cells = certificate(measured(finished, model, tmp_path / "scores"), tmp_path / "certificate")
    by_place = {(cell["table"], cell["row"], cell["column"]): cell for cell in cells}
    # Of a dozen images the interval is too wide to refuse an AUROC; a spread is printed of a CNR.
    auroc = by_place["table6", "BioViL, zero-shot", "auroc"]
    assert auroc["published"] == "0.831" and float(auroc["ours"]) != 0.831 and auroc["n"] == "12"
    cnr = by_place["table5", "BioViL: CXR-BERT, global loss", "avg"]
    assert cnr["published_sd"] == "0.02" and cnr["verdict"] == "not equal"
    masks = by_place["table3", "CXR-BERT (after Phase-III + Joint Training)", "mask_accuracy"]
    assert masks["verdict"] == "not equal" and float(masks["difference"]) < -50
    assert "not equal, by −" in (tmp_path / "certificate.md").read_text()
    assert {cell["model"] for cell in cells} == {"biovil/biovil"}
    assert len(cells) > 40


def test_ours_exported_and_read_back_score_the_same_to_the_digit(
    finished: Stages, tmp_path: Path
) -> None:
    ours = finished.models / "joint"
    program("commands.export", model=ours, output=tmp_path / "exported").succeeds()
    direct = measured(finished, ours, tmp_path / "direct")
    again = measured(finished, imported(tmp_path / "exported", tmp_path / "model"),
                     tmp_path / "again")  # fmt: skip
    for name, path in direct.items():
        assert read_json(again[name])["metrics"] == read_json(path)["metrics"], name
    cells = certificate(again, tmp_path / "certificate")
    cnr = [c for c in cells if (c["table"], c["column"]) == ("table5", "avg")]
    value = read_json(direct["phrase_grounding"])["metrics"]["cnr"]["value"]
    assert [cell["ours"] for cell in cnr] == [f"{value:.6g}"]
