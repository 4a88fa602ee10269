"""One image file grounded: the store's pixels, where the strongest patch is, the command line."""

import io
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import SIZE, FakeModel, boxes_of, make_store
from dicom_files import dataset, save
from PIL import Image
from safetensors.torch import load_file, save_file

from cxr_files.errors import InputError
from cxr_labels.observations import OBSERVATIONS
from cxrflow.benchmarks.figures.sheet import GAP, LINE
from cxrflow.benchmarks.grounding.calibration import findings_of
from cxrflow.benchmarks.grounding.calibration_settings import CalibrationSettings
from cxrflow.benchmarks.grounding.calibration_studies import calibrate
from cxrflow.benchmarks.grounding.one_image import Grounding
from cxrflow.benchmarks.grounding.phrases import plain_phrases
from cxrflow.benchmarks.grounding.settings import OneImageSettings
from cxrflow.commands.ground import ground, main
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source, store_image
from cxrflow.images.store import PixelStore
from cxrflow.training.precision import choose_precision

BRIGHT, DARK = "bright area.", "No bright area"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("one_image")
    make_store(made, 12)
    for name in ("model", "model/image"):
        (made / name).mkdir()
        (made / name / "config.json").write_text("{}")
    return made


def write_dicom(path: Path, values: np.ndarray, view: str = "") -> None:
    """Twelve bits, black where the values are high."""
    made = dataset(values.astype("<u2"), 12, "MONOCHROME1")
    made.ViewPosition = view
    save(made, path)


def test_a_picture_gives_the_pixels_of_the_store(folder):
    store = PixelStore(folder / "pixels")
    for number in (1, 2, 3):
        found = ground(FakeModel(), folder / "root" / f"image{number}.png", [BRIGHT])
        (stored,) = store.read(store.rows([f"image{number}"]))
        np.testing.assert_array_equal(found.pixels_SS, stored)


def test_a_dicom_gives_the_pixels_of_the_store(tmp_path):
    values = np.random.default_rng(0).integers(0, 4096, (90, 71))
    write_dicom(tmp_path / "x.dcm", values)
    found = ground(FakeModel(), tmp_path / "x.dcm", [BRIGHT])
    geometry = Geometry.parse(f"shorter{SIZE}")
    stored, _ = store_image(tmp_path, Source("x", "x.dcm"), geometry, PixelSettings())
    np.testing.assert_array_equal(found.pixels_SS, stored)
    assert found.shown.shape == (448, 448 * 71 // 90)


def test_the_strongest_patch_and_the_map_are_where_the_square_is(folder):
    for number in (1, 2, 4, 5, 7):
        image = folder / "root" / f"image{number}.png"
        found = ground(FakeModel(), image, [BRIGHT, DARK], OneImageSettings(upsample="nearest"))
        x, y, w, h = boxes_of(number)[0]
        peak = found.peak(0)
        assert x < peak.x < x + w and y < peak.y < y + h and peak.similarity > 0.9
        away = found.peak(1)
        assert not (x < away.x < x + w and y < away.y < y + h)
        values = found.map(0)
        assert values.shape == (96, 64)
        # The crop is the middle 64 of the 96 rows.
        assert np.isnan(values[:16]).all() and np.isnan(values[80:]).all()
        assert np.isfinite(values[16:80]).all()
        assert values[int(peak.y), int(peak.x)] == pytest.approx(peak.similarity)


@pytest.mark.parametrize("shape", [(16, 60_000), (60_000, 16)])
def test_a_strip_of_a_picture_is_drawn(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    png = ground(FakeModel(), image, [BRIGHT]).draw()
    assert Image.open(io.BytesIO(png)).size[shape[0] > 16] > 400


def test_padding_is_never_the_strongest_patch(folder):
    """A portrait image in a padded square: the model's dark patches are all padding or noise."""
    model = FakeModel(geometry=f"longer{SIZE}")
    found = ground(model, folder / "root" / "image1.png", [DARK])
    assert found.grids_Nhw[0, 0, 0] == found.grids_Nhw.max() == 1.0  # the padding, wholly black
    peak = found.peak(0)
    assert 0 < peak.x < 64 and 0 < peak.y < 96 and peak.similarity < 1.0


def test_smoothing_and_upsampling_are_options(folder):
    image = folder / "root" / "image1.png"
    plain = ground(FakeModel(), image, [BRIGHT], OneImageSettings(upsample="nearest"))
    smooth = ground(FakeModel(), image, [BRIGHT], OneImageSettings(smoothing_sigma=1.5))
    assert smooth.peak(0).similarity < plain.peak(0).similarity
    assert len(np.unique(plain.map(0)[16:80])) <= 64 < len(np.unique(smooth.map(0)[16:80]))


def test_punctuation_is_left_out_only_if_asked(folder, monkeypatch):
    assert plain_phrases(["A b. ", "c?!", "...", "d"], True) == ["A b", "c", "...", "d"]
    assert plain_phrases(["A b. "], False) == ["A b. "]
    asked = []
    encode = FakeModel.encode_text
    monkeypatch.setattr(
        FakeModel, "encode_text", lambda self, texts: asked.append(texts) or encode(self, texts)
    )
    image = folder / "root" / "image1.png"
    ground(FakeModel(), image, [BRIGHT])
    found = ground(FakeModel(), image, [BRIGHT], OneImageSettings(strip_punctuation=True))
    assert asked == [["bright area."], ["bright area"]] and found.phrases == [BRIGHT]


@pytest.mark.parametrize("precision", ["auto", "bf16", "fp32"])
def test_phrases_may_be_encoded_in_bf16_and_the_image_never_is(folder, monkeypatch, precision):
    mixed = {}

    def noted(name):
        real = getattr(FakeModel, name)

        def encode(self, values):
            mixed[name] = torch.is_autocast_enabled("cpu")
            return real(self, values)

        monkeypatch.setattr(FakeModel, name, encode)

    noted("encode_image")
    noted("encode_text")
    image = folder / "root" / "image1.png"
    ground(FakeModel(), image, [BRIGHT], OneImageSettings(text_precision=precision))
    chosen = choose_precision(precision, torch.device("cpu"))
    assert mixed == {"encode_image": False, "encode_text": chosen == "bf16"}


def picture(found: Grounding) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(found.draw())).convert("RGB")).astype(int)


def test_a_model_of_drawn_images_says_so_in_the_picture(folder, monkeypatch):
    image = folder / "root" / "image1.png"
    plain = picture(ground(FakeModel(), image, [BRIGHT]))
    monkeypatch.setattr(FakeModel, "limits", "was trained on drawn radiographs")
    warned = picture(ground(FakeModel(), image, [BRIGHT]))
    assert warned.shape[0] > plain.shape[0] or (warned != plain).any()


def test_the_picture_has_a_panel_a_phrase_and_the_crop_is_marked(folder):
    image = folder / "root" / "image1.png"
    one, two = (ground(FakeModel(), image, [BRIGHT, DARK][:n]) for n in (1, 2))
    half = picture(one).shape[1] // 2  # beside it the radiograph alone
    assert picture(two).shape[1] == 3 * half
    coloured = np.ptp(picture(one), axis=2) > 20
    assert not coloured[:, :half].any()
    shown = np.flatnonzero(coloured[:, half : half + 290].any(axis=1))  # without the bar
    # Of 448 rows the middle two thirds carry the map; above and below the radiograph stays grey.
    top = LINE + GAP
    assert top + 448 / 6 - 1 <= shown.min() < shown.max() <= top + 448 * 5 / 6 + 1


def test_the_command_prints_and_draws(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    image = ["--image", str(folder / "root" / "image1.png"), "--phrase", BRIGHT, "--phrase", DARK]
    main(["--model", str(folder / "model"), *image, "--output", str(tmp_path / "new/a.png")])
    assert (tmp_path / "new/a.png").read_bytes()[1:4] == b"PNG"
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and lines[0].endswith("of 64 x 96 pixels: bright area.")
    assert lines[2] == f"picture: {tmp_path / 'new/a.png'}"
    peak = ground(FakeModel(), folder / "root" / "image1.png", [BRIGHT]).peak(0)
    assert lines[0].startswith(f"{peak.similarity:.3f} at x {peak.x:.0f}, y {peak.y:.0f} ")


@pytest.mark.parametrize(("view", "warned"), [("LL", True), ("LATERAL", True), ("PA", False)])
def test_a_lateral_view_is_said(folder, tmp_path, monkeypatch, caplog, view, warned):
    monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    write_dicom(tmp_path / "x.dcm", np.arange(6400).reshape(80, 80) % 4096, view)
    named = ["--image", str(tmp_path / "x.dcm"), "--output", str(tmp_path / "a.png")]
    main(["--model", str(folder / "model"), "--phrase", BRIGHT, *named])
    assert [f"x.dcm: its header says view {view};" in line for line in caplog.messages] == (
        [True] * warned
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": "nowhere.dcm"}, "nowhere.dcm: file not found; expected a radiograph"),
        ({"image": __file__}, "not a DICOM, PNG or JPEG file; expected"),
        ({"phrase": " "}, "holds no words"),
        ({"output": "heat.jpg"}, "--output is heat.jpg, expected a name that ends in .png"),
        ({"model": "."}, "config.json is missing; expected a model with both encoders"),
        ({"model": "nowhere"}, "nowhere: model folder not found"),
        ({"settings": '{"upsample": "cubic"}'}, "key 'upsample' is 'cubic'"),
    ],
)
def test_wrong_input_is_one_line(folder, tmp_path, monkeypatch, changes, message):
    if changes.get("model") != "nowhere":
        monkeypatch.setattr("cxrflow.models.model.Model.load", lambda *_: FakeModel())
    monkeypatch.chdir(tmp_path)
    given = {
        "model": folder / "model", "image": folder / "root" / "image1.png", "phrase": BRIGHT,
        "output": tmp_path / "heat.png", **changes,
    }  # fmt: skip
    with pytest.raises(InputError) as error:
        main([part for name, value in given.items() for part in (f"--{name}", str(value))])
    assert message in str(error.value) and "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


@dataclass
class Trained(FakeModel):
    """One with an image encoder that is one."""

    image_encoder: ImageEncoder | None = None

    def encode_image(self, frames):
        assert self.image_encoder is not None
        with torch.inference_mode():
            return self.image_encoder(frames)

    def encode_text(self, texts):
        return torch.eye(8)[: len(texts)]


def test_a_finer_grid_has_the_old_cells_and_leaves_the_model_as_it_was(folder):
    torch.manual_seed(0)
    sizes = {"block": "basic", "layers": (1, 1, 1, 1), "width": 8, "channels": 1, "projection": 8}
    model = Trained(image_encoder=ImageEncoder(ResNetSettings(**sizes)).eval())
    image = folder / "root/image1.png"
    finer = OneImageSettings(dilate=(False, True, True))
    before, fine, after = (
        ground(model, image, [BRIGHT, DARK], settings).grids_Nhw for settings in (None, finer, None)
    )
    assert fine.shape[1] == 4 * before.shape[1]
    np.testing.assert_allclose(fine[:, ::4, ::4], before, atol=1e-5)
    np.testing.assert_array_equal(after, before)


@pytest.fixture(scope="module")
def calibration(folder):
    """Pictures of studies: those with a bright square are of pneumonia, the others normal."""
    numbers = range(120)
    names = [f"image{number % 12}" for number in numbers]
    bright = [number % 12 % 3 > 0 for number in numbers]
    reports = pd.DataFrame(
        {
            **dict.fromkeys(("subject_id", "study_id"), names),
            "image_id": names,
            "split": "validate",
            "findings": ["Pneumonia at the base." if one else "Lungs are clear." for one in bright],
            "impression": [None if one else "Normal chest radiograph." for one in bright],
        }
    )
    store = PixelStore(folder / "pixels")
    return calibrate(FakeModel(), reports, store, CalibrationSettings(images=100))


def test_a_peak_is_compared_with_those_of_images_without_the_finding(
    folder, calibration, tmp_path, caplog
):
    plain, other = (
        calibration.without(findings_of(phrase)) for phrase in ("Dense pneumonia", "Bright area")
    )
    assert np.array_equal(plain, other) and len(calibration.images) == 100
    pixels = PixelStore(folder / "pixels")
    names = [f"image{number % 12}" for number in np.linspace(0, 119, 100).round().astype(int)]
    dark = [name for name in names if int(name[5:]) % 3 == 0]
    assert [names[row] for row in plain] == dark
    squares = torch.from_numpy(pixels.read(pixels.rows(dark))).float()[:, None] / 255
    patches = FakeModel().encode_image(Frames(squares)).unnormalised_patches
    peaks = patches[..., 1].flatten(1).amax(1)  # the phrase is (0, 1), patches are of length 1
    middle = float(peaks.double().median())
    asked = calibration.percentile(FakeModel(), "Pneumonia", "Pneumonia", middle)
    below = (peaks.half().float() < middle).double().mean()
    assert (
        asked.images == len(dark)
        and not asked.normal
        and asked.share == pytest.approx(float(below), abs=0.15)
    )
    assert calibration.percentile(FakeModel(), "Pneumonia", "Pneumonia", 2.0).share == 1
    assert calibration.percentile(FakeModel(), "Pneumonia", "Pneumonia", -2.0).share == 0
    assert calibration.percentile(FakeModel(), "Bright area", "Bright area", 2.0).normal
    few = replace(calibration, labels_NC=np.full_like(calibration.labels_NC, np.nan))
    assert few.percentile(FakeModel(), "Bright area", "Bright area", 0.5) is None
    calibration.write(tmp_path / "calibration.safetensors")
    image = folder / "root" / "image1.png"
    found = ground(FakeModel(folder=tmp_path), image, ["Pneumonia", "No pneumonia"])
    assert found.percentiles[0].share == 1 and found.percentiles[1].share < 0.5
    assert ground(FakeModel(), image, ["Pneumonia"]).percentiles == ()
    # The images of the calibration have no prior, so nothing compares with a peak beside one.
    assert ground(FakeModel(folder=tmp_path), image, ["Pneumonia"], prior=image).percentiles == ()
    assert caplog.messages == [
        f"{tmp_path}: peaks are not compared with those of its calibration, whose images have no "
        "prior"
    ]
    file = tmp_path / "calibration.safetensors"
    whole = load_file(file)
    whole["patches"] = whole["patches"][0]
    alone = {"embedding": whole["embedding"]}
    for tensors, said in (
        (None, "cut off or not a safetensors file"),
        (alone, "patches is missing"),
        (whole, r"patches has shape .*, expected 4 sizes"),
    ):
        file.write_bytes(file.read_bytes()[:-9])
        if tensors is not None:
            save_file(tensors, file)
        with pytest.raises(InputError, match=f"calibration.safetensors: .*{said}"):
            ground(FakeModel(folder=tmp_path), image, ["Pneumonia"])


def test_an_uncertain_finding_is_named_and_padding_is_no_peak(calibration):
    labels = calibration.labels_NC.copy()
    labels[:, OBSERVATIONS.index("Pneumonia")] = -1
    assert not len(replace(calibration, labels_NC=labels).without(findings_of("Pneumonia")))
    nowhere = replace(calibration, inside_Nhw=torch.zeros_like(calibration.inside_Nhw))
    assert nowhere.percentile(FakeModel(), "Pneumonia", "Pneumonia", -5.0).share == 1


def test_too_few_reports_are_refused(folder):
    table = pd.DataFrame({"image_id": ["image1"], "findings": ["Clear."], "impression": [None]})
    with pytest.raises(InputError, match="1 studies of split 'validate' .* expected at least 20"):
        calibrate(FakeModel(), table, PixelStore(folder / "pixels"), CalibrationSettings())
