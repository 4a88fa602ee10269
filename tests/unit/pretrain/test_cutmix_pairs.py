"""The pairs that MedCutMix makes, and the reports that it pastes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_cutmix import (
    BIOVIL,
    CUTMIX,
    GLORIA,
    contrast,
    folder,
    make,
    term_of,
    trained,
    variant,
    views_of,
)
from test_diagnostic_sentences import CLASSES
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram
from cxrflow.text.diagnostic_sentences import pasted, read_report
from cxrflow.training.processes import ALONE, Processes

__all__ = ["folder"]


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
    pairs = term.pairs_of_batch(views.batch, reports)
    assert len(pairs) == 8
    term.ghost_batch = 7
    assert list(term.pairs_of_batch(views.batch, reports)) == list(pairs)[:-1]


def test_ghost_batches_in_several_processes_are_refused_in_the_first_step(folder: Path) -> None:
    program = make(folder, {"global_alignment": {}, "cutmix": CUTMIX}, ghost_batch=6)
    batch = Batch(np.arange(12), 0, 0, Processes(0, 2), program.samples["train"])
    with pytest.raises(InputError, match="ghost_batch' is 6, with terms.cutmix in 2 processes"):
        term_of(program)._rest(batch)


def test_pairs_depend_on_seed_epoch_and_batch_alone(folder: Path) -> None:
    program = variant(folder)
    term = term_of(program)

    def pairs(epoch: int, rows: np.ndarray, seed: int = 0) -> Any:
        batch = Batch(rows, seed, epoch, ALONE, program.samples["train"])
        views = program.views("train", batch)
        reports = [read_report(t, term.diagnostic, term.continues) for t in views.sentences]
        return term.pairs_of_batch(batch, reports)

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


@pytest.mark.parametrize("forward", ["separate", "shared", None])
def test_composed_texts_share_the_pass_of_the_others(
    forward: str | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer ones too; each comes out as from a pass of its own, and so do predicted words."""
    mlm = {} if forward is None else {"mlm": {"forward": forward}}
    program = make(folder, {"global_alignment": {}, **mlm})
    program.text.set_dropout(0.0, 0.0)
    passes = count_passes(program, monkeypatch)
    tokens, keys = [[7, 8, 9] * 6, [10]], torch.zeros(2, dtype=torch.int64)
    views, apart = views_of(program), views_of(program)
    composed, intact = views.composed(tokens), views.texts["intact"]
    assert len(passes) == 1 and intact.ids.shape[1] != composed.ids.shape[1] == 20
    own_words = program.texts["train"].reports.sequences(tokens, keys), None
    own = program.passes(own_words, apart.batch)
    for one, other in ((composed, own), (intact, apart.texts["intact"])):
        assert torch.equal(one.ids, other.ids) and torch.equal(one.mask, other.mask)
        torch.testing.assert_close(one.states, other.states)
        torch.testing.assert_close(one.masked, other.masked)
    assert (intact.masked is None) == (forward is None) and composed.masked is None
    with pytest.raises(AssertionError, match="read before others are composed"):
        apart.composed(tokens)


@pytest.mark.parametrize("host", [BIOVIL, GLORIA], ids=["BioViL", "GLoRIA"])
def test_a_step_encodes_all_texts_at_once(host, folder: Path, monkeypatch) -> None:
    program = make(folder, {**host, "cutmix": CUTMIX})
    passes = count_passes(program, monkeypatch)
    *_, last = trained(program, 3)
    assert last["cutmix/pairs"] > 2 and len(passes) == 3


def count_passes(program: ImageTextProgram, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The texts of each pass through the text encoder from now on."""
    passes: list[int] = []
    encode = program.text.last_states

    def counted(ids: Tensor, *others: Any) -> list[Tensor]:
        passes.append(len(ids))
        return encode(ids, *others)

    monkeypatch.setattr(program.text, "last_states", counted)
    return passes
