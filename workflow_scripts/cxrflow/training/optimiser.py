"""Optimisers: AdamW, Adam or SGD with decay kept off biases and norms, and LARS on top.

LARS: You et al. 2017 (arXiv 1708.03888), section 3; used by BioViL Appendix E.2 "on top of ADAM".
What that means is not said. Here it is what the image-only configurations around the paper use:
every gradient is scaled by its layer's trust ratio, clipped at the learning rate, before Adam sees
it.
"""

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from cxr_files.errors import InputError
from cxrflow.training.program import ParameterRule
from cxrflow.training.settings import OptimiserSettings


def parameter_groups(
    modules: Mapping[str, nn.Module], weight_decay: float, rules: Sequence[ParameterRule] = ()
) -> list[dict[str, Any]]:
    """Trainable parameters by learning rate (``rate``, a factor), decay and ``rest``.

    First come matrices and kernels with decay, then biases and normalisation parameters without,
    then those that ``rules`` treat otherwise. InputError for a rule that fits no parameter.
    """
    groups: dict[tuple[float, bool, int], list[nn.Parameter]]
    groups = {(1.0, True, 0): [], (1.0, False, 0): []}
    unused = set(rules)
    parameter_ids = set()
    for key, module in modules.items():
        for name, parameter in module.named_parameters(prefix=key):
            if not parameter.requires_grad or parameter in parameter_ids:
                continue
            parameter_ids.add(parameter)
            fitting = [rule for rule in rules if fnmatchcase(name, rule.pattern)]
            unused.difference_update(fitting)
            rule = fitting[0] if fitting else ParameterRule("*")
            decay = parameter.ndim > 1 if rule.decay is None else rule.decay
            groups.setdefault((rule.rate, decay, rule.rest), []).append(parameter)
    if unused:
        patterns = ", ".join(rule.pattern for rule in unused)
        raise InputError(f"parameter rules: no trained parameter has a name like {patterns}")
    return [
        {
            "params": parameters,
            "rate": rate,
            "decays": decay,
            "weight_decay": weight_decay if decay else 0.0,
            "rest": rest,
        }
        for (rate, decay, rest), parameters in groups.items()
    ]


@torch.no_grad()
def apply_lars(optimiser: torch.optim.Optimizer, trust: float) -> None:
    """Scale gradients in place by LARS, for parameters with decay only.

    ``g <- (g + w p) * min(trust * |p| / (|g| + w |p|) / lr, 1)``, with weight decay w taken into
    the gradient; the optimiser's own decay of that group must be zero (``build`` sees to it).
    """
    for group in optimiser.param_groups:
        decay = group["lars_decay"]
        if decay is None:
            continue
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            weight, gradient = parameter.norm(), parameter.grad.norm()
            ratio = trust * weight / (gradient + decay * weight + 1e-8) / group["lr"]
            ratio = torch.where((weight > 0) & (gradient > 0), ratio.clamp(max=1.0), 1.0)
            parameter.grad.add_(parameter, alpha=decay).mul_(ratio)


def build(
    settings: OptimiserSettings,
    modules: Mapping[str, nn.Module],
    rules: Sequence[ParameterRule] = (),
) -> torch.optim.Optimizer:
    """The optimiser of a run over all trainable parameters of ``modules``."""
    groups = parameter_groups(modules, settings.weight_decay, rules)
    for group in groups:
        group["lars_decay"] = None
        if settings.lars and group["decays"]:
            # LARS takes the decay into the gradient, so the optimiser must not apply it again.
            group["lars_decay"], group["weight_decay"] = settings.weight_decay, 0.0
    if settings.name == "sgd":
        rate, momentum = settings.learning_rate, settings.momentum
        return torch.optim.SGD(groups, lr=rate, momentum=momentum, fused=True)
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return kind(
        groups,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True,
    )
