"""Encoding of a corpus: cxrflow.text.tokens against the tokenizers library's encode_batch_fast,
each a program of its own that reads text and writes ids.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from bench.race import Measured, Race
from bench.subprocesses import run_module
from bench.zipf_text import write_corpus
from cxrflow.text.settings import VocabularySettings
from cxrflow.text.vocabulary import build_vocabulary


def races(megabytes: float = 40, size: int = 30_522) -> list[Race]:
    """One race over ``megabytes`` of invented text, with a vocabulary trained on that text."""
    folder = TemporaryDirectory(prefix="cxrflow-race-")
    root = Path(folder.name)
    documents, text = write_corpus(root, round(megabytes * 1e6))
    vocabulary = root / "vocabulary"
    threads = torch.get_num_threads()
    build_vocabulary([documents], VocabularySettings(size=size), vocabulary)

    def ours() -> Measured:
        output = Path(folder.name) / "tokens"
        arguments = ["--documents", documents, "--vocabulary", vocabulary]
        arguments += ["--threads", threads, "--output", output]
        peak = run_module("cxrflow.text.tokens", arguments, threads)
        return Measured(np.load(output / "tokens.npy"), peak)

    def library() -> Measured:
        output = root / "library.bin"
        arguments = ["encode", text, vocabulary, output]
        peak = run_module("bench.library_wordpiece", arguments, threads)
        return Measured(np.fromfile(output, dtype=np.uint16), peak)

    def check(mine: Any, theirs: Any) -> None:
        np.testing.assert_array_equal(mine, theirs)

    return [
        Race(
            name="encoding",
            what=f"{megabytes:g} MB of text to the ids of {size} pieces, from file to file, "
            f"{threads} threads",
            ours=ours,
            peers={"tokenizers": library},
            check=check,
            gates={"tokenizers": 3.0},
            amount=megabytes,
            unit="MB",
            notes=[
                "compared: every id",
                "times are those of whole programs, with start-up, reading and writing; nothing is "
                "remembered from one turn to the next",
            ],
        )
    ]
