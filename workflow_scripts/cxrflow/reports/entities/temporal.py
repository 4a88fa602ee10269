"""The words of change that TEM counts: BioViL-T's list (appendix D.2), kept in temporal.yaml."""

import functools
from pathlib import Path

import yaml

#: Entity types that TEM and NEM count (appendices D.1 and F.1): no model does without.
COUNTED = ("OBSERVATION", "OBSERVATION_MODIFIER")
WORDS_FILE = Path(__file__).parents[1] / "rules" / "temporal.yaml"


@functools.cache
def temporal_words() -> tuple[str, ...]:
    """The 44 words in the paper's order, lower case."""
    return tuple(yaml.safe_load(WORDS_FILE.read_text(encoding="utf-8"))["words"])


def is_temporal_entity(type: str, text: str) -> bool:
    """Whether TEM counts an entity (appendix D.1): an observation or its modifier, and its whole
    text, in lower case, one of the words.
    """
    return type in COUNTED and text.lower() in _known()


@functools.cache
def _known() -> frozenset[str]:
    return frozenset(temporal_words())
