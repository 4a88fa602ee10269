"""WordPiece training: equal to its definition; vocabularies compared (Tables 1 and 3)."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest
from benchmark_fakes import metrics_of
from small_text import write_documents
from tokenizers import normalizers, pre_tokenizers

from command_options import options
from cxr_files.atomic import CHECKSUMS, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.text import vocabulary
from cxrflow.text.tokenizer import (
    PREFIX,
    SPECIAL_TOKENS,
    VocabularyInfo,
    read_tokenizer,
    write_tokenizer,
)
from cxrflow.text.wordpiece import WordCounts, choose_alphabet, train_wordpiece

ODD = [
    "Crème-BRÛLÉE 2.5cm; 日本語x", "a\x0bb a\x1cb c\x85d", "nbsp\xa0between\u2003em", "zero\u200bw",
    "İstanbul ΣΑΣ ﬁne Ǆ", "``quoted'' [**x**] ___ don't", "e\u0301 \u0301lone \ufeff", "",
    "   \t\r\n",
]  # fmt: skip


def texts_of(seed: int, words: int, texts: int, letters: str = "aaabcdefghijklmé") -> list[str]:
    rng = random.Random(seed)
    lexicon = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(words)]
    return [" ".join(rng.choices(lexicon, k=25)) + "." for _ in range(texts)]


def library_counts(texts: list[str], lowercase: bool = True) -> dict[str, int]:
    normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(w for w, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    return dict(counts)


@pytest.mark.parametrize("lowercase", [True, False])
def test_word_counts_equal_the_library(lowercase):
    texts = ODD + texts_of(0, 200, 50)
    counted = WordCounts(lowercase, raw_limit=40)  # normalises often
    for start in range(0, len(texts), 7):
        counted.add([*texts[start : start + 7], None])
    assert counted.counts() == library_counts(texts, lowercase)


def test_every_character_is_treated_as_by_the_library():
    texts = [f"a{chr(code)}B " for code in range(1, 0x3100) if not 0xD800 <= code < 0xE000]
    counted = WordCounts()
    counted.add(texts)
    assert counted.counts() == library_counts(texts)


def naive_training(counts: dict[str, int], size: int, least: int) -> list[str]:
    """Byte-pair merging written down literally."""
    alphabet = sorted({c for word in counts for c in word})
    followers = sorted({c for word in counts for c in word[1:]})
    pieces = [*alphabet, *(PREFIX + c for c in followers)]
    words = {w: [w[0], *(PREFIX + c for c in w[1:])] for w in counts}
    while len(pieces) < size:
        pairs: Counter[tuple[str, str]] = Counter()
        for word, split in words.items():
            for pair in zip(split, split[1:], strict=False):
                pairs[pair] += counts[word]
        rank = {piece: number for number, piece in enumerate(pieces)}
        best = min(pairs, key=lambda p: (-pairs[p], rank[p[0]], rank[p[1]]), default=None)
        if best is None or pairs[best] < least:
            break
        merged = best[0] + best[1].removeprefix(PREFIX)
        if merged not in rank:
            pieces.append(merged)
        for split in words.values():
            place = 0
            while place < len(split) - 1:
                if (split[place], split[place + 1]) == best:
                    split[place : place + 2] = [merged]
                place += 1
    return pieces


@pytest.mark.parametrize("letters", ["aab", "abc", "aaabcdefghé"])
@pytest.mark.parametrize("seed", range(3))
def test_training_equals_the_definition(seed, letters):
    rng = random.Random(seed)
    words = ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(40)]
    counts = {word: rng.randint(1, 30) for word in words}
    assert train_wordpiece(counts, 90, [], 2) == naive_training(counts, 90, 2)
    # A word may occur more often than it fits into one line.
    often = {word: 20_000 * count for word, count in counts.items()}
    assert train_wordpiece(often, 90, [], 40_000) == naive_training(counts, 90, 2)


def test_alphabet_limit_breaks_ties_by_code_point():
    counts = {"ab": 4, "c": 3, "d": 4, "cad": 1}
    assert choose_alphabet(counts, 3) == ["a", "b", "d"]
    # What is left of a word begins with its first character that is kept.
    pieces = train_wordpiece(counts, 100, [], 1, limit_alphabet=3)
    assert pieces == ["a", "b", "d", "##b", "##d", "ab", "ad"]


def build(paths: list[Path], output: Path, **settings: object) -> dict:
    vocabulary.main(options(documents=paths, settings=settings, output=output))
    return json.loads((output / "vocabulary.json").read_text())


def test_two_processes_write_the_same_bytes(tmp_path):
    a = write_documents(tmp_path / "a" / "documents.parquet", texts_of(2, 500, 300))
    b = write_documents(tmp_path / "b" / "documents.parquet", ODD)
    facts = build([a, b], tmp_path / "first", size=400)
    command = [sys.executable, "-m", "cxrflow.text.vocabulary"]
    command += options(documents=[a, b], settings={"size": 400}, output=tmp_path / "second")
    root = Path(vocabulary.__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(root)}
    subprocess.run(command, check=True, env=environment, capture_output=True)
    names = {path.name for path in (tmp_path / "first").iterdir()}
    files = {"vocab.txt", "tokenizer.json", "tokenizer_config.json", "vocabulary.json", CHECKSUMS}
    assert names == {*files, ".cxrflow"}
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    pieces = (tmp_path / "first" / "vocab.txt").read_text().splitlines()
    assert pieces[:5] == list(SPECIAL_TOKENS) and len(pieces) == facts["size"] == 400
    assert [source["dataset"] for source in facts["sources"]] == ["a", "b"]
    assert facts["sources"][0]["documents"] == 300


def test_only_training_rows_are_used(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "documents.parquet"
    pq.write_table(
        pa.table({"document_id": ["1", "2"], "text": ["train train", "secret secret"],
                  "split": ["train", "test"]}), path
    )  # fmt: skip
    facts = build([path], tmp_path / "v", size=100, min_frequency=1)
    assert "train" in (tmp_path / "v" / "vocab.txt").read_text().splitlines()
    assert "c" not in (tmp_path / "v" / "vocab.txt").read_text().splitlines()
    assert facts["sources"][0]["documents"] == 1 and facts["sources"][0]["other_splits"] == 1


@pytest.mark.parametrize("lowercase", [True, False])
def test_transformers_loads_the_folder(tmp_path, lowercase):
    from transformers import AutoTokenizer, BertConfig, BertTokenizerFast

    path = write_documents(tmp_path / "d" / "documents.parquet", ["Left Effusion left. " * 9] * 3)
    build([path], tmp_path / "v", size=80, lowercase=lowercase)
    BertConfig().save_pretrained(tmp_path / "v")
    text = "LEFT Effusion, [MASK] zzz"
    library = read_tokenizer(tmp_path / "v")
    loaded = [BertTokenizerFast.from_pretrained(tmp_path / "v")]
    loaded.append(AutoTokenizer.from_pretrained(tmp_path / "v", local_files_only=True))
    for tokenizer in loaded:
        assert tokenizer(text)["input_ids"] == library.encode(text).ids
        assert tokenizer.tokenize("LEFT") == library.encode("LEFT", add_special_tokens=False).tokens
        assert (tokenizer.pad_token_id, tokenizer.mask_token_id) == (0, 4)
        assert tokenizer.model_max_length == 512
    assert (library.encode("left").ids == library.encode("LEFT").ids) == lowercase


def test_a_folder_with_vocab_txt_alone(tmp_path):
    """ClinicalBERT ships no tokenizer configuration and is cased."""
    for name, pieces in {"cased": ["a", "A"], "uncased": ["a"]}.items():
        folder = tmp_path / name
        folder.mkdir()
        write_tokenizer(folder, [*SPECIAL_TOKENS, *pieces], lowercase=True)
        (folder / "tokenizer.json").unlink()
        (folder / "tokenizer_config.json").unlink()
    for name, tokens in {"cased": ["A", "a"], "uncased": ["a", "a"]}.items():
        tokenizer = read_tokenizer(tmp_path / name)
        assert tokenizer.encode("A a", add_special_tokens=False).tokens == tokens


@pytest.mark.parametrize("said", ["False", "true", 0, 1, []])
def test_whether_a_model_is_cased_is_said_by_true_or_false(tmp_path, said):
    """The text "False" is true to Python."""
    write_tokenizer(tmp_path, [*SPECIAL_TOKENS, "a", "A"], lowercase=True)
    (tmp_path / "tokenizer.json").unlink()
    write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": said})
    with pytest.raises(InputError, match=r"tokenizer_config.json: field 'do_lower_case' is .*true"):
        read_tokenizer(tmp_path)
    for lowercase, tokens in ((True, ["a", "a"]), (False, ["A", "a"]), (None, ["A", "a"])):
        write_json(tmp_path / "tokenizer_config.json", {"do_lower_case": lowercase})
        encoded = read_tokenizer(tmp_path).encode("A a", add_special_tokens=False)
        assert encoded.tokens == tokens


def test_vocabulary_info(tmp_path):
    write_tokenizer(tmp_path, [*SPECIAL_TOKENS, "[unused1]", "a", "##b", "##"], lowercase=True)
    info = VocabularyInfo.from_folder(tmp_path)
    assert (info.pad, info.unknown, info.cls_, info.sep, info.mask, info.size) == (0, 1, 2, 3, 4, 9)
    assert info.continues.nonzero()[0].tolist() == [7], "the text ## does not continue a word"
    assert info.special.nonzero()[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert VocabularyInfo.from_tokenizer(read_tokenizer(tmp_path)) == info


def test_bad_input(tmp_path):
    path = write_documents(tmp_path / "d" / "documents.parquet", ["", " "])
    with pytest.raises(InputError, match="no text in the training rows"):
        build([path], tmp_path / "v")
    path = write_documents(tmp_path / "d" / "documents.parquet", ["abcdefghijk"])
    with pytest.raises(InputError, match="key 'size' is 12, but the special tokens and the char"):
        build([path], tmp_path / "v", size=12)
    with pytest.raises(InputError, match="unknown key 'sise'"):
        build([path], tmp_path / "v", sise=12)
    with pytest.raises(InputError, match=r"expected tokenizer\.json or vocab\.txt"):
        read_tokenizer(tmp_path)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\na\n")
    with pytest.raises(InputError, match=r"vocab\.txt: special token \[CLS\] is not"):
        read_tokenizer(tmp_path)
    (tmp_path / "vocab.txt").write_text("a\na\n")
    with pytest.raises(InputError, match="2 lines but 1 different pieces"):
        read_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match=r"tokenizer\.json: not a tokenizer file"):
        read_tokenizer(tmp_path)


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    folder = tmp_path / "cohort"
    folder.mkdir()
    rows = [
        ("1", "p1", "Small effusion.", "validate"),  # 3 words
        ("2", "p1", "Effusion, small (small).", "validate"),  # 7 words
        ("3", "p2", None, "validate"),
        ("4", "p3", "small small small", "train"),
    ]
    table = pd.DataFrame(rows, columns=["study_id", "subject_id", "findings", "split"])
    table.assign(impression=None).to_parquet(folder / "pairs.parquet")
    (folder / "flow.json").write_text('{"dataset": "invented", "synthetic": true}')
    for name, pieces in {
        "whole": ["small", "effusion", ".", ",", "(", ")"],
        "cut": ["small", "ef", "##fu", "##sion", ".", ","],
    }.items():
        (tmp_path / name).mkdir()
        write_tokenizer(tmp_path / name, [*SPECIAL_TOKENS, *pieces], lowercase=True)
    return folder / "pairs.parquet"


def compare(pairs: Path, *more: Path, **settings: object) -> dict:
    root = pairs.parent.parent
    read = {"vocabulary": [root / "whole", root / "cut", *more], "cohort": pairs.parent}
    return metrics_of(main, "vocabulary", **read, settings=settings, output=root / "out")


def test_by_hand(cohort):
    comparison = compare(cohort, words=["effusion", "small", "opacity"])
    metrics = {name: entry["value"] for name, entry in comparison["metrics"].items()}
    assert metrics["words"] == 5.0
    assert metrics["tokens/whole"] == 5.0 and metrics["increase/whole"] == 0.0
    assert metrics["tokens/cut"] == 7.0 and metrics["increase/cut"] == pytest.approx(0.4)
    assert metrics["unknown/cut"] == pytest.approx(2 / 14) and metrics["unknown/whole"] == 0
    assert metrics["size/whole"] == 11 and metrics["pieces/cut/effusion"] == 3
    assert metrics["spelling/cut/effusion"] == "ef-fu-sion"
    assert metrics["spelling/whole/effusion"] == "✓"
    assert metrics["spelling/whole/opacity"] == "[UNK]"
    assert comparison["benchmark"] == "vocabulary" and comparison["data"]["synthetic"] is True
    entry = comparison["metrics"]["increase/cut"]
    assert entry["n"] == 2 and entry["low"] is entry["high"] is None  # both of one patient
    empty = {"reason": "no findings text", "count": 1, "examples": ["3"], "failed": False}
    assert comparison["protocol"]["dropped"] == [empty]
    counts = pd.read_parquet(cohort.parent.parent / "out" / "predictions.parquet")
    assert counts["study_id"].tolist() == ["1", "2"] and counts["words"].tolist() == [3, 7]
    assert counts["tokens/cut"].tolist() == [5, 9]
    assert all(counts[name].dtype.kind == "i" for name in counts if name != "study_id")


def test_only_the_given_split_is_counted(cohort):
    assert compare(cohort, split="train")["metrics"]["words"]["value"] == 3.0
    assert compare(cohort, split=None)["metrics"]["words"]["n"] == 3
    with pytest.raises(InputError, match="no row has split 'test'"):
        compare(cohort, split="test")


def test_the_result_does_not_change_from_run_to_run(cohort):
    assert compare(cohort) == compare(cohort)


def test_two_vocabularies_of_one_name(cohort):
    with pytest.raises(InputError, match="the folders' names are the results'; two are 'cut'"):
        compare(cohort, Path("elsewhere/cut"))
