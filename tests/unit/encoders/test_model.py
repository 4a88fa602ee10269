"""A model in Python: what it takes for an image, what it says of itself, its card."""

import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fuzz.weights import write_sound
from PIL import Image
from table_fixtures import write_result

import cxrflow
from cxr_files.atomic import CHECKSUMS, atomic_folder, write_json
from cxr_files.errors import InputError
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.models.card import card

SIZES = ResNetSettings(block="basic", layers=[1, 1, 1, 1], width=8, channels=1, projection=8)
RADIOGRAPH = np.random.default_rng(0).integers(0, 4096, (70, 60)).astype(np.uint16)


def saved(folder: Path, trunk_alone: bool = False) -> Path:
    """A model folder with an image encoder and no text."""
    torch.manual_seed(0)
    image = ImageEncoder(SIZES)
    if trunk_alone:
        image.projector = None
    with atomic_folder(folder, "model") as made:
        save_image_encoder(image, made)
        write_json(made / "run.json", {"data": {"geometry": "shorter32"}})
    return folder


def test_files_arrays_and_lists_of_both_are_one_image(tmp_path: Path) -> None:
    model = cxrflow.load(saved(tmp_path / "model"))
    file = tmp_path / "x.png"
    Image.fromarray(RADIOGRAPH).save(file)
    (expected,) = model.encode_image(file).projected_global
    for image in (str(file), RADIOGRAPH, RADIOGRAPH.astype(np.float32) / 4096):
        (found,) = model.encode_image(image).projected_global
        torch.testing.assert_close(found, expected)
    both = model.encode_image([RADIOGRAPH, file])
    assert both.projected_patches.shape[0] == 2
    torch.testing.assert_close(both.projected_global, expected.expand(2, -1))
    # What a store of its geometry keeps, given as a tensor, is the same once more.
    pixels = torch.rand(3, 1, 32, 32)
    assert model.encode_image(pixels).projected_global.shape == (3, 8)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("run.json", "run.json: missing, its SHA-256"),
        ("image/config.json", "config.json: missing, its SHA-256"),
        ("config.json", "config.json: missing, its SHA-256"),
        # By vocab.txt and its settings alone the text is another.
        ("tokenizer.json", "tokenizer.json: missing, its SHA-256"),
    ],
)
def test_half_a_model_is_not_taken_for_a_whole_one(tmp_path: Path, name: str, said: str) -> None:
    write_sound(tmp_path)
    folder = tmp_path / "own"
    cxrflow.load(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=said):
        cxrflow.load(folder)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"data": []}, r"run.json: field 'data' is \[\]; expected object or null"),
        ({"data": {"geometry": 32}}, "geometry '32': expected"),
        ({"settings": "x"}, "field 'settings' is 'x'"),
        ({"permuted_pairs": True}, "field 'permuted_pairs' is True"),
        ({"twins": [1]}, r"field 'twins' is \[1\]"),
        ({"pairs_learnt": "yes"}, "field 'pairs_learnt' is 'yes'"),
    ],
)
def test_a_record_with_other_values_is_one_line(tmp_path: Path, record: Any, said: str) -> None:
    folder = saved(tmp_path / "model")
    (folder / CHECKSUMS).unlink()
    write_json(folder / "run.json", {"data": {"geometry": "shorter32"}, **record})
    with pytest.raises(InputError, match=said):
        cxrflow.load(folder).encode_image(RADIOGRAPH)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (RADIOGRAPH[None], "shape [1, 70, 60] is no grey image [H, W]"),
        (np.zeros((40, 40)), "an array: blank image"),
        (np.full((40, 40), np.nan), "an array: holds values that are not finite"),
        (RADIOGRAPH > 9, "bool of shape"),
        (np.eye(3), "below min_side"),
        (torch.rand(32, 32), "expected pixels [B, 1, H, W] in [0, 1]"),
        (torch.zeros(1, 1, 32, 32, dtype=torch.uint8), "a tensor of torch.uint8"),
        ([], "no images were given"),
        ("nowhere.png", "nowhere.png: file not found"),
    ],
)
def test_what_is_no_image_is_refused_in_a_line(tmp_path: Path, image, message: str) -> None:
    model = cxrflow.load(saved(tmp_path / "model"))
    with pytest.raises(InputError) as caught:
        model.encode_image(image)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_trunk_alone_has_features(tmp_path: Path) -> None:
    """What SimCLR leaves, and every other training on images alone."""
    whole = cxrflow.load(saved(tmp_path / "whole"))
    alone = cxrflow.load(saved(tmp_path / "alone", trunk_alone=True))
    features = alone.image_features([RADIOGRAPH])
    assert features.shape == (1, alone.image_encoder.encoder.features)
    assert torch.equal(features, whole.encode_image(RADIOGRAPH).pooled)
    with pytest.raises(InputError, match="trunk alone.*`image_features`"):
        alone.encode_image(RADIOGRAPH)
    with pytest.raises(InputError, match="has no text encoder"):
        alone.encode_text(["Edema."])


def test_a_model_says_in_a_line_what_it_is(tmp_path: Path) -> None:
    folder = saved(tmp_path / "alone", trunk_alone=True)
    expected = f"<cxrflow model {folder}: image: resnet, no projection; on cpu>"
    assert repr(cxrflow.load(folder)) == expected


def test_weights_are_as_readable_as_the_rest(tmp_path: Path) -> None:
    folder = saved(tmp_path / "model")
    files = [folder / "image/model.safetensors", folder / "run.json"]
    weights, record = (stat.S_IMODE(file.stat().st_mode) for file in files)
    assert weights == record


RECORD: dict[str, Any] = {
    "model": "mine/one",
    "seed": 1,
    "program": "joint",
    "data": {
        "name": "my_hospital",
        "synthetic": False,
        "train_samples": 120,
        "geometry": "shorter64",
        "dropped": [{"reason": "no text", "count": 1, "examples": ["s5000"]}],
    },
    "permuted_pairs": {
        "differs": True,
        "terms": {
            "mlm": {"loss": 2.5, "permuted": {"value": 4.25}, "rank": {"value": 0.75}},
            "other": {"loss": 1, "permuted": None, "rank": None},
        },
    },
    "settings": {"training": {"epochs": 2}},
}


def result(folder: Path, task: str, metrics: dict[str, Any], synthetic: bool = False) -> None:
    """The scores of the model in a task."""
    values = {name: {"value": v, "low": v, "high": v, "n": 7} for name, v in metrics.items()}
    data = {"name": "some", "synthetic": synthetic}
    place = folder / f"benchmarks/{task}/mine/one/seed1/metrics.json"
    write_result(place, task, "mine/one", 1, values, data=data)


def test_a_card_has_data_sizes_scores_limits_and_licence(tmp_path: Path) -> None:
    model = tmp_path / "models/mine/one/seed1"
    result(tmp_path, "biovil/grounding", {"cnr": 1.5, "cnr/edema": 0.5, "miou": None}, True)
    result(tmp_path, "own/pairs", {"recall/1/image_to_text": 0.25})
    result(tmp_path / "benchmarks/elsewhere", "own/pairs", {"other": 0.5})
    text = card(model, RECORD, {"text": 1234, "image": 56})
    assert "# mine/one\n" in text and "- data set: my_hospital\n" in text
    assert "- training samples: 120\n" in text and "- epochs: unknown\n" in text
    losses = "mlm 2.500 (permuted pairs 4.250), rank of the true pair 0.75; other 1.000"
    assert f"- validation loss: {losses}\n" in text
    assert "- text: 1,234 parameters\n- image: 56 parameters\n" in text
    rows = [line for line in text.splitlines() if line.startswith("| ") and "/" in line]
    assert rows == [
        "| biovil/grounding | some (synthetic) | cnr | 1.500 | 1.500 to 1.500 | 7 |",
        "| own/pairs | some | recall/1/image_to_text | 0.250 | 0.250 to 0.250 | 7 |",
    ]
    for heading in ("Limits", "Licence", "Settings"):
        assert f"\n## {heading}\n" in text
    assert "not a medical device" in text and "Not chosen here" in text
    assert "s5000" not in text  # of no study


def test_a_card_has_the_ranks_of_twins(tmp_path: Path) -> None:
    ranks = {"global_alignment": {"rank": 0.52, "untrained": [0.47, 0.53, 0.5]}}
    twins = {"image and text": {"p": 0.5, "terms": ranks}}
    like_twins = {**RECORD, "twins": twins, "pairs_learnt": False}
    text = card(tmp_path / "models/mine/one/seed1", like_twins, {})
    said = "global_alignment 0.52 (untrained starts 0.47 to 0.53)"
    assert f"- rank of the true pair: {said}\n" in text
    assert "It has not learnt" in text  # though it differs from permuted pairs
    assert "It has not learnt" not in card(tmp_path, like_twins | {"pairs_learnt": True}, {})


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    text = card(tmp_path / "somewhere", {}, {})
    assert "# somewhere\n" in text and "- data set: unknown\n" in text
    assert "No results lie beside the model" in text
    like_permuted = {**RECORD["permuted_pairs"], "differs": False}
    bad = {**RECORD, "permuted_pairs": like_permuted, "data": {"name": "x", "synthetic": True}}
    text = card(tmp_path / "models/mine/one/seed1", bad, {})
    assert "It has not learnt: its pairs are told apart no better than untrained." in text
    assert "knows nothing of patients" in text
    assert "drawn by cxrflow (MIT)" in text
