"""The notebook of grounding: its cells run in order, on a world of known answers."""

import json
import shutil

import pandas as pd
import pytest
from benchmark_fakes import CATEGORIES, FakeModel, grounding_samples, write_cohort
from PIL import Image

from command_options import options
from cxrflow.benchmarks.evaluate import main as evaluate
from notebook_cells import NOTEBOOKS, cells_of, code_of, run_cells

COUNT = 30


class Named(FakeModel):
    """A model with the halves that the notebook names."""

    text_encoder, image_encoder = object(), object()


@pytest.fixture
def results(pixels, tmp_path, monkeypatch):
    """What `make demo` leaves, as far as the notebook reads it."""
    folder = tmp_path / "results"
    shutil.copytree(pixels.parent / "root", folder / "phantom/mimic_cxr_jpg")
    samples = grounding_samples(COUNT)
    samples["image_path"] = samples["image_id"] + ".png"
    cohort = write_cohort(folder / "cohorts/biovil/ms_cxr", "samples.parquet", samples)
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: Named())
    settings = {"categories": list(CATEGORIES), "intervals": {"replicates": 100}}
    scores = folder / "benchmarks/biovil/phrase_grounding"
    asked = {"cohort": cohort, "pixels": pixels, "settings": settings}
    output = scores / "biovil/biovil/seed0"
    evaluate(["phrase_grounding", *options(**asked, model=tmp_path, output=output)])
    output = scores / "reference/finding_box/seed0"
    asked["reference"] = "finding_box"
    evaluate(["phrase_grounding", *options(**asked, output=output)])
    (tmp_path / "docs/notebooks").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "docs/notebooks")
    return folder


def test_the_cells_run_and_say_what_is_true(results, capsys):
    names = run_cells("grounding")
    said = capsys.readouterr().out
    sample, found = names["sample"], names["found"]
    (x, y, w, h), peak = sample["boxes"][0], found.peak(0)
    assert x < peak.x < x + w and y < peak.y < y + h
    assert f"at x {peak.x:.0f}, y {peak.y:.0f}: {sample['phrase']}" in said
    file = results / "benchmarks/biovil/phrase_grounding/biovil/biovil/seed0"
    value = json.loads((file / "metrics.json").read_text())["metrics"]["signed_cnr"]["value"]
    assert f"CNR {value:.2f} (" in said and "reference/finding_box" in said
    scores = pd.read_parquet(file / "predictions.parquet").set_index("sample_id")["signed_cnr"]
    assert f"signed_cnr  {scores[sample.name]:21.2f}"[-6:] in said
    assert isinstance(eval(code_of("grounding")[-3].strip(), names), Image.Image)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_what_is_stored_of_a_run_names_no_machine(file) -> None:
    outputs = [one for cell in cells_of(file.stem) for one in cell.get("outputs", [])]
    texts = ["".join(one.get("text", "")) for one in outputs]
    assert sum(map(bool, texts)) >= 4
    assert not any(root in text for text in texts for root in ("/home", "/tmp", "/root", "/work"))
    assert file.stat().st_size < 200_000
