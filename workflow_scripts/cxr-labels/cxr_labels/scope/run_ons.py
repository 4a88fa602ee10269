"""Where a statement begins with no stop before it: "no effusion the left base is dense"."""

from collections.abc import Sequence

from cxr_labels.scope.cue_words import cue_rules
from cxr_labels.scope.mentions import Mention

# After these "there is" continues the clause.
TELLING = frozenset(("that", "whether", "if", "evidence", "suggest", "indicate", "think", "where"))
# What a statement without a stop before it may begin with, and what none begins with.
NEGATIONS = frozenset(("no", "not", "without", "negative", "free", "neither"))
EXISTING = frozenset(("is", "are", "was", "were", "has", "remains", "remain", "appears"))
ARTICLES = frozenset(("the", "a", "an", "this", "there"))
PREPOSITIONS = frozenset(
    ("of", "in", "on", "at", "to", "from", "with", "within", "by", "for", "and", "or", "nor", "as")
    + ("than", "that", "which", "no", "not", "without", "along", "near", "over", "after", "since")
    + (
        "due",
        "related",
        "or",
        "but",
        "if",
        "versus",
        "vs",
        "may",
        "might",
        "could",
        "can",
        "cannot",
    )
)
# Not "large": "no pneumothorax large effusion" is a list that lost its comma.
DEGREES_BEFORE = frozenset(
    ("mild", "mod", "moderate", "severe", "small", "tiny", "trace", "minimal", "marked", "slight")
)
# The verb and its adverb between a noun and what is said of it.
ADVERBS = frozenset(("not", "now", "also", "still", "been", "clearly", "well", "be", "definitely"))
SEEN = frozenset(
    ("seen", "identified", "visible", "evident", "visualized", "visualised", "present", "detected")
    + (
        "demonstrated",
        "apparent",
        "appreciated",
        "noted",
        "shown",
        "found",
        "suspected",
        "excluded",
    )
    + ("absent", "resolved", "suggested", "observed", "cleared", "gone", "removed")
)
PAST = frozenset(("was", "were", "had"))
ENDS_OF_STATEMENTS = frozenset(
    ("seen", "identified", "visible", "evident", "visualized", "noted", "present", "left", "right")
    + ("side", "sides", "bilaterally", "lung", "lungs", "lobe", "lobes", "base", "bases", "today")
)
LONGEST_SUBJECT = 6


def _runs_on(words: Sequence[str], i: int, mentions: Sequence[Mention], ends: set[int]) -> bool:
    """True if a statement begins at ``i`` with no stop before it: "no effusion the base is dense".

    That is "there is"; and, behind a finding (``ends``), an article, a degree before a finding, a
    device, or a noun with a verb that says more than "is seen".
    """
    word, following = words[i], "".join(words[i + 1 : i + 2])
    if word == "there":
        return following in EXISTING and words[i - 1] not in TELLING
    if word in ARTICLES:
        return following.isalpha() and following not in PREPOSITIONS
    if i not in ends or not word.isalpha() or word in PREPOSITIONS or word in cue_rules().verbs:
        return False
    for at in range(i, min(i + LONGEST_SUBJECT, len(words))):
        if not words[at].isalnum() or words[at] in PREPOSITIONS:
            return False
        if words[at] in cue_rules().verbs:
            rest = [w for w in words[at + 1 : at + 4] if w not in ADVERBS]
            return at > i and words[at] not in PAST and bool(rest) and rest[0] not in SEEN
        for mention in mentions:
            if mention.start == at and mention.observation == "Support Devices":
                return True
            if mention.start == at > i and word in DEGREES_BEFORE and mention.kind != "organ":
                return True
    return False


def run_on_statements(words: Sequence[str], mentions: Sequence[Mention]) -> set[int]:
    """The first words of statements behind a denied finding."""
    if NEGATIONS.isdisjoint(words):
        return set()
    denied = next(i for i, word in enumerate(words) if word in NEGATIONS)
    finding_ends = {m.end for m in mentions if m.kind != "organ" and m.start > denied}
    begins = finding_ends.difference((len(words),))
    if not ARTICLES.isdisjoint(words):
        begins |= {
            i
            for i in range(denied + 1, len(words))
            if words[i] in ARTICLES and (words[i - 1] in ENDS_OF_STATEMENTS or words[i] == "there")
        }
    return {i for i in begins if _runs_on(words, i, mentions, finding_ends)}
