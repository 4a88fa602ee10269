"""``vary``: one entry of a paper's YAML that stands for several.

    contrastive_{start}_{share}:
      vary: {start: [random, simclr], share: {1: 0.01, 100: 1.0}}
      image: "{start}"
      settings: {training_share: "{share}"}

stands for four, of which the last is ``contrastive_simclr_100``. A value has a name, in a list its
own text. ``{share}`` alone is the value; within a longer text it is the value's name. A value that
is a mapping is laid over the entry. Rows and columns of tables vary in the same way.
"""

import re
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

VARY = "vary"
PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Level(NamedTuple):
    """One value of a variable."""

    name: str
    value: Any


Levels = dict[str, list[Level]]  # by variable


class Variant(NamedTuple):
    """One of the entries that a varied entry stands for."""

    name: str
    values: dict[str, Any]
    # The mappings laid over the values, each under its key in the varied entry.
    overlays: dict[tuple[str, ...], dict[str, Any]]


def levels_of(vary: Any) -> Levels:
    """The variables of an entry.

    Raises:
        ValueError: these are not variables with their values.
    """
    variables = vary if isinstance(vary, Mapping) else {}
    levels = {}
    for variable, values in variables.items():
        values_by_name = values if isinstance(values, Mapping) else {}
        if isinstance(values, list) and not any(isinstance(v, (list, Mapping)) for v in values):
            values_by_name = {str(value): value for value in values}
        levels[str(variable)] = [Level(str(name), value) for name, value in values_by_name.items()]
    if not levels or not all(levels.values()) or not all(map(str.isidentifier, levels)):
        raise ValueError("expected variables, each with a list of values or with values by name")
    return levels


def names_alone(levels: Levels) -> Levels:
    """Levels without the mappings that the entry which varies lays over itself."""
    return {
        variable: [
            Level(level.name, level.name if isinstance(level.value, Mapping) else level.value)
            for level in values
        ]
        for variable, values in levels.items()
    }


def variants(name: str, template: Mapping[str, Any], levels: Levels) -> Iterator[Variant]:
    """The entries that one stands for, the last variable changing fastest."""
    body = {key: value for key, value in template.items() if key != VARY}
    for combination in product(*levels.values()):
        chosen = dict(zip(levels, combination, strict=True))
        overlays: dict[tuple[str, ...], dict[str, Any]] = {
            (VARY, variable, level.name): substituted(level.value, chosen)
            for variable, level in chosen.items()
            if isinstance(level.value, Mapping)
        }
        yield Variant(_text(name, chosen), substituted(body, chosen), overlays)


def substituted(value: Any, chosen: Mapping[str, Level]) -> Any:
    """Nested values with every placeholder of a chosen variable filled in, keys included."""
    if isinstance(value, Mapping):
        return {_text(key, chosen): substituted(item, chosen) for key, item in value.items()}
    if isinstance(value, list):
        return [substituted(item, chosen) for item in value]
    alone = PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    level = chosen.get(alone[1]) if alone else None
    if level is not None and not isinstance(level.value, Mapping):
        return level.value
    return _text(value, chosen)


def _text(text: Any, chosen: Mapping[str, Level]) -> Any:
    """A text with the names of chosen values in place of their variables; a number as it is."""
    if not isinstance(text, str):
        return text
    return PLACEHOLDER.sub(lambda m: chosen[m[1]].name if m[1] in chosen else m[0], text)
