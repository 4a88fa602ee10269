"""WordPiece vocabulary from one or several document files (BioViL section 2.1, phase I).

Reads documents.parquet files (only rows of split "train" where a file has splits) and writes
vocab.txt, tokenizer.json, tokenizer_config.json, which transformers loads, and vocabulary.json
with counts and the fingerprints of what it was made from. The same texts and settings always give
the same bytes.
"""

import logging
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tqdm import tqdm

from cxrflow.command import parser, read_settings, run
from cxrflow.errors import InputError
from cxrflow.files import atomic_folder, file_digest, fingerprint, write_json
from cxrflow.text.documents import open_documents, read_group
from cxrflow.text.parallel import ordered_map
from cxrflow.text.settings import VocabularySettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer
from cxrflow.text.word_counts import WordCounts
from cxrflow.text.wordpiece import train_wordpiece

log = logging.getLogger("cxrflow")
_ROWS = 4096
_GROUPS = 16  # row groups that one job counts at most, 256 MiB of text


def _count_groups(job: tuple[Path, range], lowercase: bool) -> tuple[dict[str, int], int, int]:
    """Word counts, documents and characters of some row groups."""
    path, groups = job
    counts = WordCounts(lowercase)
    documents = characters = 0
    for group in groups:
        for texts in read_group(path, group, _ROWS, split="train"):
            counts.add(texts)
            documents += len(texts)
            characters += sum(map(len, texts))
    return counts.counts(), documents, characters


def count_documents(
    paths: Sequence[Path], lowercase: bool, threads: int = 1
) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """Word counts over all files, and what each file contributed."""
    total = WordCounts(lowercase)
    sources = []
    for path in paths:
        groups = range(open_documents(path).num_row_groups)
        # Every job normalises its distinct words, so few jobs are better: a share for each process.
        share = min(_GROUPS, -(-len(groups) // max(1, threads))) or 1
        jobs = [(path, groups[start : start + share]) for start in groups[::share]]
        work = ordered_map(partial(_count_groups, lowercase=lowercase), jobs, threads)
        documents = characters = 0
        for counts, rows, size in tqdm(
            work, desc=path.parent.name, total=len(jobs), disable=not sys.stderr.isatty()
        ):
            total.update(counts)
            documents += rows
            characters += size
        log.info("%s: %d documents, %d characters", path, documents, characters)
        sources.append(
            {
                "dataset": path.parent.name,
                "documents": documents,
                "other_splits": open_documents(path).metadata.num_rows - documents,
                "characters": characters,
                "sha256": file_digest(path),
            }
        )
    return total.counts(), sources


def build_vocabulary(
    paths: Sequence[Path], settings: VocabularySettings, output: Path, threads: int = 1
) -> None:
    """Count, train, and write the folder."""
    counts, sources = count_documents(paths, settings.lowercase, threads)
    if not counts:
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
    with atomic_folder(output) as folder:
        write_tokenizer(folder, pieces, settings.lowercase)
        write_json(
            folder / "vocabulary.json",
            {
                "size": len(pieces),
                "distinct_words": len(counts),
                "words": sum(counts.values()),
                "sources": sources,
                "settings": settings.model_dump(),
                "fingerprint": fingerprint(pieces),
            },
        )
    log.info("%s: %d pieces from %d distinct words", output, len(pieces), len(counts))


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options = parser(__doc__)
    options.add_argument("--documents", type=Path, nargs="+", required=True)
    options.add_argument("--threads", type=int, default=1, help="processes that count words")
    options.add_argument("--output", type=Path, required=True, help="vocabulary folder")
    given = options.parse_args(argv)
    settings = read_settings(given.settings, VocabularySettings)
    build_vocabulary(given.documents, settings, given.output, given.threads)


if __name__ == "__main__":
    run(main)
