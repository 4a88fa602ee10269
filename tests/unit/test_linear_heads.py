"""Heads trained together are those trained one by one with torch's own layer, loss and AdamW."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from cxrflow.benchmarks.classification import linear_heads
from cxrflow.benchmarks.classification.linear_heads import LinearHeads, ProbeRun, train_heads
from cxrflow.training.order import epoch_order

ROWS, FEATURES, CLASSES, EPOCHS, BATCH = 150, 7, 3, 4, 16
DECAY = 0.1


def data(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Features far from standardised, one of them constant, and labels that depend on them."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, FEATURES, generator=generator, dtype=torch.float64)
    labels = (features[:, :CLASSES] * 2 + torch.randn(ROWS, CLASSES, generator=generator)).argmax(1)
    features = features + 0.3 * torch.arange(FEATURES)
    features[:, 5] = 0.3
    return features.to(dtype), labels


def sweep(dtype: torch.dtype) -> list[ProbeRun]:
    """Fractions, seeds and rates mixed, each with a start of its own, the longest not first.

    Starts are small: where a softmax is saturated, Adam divides rounding errors by their own size.
    """
    generator = torch.Generator().manual_seed(1)
    rng = np.random.default_rng(2)
    return [
        ProbeRun(
            rows=rng.permutation(ROWS)[:size],
            seed=seed,
            weight_FC=0.3 * torch.randn(FEATURES, CLASSES, generator=generator, dtype=dtype),
            bias_C=0.3 * torch.randn(CLASSES, generator=generator, dtype=dtype),
            learning_rate=rate,
        )
        for size, seed, rate in [(3, 0, 0.02), (ROWS, 0, 0.01), (40, 1, 0.02), (16, 1, 0.01),
                                 (ROWS, 2, 0.02), (17, 5, 0.03)]
    ]  # fmt: skip


def alone(features: Tensor, labels: Tensor, run: ProbeRun, standardise: bool) -> LinearHeads:
    """The run by itself, with automatic differentiation."""
    mean = torch.zeros(FEATURES, dtype=features.dtype)
    scale = torch.ones(FEATURES, dtype=features.dtype)
    if standardise:
        own = features[torch.from_numpy(run.rows)]
        mean, scale = own.mean(0), own.std(0, correction=0)
        scale[5] = 1
    layer = nn.Linear(FEATURES, CLASSES, dtype=features.dtype)
    with torch.no_grad():
        layer.weight.copy_((run.weight_FC * scale[:, None]).T)
        layer.bias.copy_(run.bias_C + mean @ run.weight_FC)
    groups = [
        {"params": [layer.weight], "weight_decay": DECAY},
        {"params": [layer.bias], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=run.learning_rate)
    for epoch in range(EPOCHS):
        for rows in np.split(
            run.rows[epoch_order(len(run.rows), run.seed, epoch)],
            range(BATCH, len(run.rows), BATCH),
        ):
            optimiser.zero_grad()
            logits = layer((features[torch.from_numpy(rows)] - mean) / scale)
            nn.functional.cross_entropy(logits, labels[torch.from_numpy(rows)]).backward()
            optimiser.step()
    weight = layer.weight.detach().T / scale[:, None]
    return LinearHeads(weight, layer.bias.detach() - mean @ weight)


def together(dtype: torch.dtype, standardise: bool = False) -> LinearHeads:
    return train_heads(
        *data(dtype), sweep(dtype), epochs=EPOCHS, batch_size=BATCH, weight_decay=DECAY,
        standardise=standardise,
    )  # fmt: skip


@pytest.mark.parametrize("standardise", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 2e-5)])
def test_every_run_ends_where_it_would_have_ended_alone(dtype, tolerance, standardise):
    features, labels = data(dtype)
    found = together(dtype, standardise)
    for number, run in enumerate(sweep(dtype)):
        wanted = alone(features, labels, run, standardise)
        for one, other in zip((h[number] for h in found), wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=tolerance)
        assert (found.weight_KFC[number] - run.weight_FC).abs().max() > 0.01


@pytest.mark.parametrize("standardise", [False, True])
def test_sigmoids_are_logistic_regressions_on_the_rows_with_a_label(standardise):
    """Each class alone, by automatic differentiation; a class may be unknown in a whole batch."""
    features, _ = data(torch.float64)
    labels = torch.from_numpy(np.random.default_rng(3).choice([0, 1, np.nan], (ROWS, CLASSES)))
    labels[:60, 1] = torch.nan
    run = sweep(torch.float64)[2]
    found = train_heads(
        features, labels, [run], epochs=EPOCHS, batch_size=BATCH, weight_decay=DECAY,
        standardise=standardise,
    )  # fmt: skip
    own = features[torch.from_numpy(run.rows)]
    mean, scale = torch.zeros(FEATURES), torch.ones(FEATURES)
    if standardise:
        mean, scale = own.mean(0), own.std(0, correction=0)
        scale[5] = 1
    weight = (run.weight_FC * scale[:, None]).requires_grad_()
    bias = (run.bias_C + mean.to(own) @ run.weight_FC).requires_grad_()
    groups = [{"params": [weight], "weight_decay": DECAY}, {"params": [bias], "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=run.learning_rate)
    for epoch in range(EPOCHS):
        order = run.rows[epoch_order(len(run.rows), run.seed, epoch)]
        for rows in np.split(order, range(BATCH, len(order), BATCH)):
            optimiser.zero_grad()
            logits = ((features[rows] - mean) / scale) @ weight + bias
            target = labels[rows]
            losses = [
                nn.functional.binary_cross_entropy_with_logits(logits[known, c], target[known, c])
                for c in range(CLASSES)
                if (known := target[:, c].isfinite()).any()
            ]
            sum(losses, start=0 * logits.sum()).backward()
            optimiser.step()
    end = weight.detach() / scale[:, None]
    torch.testing.assert_close(found.weight_KFC[0], end, rtol=0, atol=1e-10)
    torch.testing.assert_close(
        found.bias_KC[0], bias.detach() - mean.to(end) @ end, atol=1e-10, rtol=0
    )


def test_batches_held_at_once_are_no_part_of_the_result(monkeypatch):
    whole = together(torch.float64)
    monkeypatch.setattr(linear_heads, "_BLOCK", BATCH * 3)
    for one, other in zip(whole, together(torch.float64), strict=True):
        assert torch.equal(one, other)


def test_logits_are_those_of_each_head():
    found, (features, _) = together(torch.float64), data(torch.float64)
    logits = found.logits(features)
    assert logits.shape == (6, ROWS, CLASSES)
    for number in range(6):
        own = features @ found.weight_KFC[number] + found.bias_KC[number]
        torch.testing.assert_close(logits[number], own)


def test_an_epoch_sees_each_row_once_and_short_batches_are_marked():
    run = ProbeRun(np.arange(10, 27), 3, torch.zeros(1, 2), torch.zeros(2), 0.1)
    assert run.updates(2, 8) == 6
    rows = run.batches(8, 0, 6)
    for epoch in rows.reshape(2, 24):
        assert sorted(epoch) == [-1] * 7 + list(range(10, 27))
    assert not np.array_equal(rows[:3], rows[3:])
    for begin, end in ((0, 2), (2, 5), (5, 6)):
        np.testing.assert_array_equal(run.batches(8, begin, end), rows[begin:end])


def test_long_training_reaches_the_minimum_of_an_exact_solver():
    """Full batches and no decay: the same convex problem as unpenalised logistic regression."""
    features, labels = data(torch.float64)
    start = torch.zeros(FEATURES, CLASSES, dtype=torch.float64)
    runs = [ProbeRun(np.arange(ROWS), 0, start, start[0], rate) for rate in (0.05, 0.02)]
    found = train_heads(
        features, labels, runs, epochs=3000, batch_size=ROWS, standardise=True
    ).logits(features)
    exact = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(features, labels)
    wanted = torch.from_numpy(exact.predict_proba(features))
    for logits in found:
        torch.testing.assert_close(logits.softmax(1), wanted, atol=1e-3, rtol=0)


@pytest.mark.parametrize(
    ("rows", "classes", "message"),
    [([], 3, "run 0 has no rows"), ([0, 1, 2], 1, "run 0: labels from .* expected 0 to 0")],
)
def test_what_cannot_be_trained_is_refused(rows, classes, message):
    features, labels = data(torch.float64)
    rows = np.array(rows, dtype=np.int64)
    run = ProbeRun(rows, 0, torch.zeros(FEATURES, classes), torch.zeros(classes), 0.1)
    with pytest.raises(ValueError, match=message):
        train_heads(features, labels, [run], epochs=1, batch_size=2)
    with pytest.raises(ValueError, match="at least one"):
        train_heads(features, labels, [], epochs=1, batch_size=2)
