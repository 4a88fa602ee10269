"""Sentence pairs of the MS-CXR-T copy: the same progression in other words, or another one.

BioViL-T Appendix C.2 makes pairs in two ways. *Swaps*: one word of change is exchanged for another.
*RadGraph*: two sentences on the same finding at the same place with different words of change, here
in two different frames, so that a paraphrase has as few words in common as a contradiction. A pair
is a paraphrase or a contradiction in terms of progression, and in nothing else. No patient of the
MIMIC-CXR copy is among them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxr_hospital.claims import Claim
from cxr_hospital.course import GROUNDED
from cxr_hospital.grammar import pick, write
from cxr_hospital.patient import FIRST_FOLLOWED, make_patient
from cxr_hospital.radiology_pairs import claims_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording.radiology_sentences import claim_slots

PARAPHRASE, CONTRADICTION = "paraphrase", "contradiction"
SWAPS, RADGRAPH = "Swaps", "RadGraph"
#: Table C.2: how many pairs of each kind there are among 361.
SHARES: Mapping[tuple[str, str], int] = {
    (RADGRAPH, PARAPHRASE): 42,
    (RADGRAPH, CONTRADICTION): 75,
    (SWAPS, PARAPHRASE): 99,
    (SWAPS, CONTRADICTION): 145,
}
#: The findings of the sentences.
TOPICS = frozenset(GROUNDED) - {"Cardiomegaly"}
CHANGES = ("improved", "stable", "worsened")
#: A sentence with a gap, and the words of each change that fit into it.
FRAMES: Sequence[tuple[str, Mapping[str, Sequence[str]]]] = (
    (
        "$word $np.",
        {
            "improved": ("Improved", "Improving", "Decreased", "Decreasing", "Resolving"),
            "stable": ("Unchanged", "Stable", "Persistent", "Unaltered"),
            "worsened": ("Increased", "Increasing", "Worsened", "Worsening", "Enlarging"),
        },
    ),
    (
        "The $bare $has $word in the interval.",
        {
            "improved": ("improved", "decreased"),
            "worsened": ("worsened", "increased", "progressed"),
        },
    ),
    (
        "The $bare $is $word since the prior study.",
        {
            "improved": ("improved", "decreased", "smaller", "reduced"),
            "stable": ("unchanged", "stable", "unaltered"),
            "worsened": ("worse", "increased", "larger", "greater"),
        },
    ),
    (
        "$np, $word compared to the prior radiograph.",
        {
            "improved": ("improved", "decreased", "reduced"),
            "stable": ("unchanged", "stable"),
            "worsened": ("worse", "increased", "enlarged"),
        },
    ),
    (
        "Interval $word the $bare.",
        {
            "improved": ("improvement in", "decrease in", "resolution of"),
            "worsened": ("worsening of", "increase in", "progression of"),
        },
    ),
    (
        "There has been $word the $bare.",
        {
            "improved": ("an improvement of", "a reduction of", "partial clearing of"),
            "stable": ("no change of", "no alteration of", "no evolution of"),
            "worsened": ("a worsening of", "growth of", "a progression of"),
        },
    ),
    (
        "In comparison with the earlier film, $a $np $is $word.",
        {
            "improved": ("less extensive", "less marked", "regressing"),
            "stable": ("as extensive", "similar", "constant"),
            "worsened": ("more extensive", "more marked", "advancing"),
        },
    ),
)
_STREAM, _FIRST, _ATTEMPTS = 103, FIRST_FOLLOWED + 500_000, 200


@dataclass(frozen=True)
class TemporalPair:
    """One line of the file."""

    first: str
    second: str
    category: str
    subset: str


def temporal_pairs(settings: HospitalSettings, count: int) -> list[TemporalPair]:
    """``count`` different pairs in the shares of Table C.2, subsets one after the other."""
    bounds = np.round(np.cumsum([0, *SHARES.values()]) / sum(SHARES.values()) * count).astype(int)
    kinds = [kind for kind, n in zip(SHARES, np.diff(bounds), strict=True) for _ in range(n)]
    claims = _claims(settings)
    previous: set[frozenset[str]] = set()
    pairs = []
    for number, (subset, category) in enumerate(kinds):
        rng = np.random.default_rng([settings.seed, _STREAM, number])
        make = _swap if subset == SWAPS else _reworded
        for claim, _ in zip(claims, range(_ATTEMPTS), strict=False):
            texts = make(claim, category == PARAPHRASE, rng)
            if texts[0] != texts[1] and frozenset(texts) not in previous:
                break
        else:
            raise ValueError(
                f"no new {category} of {subset} in {_ATTEMPTS} attempts; expected fewer"
            )
        previous.add(frozenset(texts))
        pairs.append(TemporalPair(*texts, category, subset))
    return pairs


def _claims(settings: HospitalSettings) -> Iterator[Claim]:
    """Endless claims about findings of ``TOPICS``, one patient after the other."""
    index = _FIRST
    while True:
        study = make_patient(settings, index).studies[-1]
        yield from (claim for claim in claims_of(study) if claim.topic in TOPICS)
        index += 1


def _swap(claim: Claim, same: bool, rng: np.random.Generator) -> tuple[str, str]:
    """A sentence, and the same with another word of change."""
    frame, words = FRAMES[int(rng.integers(len(FRAMES)))]
    slots = claim_slots(claim, rng)
    # Nouns of several words are fixed before the gap is filled: nothing else may differ.
    filled = write(frame, rng, {**slots, "word": "_"}).text
    first, second = _two_changes(list(words), same, rng)
    original = pick(words[first], rng)
    replacement = pick([word for word in words[second] if word != original], rng)
    return filled.replace("_", original), filled.replace("_", replacement)


def _reworded(claim: Claim, same: bool, rng: np.random.Generator) -> tuple[str, str]:
    """Two sentences on the same finding, in two frames and with words of change of two stems."""
    changes = _two_changes(list(CHANGES), same, rng)
    texts: list[str] = []
    stems: set[str] = set()
    for place in rng.permutation(len(FRAMES)):
        frame, words = FRAMES[int(place)]
        options = [word for word in words.get(changes[len(texts)], ()) if _stem(word) not in stems]
        if options:
            word = pick(options, rng)
            stems.add(_stem(word))
            slots = claim_slots(replace(claim, grade=""), rng)
            texts.append(write(frame, rng, {**slots, "word": word}).text)
        if len(texts) == 2:
            break
    return texts[0], texts[1]


def _stem(words: str) -> str:
    """The beginning of the word of change; forms of a word share it."""
    return next(word for word in words.lower().split() if len(word) > 3)[:5]


def _two_changes(among: list[str], same: bool, rng: np.random.Generator) -> tuple[str, str]:
    first = pick(among, rng)
    return first, first if same else pick([change for change in among if change != first], rng)
