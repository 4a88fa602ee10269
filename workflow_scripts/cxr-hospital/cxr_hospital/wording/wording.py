"""Names and statements of a present finding, certain or hedged.

Slots that the templates may use: ``$deg`` (word for the severity, may be empty), ``$lat`` (side),
``$adj`` and ``$place`` (see ``places``; the latter with its article), ``$at``, ``$onside`` and
``$where`` (" in" the place, " on" the side, ", mainly in" the place; empty where it is not told),
``$s`` and ``$ies`` (plural where both sides are meant), ``$a`` (article, empty in the plural),
``$is``, ``$has``. Marks are the CheXpert labeller's: "concerning for" is uncertain, "suggesting",
"likely" and "consistent with" mean present.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """The words for one observation.

    ``degrees``: severity word by grade. ``full``: noun phrase with degree. ``bare``: noun phrase
    without. ``states``: whole sentences for either section. ``describes``: sentences of FINDINGS
    only. ``sums``: sentences of IMPRESSION only. ``hedges``: uncertain sentences. ``held_out``:
    phrases of MS-CXR in words that no report has. ``countable``: takes an article in the singular.
    """

    degrees: Mapping[str, str]
    full: tuple[str, ...]
    bare: tuple[str, ...]
    states: tuple[str, ...]
    describes: tuple[str, ...]
    sums: tuple[str, ...]
    hedges: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    countable: bool = True
