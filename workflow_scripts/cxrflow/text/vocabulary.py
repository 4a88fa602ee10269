"""WordPiece vocabulary from one or several document files (BioViL section 2.1, phase I).

Reads documents.parquet files (only rows of split "train" where a file has splits) and writes
vocab.txt, tokenizer.json, tokenizer_config.json, which transformers loads, and vocabulary.json
with counts and the SHA-256 of its sources. The same texts and settings always give the same bytes.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cxr_files.atomic import atomic_folder, file_digest, fingerprint, write_json
from cxr_files.errors import InputError
from cxr_files.program import parser, run
from cxr_files.progress import progress
from cxr_files.settings import read_settings
from cxrflow.text.documents import open_documents, training_texts
from cxrflow.text.settings import VocabularySettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from cxrflow.text.wordpiece import WordCounts, train_wordpiece

log = logging.getLogger("cxrflow")
_ROWS = 1024  # documents counted at a time


def count_documents(
    paths: Sequence[Path], lowercase: bool
) -> tuple[Counter[str], list[dict[str, Any]]]:
    """Return word counts over all files, and a record of each file's contribution."""
    words, sources = WordCounts(lowercase), []
    for path in paths:
        file = open_documents(path).metadata
        documents = characters = 0
        for texts in progress(
            training_texts(path, _ROWS), file.num_rows, "document", len, path.parent.name
        ):
            words.add(texts)
            documents += len(texts)
            characters += sum(map(len, texts))
        log.info("%s: %d documents, %d characters", path, documents, characters)
        sources.append(
            {
                "dataset": path.parent.name,
                "documents": documents,
                "other_splits": file.num_rows - documents,
                "characters": characters,
                "sha256": file_digest(path),
            }
        )
    return words.counts(), sources


def build_vocabulary(paths: Sequence[Path], settings: VocabularySettings, output: Path) -> None:
    """Count, train, and write the folder."""
    counts, sources = count_documents(paths, settings.lowercase)
    if not len(counts):
        names = ", ".join(str(path) for path in paths)
        raise InputError(f"{names}: no text in the training rows; a vocabulary needs some")
    pieces = train_wordpiece(
        counts, settings.size, SPECIAL_TOKENS, settings.min_frequency, settings.limit_alphabet
    )
    if len(pieces) > settings.size:
        raise InputError(
            f"settings: key 'size' is {settings.size}, but the special tokens and the characters "
            f"alone are {len(pieces)}; give a larger size or a smaller limit_alphabet"
        )
    if len(pieces) < settings.size:
        log.info("%d of %d pieces: no more frequent pairs", len(pieces), settings.size)
    with atomic_folder(output, "vocabulary") as folder:
        write_tokenizer(folder, pieces, settings.lowercase)
        write_json(
            folder / "vocabulary.json",
            {
                "size": len(pieces),
                "distinct_words": len(counts),
                "words": counts.total(),
                "sources": sources,
                "settings": settings.model_dump(),
                "fingerprint": fingerprint(pieces),
            },
        )
    log.info("%s: %d pieces from %d distinct words", output, len(pieces), len(counts))


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_argument("--documents", type=Path, nargs="+", required=True)
    options.add_path("--output", "vocabulary folder")
    args = options.parse_args(argv)
    settings = read_settings(args.settings, VocabularySettings)
    build_vocabulary(args.documents, settings, args.output)


if __name__ == "__main__":
    run(main)
