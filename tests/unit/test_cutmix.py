"""MedCutMix in a training: its loss, its controls, and what stays as it was without it."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from literal import in_float64, unit
from pydantic import ValidationError
from small_text import TEXT
from stored_pictures import Pictures, Unchanged
from test_diagnostic_sentences import CLASSES, SENTENCES, WORDS
from test_pair_matching import IMAGE
from torch import Tensor

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.errors import InputError
from cxrflow.objectives.biovil import global_alignment
from cxrflow.pretrain.image_text_pairs import ImageTextProgram, PairViews
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pair_tables import pair_texts
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.terms.cutmix import Cutmix
from cxrflow.pretrain.terms.cutmix_settings import CutmixSettings
from cxrflow.text.diagnostic_sentences import pasted, read_report
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.samples import SampleTable
from cxrflow.training.step import DataClock, Step

__all__ = ["in_float64"]
CUTMIX = {"classes": CLASSES[:2], "pairs": 8, "warmup_epochs": 1, "layer": 3, "layers": 2}
LABELS = np.array([[1, 0, 0], [1, 0, 0], [1, 1, 0], [0, -1, 0], [np.nan, 1, 0], [1, 1, 0]])
COUNT = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text")
    write_tokenizer(path, [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    return path


BIOVIL = {"global_alignment": {}, "mlm": {"forward": "shared"}}
GLORIA = {"global_alignment": {"temperature": 0.1}, "local_alignment": {"layers": 2}}


def make(folder: Path, terms: dict[str, Any], **changes: Any) -> ImageTextProgram:
    """A program of small encoders, always the same weights."""
    labels = changes.pop("labels", np.tile(LABELS, (4, 1)))
    settings = JointPretrainingSettings.model_validate(
        {
            "training": {"batch_size": 12, "epochs": 3, "optimiser": {"name": "sgd"}},
            "augmentation": {},
            "terms": terms,
            "encoder": {**IMAGE, "projection": 8},
            "length": 24,
            **changes,
        }
    )
    torch.manual_seed(0)
    text = CXRBert.build(TEXT, len(SPECIAL_TOKENS) + len(WORDS), 0)
    text.set_dropout(0.2, 0.2)
    image = ImageEncoder(settings.encoder)
    pairs = pd.DataFrame({"impression_sentences": SENTENCES * 4, "findings": [""] * COUNT})
    texts = pair_texts(settings, pairs, read_tokenizer(folder), training=True)
    table = SampleTable(
        [str(n) for n in range(COUNT)],
        labels=labels,
        classes=tuple(CLASSES),
        patients=np.array([str(n // 2) for n in range(COUNT)]),
    )
    splits: Any = dict.fromkeys(("train", "validate"), Pictures(COUNT))
    samples = dict.fromkeys(splits, table)
    run = Run(0, torch.device("cpu"), ALONE)
    program = ImageTextProgram(
        settings, run, samples, splits, dict.fromkeys(splits, texts), image, text, folder
    )
    program.augmentation = Unchanged()  # type: ignore[assignment]
    return program


def trained(program: ImageTextProgram, steps: int) -> Iterator[dict[str, float]]:
    """Train and yield the values of each step."""
    step = Step(program, program.settings.training, 0, 6, torch.device("cpu"), "fp32", ALONE)
    for module in program.modules.values():
        module.train()
    for number in range(steps):
        values, *_ = step(number, DataClock([]))
        yield values.read()


def weights(program: ImageTextProgram) -> dict[str, Tensor]:
    return {
        f"{half}.{name}": value.clone()
        for half in ("text", "image")
        for name, value in program.modules[half].state_dict().items()
    }


def equal(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[k], theirs[k]) for k in ours)


@pytest.mark.parametrize("host", [BIOVIL, GLORIA], ids=["BioViL", "GLoRIA"])
@pytest.mark.parametrize("change", [{"pairs": 0}, {"pairs": 1}, {"warmup_epochs": 3}], ids=str)
def test_without_pairs_and_in_warm_up_the_weights_are_the_host_s(host, change, folder) -> None:
    """Bit for bit: no pairs are wanted, fewer than the classes, or it is not yet time."""
    plain, with_term = make(folder, host), make(folder, {**host, "cutmix": {**CUTMIX, **change}})
    without = list(trained(plain, 5))
    logged = list(trained(with_term, 5))
    assert equal(weights(plain), weights(with_term))
    for number, (values, line) in enumerate(zip(without, logged, strict=True)):
        assert line["loss"] == values["loss"] and line["cutmix"] == 0
        why = "few_pairs" if "pairs" in change and number >= 2 else "warm_up"
        assert line[f"cutmix/skipped/{why}"] == 1


def test_fewer_pairs_than_classes_are_said(folder: Path, caplog) -> None:
    make(folder, {**BIOVIL, "cutmix": {**CUTMIX, "pairs": 1}})
    assert "no pair is made: pairs is 1, fewer than the 2 classes" in caplog.messages[-1]
    caplog.clear()
    make(folder, {**BIOVIL, "cutmix": {**CUTMIX, "pairs": 0}})
    assert not caplog.messages


def test_no_pair_is_alone_in_a_ghost_batch(folder: Path) -> None:
    """It would have no batch statistics, and end a training in the middle of an epoch."""
    program = make(folder, {"global_alignment": {}, "cutmix": CUTMIX}, ghost_batch=6)
    views, term = views_of(program), term_of(program)
    reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
    pairs = term._pairs(views.batch, reports)
    assert len(pairs) == 8
    term.ghost_batch = 7
    assert term._pairs(views.batch, reports) == pairs[:-1]


def test_ghost_batches_in_several_processes_are_refused_in_the_first_step(folder: Path) -> None:
    program = make(folder, {"global_alignment": {}, "cutmix": CUTMIX}, ghost_batch=6)
    batch = Batch(np.arange(12), 0, 0, Processes(0, 2), program.samples["train"])
    with pytest.raises(InputError, match="ghost_batch' is 6, with terms.cutmix in 2 processes"):
        term_of(program)._rest(batch)


def test_a_batch_without_pairs_is_counted(folder: Path, caplog) -> None:
    labels = np.zeros((COUNT, 3))
    labels[:2, 0] = 1  # of one patient
    make(folder, {**BIOVIL, "cutmix": CUTMIX}, labels=labels)
    (said,) = caplog.messages
    assert said.startswith("terms.cutmix: no pair can be made of Edema, Pleural Effusion: fewer")
    unlabelled = make(folder, {**BIOVIL, "cutmix": CUTMIX}, labels=np.zeros((COUNT, 3)))
    plain = make(folder, BIOVIL)
    _, lines = list(trained(plain, 4)), list(trained(unlabelled, 4))
    assert equal(weights(plain), weights(unlabelled))
    assert [line["cutmix/skipped/few_pairs"] for line in lines] == [0, 0, 1, 1]


@pytest.mark.parametrize("host", [BIOVIL, GLORIA], ids=["BioViL", "GLoRIA"])
def test_after_warm_up_the_term_trains_any_host(host, folder) -> None:
    plain, with_term = make(folder, host), make(folder, {**host, "cutmix": CUTMIX})
    lines = list(trained(with_term, 2))
    list(trained(plain, 2))
    assert equal(weights(plain), weights(with_term))  # an epoch
    lines = list(trained(with_term, 4))
    list(trained(plain, 4))
    assert not equal(weights(plain), weights(with_term))
    pairs = [line[f"cutmix/pairs/{name}"] for line in lines[2:] for name in CLASSES[:2]]
    assert max(pairs) <= 4 and sum(pairs) > 8
    for line in lines[2:]:
        made = sum(line[f"cutmix/pairs/{name}"] for name in CLASSES[:2])
        assert 0 < line["cutmix/mixed"] < made and line["cutmix"] > 0
        assert sum(line[f"cutmix/skipped/{why}"] for why in ("warm_up", "few_pairs")) == 0
    with_term.modules["cutmix"].eval()
    with torch.no_grad():
        validated = with_term.validate()
    assert validated["cutmix"] == 0 and "cutmix/mixed" not in validated


def views_of(program: ImageTextProgram, epoch: int = 1) -> PairViews:
    rows = np.arange(12)
    batch = Batch(rows, 0, epoch, ALONE, program.samples["train"])
    return program.views("train", batch)


def term_of(program: ImageTextProgram) -> Any:
    term = program.terms["cutmix"]
    assert isinstance(term, Cutmix)
    return term.train()


def test_the_term_is_its_equations(folder: Path) -> None:
    """One by one: words of the source's sentences, its patches, mixed after stage 3, encoded."""
    program = make(folder, {"global_alignment": {}, "cutmix": CUTMIX})
    program.text.set_dropout(0.0, 0.0)
    program.image.eval()
    views, term = views_of(program), term_of(program)
    loss = term.loss(views)
    reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
    pairs = term._pairs(views.batch, reports)
    tokenizer = read_tokenizer(folder)
    output, text = views.images[0], views.texts["intact"]
    hidden = program.image.encoder.forward_until(Frames(Pictures(COUNT).pixels[:12]), 3).current
    images, texts = [], []
    for source, target, number in pairs:
        name = CLASSES[number].lower()
        stand = [s.text for s in views.sentences[source]]
        # The source's words, token by token: a word's sum over its pieces and both last layers.
        words, place = [], 1
        for sentence in stand:
            ids = tokenizer.encode(sentence, add_special_tokens=False).ids
            sums: list[Tensor] = []
            for offset, token in enumerate(ids):
                state = sum(layer[source, place + offset] for layer in text.states)
                if tokenizer.id_to_token(token).startswith("##"):
                    sums[-1] = sums[-1] + state
                else:
                    sums.append(state)
            place += len(ids)
            words += sums if name in sentence else []
        word_WP = program.text.cls_projection_head(torch.stack(words))
        patch_MP = output.projected_patches[source].flatten(0, 1)
        region = torch.zeros(patch_MP.shape[0])
        for word in word_WP:
            region = region + torch.softmax(patch_MP @ unit(word) / 0.005, dim=0)
        region = region.clamp(max=1).unflatten(0, output.projected_patches.shape[1:3]).detach()
        share = region[None, None]  # dilated: the grid of stage 3 is that of the last
        assert share.shape[2:] == hidden.shape[2:]
        mixed = share * hidden[source] + (1 - share) * hidden[target]
        patches = program.image.encoder.forward_from(Frames(mixed), 3)
        images.append(program.image.project(patches).projected_global[0])
        donated = " ".join(s for s in stand if name in s)
        kept, done = [], False
        for sentence in (s.text for s in views.sentences[target]):
            if name not in sentence:
                kept.append(sentence)
            elif not done:
                kept, done = [*kept, donated], True
        ids = torch.tensor([tokenizer.encode(" ".join(kept)).ids])
        states = program.text.last_states(ids, torch.ones_like(ids), 1)
        texts.append(program.text.project(states[-1], torch.ones_like(ids))[0])
    literal = global_alignment(torch.stack(images), torch.stack(texts), 0.07) / 2
    torch.testing.assert_close(loss, literal, rtol=1e-4, atol=1e-5)
    parameters = [p for p in [*program.image.parameters(), *program.text.parameters()]
                  if p.requires_grad]  # fmt: skip
    found = torch.autograd.grad(loss, parameters, allow_unused=True, retain_graph=True)
    wanted = torch.autograd.grad(literal, parameters, allow_unused=True)
    for ours, theirs in zip(found, wanted, strict=True):
        if theirs is not None:
            torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-4)


def contrast(program: ImageTextProgram) -> Tensor:
    loss: Tensor = term_of(program).loss(views_of(program))
    return loss


def variant(folder: Path, length: int = 24, **changes: Any) -> ImageTextProgram:
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, **changes}}
    program = make(folder, terms, length=length)
    program.text.set_dropout(0.0, 0.0)
    program.image.eval()
    return program


def test_controls_change_what_they_name(folder: Path) -> None:
    whole = {name: variant(folder, control=name) for name in
             ("unmixed", "text_alone", "image_alone", "other_region", "shuffled_region",
              "other_class", None)}  # fmt: skip
    losses = {name: contrast(program).item() for name, program in whole.items()}
    assert len({round(loss, 6) for loss in losses.values()}) == len(losses)
    regions, texts = {}, {}
    for name, program in whole.items():
        views, term = views_of(program), term_of(program)
        reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
        pairs = term._pairs(views.batch, reports)
        regions[name] = term._regions(views, reports, pairs)
        texts[name] = term._texts(reports, pairs)
    for name in ("unmixed", "text_alone"):
        assert not regions[name].any()
    plain = [s.tokens.tolist() for s in views.sentences[pairs[0].target]]
    assert texts["unmixed"][0] == texts["image_alone"][0] == [t for s in plain for t in s]
    for name in ("text_alone", "other_region", "shuffled_region"):
        assert texts[name] == texts[None]
    assert texts["other_class"] != texts[None] != texts["unmixed"]
    for name in ("image_alone", "other_class"):
        assert torch.equal(regions[name], regions[None])
    assert torch.equal(regions["other_region"], regions[None].roll(1, 0))
    shuffled, true = (regions[name].flatten(1) for name in ("shuffled_region", None))
    assert torch.equal(shuffled.sort(1).values, true.sort(1).values)
    assert not torch.equal(shuffled, true)


VIT = {"kind": "vit", "blocks": 3, "width": 12, "heads": 2, "patch": 16, "grid": 4, "channels": 1}


def pooled_of(folder: Path, **changes: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Projections of mixed images of a transformer, of their targets and of their sources."""
    encoder = {**VIT, "projection": 8, "projection_head": {"kind": "linear"}}
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, **changes}}
    program = make(folder, terms, encoder=encoder)
    program.image.eval()
    views, term, images = views_of(program), term_of(program), []
    resumed = views.resumed
    views.resumed = lambda *args, **more: images.append(resumed(*args, **more)) or images[-1]
    term.loss(views)
    reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
    pairs = term._pairs(views.batch, reports)
    whole = views.images[0].projected_global
    sources, targets = ([getattr(pair, name) for pair in pairs] for name in ("source", "target"))
    return images[0].projected_global, whole[targets], whole[sources]


def test_mixing_after_the_last_block_changes_nothing_that_cls_gives(folder: Path, caplog) -> None:
    """Counted from 0, the last layer leaves nothing that looks at the mixed patches."""
    mixed, target, source = pooled_of(folder, layer=2, first_layer=0)
    assert "mixed after the last of 3 blocks, where the target's [CLS] no longer" in caplog.text
    torch.testing.assert_close(mixed, target)
    mixed, target, source = pooled_of(folder, layer=2, first_layer=0, cls="source")
    torch.testing.assert_close(mixed, source)
    differing: list[dict[str, Any]] = [{"cls": "source"}, {}]
    differing += [{"first_layer": 0, "cls": cls} for cls in ("mixed", "patches")]
    for changes in differing:
        mixed, target, source = pooled_of(folder, layer=2, **changes)
        for whole in (target, source):
            assert (mixed - whole).abs().amax() > 1e-4, changes


def test_rows_of_ours_are_written_in_yaml_alone(tmp_path: Path, overlay: Any) -> None:
    path = tmp_path / "mixed.yaml"
    path.write_text(
        """
models:
  "{host}_cutmix":
    vary: {host: {biovil: biovil/biovil, gloria: biovil/gloria}}
    extends: "{host}"
    cohort: biovil/mimic_cxr_labelled
    settings: {terms: {cutmix: {layer: 3, layers: 4}}}
tables:
  table5:
    extends: biovil/table5
    rows:
      - {vary: {host: [biovil, gloria]}, label: "{host} + MedCutMix", model: "{host}_cutmix"}
"""
    )
    config = overlay({"papers": [str(path)]})
    for host in ("biovil", "gloria"):
        model, plain = config.model(f"mixed/{host}_cutmix"), config.model(f"biovil/{host}")
        assert model.settings.terms.cutmix == CutmixSettings(layer=3, layers=4)
        terms = model.settings.terms.model_copy(update={"cutmix": None})
        assert model.settings.model_copy(update={"terms": terms}) == plain.settings
        assert "cutmix" not in plain.settings.record()["terms"]


def test_pairs_depend_on_seed_epoch_and_batch_alone(folder: Path) -> None:
    program = variant(folder)
    term = term_of(program)

    def pairs(epoch: int, rows: np.ndarray, seed: int = 0) -> Any:
        batch = Batch(rows, seed, epoch, ALONE, program.samples["train"])
        views = program.views("train", batch)
        reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
        return term._pairs(batch, reports)

    first = pairs(1, np.arange(12))
    assert pairs(1, np.arange(12)) == first
    assert pairs(2, np.arange(12)) != first != pairs(1, np.arange(12), seed=1)
    assert {pair.class_number for pair in first} == {0, 1}
    for source, target, number in first:
        for place in (source, target):
            assert program.samples["train"].labels[place, number] == 1
            name = CLASSES[number].lower()
            assert any(name in s.text for s in views_of(program).sentences[place])


@pytest.mark.parametrize("length", [8, 9, 24])
def test_a_report_without_other_sentences_is_the_one_that_the_encoder_reads(length, folder) -> None:
    program = variant(folder, length=length)
    views = views_of(program)
    ids, mask = views.texts["intact"].ids, views.texts["intact"].mask
    term = term_of(program)
    for place, sentences in enumerate(views.sentences):
        report = read_report(sentences, term.diagnostic, term.continues)
        assert pasted(report, [], []) == ids[place][mask[place].bool()][1:-1].tolist()
        cut = [number for number, sentence in enumerate(sentences) if not sentence.text]
        assert cut in ([], [len(sentences) - 1])
        assert not any(report.classes[number] for number in cut)
    any_is_cut = any(not s.text for sentences in views.sentences for s in sentences)
    assert any_is_cut == (length < 24)


def test_reports_that_lose_their_end_by_a_paste_are_counted(folder: Path) -> None:
    program = variant(folder)
    contrast(program)
    assert term_of(program).logged()["cut"] == 0
    program = variant(folder, length=8)
    contrast(program)
    assert term_of(program).logged()["cut"] > 0


@pytest.mark.parametrize("size", [12, 9])  # 9: six samples of each epoch stand in no batch
def test_pairs_of_an_epoch_stand_in_one_of_its_batches(size: int, folder: Path) -> None:
    training = {"batch_size": size, "epochs": 3, "optimiser": {"name": "sgd"}}
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, "per": "epoch"}}
    program = make(folder, terms, training=training)
    lines = list(trained(program, 6))
    for epoch in (1, 2):
        both = lines[2 * epoch : 2 * epoch + 2]
        assert sum(line["cutmix/skipped/epoch_has_them"] for line in both) == 1
    term, drawn = term_of(program), []
    for epoch in range(1, 30):
        batches = (Batch(np.arange(2), 0, epoch, ALONE, number=n, batches=2) for n in range(2))
        drawn += [n for n, batch in enumerate(batches) if term._rest(batch) is None]
    assert len(drawn) == 29 and set(drawn) == {0, 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["Hernia"]}, "classes' names Hernia, which the cohort's labels lack"),
        ({"layers": 4}, "layers' is 4, but the text encoder has 3 layers"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(change, message, folder) -> None:
    with pytest.raises(InputError, match=message):
        make(folder, {"global_alignment": {}, "cutmix": {**CUTMIX, **change}})


@pytest.mark.parametrize(
    ("change", "encoder", "message"),
    [
        ({"layer": 5}, {}, "layer is 5, counted from 1; expected a layer of a trunk of 4 layers"),
        ({"layer": 4, "first_layer": 0}, {}, "layer is 4, counted from 0; expected a layer of"),
        ({"layer": 12}, {"kind": "vit", "blocks": 11}, "is 12, counted from 1; .* of 11 layers"),
        ({"layer": 5}, {"kind": "clip_resnet"}, "layer is 5, .* of 4 layers"),
        ({}, {"kind": "multi_image"}, "encoder.kind multi_image, which compares an image with a"),
        ({"cls": "source"}, {}, "cls is source, but the trunk has no .CLS.; expected target"),
    ],
)
def test_a_trunk_that_images_cannot_be_mixed_in_is_named_by_the_settings(
    change, encoder, message
) -> None:
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, **change}}
    training = {"batch_size": 12, "epochs": 3, "optimiser": {"name": "sgd"}}
    with pytest.raises(ValidationError, match=message):
        JointPretrainingSettings.model_validate(
            {"training": training, "augmentation": {}, "terms": terms, "encoder": encoder}
        )


def test_a_trunk_of_another_kind_is_asked_when_it_is_made() -> None:
    settings, encoder = CutmixSettings(layer=3), ImageEncoderSettings.model_construct(kind="own")
    settings.check_trunk(encoder, encoder.depth)
    with pytest.raises(ValueError, match="layer is 3, .* of a trunk of 2 layers"):
        settings.check_trunk(encoder, 2)


def test_a_cohort_without_labels_and_a_trunk_without_cls(folder: Path) -> None:
    with pytest.raises(InputError, match="the cohort has none; expected `labels: published`"):
        make(folder, {"global_alignment": {}, "cutmix": CUTMIX}, labels=None)
    program = variant(folder)
    term = term_of(program)
    term.settings = term.settings.model_copy(update={"cls": "source"})  # a trunk of another kind
    with pytest.raises(InputError, match="cls is source, but the trunk has no"):
        contrast(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 0}, "layer is 0; expected at least first_layer, 1"),
        ({"classes": ["Edema", "Edema"]}, "expected each once"),
        ({"classes": ["Edema"], "control": "other_class"}, "other_class, but .* expected several"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CutmixSettings(**change)
    assert deepcopy(CutmixSettings()).pairs // len(CutmixSettings().classes) == 3
    assert [n // 13 for n in (30, 40, 50)] == [2, 3, 3]
