"""Training of a WordPiece vocabulary (BioViL Appendix E.1): cxrflow.text.vocabulary against the
tokenizers library's WordPieceTrainer, each a program of its own that reads text and writes pieces.
"""

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from tokenizers import normalizers, pre_tokenizers

from bench.race import Measured, Race
from bench.subprocesses import run_module
from bench.zipf_text import write_corpus
from cxrflow.text.tokenizer import PREFIX, SPECIAL_TOKENS
from cxrflow.text.vocabulary import count_documents


def library_counts(text: Path) -> dict[str, int]:
    """Words of a text file as the library's normaliser and pre-tokeniser leave them."""
    normalizer = normalizers.BertNormalizer()
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    with open(text, encoding="utf-8") as lines:
        for line in lines:
            words = splitter.pre_tokenize_str(normalizer.normalize_str(line))
            counts.update(word for word, _ in words)
    return dict(counts)


def races(megabytes: float = 150, size: int = 30_522) -> list[Race]:
    """One race over ``megabytes`` of invented text; its files live as long as the race."""
    folder = TemporaryDirectory(prefix="cxrflow-race-")
    root = Path(folder.name)
    documents, text = write_corpus(root, round(megabytes * 1e6))
    threads = torch.get_num_threads()
    counts = library_counts(text)
    alphabet = sorted({character for word in counts for character in word})
    followers = sorted({PREFIX + character for word in counts for character in word[1:]})
    order = root / "order.json"
    order.write_text(json.dumps([*SPECIAL_TOKENS, *alphabet, *followers]), encoding="utf-8")

    def ours() -> Measured:
        output = Path(folder.name) / "ours"
        arguments = ["--documents", documents, "--threads", threads, "--output", output]
        settings = ["--settings", json.dumps({"size": size})]
        peak = run_module("cxrflow.text.vocabulary", [*arguments, *settings], threads)
        return Measured((output / "vocab.txt").read_text("utf-8").splitlines(), peak)

    def library() -> Measured:
        output = root / "library.json"
        peak = run_module("bench.library_wordpiece", ["train", text, size, order, output], threads)
        found = json.loads(output.read_text("utf-8"))
        return Measured(sorted(found, key=found.__getitem__), peak)

    def check(mine: list[str], theirs: list[str]) -> None:
        counted, _ = count_documents([documents], lowercase=True, threads=1)
        assert counted.as_dict() == counts, "word counts"
        assert mine == theirs, "the pieces or their order"

    return [
        Race(
            name="vocabulary",
            what=f"WordPiece vocabulary of {size} pieces from {megabytes:g} MB of text with "
            f"{len(counts)} distinct words, from file to file, {threads} threads",
            ours=ours,
            peers={"tokenizers": library},
            check=check,
            gates={"tokenizers": 3.0},
            memory_gates={"tokenizers": 0.6},
            amount=megabytes,
            unit="MB",
            notes=[
                "compared: the count of every word, and every piece in id order",
                "the library numbers the ## characters at random and breaks ties by these numbers; "
                "here it is told the order of cxrflow.text.wordpiece",
                "times are those of whole programs, with start-up, reading and writing; memory is "
                "that of a program and its workers together",
            ],
        )
    ]
