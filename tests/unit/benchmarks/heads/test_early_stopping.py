"""Heads that are trained in lock step until they no longer gain, and linear heads on cells."""

import numpy as np
import pytest
import torch
from torch import nn

from cxrflow.benchmarks.classification.probe_settings import LinearClassificationSettings
from cxrflow.benchmarks.grounding.segmentation import solve_patch_heads
from cxrflow.benchmarks.heads.early_stopping import (
    HeadRun,
    LockStep,
    batches,
    new_head,
    train_until_plateau,
    warm_up,
)
from cxrflow.benchmarks.heads.settings import ConvergedSolver
from cxrflow.benchmarks.heads.shares import share_of_images
from cxrflow.training.monitor import Monitor
from cxrflow.training.sampler import epoch_order

ROWS, WIDTH, BATCH, RATE, DECAY, DROPOUT = 90, 12, 16, 0.05, 0.02, 0.2
# COVIDx's three exclusive classes, CheXpert's several with unknown labels, a single one.
KINDS = {"exclusive": (3, True), "several": (4, False), "single": (1, False)}


def data(kind):
    """Features [N, F] and labels [N, C] that they tell in part; a third of several is unknown."""
    classes, exclusive = KINDS[kind]
    rng = np.random.default_rng(3)
    features = rng.normal(size=(ROWS, WIDTH))
    logits = features @ rng.normal(size=(WIDTH, classes)) + 2 * rng.normal(size=(ROWS, classes))
    labels = np.eye(classes)[logits.argmax(1)] if exclusive else (logits > 0).astype(float)
    if kind == "several":
        labels[rng.random(labels.shape) < 1 / 3] = np.nan
        labels[:BATCH] = np.nan  # batches may have few
    return torch.from_numpy(features), torch.from_numpy(labels), exclusive


def runs_of(classes, count=40, seeds=(0, 1, 5)):
    """Runs of their own rows, order and start, of the first 70 rows."""
    rows = [np.random.default_rng(seed).permutation(70)[:count] for seed in seeds]
    heads = [new_head(WIDTH, classes, seed) for seed in seeds]
    return [HeadRun(own, seed, head) for own, seed, head in zip(rows, seeds, heads, strict=True)]


def mean_loss(head, features, labels, exclusive):
    """Of a batch, as torch has it."""
    logits = head(features)
    if exclusive:
        return nn.functional.cross_entropy(logits, labels.argmax(1))
    known = labels.isfinite()
    if not known.any():
        return logits.sum() * 0
    return nn.functional.binary_cross_entropy_with_logits(logits[known], labels[known])


def alone(run, features, labels, exclusive, validation, rhythm):
    """One run by autograd, torch's Adam, and a learning rate that its epochs set."""
    head = nn.Linear(WIDTH, labels.shape[1]).double()
    head.load_state_dict(run.start.state_dict())
    optimiser = torch.optim.Adam(head.parameters(), lr=RATE, weight_decay=DECAY)
    draws = torch.Generator().manual_seed(run.seed)
    best, kept, since, rate, ended = -np.inf, None, 0, RATE, 0
    for epoch in range(rhythm.epochs):
        order = torch.from_numpy(run.rows[epoch_order(len(run.rows), run.seed, epoch)])
        for rows in order.split(BATCH):
            optimiser.param_groups[0]["lr"] = rate
            x = features[rows]
            keep = torch.empty_like(x).bernoulli_(1 - DROPOUT, generator=draws)
            loss = mean_loss(head, x * keep / (1 - DROPOUT), labels[rows], exclusive)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        ended = epoch + 1
        score = validation(head)
        if score > best:
            best, since = score, 0
            kept = torch.cat([head.weight.detach().T, head.bias.detach()[None]])
            best_epoch = ended
        else:
            since += 1
            if since % 3 == 0:  # Appendix B: half of the rate after three epochs without
                rate /= 2
            if since == 10:  # and the end after ten
                break
    return kept, best_epoch, ended


@pytest.mark.parametrize("kind", KINDS)
def test_runs_in_lock_step_end_where_each_ends_alone(kind):
    """Float64, against a run by run transcription: weights, best epoch and end."""
    features, labels, exclusive = data(kind)
    runs = runs_of(labels.shape[1])
    held_out = slice(70, ROWS)
    settings = LinearClassificationSettings(epochs=60, monitor="accuracy")

    def score(logits):
        """The negative loss to a few digits, so that it does not rise for ever."""
        loss = mean_loss(nn.Identity(), logits.detach(), labels[held_out], exclusive)
        return round(-float(loss), 2)

    lock_step = LockStep(features, labels, exclusive, runs, DROPOUT, DECAY)
    trained = train_until_plateau(
        *(lock_step, runs, lambda head: {"accuracy": score(head.logits(features[held_out]))}),
        *(BATCH, RATE, settings.rhythm),
    )
    ends = set()
    for run, ours in zip(runs, trained, strict=True):
        kept, best, ended = alone(
            *(run, features, labels, exclusive),
            *(lambda head: score(head(features[held_out])), settings.rhythm),
        )
        assert (ours.monitor.step, ours.epochs) == (best, ended)
        torch.testing.assert_close(ours.head_GC, kept, rtol=1e-9, atol=1e-12)
        by_itself = LockStep(features, labels, exclusive, [run], DROPOUT, DECAY)
        [one] = train_until_plateau(
            *(by_itself, [run], lambda head: {"accuracy": score(head.logits(features[held_out]))}),
            *(BATCH, RATE, settings.rhythm),
        )
        torch.testing.assert_close(ours.head_GC, one.head_GC, rtol=1e-9, atol=1e-12)
        ends.add(ended)
    assert len(ends) > 1, "they all end together, and leaving the product is not tested"


def test_a_warm_up_is_so_many_updates_at_its_own_rate():
    features, labels, exclusive = data("several")
    runs = runs_of(4)[:1]
    heads = warm_up(LockStep(features, labels, exclusive, runs, 0.0, DECAY), runs, 7, BATCH, 0.01)
    head = new_head(WIDTH, 4, runs[0].seed).double()
    optimiser = torch.optim.Adam(head.parameters(), lr=0.01, weight_decay=DECAY)
    every = [rows[0] for epoch in range(3) for rows in batches(runs, BATCH, epoch)]
    assert [len(rows) for rows in every[:4]] == [16, 16, 8, 16]
    for rows in every[:7]:
        optimiser.zero_grad()
        mean_loss(head, features[rows], labels[rows], exclusive).backward()
        optimiser.step()
    torch.testing.assert_close(heads[0, :-1], head.weight.detach().T, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(heads[0, -1], head.bias.detach(), rtol=1e-9, atol=1e-12)
    nothing = warm_up(LockStep(features, labels, exclusive, runs, 0.0, 0.0), runs, 0, BATCH, 1.0)
    torch.testing.assert_close(nothing[0, :-1], runs[0].start.weight.detach().T.double())


def test_an_epoch_visits_each_row_of_each_run_once():
    runs = runs_of(2, count=37)
    for number, run in enumerate(runs):
        rows = torch.cat([part[number] for part in batches(runs, BATCH, epoch=4)])
        assert sorted(rows.tolist()) == sorted(run.rows.tolist())
    assert not torch.equal(batches(runs, BATCH, 0)[0], batches(runs, BATCH, 1)[0])


def test_heads_start_as_torch_starts_a_layer_and_by_their_seed_alone():
    torch.manual_seed(7)
    layer, state = nn.Linear(5, 2), torch.get_rng_state()
    again = new_head(5, 2, 7)
    assert torch.equal(layer.weight, again.weight) and torch.equal(layer.bias, again.bias)
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(new_head(5, 2, 8).weight, again.weight)


def test_the_rate_falls_after_three_epochs_and_the_run_ends_after_ten():
    rhythm, monitor = LinearClassificationSettings().rhythm, Monitor()
    monitor.take({"auroc": 0.7}, 1, rhythm)
    falls = []
    for epoch in range(2, 30):
        if monitor.out_of_patience(rhythm):
            break
        assert not monitor.take({"auroc": 0.7}, epoch, rhythm)
        falls.append(monitor.plateaus)
    assert falls == [0, 0, 1, 1, 1, 2, 2, 2, 3, 3]


IMAGES, CELLS, PATCH_WIDTH = 11, 6, 5


def test_a_planted_pattern_is_found():
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(IMAGES, CELLS, PATCH_WIDTH, generator=generator)
    used = torch.rand(IMAGES, CELLS, generator=generator) < 0.8
    planted = torch.tensor([2.0, -1.0, 0.0, 1.0, 0.5])
    annotated = (features @ planted - 0.5).sigmoid()
    annotated[~used] = 0  # must not be read
    solver = ConvergedSolver(inverse_penalty=1e9, standardise=False)
    rows = np.arange(IMAGES)[None]
    heads, _ = solve_patch_heads(
        features, annotated, used, rows, torch.zeros(PATCH_WIDTH, 2), solver
    )
    difference = heads.weight_KFC[0, :, 1] - heads.weight_KFC[0, :, 0]
    torch.testing.assert_close(difference, planted, atol=0.01, rtol=0)
    assert float(heads.bias_KC[0, 1] - heads.bias_KC[0, 0]) == pytest.approx(-0.5, abs=0.01)


def test_shares_are_nested_and_never_empty():
    few, many, all_ = (set(share_of_images(40, fraction, 7)) for fraction in (0.05, 0.5, 1.0))
    assert few < many < all_ == set(range(40))
    assert (len(few), len(many)) == (2, 20)
    assert len(share_of_images(40, 0.001, 7)) == 1
    assert few != set(share_of_images(40, 0.05, 8))
