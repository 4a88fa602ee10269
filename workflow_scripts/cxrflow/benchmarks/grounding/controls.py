"""Controls of phrase grounding: does the map follow the phrase, the image and the side?

Each sample is scored again, on its own boxes, with one thing exchanged: its phrase for one of
another finding, its image for another patient's, left and right within its phrase. A map that
follows the phrase loses its contrast. Not in the papers, whose CNR is without a sign and hardly
sees which phrase was asked; these are signed.
"""

import re

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxrflow.benchmarks.controls import exchange

CONTROLS = ("other_finding", "other_image", "other_side")

_SIDES = {"left": "right", "right": "left"}
_SIDE = re.compile(r"\b(left|right)\b", re.IGNORECASE)
_BOTH = re.compile(r"\b(bilateral\w*|both|bi\w*(?:basilar|basal|apical))\b", re.IGNORECASE)
_ZONE = re.compile(
    r"\b(upper|mid|middle|lower|lingula\w*|apex|apices|apical|bases?|basilar|basal|retrocardiac"
    r"|(?:peri)?hil\w+|costophrenic|lateral|midlung)\b",
    re.IGNORECASE,
)


def place_words(phrase: str) -> list[str]:
    """The words of a phrase that say where, in lower case and alphabetical order, each once."""
    words_of_place = [word for words in (_SIDE, _BOTH, _ZONE) for word in words.findall(phrase)]
    return sorted({word.lower() for word in words_of_place})


def names_place(phrase: str) -> bool:
    """Return True if a phrase names a side, both sides, or a zone of the lungs."""
    return bool(place_words(phrase))


def side_exchanged(phrase: str) -> str | None:
    """The phrase with left for right and right for left; None unless it names just one of them."""
    sides = {word.lower() for word in _SIDE.findall(phrase)}
    if len(sides) != 1 or _BOTH.search(phrase):
        return None

    def exchanged(match: re.Match[str]) -> str:
        word = _SIDES[match.group().lower()]
        return word.capitalize() if match.group()[0].isupper() else word

    return _SIDE.sub(exchanged, phrase)


def control_phrases(samples: pd.DataFrame) -> dict[str, list[str | None]]:
    """For each image, the phrase that each control puts to it; None where it has none.

    ``other_image`` is the phrase of the sample whose image is exchanged for this one.
    """
    phrases = samples["phrase"].tolist()
    image = exchange(samples["subject_id"])
    phrases_of_others: list[str | None] = [None] * len(phrases)
    for sample, partner in enumerate(image):
        if partner >= 0:
            phrases_of_others[partner] = phrases[sample]
    finding = exchange(samples["category"])
    return {
        "other_finding": [phrases[i] if i >= 0 else None for i in finding],
        "other_image": phrases_of_others,
        "other_side": [side_exchanged(phrase) for phrase in phrases],
    }


def of_samples(name: str, grids: NDArray[np.float64], samples: pd.DataFrame) -> NDArray[np.float64]:
    """The grids [N, h, w] of a control by sample instead of by image; NaN where it has none."""
    if name != "other_image":
        return grids
    image = exchange(samples["subject_id"])
    grids_by_sample = grids[image]
    grids_by_sample[image < 0] = np.nan
    return grids_by_sample
