"""CLIP's tokenizer, from its published file of byte pairs (``bpe_simple_vocab_16e6.txt.gz``).

Text in small letters is cut into words, numbers digit by digit, and runs of other signs; its bytes
are joined pair by pair. ``[CLS]`` and ``[SEP]`` are the published ``<|startoftext|>`` and
``<|endoftext|>``, at their ids; [PAD], [UNK] and [MASK], which CLIP lacks, follow the vocabulary.

The published code also repairs broken encodings and resolves entities of HTML, for captions from
the web. That is left out: reports have neither.
"""

import gzip
import json
import zlib
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from cxr_files.errors import InputError
from cxrflow.text.tokenizer import framed

ADDED = ("[PAD]", "[UNK]", "[MASK]")
END = "</w>"  # of a piece that ends a word
MERGES = 49_152 - 256 - 2  # lines of the published file that are read, after the first
WORDS = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")


def byte_signs() -> list[str]:
    """Return the sign of each byte, printable bytes first: the first 256 pieces of the vocabulary.

    A byte that is no printable sign of Latin-1 has the next letter from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(byte) for byte in printable] + [chr(0x100 + n) for n in range(256 - len(printable))]


def read_merges(path: Path) -> list[tuple[str, str]]:
    """Return the pairs of a published file in their order.

    Raises:
        InputError: the file is damaged, or a line holds no pair.
    """
    try:
        lines = gzip.decompress(path.read_bytes()).decode("utf-8").split("\n")[1 : MERGES + 1]
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a gzip file of UTF-8 text ({error})") from None
    merges = []
    for number, line in enumerate(lines, start=2):
        pair = line.split()
        if not pair and number == len(lines) + 1:
            break  # the end of a file without more
        if len(pair) != 2:
            raise InputError(f"{path}: line {number} is {line!r}; expected two pieces")
        merges.append((pair[0], pair[1]))
    return merges


def byte_pair_tokenizer(merges: list[tuple[str, str]], source: str) -> Tokenizer:
    """Return the tokenizer of these pairs; ``source`` is for error messages."""
    signs = byte_signs()
    pieces = [*signs, *(f"{sign}{END}" for sign in signs), *map("".join, merges), "[CLS]", "[SEP]"]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, *ADDED])}
    try:
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix=END))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{source}: no vocabulary of byte pairs ({error})") from None
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(WORDS, behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.BPEDecoder(suffix=END)
    return framed(tokenizer, vocabulary, ["[CLS]", "[SEP]", *ADDED])


def write_byte_pairs(vocabulary: Path, folder: Path) -> None:
    """Write ``tokenizer.json`` and ``tokenizer_config.json`` of a published file of byte pairs."""
    tokenizer = byte_pair_tokenizer(read_merges(vocabulary), str(vocabulary))
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 77}
    special_tokens = {
        f"{sign.strip('[]').lower()}_token": sign for sign in ("[CLS]", "[SEP]", *ADDED)
    }
    (folder / "tokenizer_config.json").write_text(
        json.dumps(settings | special_tokens, indent=2) + "\n", encoding="utf-8"
    )
