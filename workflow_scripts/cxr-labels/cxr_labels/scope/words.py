"""The words of a sentence as the rules read them: joined, spelled out, corrected."""

from functools import lru_cache

from cxr_labels.scope.answers import spelled_out
from cxr_labels.scope.mentions import speller
from cxr_labels.scope.misread import unconfused
from cxr_labels.scope.phrases import Token, tokenize
from cxr_labels.scope.vocabulary import is_known

LONGEST_KEPT = 1_000
# Before these, or after a number, "cm" is a unit and not a big heart.
BEFORE_UNIT = frozenset(
    ("few", "several", "couple", "some", "one", "two", "three", "four", "five", "six", "seven")
    + (
        "eight",
        "nine",
        "ten",
        "half",
        "in",
        "of",
        "per",
        "by",
        "or",
        "to",
        "a",
        "the",
        "many",
        "mm",
    )
    + ("square", "cubic", "approximately", "about", "xxxx", "each", "every", "further", "another")
)


def words_of(sentence: str) -> tuple[list[Token], list[str]]:
    """The tokens of a sentence, answers of templates spelled out, and their corrected words."""
    short = len(sentence) <= LONGEST_KEPT
    return _words_of(sentence) if short else _words_of.__wrapped__(sentence)


@lru_cache(maxsize=512)  # a sentence is read, and soon afterwards its words are accounted for
def _words_of(sentence: str) -> tuple[list[Token], list[str]]:
    tokens = tokenize(sentence)
    if "-" in sentence:
        tokens = _unbroken(sentence, tokens)
    tokens = spelled_out(tokens)
    words = [_corrected(token.word) for token in tokens]
    if "cm" in words:
        words = [_heart(sentence, tokens, i) or word for i, word in enumerate(words)]
    return tokens, words


def _heart(sentence: str, tokens: list[Token], i: int) -> str | None:
    """ "cardiomegaly" for the "CM" of "mod CM"; None for a unit of length and other words."""
    if tokens[i].word != "cm":
        return None
    before = sentence[: tokens[i].start].split()[-1:]
    last = before[0].lower() if before else ""
    unit = last[-1:].isdigit() or last[-1:] == "_" or last in BEFORE_UNIT or set(last) == {"x"}
    return None if unit else "cardiomegaly"


@lru_cache(maxsize=100_000)
def _corrected(word: str) -> str:
    """Correct a misspelt or misread word that no rule knows as it is."""
    if is_known(word) or not word.isalpha():
        return word
    corrected = speller().correct(word)
    return corrected if corrected != word else unconfused(word)


def _unbroken(sentence: str, tokens: list[Token]) -> list[Token]:
    """Join words whose halves a hyphen parts ("effu-sion", "pneumo- thorax")."""
    words: list[Token] = []
    for token in tokens:
        words.append(token)
        halves = 3 if [word.word for word in words[-2:-1]] == ["-"] else 2
        first = words[-halves:][0]
        whole = first.word + token.word
        if sentence[first.end : token.start] in ("-", "- ") and speller().knows(whole):
            words[-halves:] = [Token(whole, first.start, token.end)]
    return words
