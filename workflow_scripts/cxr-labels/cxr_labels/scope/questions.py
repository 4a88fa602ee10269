"""Questions answered in words: "Any fracture? Right clavicle.", "Effusion? Not seen."

A question names a finding or an organ and little else. A place or a size after it says that the
finding is there, "intact" and "not seen" that it is not. All words of an answer are among those
below, since anything may follow a question ("Pneumonia? Two views were obtained."). Any other text
leaves it uncertain.
"""

import itertools
from collections.abc import Sequence
from enum import Enum

from cxr_labels.scope.cue_words import cue_rules
from cxr_labels.scope.mentions import Mention, find_mentions
from cxr_labels.scope.phrases import Token, tokenize

LONGEST_QUESTION = 10
LONGEST_ANSWER = 10
ASKING = frozenset(("any", "is", "are", "evidence", "sign", "signs", "do", "does", "can"))
# Words of a question beside the finding's name.
AROUND = ASKING | frozenset(
    ("there", "a", "an", "the", "of", "for", "you", "see", "visible", "obvious", "other", "or")
    + ("present", "seen", "size", "new", "acute", "pleural", "pulmonary", "lung", "rib", "bony")
)
SIDES = frozenset(("left", "right", "bilateral", "both"))
# First words of an answer that says where or how much.
PLACES = SIDES | frozenset(
    ("bilaterally", "upper", "lower", "middle", "mid", "apical", "basal", "basilar", "bibasal")
    + ("bibasilar", "biapical", "lul", "lll", "rul", "rml", "rll", "lingula")
    + ("at", "in", "on", "along", "the", "a")
)
AMOUNTS = frozenset(
    ("small", "tiny", "trace", "minimal", "mild", "mildly", "moderate", "moderately", "large")
    + ("severe", "marked", "slight", "slightly", "extensive", "subtle", "several", "multiple")
    + ("single", "one", "two", "three", "old", "healed", "healing", "new", "acute", "chronic")
    + ("unchanged", "stable", "persistent", "residual", "resolving", "improved", "improving")
    + ("worse", "increased", "decreased", "larger", "smaller", "likely", "seen", "confirmed")
)
SEEN = frozenset(
    ("seen", "identified", "visible", "evident", "visualized", "visualised", "present", "detected")
    + ("demonstrated", "apparent", "appreciated", "noted", "shown", "found", "there", "really")
)
GONE = frozenset(("none", "nothing", "absent", "resolved", "cleared", "gone", "excluded"))
AFTER_NO = frozenset(("evidence", "sign", "signs", "definite", "convincing", "obvious", "longer"))
HEALTHY = frozenset(("intact", "clear", "normal", "unremarkable", "sharp", "preserved", "negative"))
STATES = HEALTHY | frozenset(
    ("enlarged", "borderline", "top", "upper", "within", "wnl", "large", "big", "widened")
)
ENLARGED = frozenset(("enlarged", "widened", "large", "big"))
DENYING = frozenset(("no", "not", "without", "never", "nor", "free"))
# What an answer may hold beside them.
BESIDE = frozenset(
    ("lung", "lungs", "lobe", "lobes", "base", "bases", "apex", "apices", "zone", "zones", "side")
    + ("rib", "ribs", "bone", "bones", "clavicle", "clavicles", "scapula", "sternum", "humerus")
    + ("costophrenic", "angle", "angles", "hilum", "midshaft", "lateral", "laterally", "anterior")
    + ("anteriorly", "posterior", "posteriorly", "displaced", "nondisplaced", "only", "again")
    + ("and", "of", "is", "are", "it", "them", "this", "that", "all", "now", "today", "clearly")
    + ("definitely", "th", "st", "nd", "rd", "mm", "cm", ",", "-", "(", ")")
)
HEDGES = frozenset(("possibly", "probably", "perhaps", "questionably"))
ANSWERING = PLACES | AMOUNTS | SEEN | GONE | AFTER_NO | STATES | ENLARGED | DENYING | BESIDE


class Answer(Enum):
    """What an answer says, and the marks that say so in place of the question mark."""

    PRESENT = (";",)
    ABSENT = (":", "none", ";")
    STATE = (":",)


def is_answer(text: str, question: str) -> bool:
    """True if ``text`` begins with an answer in words to the question."""
    return _answer(_words(question), _words(text)) is not None


def _words(text: str) -> list[str]:
    """The words of a text, without marks before it."""
    words = [token.word for token in tokenize(text)]
    return list(itertools.dropwhile(lambda word: not word.isalnum(), words))


def answered_in_words(tokens: list[Token]) -> list[Token]:
    """The words with the question mark written as its answer."""
    words = [token.word for token in tokens]
    if "?" not in words:
        return tokens
    at = words.index("?")
    answer = _answer(words[:at], list(itertools.dropwhile("-".__eq__, words[at + 1 :])))
    if answer is None:
        return tokens
    mark = tokens[at]
    marks = [Token(word, mark.start, mark.end) for word in answer.value]
    named = _asked(words[:at])[0].start  # without "any signs of"
    return [*tokens[named:at], *marks, *tokens[at + 1 :]]


def _answer(question: Sequence[str], text: Sequence[str]) -> Answer | None:
    asked = _asked(question)
    ends = (i for i, word in enumerate(text) if word in (".", ";", "!"))
    answer = text[: next(ends, len(text))]
    if not asked or not 0 < len(answer) <= LONGEST_ANSWER:
        return None
    states = all(m.kind == "organ" for m in asked) and ENLARGED.isdisjoint(question)
    known = ANSWERING | HEDGES if states else ANSWERING
    if not all(word in known or word.isdigit() for word in answer):
        return None
    if find_mentions(answer):  # it states something of its own
        return None
    if states:
        return Answer.STATE if not STATES.isdisjoint(answer) else None
    return _state(question, answer)


def _asked(question: Sequence[str]) -> list[Mention]:
    """The mentions of a question that names little else."""
    if not 0 < len(question) <= LONGEST_QUESTION:
        return []
    mentions = find_mentions(question)
    named = {i for mention in mentions for i in range(mention.start, mention.end)}
    rest = [word for i, word in enumerate(question) if i not in named]
    plain = AROUND | ENLARGED
    if question[0] in ASKING:
        rules = cue_rules()
        plain |= SIDES | rules.starters | rules.qualifiers
    return mentions if plain.issuperset(rest) else []


def _state(question: Sequence[str], answer: Sequence[str]) -> Answer | None:
    first, second, third = (*answer, "", "")[:3]
    if first in GONE or (first == "no" and second in AFTER_NO):
        return Answer.ABSENT
    if first in ("not", "never"):
        return Answer.ABSENT if second in SEEN or third in SEEN else None
    healthy = not HEALTHY.isdisjoint(answer)
    if healthy:
        return None if "," in answer or not DENYING.isdisjoint(answer) else Answer.ABSENT
    sides = SIDES.intersection(question)
    if sides and first in SIDES and first not in sides:
        return None
    head = answer[: answer.index(",")] if "," in answer else answer
    ordinal = first.isdigit() or second in ("th", "st", "nd", "rd")
    if (first in PLACES | AMOUNTS or ordinal) and DENYING.isdisjoint(head):
        return Answer.PRESENT
    return None
