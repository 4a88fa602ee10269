"""The words of change that TEM counts: BioViL-T's list (appendix D.2), kept in temporal.yaml."""

import functools
from pathlib import Path

from cxr_files.yaml_file import read_yaml

#: Entity types that TEM and NEM count (appendices D.1 and F.1); a model must know them.
COUNTED = ("OBSERVATION", "OBSERVATION_MODIFIER")


@functools.cache
def temporal_words() -> tuple[str, ...]:
    """The 44 words in the paper's order, lower case."""
    return tuple(read_yaml(Path(__file__).with_suffix(".yaml"))["words"])


def is_temporal_entity(type: str, text: str) -> bool:
    """True if TEM counts the entity (appendix D.1): an observation or modifier that is a word of
    the list, in any case."""
    return type in COUNTED and text.lower() in temporal_words()
