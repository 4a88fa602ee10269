"""The words of cues (``rules/scope/cues.yaml``), their effects, and the words that end a reach."""

from dataclasses import dataclass
from functools import cache

from cxr_labels.rules import read_rules
from cxr_labels.scope.mentions import mention_tree
from cxr_labels.scope.phrases import JOINING, PhraseTree

# Words that name nothing, although phrases of findings hold them.
LINKING = frozenset(("a", "an", "at", "clear", "for", "in", "of", "on", "the", "to", "within"))
# A scope without a limit of its own ends at this many words.
FAR = 200


@dataclass(frozen=True, slots=True)
class CueKind:
    """A cue's rule, effect (a stage, a state or "neutral"), reach, and its limit in words."""

    rule: str
    effect: str
    reach: str
    words: int


@dataclass(frozen=True)
class CueRules:
    """The content of ``rules/scope/cues.yaml``."""

    cues: PhraseTree[CueKind]
    verbs: frozenset[str]
    starters: frozenset[str]
    always_starters: frozenset[str]
    lasting: frozenset[str]
    qualifiers: frozenset[str]
    joined_by_with: frozenset[str]
    commas: frozenset[str]


@cache
def cue_rules() -> CueRules:
    rules = read_rules("scope/cues")
    phrases: list[tuple[str, CueKind]] = []
    for cue in rules["cues"]:
        kind = CueKind(cue["rule"], cue["effect"], cue.get("reach", ""), cue.get("words", FAR))
        phrases += [(phrase, kind) for phrase in cue["phrases"]]
    for state, words in rules["states"].items():
        kind = CueKind(f"organ {state}", f"state {state}", "both", FAR)
        phrases += [(phrase, kind) for phrase in words]
    between = CueKind("or", "between", "both", rules["between"]["words"])
    phrases += [(phrase, between) for phrase in rules["between"]["phrases"]]
    end = CueKind("break", "break", "", 0)
    phrases += [(phrase, end) for phrase in rules["breaks"]]
    aside = CueKind("aside", "aside", "", 0)
    phrases += [(phrase, aside) for phrase in rules["asides"]]
    lists = ("verbs", "starters", "always_starters", "lasting", "qualifiers")
    words = [frozenset(rules[name]) for name in (*lists, "joined_by_with", "apart")]
    return CueRules(PhraseTree(phrases, _is_plain), *words)


def _is_plain(word: str) -> bool:
    """True if the word names no finding: a gap in a cue ("no … change") may hold it."""
    return word in LINKING or (word not in JOINING and not mention_tree().atoms(word))


def knows(word: str) -> bool:
    """True if the word is part of a cue."""
    return bool(cue_rules().cues.atoms(word))
