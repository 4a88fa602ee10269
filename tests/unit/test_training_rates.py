"""Learning rates by schedule and by group of parameters; optimisers; what validation decides."""

import math

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import MultiStepLR, ReduceLROnPlateau

from cxrflow.errors import InputError
from cxrflow.training import optimiser as optimisers
from cxrflow.training.monitor import Monitor
from cxrflow.training.program import ParameterRule
from cxrflow.training.settings import OptimiserSettings, ScheduleSettings, TrainingSettings
from cxrflow.training.step import learning_rate_factor


def factors(**settings: object) -> list[float]:
    """Of the 100 steps of a run and the one after the last."""
    chosen = ScheduleSettings(**settings)
    return [learning_rate_factor(chosen, step, 100) for step in range(101)]


def test_warm_up_and_decay_to_zero() -> None:
    linear = factors(decay="linear", warmup=0.1)
    assert linear[0] == pytest.approx(0.1) and linear[9:11] == [1.0, 1.0]
    assert linear[99] == pytest.approx(1 / 90) and linear[100] == 0
    assert factors(decay="linear", warmup_steps=10) == linear
    cosine = factors(decay="cosine", warmup=0.0)
    assert (cosine[0], cosine[50], cosine[100]) == (1, pytest.approx(0.5), pytest.approx(0))
    assert set(factors(decay="constant", warmup=0.0)) == {1.0}


def test_noam_is_the_published_formula() -> None:
    width, warmup = 512, 20
    published = [width**-0.5 * min(n**-0.5, n * warmup**-1.5) for n in range(1, 102)]
    peak = (width * warmup) ** -0.5
    noam = factors(decay="noam", warmup_steps=warmup)
    assert [peak * factor for factor in noam] == pytest.approx(published)


def test_multistep_is_that_of_torch() -> None:
    optimiser = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    scheduler = MultiStepLR(optimiser, [60, 80], gamma=0.1)
    published = []
    for _ in range(101):
        published.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        scheduler.step()
    ours = factors(decay="multistep", warmup=0.0, milestones=[0.6, 0.8], factor=0.1)
    assert ours == pytest.approx(published)
    for wrong in ({"decay": "multistep"}, {"milestones": [0.5]}):
        with pytest.raises(ValueError, match="set milestones with decay 'multistep'"):
            ScheduleSettings(**wrong)


@pytest.mark.parametrize("mode", ["min", "max"])
def test_plateau_falls_when_torch_lets_it_fall(mode: str) -> None:
    """torch waits for one validation more than its ``patience``; ours falls after the last."""
    settings = TrainingSettings(
        steps=100,
        schedule={"decay": "plateau", "factor": 0.5, "patience": 3},
        stopping={"monitor": "score", "mode": mode, "patience": 8},
    )
    optimiser = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    theirs = ReduceLROnPlateau(optimiser, mode=mode, factor=0.5, patience=2, threshold=0)
    values = (3 + torch.randn(60, generator=torch.Generator().manual_seed(0)).cumsum(0)).tolist()
    monitor, extreme = Monitor(), min if mode == "min" else max
    for step, value in enumerate(values, start=1):
        better = monitor.take({"loss": 0.0, "score": value}, step, settings)
        theirs.step(value)
        best = extreme(values[:step])
        assert better == (value == best)
        assert values[monitor.step - 1] == best
        factor = learning_rate_factor(settings.schedule, 50, 100, monitor.plateaus)
        assert factor == pytest.approx(optimiser.param_groups[0]["lr"])
        assert monitor.failures == step - monitor.step
        assert monitor.out_of_patience(settings) == (step - monitor.step >= 8)
    assert monitor.plateaus > 3


def test_a_value_that_is_not_given_or_not_a_number() -> None:
    settings = TrainingSettings(steps=1, stopping={"monitor": "cider", "mode": "max"})
    with pytest.raises(InputError, match=r"monitor' is 'cider'; expected one of .*: loss, bleu"):
        Monitor().take({"loss": 1.0, "bleu": 0.1}, 1, settings)
    monitor = Monitor()
    assert not monitor.take({"loss": 1.0, "cider": math.nan}, 1, settings)
    assert monitor.take({"loss": 1.0, "cider": -1.0}, 2, settings)
    with pytest.raises(InputError, match="loss of the validation after step 3 is nan; expected"):
        monitor.take({"loss": math.nan, "cider": 1.0}, 3, settings)


def test_lars_scales_the_gradient_as_its_equation() -> None:
    module = nn.Module()
    module.weight = weight = nn.Parameter(torch.tensor([[3.0, 4.0]], dtype=torch.float64))
    chosen = {"learning_rate": 0.1, "weight_decay": 0.01, "lars": True, "lars_trust": 0.001}
    settings = OptimiserSettings(name="adam", **chosen)
    optimiser = optimisers.build(settings, {"module": module})
    weight.grad = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    optimisers.apply_lars(optimiser, settings.lars_trust)
    ratio = min(0.001 * 5.0 / (1.0 + 0.01 * 5.0) / 0.1, 1.0)
    wanted = (torch.tensor([[0.6, 0.8]]) + 0.01 * torch.tensor([[3.0, 4.0]])) * ratio
    torch.testing.assert_close(weight.grad, wanted.double(), rtol=1e-7, atol=0)


def test_decay_is_kept_off_biases_and_norms() -> None:
    layer = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))
    decayed, free = optimisers.parameter_groups({"one": layer, "again": layer}, 0.1)
    assert [tuple(p.shape) for p in decayed["params"]] == [(2, 3)]
    assert decayed["weight_decay"] == 0.1
    assert len(free["params"]) == 3 and free["weight_decay"] == 0
    assert decayed["rate"] == free["rate"] == 1


def test_sgd_gets_its_momentum_and_the_decay_of_each_group() -> None:
    settings = OptimiserSettings(name="sgd", learning_rate=0.1, weight_decay=0.01, momentum=0.9)
    groups = optimisers.build(settings, {"layer": nn.Linear(3, 2)}).param_groups
    found = [(g["lr"], g["momentum"], g["weight_decay"], g["nesterov"]) for g in groups]
    assert found == [(0.1, 0.9, 0.01, False), (0.1, 0.9, 0.0, False)]


def test_rules_set_parameters_apart() -> None:
    encoder, decoder = nn.Sequential(nn.Linear(3, 2)), nn.Linear(2, 5)
    encoder.register_parameter("missing", nn.Parameter(torch.ones(2, 1, 4)))
    rules = [ParameterRule("encoder.missing", decay=False), ParameterRule("encoder.*", rate=0.25)]
    modules = {"encoder": encoder, "decoder": decoder}
    groups = optimisers.parameter_groups(modules, 0.1, rules)
    assert {
        (group["rate"], group["weight_decay"]): [tuple(p.shape) for p in group["params"]]
        for group in groups
    } == {
        (1.0, 0.1): [(5, 2)],
        (1.0, 0.0): [(2, 1, 4), (5,)],
        (0.25, 0.1): [(2, 3)],
        (0.25, 0.0): [(2,)],
    }
    with pytest.raises(InputError, match="no trained parameter has a name like encodr"):
        optimisers.parameter_groups(modules, 0.1, [ParameterRule("encodr.*")])
