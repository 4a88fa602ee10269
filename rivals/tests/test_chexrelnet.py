"""CheXRelNet: its attention by edges one by one, the regions it reads, a training that learns."""

import json
import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from benchmark_fakes import result_of
from PIL import Image
from pydantic import ValidationError
from rival_config import config_of
from rivals.chexrelnet import GraphAttention, RelationNet, RelationSettings
from rivals.regions import FINDINGS, Graph, Regions, alike, even, graph_of, read_graphs
from sklearn.metrics import jaccard_score
from torch import Tensor, nn

from command_options import options
from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxr_files.settings import from_record
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.benchmarks.temporal.settings import TemporalClassificationSettings
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, Patches, save_image_encoder
from cxrflow.encoders.settings import ImageEncoderKind
from cxrflow.images.store import PixelStore
from cxrflow.images.store_pixels import main as store_pixels

TOP = Path(__file__).parents[2]
BENCHMARK = "rivals.chexrelnet:Relations"
FEATURES, REGIONS = 5, 3
SIZES: dict[str, Any] = {
    **{"cells": 2, "node": 6, "hidden": 4, "width": 3, "heads": (2, 3), "head": 5, "dropout": 0.0},
    **{"findings": ["Edema"], "intervals": {"replicates": 100}, "side": 16},
}
PAPER: dict[str, Any] = {"joined": "each", "doubled": False}
CODE: dict[str, Any] = {"joined": "first", "doubled": True}
BOTH = pytest.mark.parametrize("of", [PAPER, CODE], ids=["paper", "code"])
ALIKE = torch.tensor([[1.0, 0.7, 0.2], [0.7, 1.0, 0.5], [0.2, 0.5, 1.0]])  # 0 and 1 are joined
Weights = Mapping[str, Tensor]


def settings_of(**values: Any) -> RelationSettings:
    return RelationSettings.model_validate({**SIZES, **values})


# --- the network ----------------------------------------------------------------------------------


def leaky(value: Tensor, slope: float = 0.01) -> Tensor:
    return torch.where(value > 0, value, slope * value)


def read(w: Weights, name: str, nodes: list[Tensor], edges: list[tuple[int, int]]) -> list[Tensor]:
    """GATConv of torch_geometric by its formula, an edge (read, reader) at a time: heads' outputs.

    An edge that stands twice in the list is two edges, as there; each node reads itself once.
    """
    reader_HW, read_HW = w[f"{name}.reader"], w[f"{name}.read"]
    value = [(w[f"{name}.value.weight"] @ node).view(reader_HW.shape) for node in nodes]
    outputs = []
    for number in range(len(nodes)):
        sources = [number, *(source for source, target in edges if target == number)]
        of_heads = []
        for head in range(len(reader_HW)):
            both = torch.cat([reader_HW[head], read_HW[head]])
            scores = torch.stack(
                [
                    leaky(both @ torch.cat([value[number][head], value[j][head]]), 0.2)
                    for j in sources
                ]
            )
            shares = scores.exp() / scores.exp().sum()
            of_heads.append(sum(s * value[j][head] for s, j in zip(shares, sources, strict=True)))
        outputs.append(torch.stack(of_heads))
    return outputs


def logits_of_the_code(
    w: Weights, features: Tensor, shown: Tensor, of: Mapping[str, Any]
) -> Tensor:
    """Of one pair, whose nodes have edges [R, C]: every node, edge and image by itself."""

    def encoded(cells_Fc: Tensor) -> Tensor:
        mean, variance = w["norm.running_mean"][:, None], w["norm.running_var"][:, None]
        scaled = (cells_Fc - mean) / (variance + 1e-5).sqrt()
        scaled = scaled * w["norm.weight"][:, None] + w["norm.bias"][:, None]
        return (w["node.weight"] @ scaled.flatten() + w["node.bias"]).clamp(min=0)

    images = [
        [encoded(features[time, region]) for region in range(REGIONS + 1)] for time in range(2)
    ]
    nodes = [
        images[time][region] if shown[time, region] else torch.zeros_like(images[0][0])
        for time in range(2)
        for region in range(REGIONS)
    ]
    edges = []
    if of["edges"]:
        for begin in (0, REGIONS):
            edges += [(begin, begin + 1), (begin + 1, begin)] * (2 if of["doubled"] else 1)
        edges += [(region, region + REGIONS) for region in range(REGIONS)]
    seen = shown.flatten()
    edges = [(source, target) for source, target in edges if seen[source] and seen[target]]
    nodes = [leaky(x.flatten() + w["first.bias"]) for x in read(w, "first", nodes, edges)]
    nodes = [leaky(x.mean(0) + w["second.bias"]) for x in read(w, "second", nodes, edges)]
    whole = [w["whole.weight"] @ images[time][-1] + w["whole.bias"] for time in range(2)]
    hidden = [
        leaky(w["head.0.weight"] @ torch.cat([node, *whole]) + w["head.0.bias"])
        for node in nodes[REGIONS:]
    ]
    return torch.stack([w["head.3.weight"] @ one + w["head.3.bias"] for one in hidden])


def net_of(**values: Any) -> RelationNet:
    """A network in float64 and evaluation mode, none of whose weights is what it begins as."""
    torch.manual_seed(0)
    net = RelationNet(settings_of(**values), FEATURES, ALIKE, 3).double().eval()
    for weight in net.parameters():
        nn.init.normal_(weight, std=0.5)
    mean, variance = net.norm.running_mean, net.norm.running_var
    assert mean is not None and variance is not None
    nn.init.normal_(mean)
    nn.init.uniform_(variance, 0.5, 2)
    return net


def pairs_of_features(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    shape = (count, 2, REGIONS + 1, FEATURES, 4)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


@BOTH
def test_logits_and_gradients_are_those_of_the_formulas(of: dict[str, Any]) -> None:
    """Of three pairs, one with a region that its prior does not show."""
    net, features = net_of(**of), pairs_of_features(3).requires_grad_()
    shown_B2R = torch.ones(3, 2, REGIONS, dtype=torch.bool)
    shown_B2R[1, 0, 1] = shown_B2R[2, 1, 2] = False
    w = dict(net.named_parameters()) | dict(net.named_buffers())
    logits_BRC = net(features, shown_B2R.flatten(1))
    literal_BRC = torch.stack(
        [
            logits_of_the_code(w, pair, shown, {**of, "edges": of["joined"] == "each" or not place})
            for place, (pair, shown) in enumerate(zip(features, shown_B2R, strict=True))
        ]
    )
    torch.testing.assert_close(logits_BRC, literal_BRC)
    direction = torch.randn(literal_BRC.shape, dtype=torch.float64)
    inputs = [features, *net.parameters()]
    ours = torch.autograd.grad((logits_BRC * direction).sum(), inputs)
    theirs = torch.autograd.grad((literal_BRC * direction).sum(), inputs)
    for gradient, of_formulas in zip(ours, theirs, strict=True):
        assert float(gradient.abs().max()) > 0
        torch.testing.assert_close(gradient, of_formulas)


def test_an_image_reads_its_prior_and_no_prior_its_image() -> None:
    nodes = torch.randn(1, 2 * REGIONS, 6)
    layer = GraphAttention(6, 4, 2, True, 0.0)
    edges_BNN = net_of().edges(torch.ones(1, 2 * REGIONS, dtype=torch.bool)).float()
    before = layer(nodes, edges_BNN)
    for changed, reached in {0: {0, 1, 3}, 2: {2, 5}, 3: {3, 4}, 5: {5}}.items():
        other = nodes.clone()
        other[0, changed] += 1
        moved = (layer(other, edges_BNN) - before).abs().amax(2)[0]
        assert set(moved.gt(1e-6).nonzero()[:, 0].tolist()) == reached


def test_attention_begins_as_in_the_library() -> None:
    """Glorot's uniform distribution, biases at 0."""
    layer = GraphAttention(64, 32, 5, False, 0.0)
    for weight, sides in ((layer.value.weight, 64 + 160), (layer.read, 5 + 32)):
        bound = (6 / sides) ** 0.5
        assert bound * 0.9 < float(weight.detach().abs().max()) <= bound
    assert layer.bias.tolist() == [0.0] * 32


def test_dropout_is_of_weights_that_training_alone_has() -> None:
    net = net_of(dropout=0.5)
    given = pairs_of_features(2), torch.ones(2, 2 * REGIONS, dtype=torch.bool)
    torch.testing.assert_close(net(*given), net(*given))
    net.train()
    assert float((net(*given) - net(*given)).detach().abs().max()) > 0


# --- scene graphs ---------------------------------------------------------------------------------

BOXES = {"left lung": (40, 8, 80, 80), "right lung": (0, 8, 32, 80), "mediastinum": (32, 0, 40, 40)}


def scene(
    image: str,
    prior: str | None = None,
    region: str = "left lung",
    direction: str = "worsened",
    found: Mapping[str, str] | None = None,
    boxes: Mapping[str, tuple[float, float, float, float]] = BOXES,
) -> bytes:
    """A scene graph, its fields as published; boxes by corners."""
    objects = [
        {
            "bbox_name": name,
            **{f"original_{k}": v for k, v in zip(("x1", "y1", "x2", "y2"), box, strict=True)},
        }
        for name, box in boxes.items()
    ]
    said = found or {}
    attributes = [
        {
            "bbox_name": name,
            "attributes": [["nlp|yes|abnormal"], [f"anatomicalfinding|{said[name]}"]],
        }
        for name in said
    ]
    relationships = [
        {
            "relationship_names": [f"comparison|yes|{direction}"],
            "attributes": [
                "anatomicalfinding|yes|pulmonary edema/hazy opacity",
                "nlp|yes|abnormal",
            ],
            "bbox_name": region,
            "subject_id": f"{image}_{region}",
            "object_id": f"{prior}_{region}",
        }
    ]
    graph = {"image_id": image, "objects": objects, "attributes": attributes}
    return json.dumps({**graph, "relationships": relationships if prior else []}).encode()


def write_graphs(root: Path, graphs: Mapping[str, bytes], packed: bool = True) -> Path:
    folder = root / "silver_dataset"
    folder.mkdir(parents=True)
    names = {f"scene_graph/{image}_SceneGraph.json": content for image, content in graphs.items()}
    if packed:
        with ZipFile(folder / "scene_graph.zip", "w") as archive:
            for name, content in names.items():
                archive.writestr(name, content)
    else:
        (folder / "scene_graph").mkdir()
        for name, content in names.items():
            (folder / name).write_bytes(content)
    return root


def test_a_graph_has_boxes_comparisons_and_findings() -> None:
    found = {"left lung": "yes|pleural effusion", "right lung": "no|pleural effusion"}
    graph = graph_of(scene("b", "a", found=found))
    assert graph.boxes["left lung"] == [40, 8, 40, 72]
    assert graph.compared == {("a", "Edema", "left lung")}
    assert graph.found == {("left lung", "pleural effusion")}
    assert graph_of(scene("b", "a", direction="unspecified")).compared == frozenset()


@pytest.mark.parametrize("packed", [True, False], ids=["zip", "folder"])
def test_what_cannot_be_read_is_counted(tmp_path: Path, packed: bool) -> None:
    torn, other = scene("c")[:-9], json.dumps({"objects": {}, "relationships": 3}).encode()
    graphs = {"a": scene("a"), "b": scene("b", "a"), "c": torn, "d": other, "x": scene("x")}
    read, tally = read_graphs(write_graphs(tmp_path, graphs, packed), ["a", "b", "c", "d", "e"])
    assert [*read] == ["a", "b"] and tally.kept == 2
    assert {drop.reason: (drop.count, drop.failed) for drop in tally.drops} == {
        "scene graph is damaged": (2, True),
        "no scene graph": (1, False),
    }
    with pytest.raises(InputError, match=r"no scene_graph\.zip, nor scene_graph/"):
        read_graphs(tmp_path / "elsewhere", ["a"])


def test_regions_are_alike_by_the_findings_that_both_have() -> None:
    names = ["left lung", "right lung", "mediastinum"]
    draw = np.random.default_rng(0)
    found_MRL = draw.random((40, 3, len(FINDINGS))) < 0.4
    found_MRL[:, :, -1] = False  # which no region has
    graphs = [
        Graph({}, frozenset(), frozenset((names[r], FINDINGS[f]) for r, f in np.argwhere(image)))
        for image in found_MRL
    ]
    ours = alike(names, graphs).numpy()
    for a, b in np.ndindex(3, 3):
        theirs = [
            jaccard_score(found_MRL[:, a, f], found_MRL[:, b, f]) for f in range(len(FINDINGS) - 1)
        ]
        np.testing.assert_allclose(ours[a, b], np.mean(theirs), rtol=1e-6)
    assert alike(names, []).tolist() == [[0.0] * 3] * 3


# --- regions of images ----------------------------------------------------------------------------


class Mirror(nn.Module):
    """A trunk whose features are the pixels."""

    features = 1

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, frames: Frames[Tensor]) -> Patches:
        return Patches(frames.current, frames.current.mean((2, 3)))


def store_of(folder: Path, pictures: Mapping[str, Any], geometry: str = "square64") -> Path:
    (folder / "root").mkdir(parents=True)
    for name, picture in pictures.items():
        Image.fromarray(picture).save(folder / f"root/{name}.png")
    images = pd.DataFrame({"image_id": [*pictures]})
    images.assign(image_path=images["image_id"] + ".png").to_parquet(folder / "images.parquet")
    given = {"root": folder / "root", "images": folder / "images.parquet", "geometry": geometry}
    store_pixels(options(**given, output=folder / "pixels"))
    return folder / "pixels"


def test_a_region_is_cut_where_its_box_lies(tmp_path: Path) -> None:
    """In an image of 96 x 80 that is stored as a square, one box outside of it, one unknown."""
    picture = np.zeros((96, 80), np.uint8)
    picture[8:80, 40:80] = 255
    pixels = PixelStore(store_of(tmp_path, {"a": picture}))
    names = ["left lung", "right lung", "mediastinum", "trachea"]
    boxes = {**graph_of(scene("a")).boxes, "mediastinum": [80.0, 0.0, 9.0, 9.0]}
    trunk: Any = Mirror()
    regions = Regions(names, pixels, trunk, side=12, cells=3)
    regions.encode(np.array([0]), {"a": Graph(boxes, frozenset(), frozenset())})
    assert regions.present_MR.tolist() == [[True, True, False, False]]
    features = regions.features_MRFc[0, :, 0].float()
    torch.testing.assert_close(features[0], torch.ones(9), rtol=0, atol=0.05)
    torch.testing.assert_close(features[1], torch.zeros(9), rtol=0, atol=0.05)
    assert not features[2:4].any() and 0.3 < float(features[4].mean()) < 0.45  # 72 * 40 / (96 * 80)


def test_as_many_of_each_label_are_drawn_as_of_the_rarest() -> None:
    labels = np.array([0] * 7 + [1] * 3 + [2] * 5)
    rows = np.arange(15)
    pairs = ImagePairs(pd.DataFrame({"sample_id": rows}), rows, rows, labels)
    first, second = even(pairs, 0), even(pairs, 1)
    assert np.bincount(first.labels).tolist() == [3, 3, 3] and len({*first.current}) == 9
    assert first.current.tolist() != second.current.tolist() == even(pairs, 1).current.tolist()


# --- a training -----------------------------------------------------------------------------------

PATIENTS = 96
TRUNK = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1, "projection": 8}


def region_of(patient: int) -> str:
    """Where the finding is."""
    return ("left lung", "right lung")[patient // 3 % 2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two images a patient: one lung paler, alike or brighter; a bar elsewhere is drawn."""
    folder = tmp_path_factory.mktemp("relations") / "results"
    draw, pictures, rows, graphs = np.random.default_rng(0), {}, [], {}
    for patient in range(PATIENTS):
        change, before = patient % 3 - 1, int(draw.integers(80, 180))
        x, y, w, h = graph_of(scene("a")).boxes[region_of(patient)]
        for name, level in (("prior", before), ("current", before + 60 * change)):
            grey = draw.integers(0, 60, (96, 80)).astype(np.uint8)
            grey[int(y) : int(y + h), int(x) : int(x + w)] = level
            grey[84:96] = draw.integers(0, 256)  # outside of all regions
            grey[0, :2] = (0, 255)
            pictures[f"{name}{patient}"] = grey
        split = "test" if patient % 4 == 3 else "validate" if patient % 8 == 0 else "train"
        image, prior = f"current{patient}", f"prior{patient}"
        row = {"sample_id": f"{patient}", "subject_id": f"p{patient}", "split": split}
        row |= {"image_id": image, "prior_image_id": prior, "quality": "one_expert"}
        rows.append({**row, "finding": "Edema", "label": DIRECTIONS[change + 1]})
        said = ("improved", "no change", "worsened")[change + 1]
        graphs[image] = scene(image, prior, region_of(patient), said)
        graphs[prior] = scene(prior)
    store_of(folder, pictures)
    cohort = folder / "cohorts/tiny/progression"
    cohort.mkdir(parents=True)
    pd.DataFrame(rows).to_parquet(cohort / "samples.parquet")
    flow = {"dataset": "tiny", "synthetic": True, "classes": list(DIRECTIONS)}
    write_json(cohort / "flow.json", flow)
    write_graphs(folder / "phantom/chest_imagenome", graphs)
    torch.manual_seed(0)
    model = folder / "model"
    save_image_encoder(ImageEncoder(from_record(ImageEncoderKind, TRUNK, "sizes")), model)
    write_json(model / "run.json", {"model": "m", "settings": {}, "data": {"geometry": "square64"}})
    return folder


def options_of(world: Path, state: Path, model: str | None = "model") -> Namespace:
    cohort = world / "cohorts/tiny/progression"
    folder = world / model if model else None
    return Namespace(model=folder, cohort=cohort, pixels=world / "pixels", state=state)


def learning_of(**values: Any) -> dict[str, Any]:
    training = {
        **{"batch_size": 16, "epochs": 25, "validations": 25, "gradient_clip": 1.0},
        "optimiser": {"name": "adam", "learning_rate": 3e-3, "weight_decay": 0},
        "schedule": {"decay": "constant", "warmup": 0},
        "stopping": {"keep": "best", "monitor": "macro_accuracy", "mode": "max"},
    }
    return {"name": "relations", "seeds": [0], "training": training, **values}


LARGER: dict[str, Any] = {"node": 32, "hidden": 16, "width": 16, "head": 16, "side": 32}


def test_it_learns_what_became_of_regions(world: Path, tmp_path: Path) -> None:
    settings = settings_of(**LARGER, learning=learning_of())
    result = result_of(BENCHMARK, settings, options_of(world, tmp_path))
    assert len(result.predictions) == PATIENTS // 4
    assert result.metrics["macro_accuracy"].value > 0.8
    assert result.metrics["direction_auroc"].value > 0.9
    assert result.metrics["other_prior"].value < result.metrics["macro_accuracy"].value - 0.1
    assert result.data["scene_graphs"]["kept"] == 2 * PATIENTS
    samples = result.data["relations"]["Edema"]
    assert samples["regions"] == ["left lung", "right lung"] and samples["samples"] % 3 == 0
    assert result.protocol["two_images"] == "graph of both images' regions"


def test_the_runs_of_two_seeds_differ(world: Path, tmp_path: Path) -> None:
    short = learning_of(seeds=[0, 1], balanced=False)
    short["training"] |= {"epochs": 2, "validations": 2}
    result = result_of(BENCHMARK, settings_of(learning=short), options_of(world, tmp_path))
    first, second = (result.predictions[f"own_prior_stable_seed{seed}"] for seed in (0, 1))
    assert (first != second).any() and "macro_accuracy_sd/edema" in result.metrics
    assert result.data["relations"]["Edema"]["samples"] == result.data["train_pairs"]["Edema"]


def test_floors_and_the_ceiling_answer_in_its_place(world: Path, tmp_path: Path) -> None:
    given = options_of(world, tmp_path, None)
    scores = {
        name: result_of(BENCHMARK, settings_of(), given, name).metrics["macro_accuracy"].value
        for name in BENCHMARKS[BENCHMARK].references
        if name != "second_reader"  # who is not there
    }
    assert scores["nothing"] == pytest.approx(1 / 3) and scores["oracle"] == 1
    assert scores["current_optimum"] < scores["thumbnail_optimum"]


def test_without_scene_graphs_it_says_what_it_needs(world: Path, tmp_path: Path) -> None:
    given, few = options_of(world, tmp_path / "state"), settings_of(learning=learning_of())
    lost = few.model_copy(update={"graphs": tmp_path / "nowhere"})
    with pytest.raises(
        InputError, match="nowhere: no scene_graph.*where the setting 'graphs' says"
    ):
        result_of(BENCHMARK, lost, given)
    torn = {f"{name}{n}": b"{" for n in range(PATIENTS) for name in ("prior", "current")}
    damaged = few.model_copy(update={"graphs": write_graphs(tmp_path / "torn", torn)})
    with pytest.raises(InputError, match="scene graph is damaged"):
        result_of(BENCHMARK, damaged, given)
    silent = {name: scene(name) for name in torn}
    empty = few.model_copy(update={"graphs": write_graphs(tmp_path / "silent", silent)})
    with pytest.raises(InputError, match="Edema has 0 regions to learn from, by 192 scene"):
        result_of(BENCHMARK, empty, given)


def test_settings_that_say_nothing_of_it_are_refused() -> None:
    with pytest.raises(ValidationError, match="registered"):
        settings_of(registered=True)
    with pytest.raises(ValidationError, match="relations"):
        settings_of(learning={"name": "probe"})
    shared = {"findings", "split", "train_split", "validation_split", "batch_size", "intervals"}
    theirs = TemporalClassificationSettings()
    assert RelationSettings().model_dump(include=shared) == theirs.model_dump(include=shared)


# --- the task -------------------------------------------------------------------------------------


def test_the_task_has_the_published_sizes() -> None:
    config = config_of("chexrelnet", "paper")
    settings: Any = config.tasks["chexrelnet/relations"].settings
    published = RelationSettings.model_validate({"learning": settings.learning})
    assert settings == published and (published.node, published.heads) == (2048, (5, 3))
    training = settings.learning.training
    assert (training.batch_size, training.epochs, training.optimiser.learning_rate) == (
        32,
        200,
        8e-4,
    )
    code: Any = config.tasks["chexrelnet/relations_code"].settings
    assert code == settings.model_copy(update=CODE)
    for name, image, layers in (
        ("trunk", "chexrelnet/resnet101", (3, 4, 23, 3)),
        ("trunk_of_radiographs", "biovil/simclr", (3, 4, 6, 3)),
    ):
        trunk = config.models[f"chexrelnet/{name}"]
        assert (trunk.settings.encoder.layers, trunk.geometry) == (layers, "square512")
        assert trunk.recipe.image == image


def test_the_demonstration_starts_where_convirts_models_do() -> None:
    trunk = config_of("chexrelnet", "demo").models["chexrelnet/trunk"]
    assert trunk.recipe.image == "convirt/imagenet_pretraining" and trunk.geometry == "square128"


def test_real_data_bring_their_scene_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The overlay with published weights says where they are, to each of its tasks."""
    monkeypatch.setenv("CXR_DATA", "/data")
    overlay = yaml.safe_load((TOP / "rivals/weights.yaml").read_text(encoding="utf-8"))
    paper = yaml.safe_load((TOP / "paper.yaml").read_text(encoding="utf-8"))
    root = paper["datasets"]["chest_imagenome"]["root"]
    own = {
        name for name in config_of("chexrelnet", "paper").tasks if name.startswith("chexrelnet/")
    }
    rivals = "radnli_baseline", "cxr_repair"  # whose benchmarks the overlay has as well
    config = config_of(
        "chexrelnet", "paper", *rivals, tasks=overlay["tasks"], resources=overlay["resources"]
    )
    outside = {task.task.benchmark for task in config.tasks.values() if ":" in task.task.benchmark}
    assert BENCHMARK in outside and outside == {*overlay["resources"]}
    assert all(config.values.resources[name].gpu == 1 for name in outside)
    tasks = config.tasks
    for name in own:
        assert str(tasks[name].settings.graphs) == os.path.expandvars(root)
    assert {*overlay["tasks"]} == own
