"""Repositories of others, as they lie in tests/outside, through the doors of the package."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from programs import End, program
from pydantic import ValidationError
from safetensors.torch import save_file
from torch import Tensor
from torch.nn.functional import conv2d, gelu, layer_norm, linear, softmax
from toy_programs import TEXT, TRAINING

import cxrflow
from cxr_files.atomic import file_digest, read_object
from cxr_files.errors import InputError
from cxr_files.settings import read_settings
from cxrflow.benchmarks.features import weights_file, write_features
from cxrflow.benchmarks.inputs import read_cohort
from cxrflow.benchmarks.paired_tests import read_predictions
from cxrflow.config.parts import Dataset
from cxrflow.data.cohorts.held_out import held_out_sets
from cxrflow.data.layouts import layout
from cxrflow.encoders.image_encoder import Frames
from cxrflow.kinds import TRUSTED
from cxrflow.papers.recipes import Task
from cxrflow.pretrain.settings import ImagePretrainingSettings
from cxrflow.programs.source_code import source_files
from released_files import drawn, rad_dino_shapes

OUTSIDE = Path(__file__).parents[1] / "outside"
REPOSITORIES = ("rad_dino", "carzero", "brax", "wrong")
DINO = "rad_dino:RadDino"
ONCE = {**TRAINING, "batch_size": 8, "steps": 1}
SIZES = {"width": 64, "blocks": 2, "patch": 8, "grid": 4}


@pytest.fixture(scope="module", autouse=True)
def repositories() -> Iterator[None]:
    """Where Python looks for modules."""
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for name in REPOSITORIES:
            patch.syspath_prepend(OUTSIDE / name)
        yield
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(OUTSIDE):
            del sys.modules[name]


@pytest.fixture(scope="module")
def text(inputs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text encoder, after a step."""
    folder = tmp_path_factory.mktemp("text")
    settings = {"training": ONCE, "terms": {"mlm": {}}, "encoder": TEXT, "length": 48}
    words = {"vocabulary": inputs / "vocabulary", "tokens": [inputs / "tokens"]}
    given = {"pairs": inputs / "cohort/pairs.parquet", **words, "state": folder / "state"}
    places = {"model": "toy", "seed": 0, "output": folder / "text"}
    program("pretrain.text", settings, **given, **places).succeeds()
    return folder / "text"


def joint(inputs: Path, text: Path, output: Path, settings: dict[str, Any], **more: Path) -> End:
    """A step of joint training."""
    common = {"augmentation": {}, "length": 48, "training": ONCE}
    given = {"pairs": inputs / "cohort/pairs.parquet", "pixels": inputs / "pixels", "text": text}
    places = {"state": output.with_name("state"), "output": output, "model": "toy", "seed": 0}
    return program("pretrain.joint", {**common, **settings}, **given, **more, **places)


# --- an encoder with published weights ------------------------------------------------------------


def write_dino(folder: Path, **changed: Tensor | None) -> dict[str, Tensor]:
    """Published weights, some of them changed or left out."""
    weights = drawn(rad_dino_shapes(**SIZES))
    for name, value in changed.items():
        weights.pop(name) if value is None else weights.update({name: value})
    folder.mkdir(exist_ok=True)
    save_file(weights, folder / "model.safetensors")
    return weights


def imported(weights: Path, output: Path, kind: str = DINO) -> End:
    options = {"weights": weights, "kind": kind, "model": "mine/rad_dino", "output": output}
    return program("pretrain.imported", {"geometry": "square32"}, **options, seed=0)


def dino(weights: dict[str, Tensor], pixels_B1HW: Tensor, heads: int = 1) -> Tensor:
    """The published architecture, written anew: the states of all tokens, [B, L, D]."""

    def of(name: str) -> tuple[Tensor, Tensor]:
        return weights[f"{name}.weight"], weights[f"{name}.bias"]

    pixels = ((pixels_B1HW - 0.5307) / 0.2583).expand(-1, 3, -1, -1)
    embedding, bias = of("embeddings.patch_embeddings.projection")
    patches = conv2d(pixels, embedding, bias, stride=embedding.shape[-1]).flatten(2).mT
    cls = weights["embeddings.cls_token"].expand(len(patches), -1, -1)
    states = torch.cat([cls, patches], 1) + weights["embeddings.position_embeddings"]
    width = states.shape[-1]
    for number in range(SIZES["blocks"]):
        layer = f"encoder.layer.{number}"
        x = layer_norm(states, (width,), *of(f"{layer}.norm1"), 1e-6)
        q, k, v = (
            linear(x, *of(f"{layer}.attention.attention.{part}")).unflatten(2, (heads, -1))
            for part in ("query", "key", "value")
        )
        scores = torch.einsum("blhd,bmhd->bhlm", q, k) / (width // heads) ** 0.5
        x = torch.einsum("bhlm,bmhd->blhd", softmax(scores, -1), v).flatten(2)
        x = linear(x, *of(f"{layer}.attention.output.dense"))
        states = states + weights[f"{layer}.layer_scale1.lambda1"] * x
        x = layer_norm(states, (width,), *of(f"{layer}.norm2"), 1e-6)
        x = linear(gelu(linear(x, *of(f"{layer}.mlp.fc1"))), *of(f"{layer}.mlp.fc2"))
        states = states + weights[f"{layer}.layer_scale2.lambda1"] * x
    return layer_norm(states, (width,), *of("layernorm"), 1e-6)


@pytest.fixture(scope="module")
def rad_dino(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Tensor], Path]:
    """The weights, and the model folder that is made of them."""
    folder = tmp_path_factory.mktemp("rad_dino")
    weights = write_dino(folder / "published")
    imported(folder / "published", folder / "model").succeeds()
    return weights, folder / "model"


def test_published_weights_give_what_their_authors_compute(
    rad_dino: tuple[dict[str, Tensor], Path],
) -> None:
    weights, folder = rad_dino
    pixels = torch.rand(2, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    model = cxrflow.load(folder)
    assert model.image_encoder is not None
    patches, expected = model.image_encoder.encoder(Frames(pixels)), dino(weights, pixels)
    torch.testing.assert_close(patches.pooled, expected[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(patches.grid.flatten(2).mT, expected[:, 1:], rtol=1e-4, atol=1e-5)
    run = read_object(folder / "run.json")
    assert run["kind"] == DINO and run["data"]["geometry"] == "square32"
    assert all(name.startswith("projector.") for name in run["initialised"])


def test_a_joint_training_goes_on_from_them(
    rad_dino: tuple[dict[str, Tensor], Path], inputs: Path, text: Path, tmp_path: Path
) -> None:
    """One step, after which the model is loaded again; its projection is new."""
    encoder = read_object(rad_dino[1] / "image/config.json") | {"projection": 16}
    settings = {"encoder": encoder, "terms": {"global_alignment": {}}}
    joint(inputs, text, tmp_path / "joint", settings, image=rad_dino[1]).succeeds()
    start, model = cxrflow.load(rad_dino[1]), cxrflow.load(tmp_path / "joint")
    old, new = (each.image_encoder.encoder.state_dict() for each in (start, model))  # type: ignore[union-attr]
    rates = torch.stack([(old[name] - new[name]).abs().max() for name in old])
    assert 0 < rates.max() < 1e-2
    settings["encoder"] = {**encoder, "blocks": 3}
    joint(inputs, text, tmp_path / "other", settings, image=rad_dino[1]).refuses(
        "the trunk has sizes", "but settings.encoder says"
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"layernorm.bias": None}, ["layernorm.bias is missing"]),
        ({"head.weight": torch.zeros(2, 2)}, ["head.weight belongs to no parameter"]),
        ({"layernorm.bias": torch.zeros(3)}, ["norm.bias has shape [3], expected [64]"]),
        ({"embeddings.mask_token": None}, ["embeddings.mask_token is missing"]),
        (
            {"embeddings.patch_embeddings.projection.weight": torch.zeros(64, 2, 8, 8)},
            ["key 'channels' is 2"],
        ),
    ],
)
def test_weights_of_another_architecture_are_one_line(
    changed: dict[str, Tensor | None], words: list[str], tmp_path: Path
) -> None:
    write_dino(tmp_path / "published", **changed)
    imported(tmp_path / "published", tmp_path / "model").refuses("model.safetensors", *words)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("rad_dinos:RadDino", "there is no module rad_dinos in "),
        ("rad_dino:RadDinos", "the module rad_dino has no class RadDinos"),
        ("rad_dino:ScaledBlock", "expected a subclass of cxrflow.encoders.released.outside.Publ"),
        ("rad_dino", "expected module:Class or one of cxr_bert, "),
    ],
)
def test_a_wrong_kind_of_weights_is_one_line(kind: str, words: str, tmp_path: Path) -> None:
    write_dino(tmp_path / "published")
    imported(tmp_path / "published", tmp_path / "model", kind).refuses("--kind", words)


# --- a term with its similarity -------------------------------------------------------------------


def test_a_term_trains_the_similarity_that_the_model_keeps(
    inputs: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    term = {"kind": "carzero:CrossAttentionPairs", "heads": 2}
    settings = {
        "encoder": {"width": 16, "projection": 16, "channels": 1},
        "terms": {"attention": term},
    }
    joint(inputs, text, tmp_path / "model", settings).succeeds()
    model, pixels = cxrflow.load(tmp_path / "model"), torch.rand(2, 1, 32, 32)
    assert type(model.similarity).__module__ == "carzero"
    scores = model.similarities(pixels, ["Edema.", "No edema."])
    assert scores.shape == (2, 2) and scores.std() > 0
    maps = model.similarity_map(pixels, ["Edema.", "Edema."])
    torch.testing.assert_close(maps.sum((1, 2)), torch.ones(2))  # of attention
    monkeypatch.delitem(sys.modules, "carzero")
    with pytest.raises(InputError, match=f"import carzero first or name it in .*{TRUSTED}"):
        cxrflow.load(tmp_path / "model")


# --- a data set -----------------------------------------------------------------------------------

SPLITS = {"method": "patients", "shares": {"train": 0.5, "test": 0.5}}


def write_brax(root: Path, images: int = 24) -> Path:
    """Noise, every other image of an enlarged heart."""
    generator, lines = np.random.default_rng(0), []
    (root / "images").mkdir(parents=True)
    for number in range(images):
        pixels = generator.integers(0, 255, (40, 40), dtype=np.uint8)
        Image.fromarray(pixels).save(root / f"images/{number}.png")
        ids = {"PngPath": f"images/{number}.png", "PatientID": number, "AccessionNumber": number}
        labels = dict.fromkeys(layout("chexpert").classes) | {"Cardiomegaly": number % 2}
        lines.append({**ids, "ViewPosition": "PA", **labels})
    pd.DataFrame(lines).to_csv(root / "master_spreadsheet_update.csv", index=False)
    return root


def cohort(root: Path, output: Path, kind: str = "brax:Brax", **settings: Any) -> End:
    settings = {"kind": "classification", "splits": SPLITS, **settings}
    return program(
        "data.cohorts.build_cohort", settings, layout=kind, root=root, dataset="b", output=output
    )


def test_a_data_set_becomes_a_cohort(tmp_path: Path) -> None:
    root = write_brax(tmp_path / "data")
    cohort(root, tmp_path / "cohort").succeeds()
    rows = pd.read_parquet(tmp_path / "cohort/samples.parquet")
    flow = read_object(tmp_path / "cohort/flow.json")
    assert flow["layout"] == "brax:Brax" and flow["classes"] == list(layout("chexpert").classes)
    place = flow["classes"].index("Cardiomegaly")
    hearts = [labels[place] for labels in rows["labels"]]
    assert hearts == [int(name.removesuffix(".png")) % 2 for name in rows["image_id"]]
    assert set(rows["split"]) == {"train", "test"}
    assert layout("brax:Brax").source("tables") == ["brax:Brax"]
    (listed,) = layout("brax:Brax").list_files(root, "tables")
    assert listed.name == "master_spreadsheet_update.csv"
    assert "brax.py" in [path.name for path in source_files("brax:Brax")]
    # Its patients are held out by name.
    (held_out,) = held_out_sets([f"theirs:brax:Brax={root}"])
    assert (held_out.name, held_out.layout) == ("theirs", "brax:Brax")
    assert held_out_sets([f"brax:Brax={root}"])[0].name == "brax:Brax"


def test_a_cohort_alone_imports_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort(write_brax(tmp_path / "data"), tmp_path / "cohort").succeeds()
    monkeypatch.delitem(sys.modules, "brax")
    with pytest.raises(InputError, match=f"import brax first or name it in .*{TRUSTED}"):
        read_cohort(tmp_path / "cohort", "samples.parquet", ())
    monkeypatch.setenv(TRUSTED, "brax")
    assert len(read_cohort(tmp_path / "cohort", "samples.parquet", ()).table) == 24


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("braxes:Brax", "layout 'braxes:Brax': there is no module braxes in "),
        ("brax:Braxes", "layout 'brax:Braxes': the module brax has no class Braxes"),
        ("brax:Path", "expected a subclass of cxrflow.data.layouts.outside.OutsideLayout"),
        ("wrong:Undescribed", "expected a mapping `description` of the class"),
        ("wrong:Unread", "expected a reader, one of tables, published, reports, documents"),
        ("wrong:Misdescribed", "layout 'wrong:Misdescribed': key 'holds.0' is 'pictures'"),
    ],
)
def test_a_wrong_data_set_is_one_line(kind: str, words: str, tmp_path: Path) -> None:
    cohort(tmp_path, tmp_path / "cohort", kind).refuses(words)
    with pytest.raises(ValueError, match="layout"):
        Dataset(layout=kind, root=str(tmp_path))


def test_a_data_set_without_its_list_is_one_line(tmp_path: Path) -> None:
    cohort(tmp_path, tmp_path / "cohort").refuses("master_spreadsheet_update.csv", "not found")


# --- a benchmark ----------------------------------------------------------------------------------


def evaluate(cohort: Path, output: Path, kind: str = "neighbours:Neighbours", **more: Any) -> End:
    settings = {"intervals": {"replicates": 100}}
    return program("benchmarks.evaluate", settings, kind, cohort=cohort, output=output, **more)


def test_a_benchmark_scores_models_and_what_has_learnt_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On features that tell the labels."""
    monkeypatch.setenv(TRUSTED, "brax,neighbours")
    cohort(write_brax(tmp_path / "data"), tmp_path / "cohort").succeeds()
    rows = pd.read_parquet(tmp_path / "cohort/samples.parquet")
    weights_file(tmp_path / "model").parent.mkdir(parents=True)
    save_file({"x": torch.zeros(1)}, weights_file(tmp_path / "model"))
    digest = file_digest(weights_file(tmp_path / "model"))[:16]
    said = {"weights": digest, "geometry": "x", "pixels": "x"}
    odd = torch.tensor([int(name.removesuffix(".png")) % 2 for name in rows["image_id"]])
    features = {"pooled": torch.nn.functional.one_hot(odd, 2).float()}
    write_features(tmp_path / "features", rows[["image_id"]], features, said)
    read = {"model": tmp_path / "model", "features": tmp_path / "features"}
    evaluate(tmp_path / "cohort", tmp_path / "scores", **read, task="mine/nearest").succeeds()
    scores = read_object(tmp_path / "scores/metrics.json")
    assert scores["benchmark"] == "neighbours:Neighbours" and scores["task"] == "mine/nearest"
    assert scores["metrics"]["agreement"]["value"] == 1.0
    stored = {"root": tmp_path / "data", "images": tmp_path / "cohort/images.parquet"}
    pixels = {**stored, "geometry": "square32", "output": tmp_path / "pixels"}
    program("images.store_pixels", **pixels).succeeds()
    given = {"reference": "nothing", "pixels": tmp_path / "pixels"}
    evaluate(tmp_path / "cohort", tmp_path / "nothing", **given).succeeds()
    assert read_object(tmp_path / "nothing/metrics.json")["metrics"]["agreement"]["value"] < 1
    # Rows are tested by its statistic, where its code is trusted.
    files = [tmp_path / name / "predictions.parquet" for name in ("scores", "nothing")]
    assert [run.model for runs in read_predictions(files).values() for run in runs] == [
        *(tmp_path.name, "reference/nothing")
    ]
    monkeypatch.delenv(TRUSTED)
    monkeypatch.delitem(sys.modules, "neighbours")
    with pytest.raises(InputError, match=f"benchmark 'neighbours:Neighb.* variable {TRUSTED}"):
        read_predictions(files)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("neighbour:Neighbours", "there is no module neighbour in "),
        ("neighbours:Neighbour", "the module neighbours has no class Neighbour"),
        ("neighbours:NeighboursSettings", "a subclass of cxrflow.benchmarks.outside.OutsideBench"),
        ("neighbours", "is 'neighbours'; expected module:Class or one of phrase_grounding, "),
        ("wrong:Unmeasured", "'wrong:Unmeasured': expected `metrics` of the class"),
        ("wrong:Needy", "'wrong:Needy': `description` names 'sound'; expected some of "),
        ("wrong:Unplaced", "'wrong:Unplaced': key 'kind' is 'sounds'"),
    ],
)
def test_a_wrong_benchmark_is_one_line(kind: str, words: str, tmp_path: Path) -> None:
    end = evaluate(tmp_path, tmp_path / "scores", kind)
    assert end.code == 2 and words in end.stderr and "Traceback" not in end.stderr
    with pytest.raises(ValidationError, match="benchmark"):
        Task.model_validate({"benchmark": kind, "cohort": "mine"})


def test_a_protocol_that_is_not_kept_is_one_line(tmp_path: Path) -> None:
    end = evaluate(tmp_path, tmp_path / "scores", "wrong:Unkept")
    end.refuses("Protocol.size is 1.0, but is read back as 0.33")


# --- what no door lets in -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"terms": {"mine": {"kind": "wrong:Forgetful"}}}, "TermSettings.size is 1.0, but is read"),
        ({"terms": {"mine": {"kind": "wrong:Untyped"}}}, "an annotation `settings:` of a OutsideT"),
        ({"terms": {"mine": {"kind": "wrong:Lossless"}}}, "'wrong:Lossless': the class lacks loss"),
        (
            {"terms": {"mine": {"kind": DINO}}},
            "expected a subclass of cxrflow.pretrain.obje",
        ),
        (
            {"encoder": {"kind": "wrong:Untyped"}},
            "expected a subclass of cxrflow.encoders.im",
        ),
        ({"encoder": {"kind": "rad_dino:Nobody"}}, "the module rad_dino has no class Nobody"),
    ],
)
def test_a_wrong_term_or_encoder_is_one_line(settings: dict[str, Any], words: str) -> None:
    common = {"training": {"batch_size": 4, "epochs": 1}, "augmentation": {}}
    given = {**common, "terms": {"simclr": {}}, **settings}
    with pytest.raises(InputError) as caught:
        read_settings(json.dumps(given), ImagePretrainingSettings)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_an_encoder_that_is_another_when_it_is_built_again_is_not_trained(
    inputs: Path, tmp_path: Path
) -> None:
    settings = {
        "encoder": {"kind": "wrong:Growing", "channels": 1},
        "terms": {"simclr": {}},
        "augmentation": {},
        "training": {**TRAINING, "epochs": 1},
    }
    given = {"pairs": inputs / "cohort/pairs.parquet", "pixels": inputs / "pixels"}
    places = {"state": tmp_path / "state", "output": tmp_path / "model", "model": "toy", "seed": 0}
    program("pretrain.image", settings, **given, **places).refuses(
        "wrong:Growing, built again: not the weights expected: encoder.more has shape [1], expecte"
    )
    assert not list(tmp_path.glob("state/step-*"))
