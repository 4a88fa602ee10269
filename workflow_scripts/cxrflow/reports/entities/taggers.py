"""Entities of texts: by stanza's radiology model from a local folder, or by a list of words.

The published model (Zhang et al., JAMIA 2021; package "radiology" of stanza) knows five types,
:data:`TYPES`. ``cxrflow.reports.train_entity_tagger`` trains a small one with the same types and
lays it out in the same way, so that both load through the same call.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cxr_files.errors import InputError
from cxr_labels.stanza_models import StanzaPipeline
from cxrflow.reports.entities.temporal import COUNTED, temporal_words

TYPES = ("ANATOMY", "OBSERVATION", "ANATOMY_MODIFIER", "OBSERVATION_MODIFIER", "UNCERTAINTY")
#: The type of entities of :class:`KeywordTagger`.
KEYWORD = "KEYWORD"
# RadEval deletes all other characters from the text before it looks for whole words.
_KEPT = re.compile(r"[\w\s.,:;()-]")


@dataclass(frozen=True, slots=True)
class Entity:
    """``text`` stands at characters ``start`` to ``end`` (exclusive)."""

    text: str
    type: str
    start: int
    end: int


class Tagger(Protocol):
    """Interface of both taggers."""

    def tag(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of each text, in the order in which they stand."""
        ...


class KeywordTagger:
    """Finds the words of change by themselves, in any case, without a model.

    Words are matched as in RadEval's temporal F1: hyphens and underscores are blanks, and marks
    other than ``.,:;()`` are deleted, so that "improved/resolved" becomes one unknown word.
    """

    def __init__(self) -> None:
        self._pattern = re.compile(rf"\b(?:{'|'.join(temporal_words())})\b")

    def tag(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The words of each text, as entities of the type ``KEYWORD``."""
        return [self._tag(text) for text in texts]

    def _tag(self, text: str) -> list[Entity]:
        places = [place for place, character in enumerate(text) if _KEPT.match(character)]
        # The lower case of a few letters is longer than the letter, which would shift the rest.
        cleaned = "".join(text[place].lower()[:1] for place in places)
        entities = []
        for match in self._pattern.finditer(cleaned.replace("_", " ").replace("-", " ")):
            start, end = places[match.start()], places[match.end() - 1] + 1
            entities.append(Entity(match.group(), KEYWORD, start, end))
        return entities


class StanzaTagger:
    """Entities by stanza: ``en/tokenize/<tokenizer>.pt`` and ``en/ner/<package>.pt`` of a folder.

    The folder also holds the vectors and character models of the latter, as a stanza download
    does, or as ``cxrflow.reports.train_entity_tagger`` writes.
    """

    def __init__(self, folder: str | Path, package: str = "radiology", tokenizer: str = "mimic"):
        self._stanza = StanzaPipeline(folder, {"tokenize": tokenizer, "ner": package})
        types = set(self._stanza.pipeline.processors["ner"].get_known_tags())
        missing = [name for name in COUNTED if name not in types]
        if missing:
            raise InputError(
                f"{Path(folder, 'en', 'ner', package)}.pt: it knows the entity types "
                f"{', '.join(sorted(types))}; "
                f"expected {', '.join(missing)} too, as in stanza's package radiology"
            )

    def tag(self, texts: Sequence[str]) -> list[list[Entity]]:
        """The entities of each text; empty texts have none."""
        return [
            [
                Entity(text[s.start_char : s.end_char], s.type, s.start_char, s.end_char)
                for s in (document.ents if document is not None else ())
            ]
            for text, document in zip(texts, self._stanza.read(texts), strict=True)
        ]
