"""Whether a report says anything about the chest: "None.", "See above", "Report pending" do not.

The published labeller calls such a report No Finding. A sentence is a statement if it mentions a
finding, a device or an organ, or calls something normal. A sentence about an examination that was
not made, or about a report that was not written, is none.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from cxr_labels.rules import read_rules
from cxr_labels.scope.labeller import read_sentence

NO_STATEMENT = "no statement on the chest"
WORD = re.compile(r"[a-z]+")
# "No finding(s)", "no significant change" are statements, "see findings" and "finding" are none.
DENIAL = re.compile(
    r"\bno(?:thing)?\b(?:\s+[a-z]+){0,3}\s+(?:findings?|change|changes|focal|evidence)"
)
# About an examination or a report that does not exist.
ADMINISTRATIVE = re.compile(
    r"\b(?:not|never|no|without|cannot|unable|could not)\b(?:\s+[a-z]+){0,3}\s+(?:available"
    r"|performed|obtained|done|received|reported|completed|included|acquired|interpretable|diagnostic|read"
    r"|reviewed|transmitted|submitted|evaluated|assess(?:ed|able)|judged|determined|estimated|images?|films?)\b"
    r"|\b(?:unavailable|pending|awaited|awaiting|cancell?ed|disregard|uninterpretable|nondiagnostic)\b"
    r"|\b(?:to follow|refer to|see (?:the|above|below|report|findings)|in error|did not attend)\b"
    r"|\b(?:views?|radiographs?|images?|films?|x-?rays?)\b[^.]*\b(?:obtained|performed|acquired"
    r"|submitted|reviewed|provided|compared|comparison)\b"
)

# About another examination, or another report.
ELSEWHERE = re.compile(
    r"\bsupersed|\b(?:see|refer\s+to|reported\s+(?:with|on|in|under|as\s+part\s+of))\b"
    r"(?:\s+(?:also|the|a|full|formal|our|its|this|patient's|accompanying|subsequent|concurrent"
    r"|same|day|dedicated|separate|separately|dictated|issued|written|previous|recent)){1,4}"
    r"[\s-]+(?:report|dictation|ct|cta|ctpa|mri|study|examination|accession|scan|read)\b"
    r"|\b(?:see|refer\s+to)\s+(?:ct|cta|ctpa|mri|pet)\b|\b(?:reported|dictated|read)\s+separately\b"
    r"|\breported\s+under\b|\bseparate(?:ly)?\s+(?:report|dictation|dictated|reported|accession)\b"
)


@cache
def _words() -> tuple[frozenset[str], frozenset[str]]:
    data = read_rules("statements")
    return frozenset(data["states"].split()), frozenset(data["anatomy"].split())


def states_something(sentences: Sequence[str]) -> bool:
    """True if a sentence says something about the chest; the quickest tests come first."""
    return any(
        test(sentence) and not ELSEWHERE.search(sentence.lower())
        for test in (_has_state, _names_organ, read_sentence)
        for sentence in sentences
    )


@lru_cache(maxsize=100_000)
def _has_state(sentence: str) -> bool:
    text = sentence.lower()
    states, _ = _words()
    return not states.isdisjoint(WORD.findall(text)) or bool(DENIAL.search(text))


def _names_organ(sentence: str) -> bool:
    text = sentence.lower()
    _, anatomy = _words()
    return not anatomy.isdisjoint(WORD.findall(text)) and not ADMINISTRATIVE.search(text)
