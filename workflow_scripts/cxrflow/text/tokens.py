"""Token files: the documents of a corpus as ids of a vocabulary, made once, memory-mapped after.

Only rows of split "train" are taken where documents.parquet has splits. Writes tokens.npy (uint16,
flat, without [CLS] and [SEP]), offsets.npy (int64, documents + 1) and tokens.json (counts, share of
[UNK], fingerprints). The 3.3e9 tokens of BioViL's corpora take 7 GB.
"""

import logging
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from cxr_files.atomic import atomic_folder, file_digest, write_json
from cxr_files.errors import InputError
from cxr_files.program import parser, run, thread_count
from cxr_files.progress import progress
from cxr_files.settings import read_settings
from cxrflow.text.documents import open_documents, training_texts
from cxrflow.text.settings import TokensSettings
from cxrflow.text.tokenizer import VocabularyInfo, ids_of, read_tokenizer

log = logging.getLogger("cxrflow")
LARGEST_VOCABULARY = 65_535  # token files are uint16


def _encode(tokenizer: Tokenizer, texts: list[str]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
    """Ids of all texts in a row, and how many each text has."""
    ids = ids_of(tokenizer, texts)
    counts = np.fromiter(map(len, ids), dtype=np.int64, count=len(ids))
    return np.fromiter(chain.from_iterable(ids), dtype=np.uint16, count=counts.sum()), counts


def _write_header(handle: object, count: int) -> None:
    """Header of a .npy file of ``count`` uint16; NumPy pads it, so its length never changes."""
    header = {"descr": "<u2", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(handle, header)  # type: ignore[arg-type]


def write_tokens(documents: Path, vocabulary: Path, settings: TokensSettings, output: Path) -> None:
    """Encode ``documents`` and write the token folder."""
    tokenizer = read_tokenizer(vocabulary)
    info = VocabularyInfo.from_tokenizer(tokenizer, str(vocabulary))
    if info.size > LARGEST_VOCABULARY:
        raise InputError(
            f"{vocabulary}: {info.size} pieces; token files are uint16 and take at most "
            f"{LARGEST_VOCABULARY}"
        )
    file = open_documents(documents).metadata
    batches = training_texts(documents, settings.documents_per_batch)
    encoded = (_encode(tokenizer, texts) for texts in batches)
    lengths: list[NDArray[np.int64]] = []
    total = unknown = 0
    with atomic_folder(output, "tokens") as folder:
        with open(folder / "tokens.npy", "wb") as handle:
            _write_header(handle, 0)
            for ids, counts in progress(
                encoded, file.num_rows, "document", lambda batch: len(batch[1]), output.name
            ):
                handle.write(ids.astype("<u2", copy=False).data)
                total += len(ids)
                unknown += int(np.count_nonzero(ids == info.unknown))
                lengths.append(counts)
            handle.seek(0)
            _write_header(handle, total)
        offsets = np.concatenate([[0], *lengths]).cumsum().astype(np.int64)
        np.save(folder / "offsets.npy", offsets)
        write_json(
            folder / "tokens.json",
            {
                "vocabulary": vocabulary.name,
                "vocabulary_fingerprint": info.fingerprint,
                "dataset": output.name,
                "documents": len(offsets) - 1,
                "other_splits": file.num_rows - (len(offsets) - 1),
                "empty": int((np.diff(offsets) == 0).sum()),
                "tokens": total,
                "unknown": unknown,
                "unknown_share": unknown / total if total else 0.0,
                "documents_sha256": file_digest(documents),
                "fingerprint": file_digest(folder / "tokens.npy")[:16],
                "settings": settings.model_dump(),
            },
        )
    log.info(
        "%s: %d tokens in %d documents, %.4f %% unknown",
        output,
        total,
        len(offsets) - 1,
        100 * unknown / total if total else 0.0,
    )


def main(argv: Sequence[str] | None = None) -> None:
    options = parser(__doc__)
    options.add_path("--documents", "documents.parquet")
    options.add_path("--vocabulary", "tokenizer folder")
    options.add_argument("--threads", type=thread_count, default=1, help="threads that encode")
    options.add_path("--output", "token folder")
    args = options.parse_args(argv)
    settings = read_settings(args.settings, TokensSettings)
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)  # read at the first batch of texts
    write_tokens(args.documents, args.vocabulary, settings, args.output)


if __name__ == "__main__":
    run(main)
