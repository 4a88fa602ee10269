"""``cxrflow zero_shot``: any model on a public data set, by prompts alone."""

import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.metrics import f1_score, matthews_corrcoef

from cxr_files.atomic import CHECKSUMS, read_json, write_json
from cxr_files.errors import InputError
from cxr_hospital.draw import writer
from cxr_hospital.settings import HospitalSettings
from cxrflow.commands import zero_shot
from cxrflow.commands.export import export
from released_files import write_biovil

SETTINGS = HospitalSettings(patients=12, image_size=64, rsna_images=4, nih_patients=16)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nih") / "nih"
    writer("nih")(SETTINGS, folder, 1)
    return folder


def run(model: Path, root: Path, output: Path, *more: str, dataset: str = "nih") -> None:
    options = ["--model", str(model), "--dataset", dataset, "--root", str(root)]
    zero_shot.main([*options, "--output", str(output), *more])


def test_published_weights_are_scored_and_the_protocol_stands_beside(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_biovil(tmp_path / "released")
    classes = ["Infiltration", "Effusion", "Atelectasis", "Pneumothorax", "Hernia"]
    run(model, root, tmp_path / "out", "--classes", *classes)
    text = capsys.readouterr().out
    result = read_json(tmp_path / "out/chexzero_best_f1/metrics.json")
    assert result["protocol"]["prompts"] == "chexzero" and result["data"]["samples"] > 5
    value = result["metrics"]["auroc"]["value"]
    assert f"mean of the classes        {value:.3f} (" in text
    both = round(result["metrics"]["classes"]["value"])
    assert f"{both} of 5 classes have both labels and are in the mean" in text
    for words in (
        "official test list",
        f"{result['data']['samples']} synthetic samples (as published: 25,596 images)",
        "asked      Effusion as pleural effusion\n",
        "prompts    chexzero: CheXzero (Tiu et al. 2022)",
        "F1 at      best F1 on the evaluated images",
        "95 %, over patients",
        "trained on data that are not recorded",
    ):
        assert words in text
    run(model, root, tmp_path / "out", "--classes", *classes, "--prompts", "windsor")
    assert (tmp_path / "out/windsor_best_f1/metrics.json").is_file()
    assert "windsor: Windsor et al. 2023, Appendix D" in capsys.readouterr().out
    run(model, root, tmp_path / "out", "--without", *classes)
    assert "of 9 classes have both labels" in capsys.readouterr().out


def test_an_exported_model_scores_as_the_folder_it_is_of(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With thresholds by Matthews' correlation, as KAD's."""
    folder = zero_shot._model(write_biovil(tmp_path / "released"), None, tmp_path / "model")
    export(folder, tmp_path / "exported")
    asked = ["--classes", "Infiltration", "Effusion", "--threshold", "best_mcc"]
    results = []
    for name in ("model", "exported"):
        run(tmp_path / name, root, tmp_path / f"out_{name}", *asked)
        text = capsys.readouterr().out
        assert "F1 at      best correlation (Matthews) on the evaluated images" in text
        assert "trained on data that are not recorded" in text
        results.append(tmp_path / f"out_{name}/chexzero_best_mcc")
    scores = [pd.read_parquet(result / "predictions.parquet") for result in results]
    for name in ("score/infiltration", "score/effusion"):
        np.testing.assert_allclose(scores[0][name], scores[1][name], atol=1e-6)
        assert scores[0][name].nunique() > 1
    metrics = read_json(results[1] / "metrics.json")
    assert metrics["protocol"]["threshold"] == "best_mcc"
    values, rows = metrics["metrics"], scores[1]
    truth, score = rows["label/effusion"], rows["score/effusion"]
    best = max(np.unique(score), key=lambda t: (matthews_corrcoef(truth, score >= t), t))
    assert values["threshold/effusion"]["value"] == pytest.approx(best)
    assert values["f1/effusion"]["value"] == pytest.approx(f1_score(truth, score >= best))


def test_intervals_over_images_are_not_called_those_of_patients(tmp_path: Path) -> None:
    """RSNA without the mapping to NIH, and VinDr-CXR, name no patients."""
    path = tmp_path / "predictions.parquet"
    for subjects, said in (
        (["a", "a", "b"], "patients"),
        ([None] * 3, "images, as patients are not known"),
        (["a", None, "b"], "patients; that of 1 samples is not known, each stands for one"),
    ):
        pd.DataFrame({"subject_id": pd.Series(subjects, dtype="str")}).to_parquet(path)
        assert zero_shot._resampled(path) == said


def test_missing_test_images_are_counted_beside_the_scores(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the training part may all be absent."""
    few = tmp_path / "nih"
    shutil.copytree(root, few)
    tested = set((few / "test_list.txt").read_text().split())
    files = sorted(few.glob("images*/images/*.png"))
    for path in files:
        if path.name not in tested:
            path.unlink()
    next(path for path in files if path.name in tested).unlink()
    # One of these few is more than the 5 % that a cohort may lose.
    with pytest.raises(
        InputError, match=r"1 of \d+ images failed at 'image usable', more than max"
    ):
        run(write_biovil(tmp_path / "released"), few, tmp_path / "out")
    rules = zero_shot.protocol("nih")
    lenient = rules.model_copy(update={"cohort": {**rules.cohort, "max_failed_share": 0.5}})
    monkeypatch.setattr(zero_shot, "protocol", lambda _: lenient)
    table = next(few.glob("Data_Entry_2017*.csv"))
    lines = table.read_text().splitlines()
    place = next(n for n, line in enumerate(lines[1:], 1) if line.split(",")[0] not in tested)
    lines[place] = lines[place].replace(lines[place].split(",")[1], "Weather", 1)
    table.write_text("\n".join(lines) + "\n")
    run(write_biovil(tmp_path / "released"), few, tmp_path / "out")
    text = capsys.readouterr().out
    assert "left out   1 images: file not found" in text
    assert "left out   1 images of all parts: " in text
    assert "images: not in the given split" in text
    # The row that is left out is in a list.
    assert "note       1 lines of the official lists are no image of the table\n" in text


def padchest(root: Path) -> Path:
    """104 images of physicians: two without labels, one MONOCHROME1, one cut off."""
    (root / "0").mkdir(parents=True)
    numbers = range(104)
    table = {
        "ImageID": [f"{n}.png" for n in numbers],
        "ImageDir": 0,
        "StudyID": [f"s{n}" for n in numbers],
        "PatientID": [f"p{n}" for n in numbers],
        "Projection": ["L" if n % 4 == 1 else "PA" for n in numbers],
        "PhotometricInterpretation_DICOM": [*["MONOCHROME2"] * 103, "MONOCHROME1"],
        "MethodLabel": "Physician",
        "Labels": [
            "",
            "",
            *["['nodule', 'nodules']" if n % 3 else "['normal']" for n in numbers[2:]],
        ],
    }
    path = root / "PADCHEST_chest_x_ray_images_labels_160K_01.02.19.csv"
    pd.DataFrame(table).to_csv(path)
    rng = np.random.default_rng(0)
    for number in numbers:
        pixels = rng.integers(0, 2**16, (32, 32)).astype(np.uint16)
        Image.fromarray(pixels).save(root / f"0/{number}.png")
    cut = root / "0/5.png"
    cut.write_bytes(cut.read_bytes()[:900])
    return root


def test_all_that_is_left_out_and_noted_stands_beside_the_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = padchest(tmp_path / "padchest")
    run(write_biovil(tmp_path / "released"), root, tmp_path / "out", dataset="padchest")
    text = capsys.readouterr().out
    stored = read_json(next(tmp_path.glob("out/pixels/*/store.json")))
    (drop,) = stored["dropped"]
    for words in (
        "scored     101 samples",
        "left out   2 images of all parts: no labels",
        "left out   1 images: image is not in the pixel store",
        f"not stored 1 images: {drop['reason']}",
        "note       label 'nodules' of 68 images is none of the 193",
        "note       PhotometricInterpretation_DICOM is MONOCHROME1 of 1 images; their files are",
    ):
        assert words in text
    assert "103.png" not in text and "5.png" not in text  # ids stand in cohort/flow.json


STARTS = "; what its encoders started from is not recorded"


@pytest.mark.parametrize("exported", [False, True], ids=["folder", "exported"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"name": "rsna"}, f"trained on rsna, which shares people with nih: nih{STARTS}"),
        ({"name": "nih"}, f"trained on nih, which shares people with nih: nih{STARTS}"),
        (
            {"name": "mimic_cxr", "selection": {"dataset": "nih", "synthetic": False}},
            "trained on mimic_cxr, of other people than nih; chosen on nih, which shares people "
            f"with nih: nih{STARTS}",
        ),
        (
            {
                **{"name": "my_hospital", "layout": "hospital"},
                "selection": {"name": "nih_here", "layout": "nih"},
            },
            "trained on my_hospital, of other people than nih; chosen on nih_here, which shares "
            f"people with nih: nih{STARTS}",
        ),
        (
            {"name": "ours", "selection": {"benchmark": "zero_shot_classification"}},
            f"trained on data called ours; chosen on data that are not recorded{STARTS}",
        ),
        ({"name": "mimic_cxr"}, f"trained on mimic_cxr, of other people than nih{STARTS}"),
        (
            {"name": "mimic_cxr", "synthetic": True},
            f"trained on synthetic mimic_cxr, of other people than nih{STARTS}",
        ),
        (
            {"name": "rsna", "synthetic": True},
            f"trained on synthetic rsna, of other people than nih{STARTS}",
        ),
        ({"name": "ours"}, f"trained on data called ours{STARTS}"),
        (None, f"trained on data that are not recorded{STARTS}"),
    ],
)
def test_shared_people_are_named(data: object, said: str, exported: bool, tmp_path: Path) -> None:
    model, output = tmp_path / "model", tmp_path / "out"
    if exported:
        zero_shot._model(write_biovil(tmp_path / "released"), None, model)
    model.mkdir(exist_ok=True)
    (model / CHECKSUMS).unlink(missing_ok=True)
    write_json(model / "run.json", {"data": data})
    if exported:
        export(model, tmp_path / "exported")
        model = tmp_path / "exported"
        assert zero_shot._model(model, None, output / zero_shot.IMPORTED) != model
        chosen = "- checkpoint chosen by: " in (model / "README.md").read_text()
        assert chosen == ("chosen on" in said)
    options = Namespace(model=model, output=output, dataset="nih")
    assert zero_shot._people(options) == said


def test_drawn_people_may_be_those_of_another_drawn_data_set(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    write_json(tmp_path / "model/run.json", {"data": {"name": "rsna", "synthetic": True}})
    options = Namespace(model=tmp_path / "model", output=tmp_path / "out", dataset="nih")
    said = f"trained on synthetic rsna, which shares people with nih: nih{STARTS}"
    assert zero_shot._people(options, synthetic=True) == said


def test_bad_input_is_one_line(root: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere: not found; expected a model folder or publi"):
        run(tmp_path / "nowhere", root, tmp_path / "a")
    (tmp_path / "half" / "image").mkdir(parents=True)
    (tmp_path / "half" / "run.json").write_text("{}")
    with pytest.raises(InputError, match="config.json is missing; expected a model with both"):
        run(tmp_path / "half", root, tmp_path / "b")
    model = write_biovil(tmp_path / "released")
    with pytest.raises(
        InputError, match="--classes Weather: .*flow.json has no such class, but At"
    ):
        run(model, root, tmp_path / "c", "--classes", "Hernia", "Weather")
    with pytest.raises(InputError, match="--without Weather: .*flow.json has no such class"):
        run(model, root, tmp_path / "c", "--without", "Weather")
    assert not (tmp_path / "c/pixels").exists()
