"""MedCutMix in a training: its loss, its controls, and what stays as it was without it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from literal import in_float64, unit
from small_cutmix import (
    BIOVIL,
    COUNT,
    CUTMIX,
    GLORIA,
    contrast,
    equal,
    folder,
    make,
    term_of,
    trained,
    variant,
    views_of,
    weights,
)
from stored_pictures import Pictures
from test_diagnostic_sentences import CLASSES
from torch import Tensor
from torch._dynamo.utils import counters

from cxrflow.encoders.heads.mgca import TextHead
from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.settings import MgcaHeadSettings
from cxrflow.objectives.biovil import global_alignment
from cxrflow.pretrain.terms.cutmix_settings import CutmixSettings
from cxrflow.text.diagnostic_sentences import read_report
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.positive_pairs import PositivePair

__all__ = ["folder", "in_float64"]


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
        assert 0 < line["cutmix/mixed"] < 1 <= made == line["cutmix/pairs"] and line["cutmix"] > 0
        assert sum(line[f"cutmix/skipped/{why}"] for why in ("warm_up", "few_pairs")) == 0
    with_term.modules["cutmix"].eval()
    with torch.no_grad():
        validated = with_term.validate()
    assert validated["cutmix"] == 0 and "cutmix/mixed" not in validated


def test_reading_regions_leaves_the_statistics_of_words_as_they_are(folder: Path) -> None:
    """The term that trains on words counts them, and no step counts them twice."""
    program = variant(folder)
    head = TextHead(program.text.config.hidden_size, 8, MgcaHeadSettings(hidden=12))
    program.text.cls_projection_head = head
    before = {name: value.clone() for name, value in head.state_dict().items()}
    assert program.text.train() and contrast(program) > 0
    changed = [
        name for name, value in head.state_dict().items() if not torch.equal(value, before[name])
    ]
    running = [name for name in changed if "running" in name]
    assert running and all(name.startswith("model.") for name in running)


def test_the_term_is_its_equations(folder: Path) -> None:
    """One by one: words of the source's sentences, its patches, mixed after stage 3, encoded."""
    program = make(folder, {"global_alignment": {}, "cutmix": CUTMIX})
    program.text.set_dropout(0.0, 0.0)
    program.image.eval()
    views, term = views_of(program), term_of(program)
    loss = term.loss(views)
    reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
    pairs = term.pairs_of_batch(views.batch, reports)
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


def test_controls_change_what_they_name(folder: Path) -> None:
    whole = {name: variant(folder, control=name) for name in
             ("unmixed", "text_alone", "image_alone", "other_region", "shuffled_region",
              "other_class", None)}  # fmt: skip
    losses = {name: contrast(program).item() for name, program in whole.items()}
    assert len({round(loss, 6) for loss in losses.values()}) == len(losses)
    regions, texts = {}, {}
    del whole["other_class"]  # below
    for name, program in whole.items():
        views, term = views_of(program), term_of(program)
        reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
        donors = term.pairs_of_batch(views.batch, reports)
        pairs = list(donors)
        regions[name] = term.regions(views, reports, pairs)
        texts[name] = term.texts(reports, donors)
    for name in ("unmixed", "text_alone"):
        assert not regions[name].any()
    plain = [s.tokens.tolist() for s in views.sentences[pairs[0].target]]
    assert texts["unmixed"][0] == texts["image_alone"][0] == [t for s in plain for t in s]
    for name in ("text_alone", "other_region", "shuffled_region"):
        assert texts[name] == texts[None]
    assert texts[None] != texts["unmixed"]
    assert torch.equal(regions["image_alone"], regions[None])
    assert torch.equal(regions["other_region"], regions[None].roll(1, 0))
    shuffled, true = (regions[name].flatten(1) for name in ("shuffled_region", None))
    assert torch.equal(shuffled.sort(1).values, true.sort(1).values)
    assert not torch.equal(shuffled, true)


def test_sentences_of_another_class_are_no_word_of_the_pair_s(folder: Path) -> None:
    """Nor the target's own; a pair without such sentences is not made."""
    program = variant(folder, control="other_class")
    views, term = views_of(program), term_of(program)
    reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
    whole = list(term_of(variant(folder)).pairs_of_batch(views.batch, reports))
    donors, patients = term.pairs_of_batch(views.batch, reports), program.samples["train"].patients
    assert patients is not None and len(donors) > 2 and {*donors} <= {*whole}
    texts = term.texts(reports, donors)
    for (pair, donor), tokens in zip(donors.items(), texts, strict=True):
        assert donor in whole and donor.class_number != pair.class_number
        assert patients[donor.source] != patients[pair.target]
        report, own = reports[donor.source], reports[pair.target]
        places = report.of(donor.class_number)
        assert places and not {*places} & {*report.of(pair.class_number)}
        pasted_ids = [t for place in places for t in report.sentences[place].tokens.tolist()]
        kept = [n for n in range(len(own.sentences)) if n not in own.of(pair.class_number)]
        own_ids = [t for place in kept for t in own.sentences[place].tokens.tolist()]
        assert sorted(tokens) == sorted(pasted_ids + own_ids)
    with_both = PositivePair(5, 0, 1)  # its sentence of class 1 stands alone
    alone = [PositivePair(0, 4, 0), with_both]
    patients_N = np.array([str(n // 2) for n in range(COUNT)])
    assert term._next(alone[0], alone, reports, patients_N) is None  # patient 2 of both


@pytest.mark.parametrize("host", [BIOVIL, GLORIA], ids=["BioViL", "GLoRIA"])
def test_projections_learn_in_mixed_precision_too(host, folder: Path) -> None:
    """Regions are read without a gradient, and first; weights cast for them must keep theirs."""
    program = make(folder, {**host, "cutmix": CUTMIX})
    with torch.autocast("cpu", torch.bfloat16):
        program.objective(views_of(program)).total.backward()
    for name, weight in program.text.cls_projection_head.named_parameters():
        assert weight.grad is not None and weight.grad.abs().max() > 0, name


def test_tokens_of_composed_texts_are_counted(folder: Path) -> None:
    plain, mixed = make(folder, BIOVIL), make(folder, {**BIOVIL, "cutmix": CUTMIX})
    term_of(mixed)
    without, more = (p.objective(views_of(p)).tokens for p in (plain, mixed))
    assert more > without + 12
    assert mixed.objective(views_of(mixed, epoch=0)).tokens == without  # warm-up


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
    pairs = term.pairs_of_batch(views.batch, reports)
    whole = views.images[0].projected_global
    sources, targets = ([getattr(pair, name) for pair in pairs] for name in ("source", "target"))
    return images[0].projected_global, whole[targets], whole[sources]


def test_the_number_of_mixed_images_compiles_nothing_anew(folder: Path) -> None:
    """After a few numbers torch would give up: which run compiled would hang on resumes."""
    encoder = {**VIT, "projection": 8, "projection_head": {"kind": "linear"}}
    program = make(
        folder, {"global_alignment": {}, "cutmix": {**CUTMIX, "layer": 2}}, encoder=encoder
    )
    torch._dynamo.reset()
    counters.clear()
    views, eager = views_of(program), views_of(program)
    expected = [eager.resumed(eager.features[:count]).projected_global for count in (3, 5)]
    program.image.encoder.compile_parts({"backend": "eager", "dynamic": False})  # type: ignore
    views.images[0]
    graphs = counters["stats"]["unique_graphs"]
    assert graphs > 0
    resumed = [views.resumed(views.features[:count]).projected_global for count in (3, 5)]
    assert counters["stats"]["unique_graphs"] == graphs
    torch.testing.assert_close(resumed, expected)
    torch._dynamo.reset()


@pytest.mark.parametrize("host", [BIOVIL, GLORIA], ids=["BioViL", "GLoRIA"])
def test_convolutions_are_not_timed_for_every_number_of_mixed_images(host, folder: Path) -> None:
    assert make(folder, host).steady and not make(folder, {**host, "cutmix": CUTMIX}).steady


def test_mixing_after_the_last_block_changes_nothing_that_cls_gives(folder: Path, caplog) -> None:
    """Counted from 0, the last layer leaves nothing that looks at the mixed patches."""
    mixed, target, source = pooled_of(folder, layer=2, first_layer=0)
    assert "mixed after the last of 3 blocks, where the target's [CLS] no longer" in caplog.text
    torch.testing.assert_close(mixed, target)
    mixed, target, source = pooled_of(folder, layer=2, first_layer=0, cls="source")
    torch.testing.assert_close(mixed, source)
    for control in ("unmixed", "text_alone"):  # leave images as they are, whose [CLS] it may be
        mixed, target, _ = pooled_of(folder, layer=2, cls="source", control=control)
        torch.testing.assert_close(mixed, target)
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
        model, plain = config.models[f"mixed/{host}_cutmix"], config.models[f"biovil/{host}"]
        assert model.settings.terms.cutmix == CutmixSettings(layer=3, layers=4)
        terms = model.settings.terms.model_copy(update={"cutmix": None})
        assert model.settings.model_copy(update={"terms": terms}) == plain.settings
        assert "cutmix" not in plain.settings.record()["terms"]
