"""Published weights through the programs: imported, loaded, trained from, exported, read again."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

import cxrflow
from cxr_files.atomic import file_digest
from cxr_files.errors import InputError
from cxrflow.commands import export
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.encoders.image_encoder import load_image_encoder
from cxrflow.encoders.settings import ResNetSettings
from cxrflow.pretrain import imported
from cxrflow.pretrain.image_starts import start_image
from cxrflow.pretrain.starts import start_text
from cxrflow.text.tokenizer import read_tokenizer
from released_files import (
    SPECIAL,
    TINY,
    bert_shapes,
    biovil_image_shapes,
    cxr_bert_config,
    cxr_bert_shapes,
    drawn,
    resnet_shapes,
    token_head_shapes,
    write_biovil,
    write_cxr_bert,
    write_text_folder,
)

TEXTS = ["left pleural effusion", "No pleural effusions", "mild edema"]
IMAGE = "biovil_image_resnet50_proj_size_128.pt"


def run(kind: str, weights: Path, output: Path, *more: str, seed: int = 0, **settings) -> Path:
    imported.main(
        ["--kind", kind, "--weights", str(weights), "--output", str(output), "--model", "mine"]
        + ["--seed", str(seed), "--settings", json.dumps(settings), *more]
    )
    return output


def clinical_bert(folder: Path, pieces: tuple[str, ...] = SPECIAL + ("Left", "left")) -> Path:
    """A cased BERT with vocab.txt alone."""
    sizes = {**TINY, "vocab_size": len(pieces)}
    weights = drawn({**bert_shapes(sizes), **token_head_shapes(sizes)})
    return write_text_folder(folder, weights, sizes, pieces)


def test_biovil_is_imported_whole(tmp_path: Path) -> None:
    source = write_biovil(tmp_path / "released")
    made = run("biovil", source, tmp_path / "model", seed=3)
    said = json.loads((made / "run.json").read_text())
    assert said["kind"] == "biovil" and said["program"] == "joint" and said["seed"] == 3
    assert said["model"] == "mine" and said["initialised"] == []
    assert said["data"]["geometry"] == "shorter512crop480" and said["data"]["synthetic"] is False
    assert said["sources"] == {
        name: file_digest(source / name)
        for name in ("config.json", "pytorch_model.bin", "vocab.txt", IMAGE)
    }
    text, image = load_text_encoder(made).state_dict(), load_image_encoder(made).state_dict()
    for name, value in drawn(cxr_bert_shapes(TINY, 6)).items():
        assert torch.equal(text[name], value), name
    for name, value in drawn(biovil_image_shapes()).items():
        assert ".fc." in name or torch.equal(image[name], value), name


def test_imported_and_loaded_directly_agree(tmp_path: Path) -> None:
    source = write_biovil(tmp_path / "released")
    ours = cxrflow.load(run("biovil", source, tmp_path / "model"))
    theirs = cxrflow.load(source)
    assert ours.geometry == theirs.geometry == "shorter512crop480"
    embedded = ours.encode_text(TEXTS)
    assert embedded.shape == (3, 6) and torch.equal(embedded, theirs.encode_text(TEXTS))
    pixels = torch.rand(3, 1, 64, 64)
    found, expected = ours.encode_image(pixels), theirs.encode_image(pixels)
    assert torch.equal(found.projected_global, expected.projected_global)
    maps = ours.similarity_map(pixels, TEXTS)
    assert maps.shape == (3, 2, 2) and torch.equal(maps, theirs.similarity_map(pixels, TEXTS))


def test_the_image_weights_may_lie_elsewhere(tmp_path: Path) -> None:
    source = write_biovil(tmp_path / "both")
    text = write_cxr_bert(tmp_path / "text")
    image = tmp_path / "downloads" / "weights.pt"
    image.parent.mkdir()
    (source / IMAGE).rename(image)
    made = run("biovil", text, tmp_path / "model", "--image", str(image))
    pixels = torch.rand(1, 1, 64, 64)
    one = cxrflow.load(made).encode_image(pixels).projected_global
    two = cxrflow.load(text, image=image).encode_image(pixels).projected_global
    three = cxrflow.load(image)
    assert torch.equal(one, two) and three.text_encoder is None
    assert torch.equal(one, three.encode_image(pixels).projected_global)


def test_trainings_start_from_imported_folders(tmp_path: Path) -> None:
    text = run("cxr_bert", write_cxr_bert(tmp_path / "t"), tmp_path / "text")
    torch.save(drawn(resnet_shapes(8, (1, 2, 1, 1))), tmp_path / "resnet.pth")
    options = {"geometry": "shorter64", "projection": 6}
    image = run("imagenet_resnet", tmp_path / "resnet.pth", tmp_path / "image", **options)
    started = start_text(text, dropout=0.25, attention_dropout=0.1)
    weights = drawn(cxr_bert_shapes(TINY, 6))
    assert torch.equal(
        started.state_dict()["cls.predictions.bias"], weights["cls.predictions.bias"]
    )
    sizes = ResNetSettings(layers=(1, 2, 1, 1), width=8, projection=6)
    trunk = start_image(image, sizes).state_dict()
    drawn_trunk = drawn(resnet_shapes(8, (1, 2, 1, 1)))
    assert torch.equal(trunk["encoder.encoder.layer2.1.conv2.weight"],
                       drawn_trunk["layer2.1.conv2.weight"])  # fmt: skip
    said = json.loads((image / "run.json").read_text())
    assert said["data"]["geometry"] == "shorter64"
    assert {name.split(".")[0] for name in said["initialised"]} == {"projector"}


def test_imagenet_comes_without_a_geometry(tmp_path: Path) -> None:
    torch.save(drawn(resnet_shapes(8, (1, 1, 1, 1))), tmp_path / "resnet.pth")
    with pytest.raises(InputError, match="key 'geometry' is missing"):
        run("imagenet_resnet", tmp_path / "resnet.pth", tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("form", ["bin", "safetensors"])
def test_export_and_import_give_the_same_model(tmp_path: Path, form: str, caplog) -> None:
    made = run("biovil", write_biovil(tmp_path / "released"), tmp_path / "model")
    with caplog.at_level(logging.INFO, "cxrflow"):
        export.main(["--model", str(made), "--output", str(tmp_path / "out"), "--format", form])
    assert "fc.bias are zeros" in caplog.text
    out = tmp_path / "out"
    image = out / "biovil_image_bottleneck1-2-1-1_width8_channels3_proj_size_6.pt"
    weights = "pytorch_model.bin" if form == "bin" else "model.safetensors"
    assert {path.name for path in out.iterdir()} == {
        "config.json", "vocab.txt", "tokenizer.json", "tokenizer_config.json", "export.json",
        "README.md", weights, image.name, image.with_suffix(".json").name, ".cxrflow", "SHA256SUMS",
    }  # fmt: skip
    stored = torch.load(image, weights_only=True)
    assert stored.keys() == biovil_image_shapes().keys()
    assert not stored["encoder.encoder.fc.weight"].any()
    config = json.loads((out / "config.json").read_text())
    published = cxr_bert_config(TINY, 6)
    published.pop("auto_map")
    assert published.items() <= config.items()
    trained_on = [cxrflow.load(folder).geometry for folder in (made, out)]
    assert trained_on == ["shorter512crop480"] * 2
    (out / "SHA256SUMS").unlink()  # the change is meant
    (out / "export.json").write_text('{"geometry": "shorter64"}')
    assert cxrflow.load(out).geometry == "shorter64" and cxrflow.load(out).limits is None
    record = {"geometry": "shorter64", "data": {"name": "x", "synthetic": True}}
    (out / "export.json").write_text(json.dumps(record))
    assert "trained on drawn radiographs" in str(cxrflow.load(out).limits)
    again = run("biovil", out, tmp_path / "again")
    for load in (load_text_encoder, load_image_encoder):
        one, two = load(made).state_dict(), load(again).state_dict()
        assert one.keys() == two.keys()
        assert all(torch.equal(value, two[name]) for name, value in one.items())
    first, second, direct = (cxrflow.load(path) for path in (made, again, out))
    assert torch.equal(first.encode_text(TEXTS), second.encode_text(TEXTS))
    assert torch.equal(first.encode_text(TEXTS), direct.encode_text(TEXTS))


def test_a_half_is_exported_alone_and_none_not_at_all(tmp_path: Path) -> None:
    text = run("cxr_bert", write_cxr_bert(tmp_path / "t"), tmp_path / "text")
    export.export(text, tmp_path / "out")
    assert not list((tmp_path / "out").glob("*.pt"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="neither config.json nor image/config.json"):
        export.export(tmp_path / "empty", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_plain_transformers_reads_an_imported_text_encoder(tmp_path: Path) -> None:
    """No name of the authors' classes is left for which it would want their code."""
    source = write_cxr_bert(tmp_path / "released")
    config = {"tokenizer_class": "CXRBertTokenizer", "do_lower_case": True,
              "auto_map": {"AutoTokenizer": ["x.CXRBertTokenizer", None]},
              "mask_token": {"__type": "AddedToken", "content": "[MASK]"}}  # fmt: skip
    (source / "tokenizer_config.json").write_text(json.dumps(config))
    made = run("cxr_bert", source, tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(made)
    plain = AutoModelForMaskedLM.from_pretrained(made).eval()
    ours = cxrflow.load(made)
    assert tokenizer("Left [MASK]")["input_ids"] == ours.tokenizer.encode("left [MASK]").ids
    batch = tokenizer("no [MASK] effusion", return_tensors="pt")
    with torch.no_grad():
        expected = plain(**batch).logits[0]
        hidden = ours.text_encoder.hidden_states(batch["input_ids"], batch["attention_mask"])
        found = ours.text_encoder.predict_tokens(hidden, torch.arange(hidden.shape[1]))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_a_cased_vocabulary_stays_cased(tmp_path: Path) -> None:
    source = clinical_bert(tmp_path / "clinical")
    made = run("bert", source, tmp_path / "model", projection=6)
    for folder in (source, made):
        tokenizer = read_tokenizer(folder)
        assert tokenizer.encode("Left left").tokens[1:-1] == ["Left", "left"]
    uncased = write_cxr_bert(tmp_path / "uncased")
    assert read_tokenizer(uncased).encode("Left").tokens[1:-1] == ["left"]
    (uncased / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert read_tokenizer(uncased).encode("Left").tokens[1:-1] == ["[UNK]"]


def test_a_projection_that_nobody_trained_embeds_nothing(tmp_path: Path) -> None:
    source = clinical_bert(tmp_path / "clinical")
    made = run("bert", source, tmp_path / "model", projection=6)
    new = json.loads((made / "run.json").read_text())["initialised"]
    assert new and all(name.startswith("cls_projection_head.") for name in new)
    for path in (source, made):
        model = cxrflow.load(path)
        assert model.text_encoder is not None
        with pytest.raises(InputError, match="no projection to a joint space"):
            model.encode_text(["left"])


def without_mask(source: Path) -> None:
    text = (source / "vocab.txt").read_text()
    (source / "vocab.txt").write_text(text.replace("[MASK]", "[OTHER]"))


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "no vocabulary": (
        lambda source: (source / "vocab.txt").unlink(),
        "expected tokenizer.json or vocab.txt",
    ),
    "no mask": (without_mask, "special token [MASK] is not in the vocabulary"),
    "larger vocabulary": (
        lambda source: (source / "vocab.txt").open("a").write("consolidation\n"),
        "the tokenizer has 16 pieces",
    ),
    "projection": (
        lambda source: torch.save(drawn(biovil_image_shapes(projection=4)), source / IMAGE),
        "expected one joint space",
    ),
    "two images": (
        lambda source: torch.save({}, source / "biovil_image_other.pt"),
        "expected one file biovil_image*.pt",
    ),
    "no image": (lambda source: (source / IMAGE).unlink(), "found none"),
    "no folder": (shutil.rmtree, "folder not found"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_wrong_is_one_line_and_leaves_nothing(tmp_path: Path, damage: str) -> None:
    source, (spoil, said) = write_biovil(tmp_path / "released"), DAMAGES[damage]
    spoil(source)
    with pytest.raises(InputError) as raised:
        run("biovil", source, tmp_path / "model")
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert not (tmp_path / "model").exists()
    assert not list(tmp_path.glob(".*partial"))
    if damage != "no image":  # a text encoder of its own by then
        with pytest.raises(InputError):
            cxrflow.load(source)


def test_a_text_encoder_has_no_image_file(tmp_path: Path) -> None:
    source = write_biovil(tmp_path / "released")
    with pytest.raises(InputError, match="weights of kind cxr_bert are one file or folder"):
        run("cxr_bert", source, tmp_path / "model", "--image", str(source / IMAGE))
