"""A small template language from which the synthetic hospital's reports and texts are written.

A template is a string in which

* ``{a|b*3|c}`` is one of the alternatives, the second three times as often as the others (an
  alternative may be empty, and alternatives nest);
* ``$name`` is replaced by the value of that slot: a string, itself a template, or a sequence of
  templates of which one is chosen;
* ``<Px+>`` is a mark and leaves no text: here the sentence states that the observation is present
  (``+``), absent (``-``) or uncertain (``?``). The marks are the truth for tests of report
  labellers (CheXpert's three states, as in BioViL-T §4).

``write`` returns the finished sentence: marks removed, spaces and articles corrected, first letter
upper case.
"""

import functools
import itertools
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Slots = Mapping[str, "str | Sequence[str]"]

#: Mark code -> CheXpert observation (the labeller's own spelling).
OBSERVATIONS = {
    "At": "Atelectasis",
    "Ca": "Cardiomegaly",
    "Co": "Consolidation",
    "Ed": "Edema",
    "EC": "Enlarged Cardiomediastinum",
    "Fr": "Fracture",
    "LL": "Lung Lesion",
    "LO": "Lung Opacity",
    "NF": "No Finding",
    "PE": "Pleural Effusion",
    "PO": "Pleural Other",
    "Pn": "Pneumonia",
    "Px": "Pneumothorax",
    "SD": "Support Devices",
}
#: Mark code "OF": a finding that is none of the observations, such as a tortuous aorta. It only
#: counts against No Finding.
OTHER_FINDING = "Other finding"
_NAMES = {**OBSERVATIONS, "OF": OTHER_FINDING}
STATES = {"+": 1, "-": 0, "?": -1}

_TOKEN = re.compile(r"(\{|\}|\||\$[a-z_]+|<[A-Za-z]{2}[+\-?]>)")
_WEIGHT = re.compile(r"\*(\d+)$")
_MARK = re.compile(r"<([A-Za-z]{2})([+\-?])>")
_SPACES = re.compile(r"\s+")
_BEFORE_PUNCTUATION = re.compile(r"\s+([.,;:])")
_ARTICLE = re.compile(r"\b([Aa])n? (?=([A-Za-z]+))")
# "a" or "an" follows the sound: these begin with a vowel letter but not with a vowel.
_CONSONANT_SOUND = re.compile(r"(?:uni|use|one|eu)", re.IGNORECASE)


@dataclass(frozen=True)
class Sentence:
    """One finished sentence and its mentions: (observation, 1, 0 or -1)."""

    text: str
    mentions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class _Slot:
    name: str


@dataclass(frozen=True)
class _Choice:
    options: tuple["_Sequence", ...]
    bounds: tuple[float, ...]


_Sequence = tuple["str | _Slot | _Choice", ...]


@functools.cache
def _parse(template: str) -> _Sequence:
    tokens = deque(token for token in _TOKEN.split(template) if token)
    sequence = _parse_sequence(tokens, template)
    if tokens:
        raise ValueError(f"template has an unmatched '{tokens[0]}': {template!r}")
    return sequence


def _parse_sequence(tokens: deque[str], template: str) -> _Sequence:
    items: list[str | _Slot | _Choice] = []
    while tokens and tokens[0] not in "|}":
        token = tokens.popleft()
        if token == "{":
            items.append(_parse_choice(tokens, template))
        else:
            items.append(_Slot(token[1:]) if token.startswith("$") else token)
    return tuple(items)


def _parse_choice(tokens: deque[str], template: str) -> _Choice:
    options: list[_Sequence] = []
    weights: list[int] = []
    end = "|"
    while end == "|":
        sequence = _parse_sequence(tokens, template)
        weight = 1
        if sequence and isinstance(sequence[-1], str) and (match := _WEIGHT.search(sequence[-1])):
            weight = int(match.group(1))
            sequence = (*sequence[:-1], sequence[-1][: match.start()])
        options.append(sequence)
        weights.append(weight)
        if not tokens:
            raise ValueError(f"template has an unclosed brace: {template!r}")
        end = tokens.popleft()
    return _Choice(tuple(options), tuple((np.cumsum(weights) / sum(weights)).tolist()))


def expand(template: str, rng: np.random.Generator, slots: Slots | None = None) -> str:
    """Choose alternatives and fill slots; marks and surplus spaces stay in the text."""
    return "".join(_expand(_parse(template), rng, slots or {}))


def _expand(sequence: _Sequence, rng: np.random.Generator, slots: Slots) -> list[str]:
    pieces: list[str] = []
    for item in sequence:
        if isinstance(item, str):
            pieces.append(item)
        elif isinstance(item, _Slot):
            value = slots[item.name]
            chosen = value if isinstance(value, str) else pick(value, rng)
            pieces.extend(_expand(_parse(chosen), rng, slots))
        else:
            draw = rng.random()
            index = next(i for i, bound in enumerate(item.bounds) if draw < bound)
            pieces.extend(_expand(item.options[index], rng, slots))
    return pieces


def alternatives(template: str) -> list[str]:
    """Every text that a template without slots can become, once each, marks taken out."""
    texts = (tidy(_MARK.sub("", text)) for text in _texts(_parse(template)))
    return list(dict.fromkeys(texts))


def _texts(sequence: _Sequence) -> Iterator[str]:
    """All texts of a parsed template; a slot in it is a KeyError that names the slot."""
    options: list[list[str]] = []
    for item in sequence:
        if isinstance(item, _Slot):
            raise KeyError(item.name)
        if isinstance(item, str):
            options.append([item])
        else:
            options.append([text for option in item.options for text in _texts(option)])
    return ("".join(pieces) for pieces in itertools.product(*options))


def split_list(text: str) -> tuple[str, ...]:
    """The items of a list with commas between."""
    return tuple(text.split(", "))


def pick(options: Sequence[str], rng: np.random.Generator) -> str:
    """One of ``options``, all equally often."""
    return options[int(rng.random() * len(options))]


def tidy(text: str) -> str:
    """One space between words, none before punctuation, "a" and "an" by the next word."""
    text = _BEFORE_PUNCTUATION.sub(r"\1", _SPACES.sub(" ", text).strip())

    def article(match: re.Match[str]) -> str:
        following = match.group(2)
        vowel = following[0].lower() in "aeiou" and not _CONSONANT_SOUND.match(following)
        return match.group(1) + ("n " if vowel else " ")

    return _ARTICLE.sub(article, text)


def finish(marked: str) -> Sentence:
    """Take the marks out of an expanded text and make it a sentence."""
    mentions = tuple((_NAMES[code], STATES[state]) for code, state in _MARK.findall(marked))
    text = tidy(_MARK.sub("", marked))
    return Sentence(text[:1].upper() + text[1:], mentions)


def write(template: str, rng: np.random.Generator, slots: Slots | None = None) -> Sentence:
    """A finished sentence from ``template``."""
    return finish(expand(template, rng, slots))
