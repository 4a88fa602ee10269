"""Answers of templates: "Pneumothorax: No", "effusion (+)", "[x] Edema", "Fracture? Yes".

An answer belongs to the label beside it and to nothing else. It is spelled out in words that the
cues know, and parted from what follows: ``pneumothorax : none ;``, ``effusion ;``. A box without a
cross says nothing (``: unanswered``). A cardiothoracic ratio ("CTR 0.58") is followed by the
heart's state; above one half the heart is enlarged.
"""

import itertools
import re
from collections.abc import Sequence

from cxr_labels.scope.cue_words import LINKING
from cxr_labels.scope.mentions import mention_tree
from cxr_labels.scope.phrases import JOINING, Token
from cxr_labels.scope.questions import answered_in_words

NO = frozenset(("no", "n", "none", "nil", "neg", "negative", "absent", "-", "0"))
YES = frozenset(("yes", "y", "pos", "positive", "present", "+"))
# Without one of these, an answer stands at the end or before a border.
SIGNS_OF_ANSWERS = frozenset(("(", "[", "=", "|", ":", "?", "ctr", "ratio", "index"))
UNANSWERED = "unanswered"
ANSWERS = NO | YES | {UNANSWERED}
# Answers that need no mark before them.
BARE = frozenset(
    ("no", "n", "none", "nil", "neg", "negative", "yes", "y", "pos", "positive", "+", "-")
)
MARKS = frozenset((":", "=", "?", "|", "-", "(", "[", ";", ","))
JOINED_MARKS = frozenset((":", "=", "-", "(", "[", "?", ">"))
# "Pneumothorax: no evidence", "effusion: none seen"
AFTER_NO = frozenset(("evidence", "sign", "signs", "indication", "seen"))
QUESTIONS = frozenset((":", "=", "?", "|"))
# After an answer.
BORDERS = frozenset((".", ",", ";", "|", "/", ")", "]", "(", "[", "!"))
ENDINGS = frozenset(("", ".", ";", ",", "|"))
ENDS = frozenset((".", ";", "|", "!"))
TICKS = frozenset(("x", "v", "*"))
BOXES = {"[": "]", "(": ")"}
# Most words of a label ("right lower lobe consolidation:").
LONGEST_LABEL = 6

NUMBER = re.compile(r"\d+(?:\.\d+)?")
ABOVE = frozenset((">", "exceeds", "exceeding", "above", "over", "greater", "more", "larger"))
BELOW = frozenset(("<", "below", "under", "less", "smaller"))
BEFORE_RATIO = re.compile(
    r"[:=()~<>-]|of|is|was|at|than|measures|measuring|approximately|about|around|ratio|index|ctr"
    r"|estimated|to|be|the|now"
)
FEWEST_DOTS = 3
LARGEST_NORMAL = 0.5


def spelled_out(tokens: list[Token]) -> list[Token]:
    """A sentence's words with its answers written as words; most sentences have none."""
    if not _may_answer([token.word for token in tokens]):
        return tokens
    tokens = answered_in_words(tokens)
    return _answered(_ratios(_ticked(_signed(_of_sides(_without_leaders(tokens))))))


def _may_answer(words: Sequence[str]) -> bool:
    if not SIGNS_OF_ANSWERS.isdisjoint(words):
        return True
    if ANSWERS.isdisjoint(words):
        return False
    pairs = zip(words, (*words[1:], "."), strict=True)
    return any(word in ANSWERS and following in BORDERS for word, following in pairs)


def _without_leaders(tokens: list[Token]) -> list[Token]:
    """Replace the dots of "Effusion ........ No" by a colon."""
    words: list[Token] = []
    for is_stop, run in itertools.groupby(tokens, lambda token: token.word == "."):
        row = list(run)
        words += [_mark(":", row[0])] if is_stop and len(row) >= FEWEST_DOTS else row
    return words


def _of_sides(tokens: list[Token]) -> list[Token]:
    """One answer in place of two: "Pneumothorax (L/R): no/no", "Effusion: right no, left yes"."""
    words: list[Token] = []
    for token in tokens:
        words.append(token)
        before = [t.word for t in words[-5:-1]]
        if before[-1:] == ["or"] and before[-2:-1] == [token.word] and token.word in NO | YES:
            del words[-2:]
        match before:
            case [first, answer, "," | ";", second]:
                if {first, second} == {"left", "right"} and answer in NO and token.word in YES:
                    del words[-5:-2]
    return words


def _mark(word: str, token: Token) -> Token:
    return Token(word, token.start, token.end)


def _signed(tokens: list[Token]) -> list[Token]:
    """Signs before their labels, "(-) effusion (+) edema", as words."""
    words = [token.word for token in tokens]
    if words[:1] != ["("] or words[1:3] not in (["-", ")"], ["+", ")"]):
        return tokens
    signed: list[Token] = []
    for i, token in enumerate(tokens):
        if words[i : i + 3] in (["(", "-", ")"], ["(", "+", ")"]):
            signed.append(_mark(";", token))
        elif words[i - 1 : i + 2] == ["(", "-", ")"]:
            signed.append(_mark("no", token))
        elif words[i - 1 : i + 2] != ["(", "+", ")"] and words[i - 2 : i + 1] not in (
            ["(", "-", ")"],
            ["(", "+", ")"],
        ):
            signed.append(token)
    return signed


def _boxes(tokens: Sequence[Token]) -> dict[int, tuple[int, bool]]:
    """Where each box ends, by where it begins, and whether it is ticked."""
    boxes: dict[int, tuple[int, bool]] = {}
    for i, token in enumerate(tokens):
        inside = [t.word for t in tokens[i + 1 : i + 3]]
        closing = BOXES.get(token.word)
        if closing and inside[:1] == [closing]:
            boxes[i] = i + 2, False
        elif closing and inside[1:] == [closing] and inside[0] in TICKS:
            boxes[i] = i + 3, True
    return boxes


def _ticked(tokens: list[Token]) -> list[Token]:
    """Boxes as answers: before a label, after it, or before "Yes" and "No"."""
    boxes = _boxes(tokens)
    if not boxes:
        return tokens
    last = tokens[max(end for end, _ in boxes.values()) :]
    behind = 0 not in boxes and [token.word for token in last] in ([], ["."])
    answers: list[Token] = []
    open_label: Token | None = None  # of an empty box before a label
    asked: Token | None = None  # a label followed by boxes of "yes" and "no", none ticked so far
    i = 0
    while i < len(tokens):
        token = tokens[i]
        if i not in boxes:
            if open_label and token.word in (";", ",", ".", "|"):
                answers += [_mark(":", token), _mark(UNANSWERED, open_label)]
                open_label = None
            answers.append(token)
            i += 1
            continue
        end, ticked = boxes[i]
        word = tokens[end].word if end < len(tokens) else ""
        if answers and answers[-1].word == ":" and word.isalpha() and word not in NO | YES:
            chosen, i = _choice(tokens, boxes, i)
            answers += chosen
            continue
        if word in NO | YES:
            if ticked:
                answers += [_mark(":", token), tokens[end], _mark(";", tokens[end])]
                asked = None
            elif not any(t.word in ("no", "yes") for t in answers[-3:]):
                asked = token
            i = end + 1
            if asked and i not in boxes:
                answers += [_mark(":", asked), _mark(UNANSWERED, asked), _mark(";", asked)]
                asked = None
            continue
        if open_label:
            answers += [_mark(":", open_label), _mark(UNANSWERED, open_label)]
            open_label = None
        if behind:
            word = "yes" if ticked else UNANSWERED
            answers += [_mark(":", token), _mark(word, token), _mark(";", token)]
        else:
            answers.append(_mark(";", token))
            open_label = None if ticked else token
        i = end
    if open_label:
        answers += [_mark(":", open_label), _mark(UNANSWERED, open_label)]
    return answers


def _choice(
    tokens: Sequence[Token], boxes: dict[int, tuple[int, bool]], i: int
) -> tuple[list[Token], int]:
    """The ticked states of "Heart: ( ) normal (x) enlarged", and where the row ends."""
    chosen: list[Token] = []
    first = tokens[i]
    while i in boxes:
        begin, ticked = boxes[i]
        i = begin
        while i < len(tokens) and i not in boxes and tokens[i].word not in ENDS:
            i += 1
        if ticked:
            chosen += [*tokens[begin:i], _mark(";", first)]
    return chosen or [_mark(UNANSWERED, first)], i


def _ratios(tokens: list[Token]) -> list[Token]:
    """The heart's state after a cardiothoracic ratio."""
    words = [token.word for token in tokens]
    if not {"ctr", "ratio", "index"}.intersection(words):
        return tokens
    stated: list[Token] = []
    relation: str | None = None  # between a ratio and its number; "" until one is named
    i = 0
    while i < len(tokens):
        word, end = words[i], i + 1
        state = None
        if word == "ctr" or (word in ("ratio", "index") and _is_ratio(words[i - 1])):
            relation = ""
        elif relation is not None and NUMBER.fullmatch(word):
            ratio, mark, second = float(word), *(words + ["", ""])[end : end + 2]
            if mark in (",", "/") and NUMBER.fullmatch(second) and float(second):
                end += 2  # "0,58", "14/30"
                ratio = float(f"{word}.{second}") if mark == "," else ratio / float(second)
            end += words[end : end + 1] == ["%"]
            state, relation = _state(ratio, relation), None
        elif relation is not None:
            relation = word if word in ABOVE | BELOW else relation
            relation = relation if word in ABOVE | BELOW or BEFORE_RATIO.fullmatch(word) else None
        stated += [Token(state, tokens[i].start, tokens[end - 1].end)] if state else tokens[i:end]
        i = end
    return stated


def _is_ratio(word: str) -> bool:
    return word.endswith("thoracic") or word in ("ct", "t")  # "C/T ratio"


def _state(number: float, relation: str) -> str | None:
    """The heart's state by the ratio, which is a share or in percent."""
    ratio = number / 100 if number > 1 else number
    if relation in ABOVE:
        return "enlarged" if ratio >= LARGEST_NORMAL else None
    if relation in BELOW:
        return "normal" if ratio <= LARGEST_NORMAL else None
    return "enlarged" if ratio > LARGEST_NORMAL else "normal"


def _answered(tokens: list[Token]) -> list[Token]:
    """Answers after their labels, each with a mark that ends its reach."""
    words = [token.word for token in tokens]
    answered: list[Token] = []
    i, labelled = 0, False  # whether words stand before, which may be a label
    while i < len(tokens):
        at = _answer(words, i) if labelled else None
        if at is None:
            answered.append(tokens[i])
            labelled = words[i] not in ENDS and (labelled or words[i].isalpha())
            i += 1
            continue
        answer, mark = tokens[at], tokens[min(i, at)]
        if answer.word not in YES:
            # A colon reaches back over a list, a dash to the last comma.
            colon = i < at and words[i] not in ("-", ",")
            word = answer.word if answer.word == UNANSWERED else "none"
            answered += [_mark(":" if colon else "-", mark), _mark(word, answer)]
        i, labelled = at + 1 + (words[at + 1 : at + 2] in ([")"], ["]"])), False
        if i < len(tokens):
            answered.append(_mark(";", answer))
    return answered


def _answer(words: Sequence[str], i: int) -> int | None:
    """The place of the answer whose marks, if any, begin at ``i``."""
    at = i + (words[i] in MARKS)
    while at > i and at < len(words) and words[at] in JOINED_MARKS:
        at += 1
    if at == len(words) or words[at] not in ANSWERS:
        at -= 1  # "edema (-)": the last mark may be the answer
        if at < i or words[at] != "-":
            return None
    elif words[at] in NO and at > i and "".join(words[at + 1 : at + 2]) in AFTER_NO:
        return at if "".join(words[at + 2 : at + 3]) in ENDINGS else None
    following = words[at + 1] if at + 1 < len(words) else "."
    if at == i:
        is_label = _names(words[i - 1]) or words[i - 1] == ")"
        return at if words[at] in BARE and is_label and following in BORDERS else None
    if words[i] == ",":
        return at if words[at] in ("yes", "no") and following in (".", ";") else None
    ends = BORDERS | {"-"} if words[i] in QUESTIONS else BORDERS
    if following in ends or (words[i] in QUESTIONS and _labelled(words, at + 1)):
        return at
    return None


def _names(word: str) -> bool:
    """True if the word may end a finding's name."""
    return word.isalpha() and word not in LINKING | JOINING and bool(mention_tree().atoms(word))


def _labelled(words: Sequence[str], start: int) -> bool:
    """True if a label with an answer of its own begins at ``start``."""
    for i in range(start, min(start + LONGEST_LABEL, len(words) - 1)):
        if words[i] in QUESTIONS:
            return words[i + 1] in ANSWERS and any(map(_names, words[start:i]))
        if not words[i].isalnum():
            return False
    return False
