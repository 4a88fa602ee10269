"""Tokenizer folders: writing and loading them, and the properties of their vocabularies.

A folder holds ``vocab.txt``, ``tokenizer.json`` and ``tokenizer_config.json`` as transformers
writes them; released folders that have only ``vocab.txt`` (ClinicalBERT) are read too.
"""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from cxr_files.atomic import fingerprint, read_json, require_whole
from cxr_files.errors import InputError

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PREFIX = "##"  # of a piece that continues a word


def bert_tokenizer(vocabulary: dict[str, int], lowercase: bool) -> Tokenizer:
    """BERT's normaliser, pre-tokeniser, WordPiece and [CLS] … [SEP] around these pieces."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix=PREFIX)
    return framed(tokenizer, vocabulary, SPECIAL_TOKENS)


def framed(tokenizer: Tokenizer, vocabulary: dict[str, int], special: Sequence[str]) -> Tokenizer:
    """``tokenizer`` with ``special`` tokens and [CLS] … [SEP] around texts and pairs of texts."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def write_tokenizer(folder: Path, pieces: Sequence[str], lowercase: bool) -> None:
    """Write vocab.txt, tokenizer.json and tokenizer_config.json for ``pieces`` in id order."""
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    bert_tokenizer(vocabulary, lowercase).save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": lowercase,
        "strip_accents": None,
        "tokenize_chinese_chars": True,
        "model_max_length": 512,
        **{f"{token.strip('[]').lower()}_token": token for token in SPECIAL_TOKENS},
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings, indent=2) + "\n", encoding="utf-8"
    )


def _pieces_of(path: Path) -> dict[str, int]:
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from None
    while lines and not lines[-1]:
        lines.pop()
    pieces = {line.rstrip("\r"): number for number, line in enumerate(lines)}
    if len(pieces) != len(lines):
        raise InputError(f"{path}: {len(lines)} lines but {len(pieces)} different pieces")
    missing = [token for token in SPECIAL_TOKENS if token not in pieces]
    if missing:
        raise InputError(f"{path}: special token {missing[0]} is not in the vocabulary")
    return pieces


def read_tokenizer(folder: str | Path) -> Tokenizer:
    """The folder's tokenizer, which never runs remote code.

    ``tokenizer.json`` is used where it exists. With ``vocab.txt`` alone the case is that of
    ``do_lower_case`` in tokenizer_config.json. Where that is missing too (ClinicalBERT), it is
    uncased only if no ordinary piece has a capital letter: the usual default would lower-case the
    text of a cased model.
    """
    folder = Path(folder)
    path = folder / "tokenizer.json"
    require_whole(path)  # vocab.txt alone says less
    if path.is_file():
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            line = str(error).splitlines()[0]
            raise InputError(f"{path}: not a tokenizer file ({line})") from None
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer
    path = folder / "vocab.txt"
    if not path.is_file():
        raise InputError(f"{folder}: no tokenizer: expected tokenizer.json or vocab.txt")
    pieces = _pieces_of(path)
    config = folder / "tokenizer_config.json"
    lowercase = read_json(config).get("do_lower_case") if config.is_file() else None
    if not isinstance(lowercase, bool | None):
        raise InputError(
            f"{config}: field 'do_lower_case' is {lowercase!r}; expected true or false"
        )
    if lowercase is None:
        lowercase = not any(piece != piece.lower() for piece in pieces if piece[:1] != "[")
    return bert_tokenizer(pieces, lowercase)


def ids_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """The ids of each text, without [CLS] and [SEP]."""
    encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


def rewrite_tokenizer(source: Path, target: Path) -> None:
    """Write the tokenizer of ``source`` to ``target`` as ours: all three files, no other names.

    Published folders may have vocab.txt alone, or name classes of their authors' code, which plain
    transformers would ask for. Byte pairs (CLIP's) have two files, which are ours already.

    Raises:
        InputError: no tokenizer, or no vocabulary in which every id has a piece.
    """
    tokenizer = read_tokenizer(source)
    pieces = VocabularyInfo.from_tokenizer(tokenizer, str(source)).pieces
    if isinstance(tokenizer.model, models.BPE) and "" not in pieces:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copyfile(source / name, target / name)
        return
    if not isinstance(tokenizer.model, models.WordPiece) or "" in pieces:
        raise InputError(f"{source}: expected a WordPiece vocabulary with a piece for every id")
    write_tokenizer(target, pieces, bool(getattr(tokenizer.normalizer, "lowercase", True)))


@dataclass(frozen=True)
class VocabularyInfo:
    """Properties of a WordPiece vocabulary of ``V`` pieces that packing and masking use."""

    pieces: tuple[str, ...]  # in id order; "" for an unused id

    @classmethod
    def from_folder(cls, folder: str | Path) -> "VocabularyInfo":
        """Read a vocabulary or model folder."""
        return cls.from_tokenizer(read_tokenizer(folder), str(folder))

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, name: str = "tokenizer") -> "VocabularyInfo":
        """Read the vocabulary of ``tokenizer``; ``name`` is for error messages."""
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        missing = [token for token in SPECIAL_TOKENS if token not in vocabulary]
        if missing:
            raise InputError(f"{name}: special token {missing[0]} is not in the vocabulary")
        pieces = [""] * (max(vocabulary.values()) + 1)
        for piece, number in vocabulary.items():
            pieces[number] = piece
        return cls(tuple(pieces))

    @property
    def size(self) -> int:
        """Number of ids, V."""
        return len(self.pieces)

    @cached_property
    def pad(self) -> int:
        return self.pieces.index("[PAD]")

    @cached_property
    def unknown(self) -> int:
        return self.pieces.index("[UNK]")

    @cached_property
    def cls_(self) -> int:
        return self.pieces.index("[CLS]")

    @cached_property
    def sep(self) -> int:
        return self.pieces.index("[SEP]")

    @cached_property
    def mask(self) -> int:
        return self.pieces.index("[MASK]")

    @cached_property
    def continues(self) -> NDArray[np.bool_]:
        """``[V]``: the piece continues a word (``##``; a literal "##" alone does not)."""
        return np.array([p.startswith(PREFIX) and len(p) > 2 for p in self.pieces], dtype=bool)

    @cached_property
    def special(self) -> NDArray[np.bool_]:
        """``[V]``: never masked and never drawn at random: special tokens and unused ids."""
        unused = np.array([not p or p.startswith("[unused") for p in self.pieces], dtype=bool)
        unused[[self.pieces.index(token) for token in SPECIAL_TOKENS]] = True
        return unused

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all pieces in order."""
        return fingerprint(self.pieces)
