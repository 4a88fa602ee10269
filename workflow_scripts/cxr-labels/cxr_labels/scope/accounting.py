"""Which words of a sentence the labeller has read: mention, cue, place, filler, or unread.

Where nothing is found, a report is No Finding only if every content word is accounted for: it is
harmless (``rules/scope/harmless.yaml``), or part of a mention, or of a cue that reached what it is
about, or denied ("no such disease"). An abnormal state of nothing known ("Markings: enlarged") is
unread, and so is a word that no rule knows.
"""

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from cxr_labels.scope.cue_words import cue_rules
from cxr_labels.scope.cues import Cue, find_cues
from cxr_labels.scope.mentions import Mention, find_mentions, mention_tree
from cxr_labels.scope.vocabulary import harmless, is_harmless
from cxr_labels.scope.words import words_of

TITLES = frozenset(("dr", "drs", "mr", "mrs", "ms", "miss", "prof", "professor", "doctor", "nurse"))
LONGEST_NAME = 5  # words behind a title
ALTERNATIVES = frozenset(("or", "nor"))
# States that find something wrong with an organ; without an organ nobody knows with what.
ABNORMAL = ("state positive", "state uncertain")
LONGEST_NORMAL = 2  # words behind "normal" that it is said of


class Unread(NamedTuple):
    """A word that no rule knows, and its span in the sentence."""

    word: str
    start: int
    end: int


def unread(sentence: str) -> tuple[Unread, ...]:
    """The words of a sentence that nothing accounts for."""
    tokens, words = words_of(sentence)
    unknown = {i for i, word in enumerate(words) if not is_harmless(word)}
    if unknown:
        mentions = find_mentions(words)
        unknown -= _named(words)
        unknown -= _inside(words, mentions)
        if unknown:
            unknown -= _of_cues(words, mentions, find_cues(words, mentions))
    return tuple(
        Unread(sentence[tokens[i].start : tokens[i].end], tokens[i].start, tokens[i].end)
        for i in sorted(unknown)
    )


def _named(words: Sequence[str]) -> set[int]:
    """The places of names behind a title ("Dr Miller")."""
    named: set[int] = set()
    for at in (i for i, word in enumerate(words) if word in TITLES):
        for i in range(at + 1, min(at + 2 + LONGEST_NAME, len(words))):
            if words[i].isalpha() and is_harmless(words[i]) and len(words[i]) > 1:
                break
            named.add(i)
    return named


def _inside(words: Sequence[str], mentions: Sequence[Mention]) -> set[int]:
    """The places of words of mentions and of harmless phrases."""
    inside = set(chain.from_iterable(range(m.start, m.end) for m in mentions))
    for match in mention_tree().matches(words):
        if match.payload[1] == "harmless":
            inside.update(range(match.start, match.end))
    for phrase in harmless().phrases.matches(words):
        inside.update(range(phrase.start, phrase.end))
    return inside


def _of_cues(words: Sequence[str], mentions: Sequence[Mention], cues: Sequence[Cue]) -> set[int]:
    """The places of cue words, and of the words that a cue denies or calls normal."""
    tree = cue_rules().cues
    accounted = {
        i
        for match in tree.matches(words)
        if match.payload.effect not in ABNORMAL
        for i in range(match.start, match.end)
        if tree.atoms(words[i])
    }
    ends = {mention.end for mention in mentions}
    for cue in cues:
        if cue.kind.effect in ABNORMAL:
            organs = (m for m in mentions if m.kind == "organ")
            if any(cue.first <= m.start and m.end <= cue.last for m in organs):
                accounted.update(range(cue.start, cue.end))
        elif cue.kind.effect in ("negative", "void") and cue.last <= cue.start:
            accounted.update(range(cue.first, cue.last))
        elif cue.kind.effect in ("negative", "void"):
            accounted.update(_denied(words, cue, ends))
        elif cue.kind.effect == "state negative" and cue.last <= cue.start:
            accounted.update(range(cue.first, cue.last))
        elif cue.kind.effect == "state negative":
            accounted.update(range(cue.first, min(cue.last, cue.first + LONGEST_NORMAL)))
    return accounted


def _denied(words: Sequence[str], cue: Cue, ends: set[int]) -> set[int]:
    """The places that a "no" reaches: a word behind a finding only where "or" joins them."""
    denied: set[int] = set()
    complete = False
    for i in range(cue.first, cue.last):
        complete = complete or i in ends
        if words[i] in ALTERNATIVES:
            complete = False
        elif words[i] == ",":
            complete = ALTERNATIVES.isdisjoint(words[i : cue.last])
        if not complete or words[i] in harmless().denied:
            denied.add(i)
    return denied
