"""What MedCutMix's options change, in the pairs that its loss compares."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import small_cutmix
import torch
from small_cutmix import CUTMIX, LABELS, folder, make, term_of, variant, views_of
from test_diagnostic_sentences import CLASSES, SENTENCES
from torch import Tensor

from cxrflow.encoders.image_encoder import Frames
from cxrflow.objectives.biovil import global_alignment
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.text.diagnostic_sentences import ReadReport, read_report
from cxrflow.training.positive_pairs import PositivePair

__all__ = ["folder"]

VIT = {"kind": "vit", "blocks": 3, "width": 12, "heads": 2, "patch": 16, "grid": 4, "channels": 1}
# A finding that is denied before it is stated, in reports that are positive for it.
DENIED = ["no pleural effusion .", "heart is large .", "right pleural effusion ."]


class Mixed(NamedTuple):
    """The K pairs of a batch, and what the loss is computed from."""

    pairs: list[PositivePair]
    reports: list[ReadReport]
    tokens: list[list[int]]  # of the pasted reports
    source: Tensor  # [K, ...]: features after the layer of the sources,
    target: Tensor  # ... of the targets,
    features: Tensor  # ... and mixed
    image: Tensor  # [K, P]: projections of the mixed images
    region_Khw: Tensor


def mixed_by(program: ImageTextProgram) -> Mixed:
    """Take the term's loss, and keep what the encoders are given for it."""
    views, term = views_of(program), term_of(program)
    given: dict[str, Any] = {}
    composed, resumed, regions = views.composed, views.resumed, term.regions

    def composing(tokens: list[list[int]]) -> Any:
        given.update(tokens=tokens, text=composed(tokens))
        return given["text"]

    def resuming(features: Tensor, **more: Any) -> Any:
        given.update(features=features, image=resumed(features, **more))
        return given["image"]

    def reading(*args: Any) -> Tensor:
        given["regions"] = regions(*args)
        return given["regions"]

    term.regions = reading
    views.composed, views.resumed = composing, resuming  # type: ignore[method-assign]
    loss = term.loss(views)
    image, text = given["image"].projected_global, given["text"].projected
    torch.testing.assert_close(loss, global_alignment(image, text, 0.07) / 2)
    reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
    pairs = list(term.pairs_of_batch(views.batch, reports))
    sources, targets = ([getattr(pair, name) for pair in pairs] for name in ("source", "target"))
    return Mixed(
        *(pairs, reports, given["tokens"]),
        *(views.features[sources], views.features[targets]),
        *(given["features"], image, given["regions"]),
    )


def places_by_hand(report: ReadReport, number: int, first: bool, denials: bool) -> list[int]:
    """The sentences that have the name of a class."""
    texts = [sentence.text for sentence in report.sentences]
    named = [n for n, text in enumerate(texts) if CLASSES[number].lower() in text]
    places = [n for n in named if denials or not texts[n].startswith("no ")]
    return places[:1] if first else places


def check_by_hand(mixed: Mixed, first: bool, denials: bool) -> None:
    """The target's tokens with the source's sentences; regions as printed, of these words alone."""
    for pair, tokens, region in zip(mixed.pairs, mixed.tokens, mixed.region_Khw, strict=True):
        source, target = mixed.reports[pair.source], mixed.reports[pair.target]
        places, replaced = (
            places_by_hand(report, pair.class_number, first, denials) for report in (source, target)
        )
        sentences = []
        for number, sentence in enumerate(target.sentences):
            if number == replaced[0]:
                sentences += [source.sentences[place] for place in places]
            if number not in replaced:
                sentences.append(sentence)
        assert tokens == [int(token) for sentence in sentences for token in sentence.tokens]
        # Every word spreads 1 over the patches.
        words = np.isin(source.word_sentence, places).sum()
        assert region.sum().item() == pytest.approx(words, rel=1e-4)


def test_the_first_sentence_alone_is_pasted_and_read(folder: Path) -> None:
    every, first = (mixed_by(variant(folder, region="printed", first=f)) for f in (False, True))
    assert first.pairs == every.pairs and first.tokens != every.tokens
    check_by_hand(every, False, denials=True)
    check_by_hand(first, True, denials=True)
    differing = (every.region_Khw != first.region_Khw).flatten(1).any(1)
    several = [len(first.reports[pair.source].of(pair.class_number)) > 1 for pair in first.pairs]
    assert differing.tolist() == several and any(several)


def test_sentences_may_be_those_that_the_labeller_reads_as_positive(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A denial is no such sentence: it is not pasted, stays in the target, attends to nothing."""
    monkeypatch.setattr(small_cutmix, "SENTENCES", [*SENTENCES[:4], DENIED, SENTENCES[5]])
    labels = LABELS.copy()
    labels[1, 1] = 1  # of a report that denies the finding and says no more of it
    labels = np.tile(labels, (4, 1))
    for sentences in ("name", "labeller"):
        changes = {"sentences": sentences, "pairs": 12, "region": "printed"}
        terms = {"global_alignment": {}, "cutmix": {**CUTMIX, **changes}}
        program = make(folder, terms, labels=labels)
        program.text.set_dropout(0.0, 0.0)
        mixed, denials = mixed_by(program), sentences == "name"
        check_by_hand(mixed, False, denials)
        ends = {(n % 6, pair.class_number) for pair in mixed.pairs for n in pair[:2]}
        assert ((1, 1) in ends) == denials and (4, 1) in ends


@pytest.mark.parametrize("region", ["clip", "max", "mean"])
def test_regions_reach_the_images_as_they_are_set(region: str, folder: Path) -> None:
    """Each from the sum over the words as it is printed, which may exceed 1."""
    printed, mixed = (mixed_by(variant(folder, region=name)) for name in ("printed", region))
    assert mixed.pairs == printed.pairs
    sum_KM = printed.region_Khw.flatten(1)
    assert sum_KM.max() > 1
    words = sum_KM.sum(1, keepdim=True).round()  # each spreads 1
    expected = {
        "clip": torch.minimum(sum_KM, torch.ones(())),
        "max": sum_KM / sum_KM.amax(1, keepdim=True),
        "mean": sum_KM / words,
    }[region]
    torch.testing.assert_close(mixed.region_Khw.flatten(1), expected)
    assert not torch.allclose(mixed.features, printed.features)
    for one in (printed, mixed):
        share = one.region_Khw[:, None]
        assert share.shape[2:] == one.features.shape[2:]
        literal = share * one.source + (1 - share) * one.target
        torch.testing.assert_close(one.features, literal)


@pytest.mark.parametrize("cls", ["target", "source", "mixed", "patches"])
def test_cls_is_the_target_s_the_source_s_or_mixed_by_the_mean_region(cls, folder: Path) -> None:
    """Patches: their mean after the last block is projected, and [CLS] is not."""
    encoder = {**VIT, "projection": 8, "projection_head": {"kind": "linear"}}
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, "layer": 2, "cls": cls}}
    program = make(folder, terms, encoder=encoder)
    program.image.eval()
    mixed = mixed_by(program)
    share_K = mixed.region_Khw.flatten(1).mean(1)
    assert share_K.min() > 0 and share_K.max() < 1
    of_source = {"source": torch.ones_like(share_K), "mixed": share_K}
    share_K1 = of_source.get(cls, torch.zeros_like(share_K))[:, None]
    literal = share_K1 * mixed.source[:, 0] + (1 - share_K1) * mixed.target[:, 0]
    torch.testing.assert_close(mixed.features[:, 0], literal)
    patches = program.image.encoder.forward_from(Frames(mixed.features), 2)
    pooled = patches.grid.mean((2, 3)) if cls == "patches" else patches.pooled
    assert not torch.allclose(patches.grid.mean((2, 3)), patches.pooled, rtol=1e-2)
    projected = program.image.project(patches._replace(pooled=pooled)).projected_global
    torch.testing.assert_close(mixed.image, projected)
