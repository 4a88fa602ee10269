"""From a recipe to the settings of one training run: recipe, then scale, then the user's word."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from cxrflow.command import explain
from cxrflow.errors import InputError
from cxrflow.papers import Recipe, Scale
from cxrflow.pretrain.settings import (
    ImagePretrainingSettings,
    JointPretrainingSettings,
    TextPretrainingSettings,
)

PROGRAMS: dict[str, type[BaseModel]] = {
    "text": TextPretrainingSettings,
    "image": ImagePretrainingSettings,
    "joint": JointPretrainingSettings,
}


@dataclass(frozen=True)
class ResolvedModel:
    """A model with the settings its training program receives, every default filled in."""

    name: str
    recipe: Recipe
    settings: BaseModel

    def described(self) -> dict[str, Any]:
        """Plain values: what it is made from, and the settings."""
        made_from = self.recipe.model_dump(mode="json", exclude={"settings"}, exclude_none=True)
        return made_from | {"settings": self.settings.model_dump(mode="json")}


def resolve(
    name: str, recipe: Recipe, scale: Scale, scale_name: str, overrides: Mapping[str, Any]
) -> ResolvedModel:
    """Lay ``scale`` and then ``overrides`` over the settings of ``recipe``.

    Raises:
        InputError: naming the model, the key, and the layers it can have come from.
    """
    values: dict[str, Any] = {}
    layers: list[Mapping[str, Any]] = [
        recipe.settings,
        scale.programs.get(recipe.program, {}),
        scale.models.get(name, {}),
        overrides,
    ]
    for layer in layers:
        values = overlay(values, layer)
    try:
        settings = PROGRAMS[recipe.program].model_validate(values)
    except ValidationError as error:
        source = f"model {name} (its paper's YAML, papers/scales/{scale_name}.yaml, models.{name})"
        raise InputError(explain(error, source)) from None
    return ResolvedModel(name, recipe, settings)


def overlay(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """``above`` laid over ``below``: mappings merge key by key, everything else is replaced."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            merged[key] = overlay(old, value)
        else:
            merged[key] = value
    return merged
