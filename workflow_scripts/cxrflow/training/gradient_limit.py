"""Gradients clipped element by element, as captioning code does; the engine clips their norm."""

import weakref
from collections.abc import Iterable
from typing import Any

from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook


def limit_gradients(owner: object, modules: Iterable[nn.Module], largest: float) -> None:
    """Clip gradients of ``modules`` before every update, as long as ``owner`` is there.

    That is after processes have summed them: several clip what one would.
    """
    own = {id(parameter) for module in modules for parameter in module.parameters()}

    def clip(optimiser: Any, *_: Any) -> None:
        every = (p for group in optimiser.param_groups for p in group["params"])
        parameters = [parameter for parameter in every if id(parameter) in own]
        if parameters:  # another training's optimiser has none
            nn.utils.clip_grad_value_(parameters, largest)

    weakref.finalize(owner, register_optimizer_step_pre_hook(clip).remove)
