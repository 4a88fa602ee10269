"""Synonyms from the files of WordNet's database (Fellbaum 1998; formats: its manual, wndb(5WN)).

A word is looked up in every part of speech, as it is and without its inflection (morphy(7WN)). Its
synonyms are the members of all its synsets.
"""

import re
from functools import cache
from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.text.settings import WORDNET_PARTS

# Endings and what stands in their place, by part of speech (morphy(7WN)).
ENDINGS = {
    "noun": [
        ("s", ""), ("ses", "s"), ("ves", "f"), ("xes", "x"), ("zes", "z"),
        ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ],
    "verb": [
        ("s", ""), ("ies", "y"), ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""),
        ("ing", "e"), ("ing", ""),
    ],
    "adj": [("er", ""), ("est", ""), ("er", "e"), ("est", "e")],
    "adv": [],
}  # fmt: skip


class WordNet:
    """The database in a folder."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._data = {
            part_of_speech: self._read(f"data.{part_of_speech}") for part_of_speech in WORDNET_PARTS
        }
        self._offsets = {
            part_of_speech: self._index(f"index.{part_of_speech}")
            for part_of_speech in WORDNET_PARTS
        }
        if not any(self._offsets.values()):
            raise InputError(f"{self.folder}: index.noun and the others have no word")
        self._exceptions = {
            part_of_speech: self._irregular(f"{part_of_speech}.exc")
            for part_of_speech in WORDNET_PARTS
        }
        self.synonyms = cache(self._synonyms)

    def _synonyms(self, word: str) -> list[str]:
        """Return the synonyms of a word of a-z, in alphabetical order; some are several words."""
        members = {
            " ".join(re.sub(r"[^a-z ]", "", re.sub("[_-]", " ", member.lower())).split())
            for part_of_speech in WORDNET_PARTS
            for lemma in self._lemmas(word, part_of_speech)
            for offset in self._offsets[part_of_speech][lemma]
            for member in self._synset(part_of_speech, offset)
        }
        return sorted(members - {word, ""})

    def _lemmas(self, word: str, part_of_speech: str) -> list[str]:
        """Return the forms of a word that the index has, itself first."""
        irregular = self._exceptions[part_of_speech].get(word)
        forms = irregular or [
            word.removesuffix(ending) + replacement
            for ending, replacement in ENDINGS[part_of_speech]
            if word.endswith(ending)
        ]
        return [
            form for form in dict.fromkeys([word, *forms]) if form in self._offsets[part_of_speech]
        ]

    def _synset(self, part_of_speech: str, offset: int) -> list[str]:
        """Return the words of a synset: "offset file type count word id word id …", in hex."""
        data = self._data[part_of_speech]
        line = data[offset : data.find(b"\n", offset)].decode(errors="replace")
        synset = re.match(r"(\d{8}) \d\d \w ([0-9a-f]{2}) (.+)", line)
        if synset is None or int(synset[1]) != offset:
            raise InputError(
                f"{self.folder / f'data.{part_of_speech}'}: no synset at byte {offset}, "
                f"where index.{part_of_speech} says; expected both files of one version"
            )
        words = synset[3].split(" ")[: 2 * int(synset[2], 16) : 2]
        return [re.sub(r"\(.+\)$", "", word) for word in words]  # "(p)": a place in the sentence

    def _index(self, name: str) -> dict[str, list[int]]:
        """Return the offsets of each lemma: "lemma pos synsets … offset offset …"."""
        offsets = {}
        for line in self._read(name).decode(errors="replace").splitlines():
            if line.startswith(" "):  # the licence
                continue
            fields = line.split()
            try:
                offsets[fields[0]] = [int(field) for field in fields[-int(fields[2]) :]]
            except (IndexError, ValueError):
                raise InputError(
                    f"{self.folder / name}: line {line[:60]!r} is no entry of WordNet's index"
                ) from None
        return offsets

    def _irregular(self, name: str) -> dict[str, list[str]]:
        """Return the lemmas of irregular forms; some distributions lack these files."""
        path = self.folder / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        lines = text.splitlines()
        return {fields[0]: fields[1:] for fields in map(str.split, lines) if fields}

    def _read(self, name: str) -> bytes:
        path = self.folder / name
        if not path.is_file():
            raise InputError(
                f"{path}: not found; settings key 'text_augmentation.wordnet' expects the folder "
                "of WordNet's files"
            )
        return path.read_bytes()
