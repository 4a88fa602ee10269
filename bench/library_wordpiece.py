"""The tokenizers library at the same work as cxrflow.text.vocabulary and cxrflow.text.tokens.

A program of its own, so that its memory can be measured. RAYON_NUM_THREADS sets its threads.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers


def train(text: Path, size: int, first: list[str], output: Path) -> None:
    """Train on the lines of ``text``; ``first`` are the pieces numbered before all others."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=first, show_progress=False
    )
    tokenizer.train([str(text)], trainer)
    output.write_text(json.dumps(tokenizer.get_vocab()), encoding="utf-8")


def encode(text: Path, vocabulary: Path, output: Path, batch: int = 2048) -> None:
    """Write the ids of every line of ``text``, one line after the other, as uint16."""
    import numpy as np

    tokenizer = Tokenizer.from_file(str(vocabulary / "tokenizer.json"))
    with open(text, encoding="utf-8") as lines, open(output, "wb") as handle:
        while texts := [line for _, line in zip(range(batch), lines, strict=False)]:
            for encoding in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
                handle.write(np.array(encoding.ids, dtype=np.uint16).tobytes())


def main(what: str, *given: str) -> None:
    if what == "train":
        text, size, first, output = given
        train(Path(text), int(size), json.loads(Path(first).read_text("utf-8")), Path(output))
    else:
        text, vocabulary, output = map(Path, given)
        encode(text, vocabulary, output)


if __name__ == "__main__":
    main(*sys.argv[1:])
