"""Optimisers: AdamW or Adam with decay kept off biases and norms, and LARS on top.

LARS: You et al. 2017 (arXiv 1708.03888), section 3; used by BioViL Appendix E.2 "on top of ADAM".
What that means is not said. Here it is what the image-only configurations around the paper use:
every gradient is scaled by its layer's trust ratio, clipped at the learning rate, before Adam sees
it.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from cxrflow.training.settings import OptimiserSettings


def parameter_groups(modules: Iterable[nn.Module], weight_decay: float) -> list[dict[str, object]]:
    """Two groups: matrices and kernels with decay; biases and normalisation parameters without."""
    seen: set[int] = set()
    decayed: list[Tensor] = []
    free: list[Tensor] = []
    for module in modules:
        for parameter in module.parameters():
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                (decayed if parameter.ndim > 1 else free).append(parameter)
    return [
        {"params": decayed, "weight_decay": weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]


@torch.no_grad()
def apply_lars(optimiser: torch.optim.Optimizer, trust: float, epsilon: float = 1e-8) -> None:
    """Scale gradients in place by LARS, for matrices and kernels only.

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
            ratio = trust * weight / (gradient + decay * weight + epsilon) / group["lr"]
            ratio = torch.where((weight > 0) & (gradient > 0), ratio.clamp(max=1.0), 1.0)
            parameter.grad.add_(parameter, alpha=decay).mul_(ratio)


def build(settings: OptimiserSettings, modules: Iterable[nn.Module]) -> torch.optim.Optimizer:
    """The optimiser of a run over all trainable parameters of ``modules``."""
    groups = parameter_groups(modules, settings.weight_decay)
    matrices = groups[0]
    for group in groups:
        group["lars_decay"] = None
    if settings.lars:
        # LARS takes the decay into the gradient, so the optimiser must not apply it again.
        matrices["lars_decay"], matrices["weight_decay"] = settings.weight_decay, 0.0
    kind = torch.optim.AdamW if settings.name == "adamw" else torch.optim.Adam
    return kind(
        groups,
        lr=settings.learning_rate,
        betas=settings.betas,
        eps=settings.epsilon,
        fused=True,
    )
