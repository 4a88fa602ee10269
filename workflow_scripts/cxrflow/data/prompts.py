"""Prompts by which a model is asked for a class, as published work words them.

A set has sentences of presence and of absence, in which {} is the class in words. It has words for
class names that are not words, such as Pleural_Thickening. And it has sentences of their own for
classes such as No Finding, since "no no finding" would ask for the opposite. What a source leaves
open is ours; ``source`` says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from types import MappingProxyType
from typing import Final

Sentences = tuple[str, ...]

#: Words for class names that are not words. All others are put in lower case, with a blank for _.
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Effusion": "pleural effusion",
        "Pleural_Thickening": "pleural thickening",
        "COPD": "chronic obstructive pulmonary disease",  # from here on VinDr-CXR's; ours
        "Enlarged PA": "enlarged pulmonary artery",
        "ILD": "interstitial lung disease",
        "Nodule/Mass": "nodule or mass",
    }
)


@dataclass(frozen=True)
class PromptSet:
    """Sentences of presence and absence.

    Attributes:
        source: where they come from, and what of them is ours.
        positive, negative: of any class.
        words: names in this set, which take precedence over :data:`WORDS`.
        exceptions: sentences of presence and absence of classes that have their own, by the name
            in lower case: data sets write the same class in other ways.
    """

    source: str
    positive: Sentences
    negative: Sentences
    words: Mapping[str, str] = field(default_factory=dict)
    exceptions: Mapping[str, tuple[Sentences, Sentences]] = field(default_factory=dict)

    def of(self, name: str) -> tuple[Sentences, Sentences]:
        """The sentences of presence and of absence of a class."""
        exception = self.exceptions.get(name.lower())
        if exception is not None:
            return exception
        word = self.words.get(name) or WORDS.get(name) or name.replace("_", " ").lower()
        positive, negative = (
            tuple(text.replace("{}", word) for text in side)
            for side in (self.positive, self.negative)
        )
        return positive, negative


#: "no no finding" and "no normal" would ask for the opposite. Names in lower case.
TURNED: Final = {
    "no finding": (("no finding",), ("finding",)),
    "normal": (("normal",), ("abnormal",)),
}


def _composed(kinds: str, places: str, degrees: str) -> Sentences:
    """Every degree, kind and place, as GLoRIA composes them; the words are ours."""
    word_lists = (words.split(",") for words in (degrees, kinds, places))
    return tuple(" ".join(" ".join(choice).split()) for choice in product(*word_lists))


_SIDES = ",on the left,on the right,on both sides"
_ZONES = ",in the left lower lobe,in the right lower lobe,at both lung bases,in the upper lobes"
#: By the names of CheXpert, NIH, VinDr-CXR and PadChest, in lower case: the words for the class
#: where it is absent, and the sentences where it is present.
_COMPOSED: Final = {
    "atelectasis": (
        "atelectasis",
        _composed("atelectasis,linear atelectasis", _ZONES, ",mild,severe"),
    ),
    "cardiomegaly": (
        "cardiomegaly",
        _composed("cardiomegaly,enlarged heart", "", ",mild,moderate,severe"),
    ),
    "consolidation": (
        "consolidation",
        _composed("consolidation,airspace consolidation", _ZONES, ",patchy,dense"),
    ),
    **dict.fromkeys(
        ("edema", "pulmonary edema"),
        ("edema", _composed("pulmonary edema,interstitial edema", "", ",mild,moderate,severe")),
    ),
    **dict.fromkeys(
        ("pleural effusion", "effusion"),
        ("pleural effusion", _composed("pleural effusion,pleural fluid", _SIDES, ",small,large")),
    ),
}

PROMPT_SETS: Final[Mapping[str, PromptSet]] = MappingProxyType(
    {
        "chexzero": PromptSet(
            source="CheXzero (Tiu et al. 2022): the class, and 'no' with the class; No Finding and "
            "normal are turned round there, and not here",
            positive=("{}",),
            negative=("no {}",),
            exceptions=TURNED,
        ),
        "windsor": PromptSet(
            source="Windsor et al. 2023, Appendix D; of No Finding and normal ours",
            positive=("{} remains visible",),
            negative=("There is no evidence of {}",),
            exceptions=dict.fromkeys(
                TURNED, (("There is no evidence of any finding",), ("A finding remains visible",))
            ),
        ),
        "gloria": PromptSet(
            source="the form of GLoRIA's (Huang et al. 2021): degree, kind and place of five "
            "classes; the words, other classes and absence are ours",
            positive=("{}",),
            negative=("no {}",),
            exceptions={
                **TURNED,
                **{
                    name: (positive, (f"no {word}",))
                    for name, (word, positive) in _COMPOSED.items()
                },
            },
        ),
        "kad": PromptSet(
            source="KAD (Zhang et al. 2023) names the class alone, NIH's in words of its own; "
            "absence is ours, as CheXzero's",
            positive=("{}",),
            negative=("no {}",),
            words={
                "Mass": "lung mass",
                "Nodule": "lung nodule",
                "Pleural_Thickening": "pleural thicken",
            },
            exceptions=TURNED,
        ),
    }
)
