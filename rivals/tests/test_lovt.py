"""LoVT: its losses in float64 beside loops, what it reads, and a training that learns."""

import json
import math
from argparse import Namespace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import make_store, write_cohort
from pydantic import ValidationError
from rival_config import config_of
from rivals.lovt import Lovt, LovtSettings, neighbours, sentence_states
from small_text import write_text_model
from torch import Tensor, nn

import cxrflow
from command_options import options
from cxr_files.atomic import read_object, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.grounding.patches import PatchEncoder
from cxrflow.encoders.image_encoder import load_image_encoder
from cxrflow.encoders.settings import ResNetSettings, VitSettings
from cxrflow.images.store import PixelStore
from cxrflow.pretrain.initial import main as initialise
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pairs.tables import pair_texts
from cxrflow.pretrain.settings import StudyPretrainingSettings
from cxrflow.pretrain.studies import main as pretrain_studies
from cxrflow.text.report_batch import ReportSentence
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE

KIND = "rivals.lovt:Lovt"
FEATURES, STATES = 8, 12
LENGTHS = [[2, 1, 3], [4], [1, 2]]  # tokens of the sentences of three reports
SIZES: dict[str, Any] = {"kind": KIND, "projection": 6, "hidden": 10, "heads": 4}
PADDING = pytest.mark.parametrize("padding", [False, True], ids=["real", "padding"])
Weights = dict[str, Tensor]


def encoders_of(image: Any = None, features: int = FEATURES, states: int = STATES) -> Any:
    """What the constructor reads of both encoders."""
    return SimpleNamespace(
        image=SimpleNamespace(settings=image or ResNetSettings()),
        trunk=SimpleNamespace(features=features),
        text=SimpleNamespace(config=SimpleNamespace(hidden_size=states)),
    )


def term_of(**values: Any) -> Lovt:
    """A term in float64 none of whose weights is what it begins as."""
    torch.manual_seed(0)
    term = Lovt(LovtSettings.model_validate({**SIZES, **values}), encoders_of())
    for parameter in term.parameters():
        nn.init.normal_(parameter, std=0.4)
    return term.double()


def inputs_of() -> tuple[Tensor, Tensor]:
    """The cells of three images, 2 x 3 each, and the tokens of three reports."""
    generator = torch.Generator().manual_seed(1)
    grid = torch.randn(3, FEATURES, 2, 3, dtype=torch.float64, generator=generator)
    states = torch.randn(3, 8, STATES, dtype=torch.float64, generator=generator)
    return grid.requires_grad_(), states.requires_grad_()


def views_of(grid: Tensor, states: Tensor, lengths: list[list[int]] = LENGTHS) -> Any:
    """What the term reads of a batch in one process."""
    tokens = [[ReportSentence("", np.zeros(n, np.int32)) for n in report] for report in lengths]
    return SimpleNamespace(
        features=grid,
        texts={"intact": SimpleNamespace(states=[states])},
        sentences=tokens,
        batch=Batch(np.arange(len(grid)), 0, 0, ALONE),
    )


# --- the loss, of one vector at a time ------------------------------------------------------------


def affine(w: Weights, name: str, x: Tensor) -> Tensor:
    return w[f"{name}.weight"] @ x + w[f"{name}.bias"]


def softmax(scores: list[Tensor]) -> list[Tensor]:
    powers = [torch.exp(score) for score in scores]
    return [power / sum(powers) for power in powers]


def pooled(w: Weights, name: str, asks: Tensor, seen: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Multi-head attention of one query, and the mean over heads of its weights."""
    matrices = w[f"{name}.in_proj_weight"].chunk(3)
    shifts = w[f"{name}.in_proj_bias"].chunk(3)
    query = matrices[0] @ asks + shifts[0]
    keys, values = ([matrices[n] @ x + shifts[n] for x in seen] for n in (1, 2))
    heads, size = SIZES["heads"], len(asks) // SIZES["heads"]
    parts, means = [], [torch.zeros((), dtype=torch.float64) for _ in seen]
    for head in range(heads):
        own = slice(head * size, (head + 1) * size)
        shares = softmax([query[own] @ key[own] / math.sqrt(size) for key in keys])
        looked = [share * v[own] for share, v in zip(shares, values, strict=True)]
        parts.append(torch.stack(looked).sum(0))
        means = [mean + share / heads for mean, share in zip(means, shares, strict=True)]
    return affine(w, f"{name}.out_proj", torch.cat(parts)), means


def normal(w: Weights, name: str, batch: list[Tensor]) -> list[Tensor]:
    """Each of the batch, by the mean and variance of all."""
    mean = sum(batch[1:], batch[0]) / len(batch)
    squares = [(x - mean) ** 2 for x in batch]
    variance = sum(squares[1:], squares[0]) / len(batch)
    gain, shift = w[f"{name}.weight"], w[f"{name}.bias"]
    return [gain * (x - mean) / torch.sqrt(variance + 1e-5) + shift for x in batch]


def projected(w: Weights, name: str, batch: list[Tensor]) -> list[Tensor]:
    inner = normal(w, f"{name}.1", [affine(w, f"{name}.0", x) for x in batch])
    return [affine(w, f"{name}.3", x.clamp(min=0)) for x in inner]


def regrouped(flat: list[Tensor], sizes: list[int]) -> list[list[Tensor]]:
    kept = iter(flat)
    return [[next(kept) for _ in range(size)] for size in sizes]


def by_part(samples: list[list[Tensor]], change: Any) -> list[list[Tensor]]:
    """``change`` of all parts of all samples as one batch."""
    flat = change([x for sample in samples for x in sample])
    return regrouped(flat, [len(sample) for sample in samples])


def cross_entropies(
    own: list[Tensor], seen: list[Tensor], shares: list[list[float]], weights: list[Tensor]
) -> Tensor:
    """Of one sample: parts to what they see, and back, each by its weight; the mean of both."""
    total = torch.zeros((), dtype=torch.float64)
    for ones, others in ((own, seen), (seen, own)):
        for place, one in enumerate(ones):
            scores = [
                one
                @ other
                / (one.norm() * other.norm())
                / LovtSettings(kind=KIND).local_temperature
                for other in others
            ]
            logs = [torch.log(share) for share in softmax(scores)]
            right = sum(share * log for share, log in zip(shares[place], logs, strict=True))
            total = total - weights[place] / sum(weights) * right / 2
    return total


def losses_of_loops(term: Lovt, grid: Tensor, states: Tensor) -> list[Tensor]:
    """Of pairs, regions and sentences."""
    w: Weights = dict(term.named_parameters())
    padding, settings = term.settings.padding, term.settings
    most = max(map(len, LENGTHS))
    regions = [[image[:, y, x] for y in range(2) for x in range(3)] for image in grid]
    sentences = []
    for report, tokens in zip(LENGTHS, states, strict=True):
        ends = np.cumsum([1, *report])  # [CLS] is the first token
        spans = zip(ends, ends[1:], strict=False)
        maxima = [torch.stack([*tokens[begin:end]]).amax(0) for begin, end in spans]
        empty = [torch.zeros(STATES, dtype=torch.float64)] * (most - len(maxima) if padding else 0)
        sentences.append([*maxima, *empty])
    wholes, weights, parts = [], [], []
    for side, samples, real in (
        ("regions", regions, [6] * 3),
        ("sentences", sentences, [*map(len, LENGTHS)]),
    ):
        asked = []
        for sample, number in zip(samples, real, strict=True):
            mean = sum(sample[1:], sample[0]) / len(sample)
            whole, shares = pooled(w, f"{side}.pooling", mean, sample[:number])
            asked.append(whole)
            weights.append([share.detach() for share in shares])
        wholes.append(projected(w, f"{side}.whole", asked))
        parts.append(by_part(samples, lambda flat, side=side: projected(w, f"{side}.part", flat)))

    of_pairs = torch.zeros((), dtype=torch.float64)
    for share, (ones, others) in zip((0.75, 0.25), (wholes, wholes[::-1]), strict=True):
        for place, one in enumerate(ones):
            cosines = [one @ other / (one.norm() * other.norm()) for other in others]
            right = softmax([cosine / settings.temperature for cosine in cosines])[place]
            of_pairs = of_pairs - share * torch.log(right) / 3

    def seen(own: list[list[Tensor]], others: list[list[Tensor]], sizes: Any) -> Any:
        looked: list[list[Tensor]] = []
        for mine, theirs, (own_real, real) in zip(own, others, sizes, strict=True):
            looked.append([])
            for place, one in enumerate(mine):
                key = affine(w, "alignment.key", one)
                scores = [
                    key @ affine(w, "alignment.key", other) / math.sqrt(6)
                    for other in theirs[:real]
                ]
                values = [affine(w, "alignment.value", other) for other in theirs[:real]]
                pairs = zip(softmax(scores), values, strict=True)
                state = torch.stack([share * v for share, v in pairs]).sum(0)
                state = state if place < own_real else torch.zeros_like(state)
                looked[-1].append(affine(w, "alignment.out", state))
        return by_part(looked, lambda flat: normal(w, "alignment.norm", flat))

    reports = [len(report) for report in LENGTHS]
    by_regions = seen(parts[0], parts[1], [(6, n) for n in reports])
    by_sentences = seen(parts[1], parts[0], [(n, 6) for n in reports])
    of_regions = of_sentences = torch.zeros((), dtype=torch.float64)
    cells, shares_of_cells = [*product(range(2), range(3))], []
    for cell in cells:
        distances = [math.dist(cell, other) / math.sqrt(13) for other in cells]
        near = [math.exp(-distance) if distance <= 0.5 else 0.0 for distance in distances]
        shares_of_cells.append([share / sum(near) for share in near])
    for place, number in enumerate(reports):
        of_regions = of_regions + cross_entropies(
            parts[0][place], by_regions[place], shares_of_cells, weights[place]
        )
        own, looked = parts[1][place][:number], by_sentences[place][:number]
        itself = np.eye(number).tolist()
        of_sentences = of_sentences + cross_entropies(own, looked, itself, weights[3 + place])
    return [of_pairs, of_regions / 3, of_sentences / 3]


@PADDING
def test_losses_and_gradients_are_those_of_loops(padding: bool) -> None:
    term, (grid, states) = term_of(padding=padding), inputs_of()
    loss = term.train().loss(views_of(grid, states))
    literal = losses_of_loops(term, grid, states)
    for logged, of_loops in zip(term.logged().values(), literal, strict=True):
        torch.testing.assert_close(logged, of_loops.detach())
    whole = literal[0] + 0.75 * literal[1] + 0.75 * literal[2]
    torch.testing.assert_close(loss, whole)
    inputs = [grid, states, *term.parameters()]
    gradients = (torch.autograd.grad(each, inputs) for each in (loss, whole))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_padding_counts_only_where_it_is_said_to() -> None:
    """The shorter reports lose what their zeros did to the batch's statistics."""
    grid, states = inputs_of()
    losses = [float(term_of(padding=each).loss(views_of(grid, states))) for each in (True, False)]
    assert abs(losses[0] - losses[1]) > 1e-3
    even = [[2, 1], [4, 1], [1, 2]]  # as many sentences each: there is no padding
    losses = [float(term_of(padding=p).loss(views_of(grid, states, even))) for p in (True, False)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-12)


def test_without_its_local_losses_it_is_that_of_pairs() -> None:
    grid, states = inputs_of()
    loss = term_of(region_weight=0, sentence_weight=0).loss(views_of(grid, states))
    torch.testing.assert_close(loss, losses_of_loops(term_of(), grid, states)[0])


def test_the_score_of_a_pair_is_what_its_loss_is_made_of() -> None:
    """Of permuted pairs the loss is greater by what the mean score is less."""
    term, (grid, states) = term_of(), inputs_of()
    term.train().loss(views_of(grid, states))  # statistics, which validation keeps
    term.eval()
    with torch.no_grad():
        compared = term.comparisons(views_of(grid, states))
        score_NN = compared.groups[0].score_KK
        true = float(term.loss(views_of(grid, states)))
        for order in ([1, 2, 0], [1, 0, 2]):
            changed = views_of(grid, states[order], [LENGTHS[place] for place in order])
            fallen = score_NN.diagonal().mean() - score_NN[range(3), order].mean()
            assert float(term.loss(changed)) - true == pytest.approx(float(fallen), abs=1e-9)
    assert compared.slope == 1


# --- what it reads --------------------------------------------------------------------------------


def test_neighbours_are_right_by_their_distance() -> None:
    positive_RR = neighbours(7, 7, reach=0.5, decay=1.0)
    torch.testing.assert_close(positive_RR.sum(1), torch.ones(49, dtype=torch.float64))
    corner = positive_RR[0].view(7, 7)
    near = [math.hypot(y, x) / math.sqrt(98) for y, x in product(range(7), range(7))]
    assert [float(share) > 0 for share in corner.flatten()] == [d <= 0.5 for d in near]
    assert float(corner[0, 3] / corner[0, 0]) == pytest.approx(math.exp(-3 / math.sqrt(98)))
    assert torch.equal(neighbours(3, 4, reach=0, decay=1.0), torch.eye(12, dtype=torch.float64))
    # On a grid of 4 x 4 two steps along both sides are just the reach.
    assert float(neighbours(4, 4, reach=0.5, decay=1.0)[0, 10]) > 0
    flat = neighbours(4, 4, reach=1.0, decay=0)
    torch.testing.assert_close(flat, torch.full((16, 16), 1 / 16, dtype=torch.float64))


def test_a_sentence_is_the_maximum_of_its_own_tokens() -> None:
    _, states = inputs_of()
    maxima, real = sentence_states(states, LENGTHS)
    assert real.tolist() == [[True] * 3, [True, False, False], [True, True, False]]
    assert torch.equal(maxima[1, 1:], torch.zeros(2, STATES, dtype=torch.float64))
    torch.testing.assert_close(maxima[0, 2], states[0, 4:7].amax(0))
    torch.testing.assert_close(maxima[2, 0], states[2, 1])
    (gradient,) = torch.autograd.grad(maxima.sum(), states)
    assert gradient[:, 0].abs().max() == 0 and gradient[0, 7].abs().max() == 0  # [CLS], [SEP]
    torch.testing.assert_close(gradient.sum((1, 2)), torch.tensor([3.0, 1, 2]).double() * STATES)


@pytest.mark.parametrize("length", [10, 40])
def test_sentences_stand_in_the_text_as_they_are_counted(length: int, tmp_path: Path) -> None:
    """Shuffled, and where a text is cut; the term takes its tokens by these counts alone."""
    settings = study_settings(length=length, sentence_shuffling=True)
    pairs = pd.DataFrame(
        {
            "impression_sentences": [["large .", "no effusion ."], [], ["heart is large ."]],
            "findings_sentences": [["pleural effusions .", "no nodule ."], ["heart ."], []],
        }
    )
    tokenizer = read_tokenizer(write_text_model(tmp_path))
    texts, orders = pair_texts(settings, pairs, tokenizer, training=True), set()
    for epoch in range(8):
        batch = Batch(np.arange(3), 0, epoch, ALONE)
        ids = texts.intact(batch)["input_ids"]
        for row, report in zip(ids.tolist(), texts.sentences(batch), strict=True):
            tokens = [int(token) for sentence in report for token in sentence.tokens]
            assert row[1 : 1 + len(tokens)] == tokens
            assert set(row[2 + len(tokens) :]) <= {0}  # [SEP] is all that follows
            assert len(tokens) <= length - 2
        orders.add(tuple(ids[0].tolist()))
    assert len(orders) > 1


# --- the door -------------------------------------------------------------------------------------


def study_settings(**values: Any) -> StudyPretrainingSettings:
    common = {"augmentation": {}, "training": {"batch_size": 6, "steps": 1}, "text": "report"}
    terms = {"lovt": {**SIZES, **values.pop("term", {})}}
    return StudyPretrainingSettings.model_validate({**common, "terms": terms, **values})


def test_a_recipe_names_it() -> None:
    terms = study_settings().terms
    assert isinstance(terms.named()["lovt"], LovtSettings)
    assert terms.needs.stage == 4 and terms.needs.texts == ("intact",)
    for wrong, message in {
        "rivals.lovt:Parts": "expected a subclass of cxrflow.pretrain.objective.Term",
        "rivals.lovt:Nothing": "has no class Nothing",
    }.items():
        with pytest.raises(ValidationError, match=message):
            study_settings(term={"kind": wrong})
    with pytest.raises(ValidationError, match="lovt.image_to_text"):
        study_settings(term={"image_to_text": 1.5})


def test_what_it_cannot_read_is_one_line() -> None:
    settings = LovtSettings.model_validate(SIZES)
    with pytest.raises(InputError, match=r"'encoder.kind' is 'vit'.* cells of a resnet"):
        Lovt(settings, encoders_of(VitSettings()))
    with pytest.raises(InputError, match="'heads' of LoVT is 4, but an encoder has 10 features"):
        Lovt(settings, encoders_of(features=10))
    alone: Any = SimpleNamespace(image=None, text=None)
    with pytest.raises(InputError, match="LoVT reads images and texts, which this program has not"):
        Lovt(settings, alone)


def test_what_it_begins_with_is_the_codes() -> None:
    torch.manual_seed(0)
    term = Lovt(LovtSettings(kind=KIND), encoders_of(features=2048, states=768))
    for layer, deviation in {  # He et al. 2015, by the outputs
        term.regions.part[0]: math.sqrt(2 / 2048),
        term.regions.part[3]: math.sqrt(1 / 512),
        term.alignment.key: math.sqrt(1 / 512),
    }.items():
        assert isinstance(layer, nn.Linear) and not layer.bias.any()
        assert float(layer.weight.detach().std()) == pytest.approx(deviation, rel=0.02)
    assert term.regions.pooling.num_heads == 8 and term.sentences.whole[3].out_features == 512


# --- a training -----------------------------------------------------------------------------------

REPORTS = [
    (["no effusion ."], ["heart is large ."]),
    (["pleural effusion .", "no nodule ."], ["large effusion ."]),
    (["nodule ."], ["no pleural effusions .", "large heart ."]),
    (["no large heart ."], ["no ."]),
    (["is no nodule .", "heart ."], ["pleural effusions ."]),
    (["large .", "effusion is pleural ."], []),
]


def write_pairs(folder: Path) -> None:
    """The six pairs in each split: what has been learnt by heart is what is asked."""
    rows = [
        {
            "subject_id": f"{split}{number}",
            "study_id": f"{split}{number}",
            "image_id": f"image{number}",
            "split": split,
            "findings": " ".join(findings),
            "impression": " ".join(impression),
            "findings_sentences": findings,
            "impression_sentences": impression,
        }
        for split in ("train", "validate")
        for number, (findings, impression) in enumerate(REPORTS)
    ]
    write_cohort(folder, "pairs.parquet", pd.DataFrame(rows))
    write_json(folder / "flow.json", {"dataset": "tiny", "cohort": "tiny", "synthetic": True})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Namespace:
    """The program's own end, of small encoders and six pairs."""
    folder = tmp_path_factory.mktemp("lovt")
    pixels = make_store(folder, 6)
    write_pairs(folder / "cohort")
    (folder / "text").mkdir()
    text = write_text_model(folder / "text")
    sizes = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1}
    settings = {
        "encoder": {**sizes, "dilate": [False, True, True]},
        "length": 40,
        "text": "report",
        "frozen_layers": 1,
        "dropout": 0,
        "attention_dropout": 0,
        "terms": {"lovt": {**SIZES, "projection": 16, "hidden": 32, "padding": True}},
        "augmentation": {"angle": 0, "shear": 0, "brightness": 0, "contrast": 0},
        "training": {
            **{"batch_size": 6, "steps": 150, "log_steps": 10, "validations": 3},
            "optimiser": {"learning_rate": 3e-3, "weight_decay": 1e-6},
        },
    }
    places = {"pairs": folder / "cohort/pairs.parquet", "pixels": pixels, "text": text}
    places |= {"state": folder / "state", "output": folder / "model"}
    pretrain_studies(options(**places, settings=settings, model="lovt/pretraining", seed=0))
    initialise(
        options(
            image=folder / "model",
            geometry="shorter64",
            model="lovt/lovt",
            seed=0,
            settings={"encoder": sizes},
            output=folder / "trunk",
        )
    )
    return Namespace(pixels=pixels, model=folder / "model", trunk=folder / "trunk")


def test_each_of_its_losses_falls_below_that_of_a_guess(trained: Namespace) -> None:
    """Of six reports, of the 8 x 8 regions of an image, of up to three sentences of a report."""
    lines = (trained.model / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    logs = [log for log in map(json.loads, lines) if "lovt/pairs" in log]
    assert logs[-1]["loss"] < 0.75 * logs[0]["loss"]
    assert logs[-1]["lovt/pairs"] < 0.1 * math.log(6)
    assert logs[-1]["lovt/regions"] < math.log(64) - 0.03  # of whose neighbours most are right
    assert logs[-1]["lovt/sentences"] < 0.1 * math.log(2)


def test_it_finds_the_report_of_an_image(trained: Namespace) -> None:
    learnt = read_object(trained.model / "run.json")["permuted_pairs"]["terms"]["lovt"]
    assert learnt["rank"]["value"] == 1 and learnt["p"] < 0.05


def test_its_trunk_is_what_is_scored(trained: Namespace) -> None:
    """The trunk alone, as it was trained; the folder of the training compares nothing."""
    whole, trunk = (load_image_encoder(f, trunk_alone=True) for f in (trained.model, trained.trunk))
    assert trunk.projector is None and not PatchEncoder(trunk, torch.device("cpu")).projects
    for name, weight in trunk.encoder.state_dict().items():
        assert torch.equal(whole.encoder.state_dict()[name], weight)
    model = cxrflow.load(trained.model)
    store = PixelStore(trained.pixels)
    stored = store.read(store.rows(pd.Series(["image0", "image1"])))
    pixels = torch.from_numpy(stored).unsqueeze(1).float() / 255
    with pytest.raises(InputError, match="does not compare images with texts"):
        model.similarity(pixels, ["no effusion ."])


# --- the recipe -----------------------------------------------------------------------------------


def test_the_recipe_has_the_published_sizes() -> None:
    models = config_of("lovt", "paper").models
    settings = models["lovt/pretraining"].settings
    assert settings.terms.named()["lovt"] == LovtSettings(kind=KIND, padding=True)
    assert settings.encoder.layers == (3, 4, 6, 3) and settings.encoder.block == "bottleneck"
    assert settings.augmentation.size == 224 and settings.frozen_layers == 6
    assert models["lovt/pretraining"].recipe.text == "biovil/clinical_bert"
    training = settings.training
    rate = training.optimiser.learning_rate
    assert (training.batch_size, training.epochs, rate) == (32, 100, 1e-4)
    assert (training.stopping.keep, training.stopping.patience) == ("best", 10)
    without = models["lovt/pretraining_whole"].settings.terms.named()["lovt"]
    assert (without.region_weight, without.sentence_weight) == (0, 0)


@pytest.mark.parametrize("scale", ["demo", "study", "paper"])
def test_a_trunk_goes_from_its_start_to_its_probe(scale: str) -> None:
    """Sizes are the same but for what has no weights."""
    models = config_of("lovt", scale).models
    names = ("convirt/imagenet_pretraining", "lovt/pretraining", "lovt/lovt", "lovt/start")
    trunks = [models[name].settings.encoder for name in names]
    free = {*ResNetSettings.weightless}
    sizes = [trunk.model_dump(exclude=free) for trunk in trunks]
    assert all(size == sizes[0] for size in sizes)
    assert models["lovt/lovt"].recipe.image == "lovt/pretraining"
    assert models["lovt/random"].recipe.image is None
    # Boxes are scored on whole squares, which the training does not see.
    assert not any("unpadded" in str(models[name].recipe.geometry) for name in names[2:])
