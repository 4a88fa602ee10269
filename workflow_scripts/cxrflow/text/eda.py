"""Easy data augmentation of reports (Wei and Zou 2019), for the low-data study's second text.

Windsor et al. 2023, Appendix C: words are replaced by synonyms, synonyms are inserted, words change
places, words are deleted. Details are those of the published code, which the study used (two of
them with ``as_coded`` alone). Unlike there, a text of one word or none is not changed. All draws
are a function of (seed, epoch, report).

Each word is tokenised once.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer
from torch import Tensor

from cxr_files.yaml_file import read_yaml
from cxrflow.compute.keyed_random import row_state
from cxrflow.text.report_batch import Ints, ReportTokens, Section
from cxrflow.text.settings import EasyAugmentationSettings
from cxrflow.text.wordnet import WordNet

AUGMENTED_TEXT = 50  # stream of the keyed draws
VARIANTS, VARIANTS_EACH = 9, 3  # of a text in the published code, and of each operation before that
WORD, NUMBER = re.compile(r"[a-z]+"), re.compile(r"[a-z]+|\d+(?:\.\d+)?")
Words = list[str]

_WORDS = read_yaml(Path(__file__).with_name("report_words.yaml"))
FUNCTION_WORDS = frozenset(_WORDS["function_words"].split())
PROTECTED = {name: frozenset(words.split()) for name, words in _WORDS["protected"].items()}
_GROUPS = [line.split(", ") for line in _WORDS["synonyms"].splitlines()]
SYNONYMS = {word: [s for s in group if s != word] for group in _GROUPS for word in group}


class EasyAugmentation:
    """The operations on the words of a text."""

    def __init__(self, settings: EasyAugmentationSettings) -> None:
        self.settings = settings
        self.protected = {word for name in settings.protect for word in PROTECTED[name]}
        self.has_numbers = "number" in settings.protect
        self.synonyms: Callable[[str], list[str]] = lambda word: SYNONYMS.get(word, [])
        if settings.wordnet is not None:
            self.synonyms = WordNet(settings.wordnet).synonyms
        rates: list[tuple[float, Callable[[Words, int, Random], Words]]] = [
            (settings.synonyms, self._replaced),
            (settings.insertions, self._inserted),
            (settings.swaps, self._swapped),
            (settings.deletion, self._deleted),
        ]
        self.operations = [(rate, operation) for rate, operation in rates if rate > 0]

    def cleaned(self, text: str) -> Words:
        """Return the words of a text: letters in lower case, without apostrophes."""
        pattern = NUMBER if self.has_numbers else WORD
        return pattern.findall(re.sub("['\u2019]", "", text).lower())

    def __call__(self, words: Words, random: Random) -> Words:
        """Augment a text of at least two words."""
        operations = self.operations
        if self.settings.operations == "variants":
            # One of the published code's: its operations are drawn alike, its last is the text.
            variants = min(VARIANTS, VARIANTS_EACH * len(operations))
            operations = operations if random.randrange(variants + 1) < variants else []
        if operations and self.settings.operations != "all":
            operations = [random.choice(operations)]
        size = len(words)
        for rate, operation in operations:
            augmented = operation(words, max(1, int(rate * size)), random)
            words = [word for phrase in augmented for word in phrase.split(" ")]
        return words

    def _free(self, word: str) -> bool:
        return word not in self.protected and not word[0].isdigit()

    def _replaced(self, words: Words, count: int, random: Random) -> Words:
        """Replace this many words that have synonyms, each wherever it stands."""
        candidates = sorted(word for word in {*words} - FUNCTION_WORDS if self._free(word))
        random.shuffle(candidates)
        with_synonyms = [word for word in candidates if self.synonyms(word)][:count]
        chosen = {word: random.choice(self.synonyms(word)) for word in with_synonyms}
        if not self.settings.as_coded:
            return [chosen.get(word, word) for word in words]
        for source, synonym in chosen.items():  # a synonym may be replaced in its turn
            words = [synonym if word == source else word for word in words]
        return words

    def _inserted(self, words: Words, count: int, random: Random) -> Words:
        """Insert this many synonyms, never at the end; ten words are tried for each.

        The published code tries ten as well, but inserts nothing for the tenth.
        """
        words = list(words)
        tries = 9 if self.settings.as_coded else 10
        for _ in range(count):
            for _ in range(tries):
                source = random.choice(words)
                synonyms = self.synonyms(source) if self._free(source) else []
                if synonyms:
                    words.insert(random.randrange(len(words)), random.choice(synonyms))
                    break
        return words

    def _swapped(self, words: Words, count: int, random: Random) -> Words:
        """Swap this many pairs of words; none if three draws give the place of the first word."""
        words = list(words)
        places = [place for place, word in enumerate(words) if self._free(word)]
        for _ in range(count if places else 0):
            first = random.choice(places)
            second = next((p for p in random.choices(places, k=3) if p != first), first)
            words[first], words[second] = words[second], words[first]
        return words

    def _deleted(self, words: Words, count: int, random: Random) -> Words:
        """Delete each word with the probability of the settings; at least one stays."""
        rest = [
            word
            for word in words
            if random.random() > self.settings.deletion or not self._free(word)
        ]
        return rest or [random.choice(words)]


class AugmentedReports:
    """The texts of a table of pairs, augmented."""

    def __init__(
        self,
        settings: EasyAugmentationSettings,
        reports: ReportTokens,
        tokenizer: Tokenizer,
    ) -> None:
        self.reports, self.augmentation = reports, EasyAugmentation(settings)
        self._pieces = cache(lambda word: tokenizer.encode(word, add_special_tokens=False).ids)
        self._cleaned = cache(self.augmentation.cleaned)

    def batch(
        self,
        intact: dict[str, Tensor],
        rows: Ints,
        sections: Sequence[Section],
        seed: int,
        epoch: int,
        shuffle: bool,
        one_sentence: bool,
    ) -> dict[str, Tensor]:
        """Return the sequences of ``rows`` augmented, as ``ReportTokens.batch`` does.

        ``intact`` has them as they are. Sentences stand in the same order, without full stops.
        """
        words: list[Words] = [[] for _ in rows]
        for section in sections:
            places, numbers = self.reports.chosen(rows, section, seed, epoch, shuffle, one_sentence)
            for place, number in zip(places, numbers, strict=True):
                words[place].extend(self._cleaned(self.reports.sentence(section, number).text))
        states = row_state(torch.from_numpy(rows), seed, epoch, AUGMENTED_TEXT).tolist()
        texts = []
        for place, (text, state) in enumerate(zip(words, states, strict=True)):
            if len(text) < 2:
                mask = intact["attention_mask"][place].bool()
                texts.append(intact["input_ids"][place][mask][1:-1].tolist())
                continue
            augmented = self.augmentation(text, Random(state % 2**64))
            texts.append([piece for word in augmented for piece in self._pieces(word)])
        return self.reports.sequences(texts, intact["keys"])
