"""Token files and packing: same ids as the library, nothing lost, blocks apart, resumable."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from small_text import write_documents

from command_options import options
from cxr_files.errors import InputError
from cxr_labels.characters import normalised
from cxrflow.text import tokens, vocabulary
from cxrflow.text.packing import PackedCorpus, fit_lengths
from cxrflow.text.tokenizer import SPECIAL_TOKENS, VocabularyInfo, read_tokenizer, write_tokenizer

LENGTH = 32


def texts_of(seed: int, count: int, longest: int = 60) -> list[str]:
    rng = random.Random(seed)
    lexicon = ["".join(rng.choices("abcdefgé", k=rng.randint(1, 12))) for _ in range(300)]
    return [" ".join(rng.choices(lexicon, k=rng.randint(0, longest))) + "." for _ in range(count)]


def tokenise(documents: Path, folder: Path, output: Path, **more: object) -> dict:
    tokens.main(options(documents=documents, vocabulary=folder, output=output, **more))
    return json.loads((output / "tokens.json").read_text())


def vocabulary_of(folder: Path, *pieces: str) -> Path:
    folder.mkdir()
    write_tokenizer(folder, [*SPECIAL_TOKENS, *pieces], lowercase=True)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A vocabulary, two token folders and their texts."""
    root = tmp_path_factory.mktemp("packing")
    texts = {"a": texts_of(0, 150), "b": [*texts_of(1, 60, 9), "", "  "]}
    paths = [write_documents(root / n / "documents.parquet", texts[n]) for n in texts]
    vocabulary.main(options(documents=paths, settings={"size": 150}, output=root / "v"))
    for name, path in zip(texts, paths, strict=True):
        tokenise(path, root / "v", root / "tokens" / name)
    return root, texts


def ids_in(folder: Path) -> list[list[int]]:
    flat, offsets = np.load(folder / "tokens.npy"), np.load(folder / "offsets.npy")
    assert flat.dtype == np.uint16 and offsets.dtype == np.int64
    return [ids.tolist() for ids in np.split(flat, offsets[1:-1])]


def ids_of(root: Path, texts: list[str]) -> list[list[int]]:
    encodings = read_tokenizer(root / "v").encode_batch(texts, add_special_tokens=False)
    return [encoding.ids for encoding in encodings]


@pytest.fixture(scope="module")
def corpus(made):
    root, _ = made
    return PackedCorpus(
        [root / "tokens" / "a", root / "tokens" / "b"],
        LENGTH,
        VocabularyInfo.from_folder(root / "v"),
    )


def test_token_files_hold_the_library_ids(made):
    root, texts = made
    for name in texts:
        assert ids_in(root / "tokens" / name) == ids_of(root, texts[name])


def test_token_counts(tmp_path):
    vocabulary_of(tmp_path / "v", "a", "##b")
    path = write_documents(tmp_path / "d" / "documents.parquet", ["AB zz a", "", "zz"])
    facts = tokenise(path, tmp_path / "v", tmp_path / "t")
    assert (facts["documents"], facts["tokens"], facts["unknown"]) == (3, 5, 2)
    assert facts["unknown_share"] == pytest.approx(0.4)


def test_token_files_of_odd_text(made, tmp_path):
    root, _ = made
    odd = [
        "a\x0bb\x1cc\x85d", "Ünï\xa0cødé\u2003x", "[MASK]abc [SEP] [mask]", "x" * 150, "日本a語",
        "a\u200bb\ufeff", "e\u0301", "",
    ]  # fmt: skip
    everything = odd + [f"a{chr(code)}b" for code in range(1, 0x2FFF)]
    path = write_documents(tmp_path / "d" / "documents.parquet", everything)
    tokenise(path, root / "v", tmp_path / "t")
    assert ids_in(tmp_path / "t") == ids_of(root, [*map(normalised, everything)])


def test_two_threads_write_the_same_tokens(made, tmp_path, monkeypatch):
    root, texts = made
    monkeypatch.setattr("cxrflow.text.documents._GROUP_ROWS", 40)
    path = write_documents(tmp_path / "d" / "documents.parquet", texts["a"])
    tokenise(path, root / "v", tmp_path / "t", threads=2)
    for name in ("tokens.npy", "offsets.npy"):
        expected = (root / "tokens" / "a" / name).read_bytes()
        assert (tmp_path / "t" / name).read_bytes() == expected


def test_a_vocabulary_too_large_for_uint16(tmp_path):
    vocabulary_of(tmp_path / "v", *(f"w{n}" for n in range(65_531)))
    path = write_documents(tmp_path / "d" / "documents.parquet", ["a"])
    with pytest.raises(InputError, match="65536 pieces; token files are uint16"):
        tokenise(path, tmp_path / "v", tmp_path / "t")


def blocks_of(batch: dict[str, torch.Tensor]) -> list[list[int]]:
    """The documents of a batch, read off token by token; checks ids, blocks and positions."""
    blocks = []
    for ids, document, position in zip(
        batch["input_ids"].tolist(), batch["document"].tolist(), batch["position_ids"].tolist(),
        strict=True,
    ):  # fmt: skip
        for number in range(max(document) + 1):
            places = [place for place, mark in enumerate(document) if mark == number]
            assert places == list(range(places[0], places[-1] + 1))
            assert [position[place] for place in places] == list(range(len(places)))
            block = [ids[place] for place in places]
            assert (block[0], block[-1]) == (2, 3) and 2 not in block[1:] and 3 not in block[:-1]
            blocks.append(block[1:-1])
        padding = [place for place, mark in enumerate(document) if mark == -1]
        assert padding == list(range(LENGTH - len(padding), LENGTH))
        assert all(ids[place] == 0 and position[place] == 0 for place in padding)
    return blocks


def test_nothing_is_lost_or_doubled(made, corpus):
    root, texts = made
    info = VocabularyInfo.from_folder(root / "v")
    documents = [ids for name in texts for ids in ids_of(root, texts[name]) if ids]
    plan = corpus.plan(seed=1, epoch=0)
    chunks = blocks_of(corpus.batch(plan))
    assert sum(map(len, chunks)) == sum(map(len, documents))
    expected = []
    for ids in documents:  # greedy cutting, one document at a time
        while ids:
            stop = min(len(ids), LENGTH - 2)
            while stop < len(ids) and stop > 0 and info.continues[ids[stop]]:
                stop -= 1
            stop = stop or min(len(ids), LENGTH - 2)
            expected.append(ids[:stop])
            ids = ids[stop:]
    assert sorted(chunks) == sorted(expected)
    assert len(chunks) > len(documents), "some documents must have been cut"
    assert not any(info.continues[chunk[0]] for chunk in chunks), "no word is cut in two"
    assert corpus.tokens == sum(len(chunk) + 2 for chunk in chunks)
    assert corpus.fill == pytest.approx(corpus.tokens / (len(plan) * LENGTH))
    assert corpus.fill > 0.95


def test_a_word_longer_than_a_row_is_split(tmp_path):
    vocabulary_of(tmp_path / "v", "a", "##a")
    path = write_documents(tmp_path / "d" / "documents.parquet", ["a " + "a" * 70])
    tokenise(path, tmp_path / "v", tmp_path / "t")
    packed = PackedCorpus([tmp_path / "t"], LENGTH, VocabularyInfo.from_folder(tmp_path / "v"))
    batch = packed.batch(packed.plan(0, 0))
    assert sorted(map(len, blocks_of(batch))) == [1, 10, 30, 30]


def test_any_step_can_be_made_alone(corpus):
    """A resumed run asks for step k of an epoch and gets what the undisturbed one got."""
    size = 4
    plan = corpus.plan(seed=3, epoch=2)
    undisturbed = [corpus.batch(plan[k * size : (k + 1) * size]) for k in range(len(plan) // size)]
    assert len(undisturbed) > 5
    again = corpus.plan(seed=3, epoch=2)
    for step in (5, 0, 3):
        resumed = corpus.batch(again[step * size : (step + 1) * size])
        assert all(torch.equal(resumed[key], undisturbed[step][key]) for key in resumed)
    ranks = [corpus.batch(plan[np.arange(rank, len(plan), 2)])["keys"] for rank in range(2)]
    assert sorted(torch.cat(ranks).tolist()) == list(range(len(plan)))
    chosen = corpus.batch(plan[np.array([7, 2])])
    assert torch.equal(chosen["input_ids"][1], undisturbed[0]["input_ids"][2])


def test_epochs_and_seeds_differ_in_order_but_not_in_content(corpus):
    first = corpus.plan(0, 0)
    for seed, epoch in ((0, 1), (1, 0)):
        plan = corpus.plan(seed, epoch)
        assert len(plan) == len(first) == corpus.rows
        assert not np.array_equal(plan.chunks, first.chunks)
        assert np.array_equal(np.sort(plan.chunks), np.arange(len(first.chunks)))


@pytest.mark.parametrize("seed", range(5))
def test_fitting_lengths(seed):
    """Every chunk is placed once, no row overflows, and no more rows than best fit one by one."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 65, 400)
    capacity = 64
    groups = fit_lengths(np.bincount(lengths, minlength=capacity + 1), capacity)
    assert all(sum(content) <= capacity for content, _ in groups)
    placed = sorted(size for content, rows in groups for size in content * rows)
    assert placed == sorted(lengths.tolist())
    free: list[int] = []
    for size in sorted(lengths.tolist(), reverse=True):
        fitting = [space for space in free if space >= size]
        space = min(fitting, default=capacity)
        if fitting:
            free.remove(space)
        free.append(space - size)
    assert sum(rows for _, rows in groups) == len(free)


def test_folders_that_do_not_belong_together(made, tmp_path):
    root, _ = made
    vocabulary_of(tmp_path / "v", "a")
    with pytest.raises(InputError, match=r"tokens\.json: vocabulary_fingerprint is .* expected"):
        PackedCorpus([root / "tokens" / "a"], LENGTH, VocabularyInfo.from_folder(tmp_path / "v"))
    with pytest.raises(InputError, match=r"tokens\.json: file not found"):
        PackedCorpus([tmp_path], LENGTH, VocabularyInfo.from_folder(root / "v"))
    with pytest.raises(InputError, match="expected at least 3"):
        PackedCorpus([root / "tokens" / "a"], 2, VocabularyInfo.from_folder(root / "v"))
    path = write_documents(tmp_path / "d" / "documents.parquet", ["", " "])
    tokenise(path, root / "v", tmp_path / "t")
    with pytest.raises(InputError, match="no tokens"):
        PackedCorpus([tmp_path / "t"], LENGTH, VocabularyInfo.from_folder(root / "v"))


def test_damaged_token_files(made, tmp_path):
    root, texts = made
    path = write_documents(tmp_path / "d" / "documents.parquet", texts["b"])
    tokenise(path, root / "v", tmp_path / "t")
    data = (tmp_path / "t" / "tokens.npy").read_bytes()
    (tmp_path / "t" / "tokens.npy").write_bytes(data[:-10])
    for damaged in (data[:-10], data[:-10] + bytes(10), data[:300]):
        (tmp_path / "t" / "tokens.npy").write_bytes(damaged)
        with pytest.raises(InputError, match=r"tokens.npy: damaged, its SHA-256"):
            PackedCorpus([tmp_path / "t"], LENGTH, VocabularyInfo.from_folder(root / "v"))
    (tmp_path / "t" / "tokens.npy").write_bytes(data)
    # Where documents begin decides every row of a batch as well.
    offsets = np.load(tmp_path / "t" / "offsets.npy")
    np.save(tmp_path / "t" / "offsets.npy", np.delete(offsets, 1))
    with pytest.raises(InputError, match="offsets.npy: damaged, its SHA-256"):
        PackedCorpus([tmp_path / "t"], LENGTH, VocabularyInfo.from_folder(root / "v"))
    (tmp_path / "t" / "SHA256SUMS").unlink()
    for wrong, said in (([], "expected numbers of"), (b"x", "offsets.npy: not a NumPy file")):
        if isinstance(wrong, bytes):
            (tmp_path / "t" / "offsets.npy").write_bytes(wrong)
        else:
            np.save(tmp_path / "t" / "offsets.npy", np.array([wrong]))
        with pytest.raises(InputError, match=said):
            PackedCorpus([tmp_path / "t"], LENGTH, VocabularyInfo.from_folder(root / "v"))
    for wrong in ([0, 3], [0, 90, 40]):
        np.save(tmp_path / "t" / "offsets.npy", np.array([*wrong, len(texts["b"])]))
        with pytest.raises(InputError, match="expected ascending to that number"):
            PackedCorpus([tmp_path / "t"], LENGTH, VocabularyInfo.from_folder(root / "v"))
