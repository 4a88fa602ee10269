"""Report batches: the right tokens, sentence shuffling that depends on the report alone."""

import numpy as np
import pandas as pd
import pytest
import torch

from cxrflow.errors import InputError
from cxrflow.text.report_batch import SECTIONS, ReportTokens
from cxrflow.text.sentences import sentences_of
from cxrflow.text.tokenizer import SPECIAL_TOKENS, read_tokenizer, write_tokenizer

WORDS = [f"w{chr(97 + n)}" for n in range(20)]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("v")
    write_tokenizer(folder, [*SPECIAL_TOKENS, ".", *WORDS], lowercase=True)
    return read_tokenizer(folder)


@pytest.fixture(scope="module")
def pairs() -> pd.DataFrame:
    rng = np.random.default_rng(0)

    def sentences(count: int) -> list[str]:
        return [" ".join(rng.choice(WORDS, rng.integers(1, 6))) + "." for _ in range(count)]

    reports = [{"findings_sentences": sentences(n % 7), "impression_sentences": sentences(n % 3)}
               for n in range(40)]  # fmt: skip
    return pd.DataFrame(reports)


def expected(pairs, tokenizer, row, section, length):
    text = " ".join(pairs[f"{section}_sentences"][row])
    *ids, end = tokenizer.encode(text).ids
    return [*ids[: length - 1], end]


@pytest.mark.parametrize("section", ["findings", "impression"])
@pytest.mark.parametrize("length", [64, 9])
def test_unshuffled_batches_equal_the_tokenizer(pairs, tokenizer, section, length):
    reports = ReportTokens(pairs, tokenizer, length)
    rows = [5, 0, 17, 6, 6]
    batch = reports.batch(rows, section, seed=0, epoch=0, shuffle=False)
    assert batch["input_ids"].dtype == torch.int64 and batch["keys"].dtype == torch.int64
    for ids, mask, row in zip(batch["input_ids"], batch["attention_mask"], rows, strict=True):
        true = expected(pairs, tokenizer, row, section, length)
        assert ids[mask.bool()].tolist() == true and mask.tolist() == sorted(mask, reverse=True)
        assert not ids[~mask.bool()].any()
    lengths = [len(expected(pairs, tokenizer, row, section, length)) for row in range(40)]
    assert reports.lengths(section).tolist() == lengths
    assert batch["input_ids"].shape[1] == max(lengths[row] for row in rows)
    assert reports.present[section].tolist() == [bool(x) for x in pairs[f"{section}_sentences"]]
    full = [len(expected(pairs, tokenizer, row, section, 999)) for row in range(40)]
    assert reports.truncated[section] == sum(size > length for size in full)


def split_sentences(ids: torch.Tensor) -> list[tuple[int, ...]]:
    sentences, sentence = [], []
    for token in ids.tolist():
        if token >= 5:
            sentence.append(token)
        if token == 5:
            sentences.append(tuple(sentence))
            sentence = []
    return sentences


def test_shuffling_keeps_sentences_whole_and_depends_on_the_report_alone(pairs, tokenizer):
    reports = ReportTokens(pairs, tokenizer, 64)
    rows = np.arange(40)
    plain = reports.batch(rows, "findings", 0, 0, shuffle=False)["input_ids"]
    first = reports.batch(rows, "findings", 7, 3)["input_ids"]
    moved = 0
    for before, after in zip(plain, first, strict=True):
        assert sorted(split_sentences(before)) == sorted(split_sentences(after))
        moved += split_sentences(before) != split_sentences(after)
    assert moved > 20
    subset = reports.batch(rows[[9, 30, 2]], "findings", 7, 3)["input_ids"]
    assert torch.equal(subset, first[[9, 30, 2], : subset.shape[1]])
    for seed, epoch in ((8, 3), (7, 4)):
        assert not torch.equal(reports.batch(rows, "findings", seed, epoch)["input_ids"], first)


def test_orders_are_uniform(tokenizer):
    texts = [["wa.", "wb.", "wc."]] * 3000
    pairs = pd.DataFrame({"findings_sentences": texts, "impression": "wa."})
    ids = ReportTokens(pairs, tokenizer, 16).batch(range(3000), "findings", 0, 0)["input_ids"]
    _, counts = torch.unique(ids, dim=0, return_counts=True)
    assert len(counts) == 6 and counts.min() > 420 and counts.max() < 580


def test_sections_are_shuffled_apart(tokenizer):
    texts = [["wa.", "wb.", "wc.", "wd."]] * 200
    pairs = pd.DataFrame({"findings_sentences": texts, "impression_sentences": texts})
    reports = ReportTokens(pairs, tokenizer, 16)
    a, b = (reports.batch(range(200), s, 0, 0)["input_ids"] for s in ("findings", "impression"))
    assert (a == b).all(dim=1).double().mean() < 0.15
    keys = [reports.batch(range(200), s, 0, 0)["keys"].tolist() for s in SECTIONS]
    assert len({*keys[0], *keys[1]}) == 400, "the sections of a report must not share a mask"


def test_reports_without_a_section_are_as_wide_as_their_marks(pairs, tokenizer):
    reports = ReportTokens(pairs, tokenizer, 64)
    empty = reports.batch([0, 7], "findings", 0, 0)
    assert empty["input_ids"].tolist() == [[2, 3], [2, 3]]


def test_missing_texts(tokenizer):
    pairs = pd.DataFrame({
        "findings_sentences": [["wa.", "wb."], None, np.array([], dtype=object)],
        "findings": ["unused", "wc. wd.", None], "impression": [float("nan"), " ", "we"],
    })  # fmt: skip
    assert sentences_of(pairs, "findings") == [["wa.", "wb."], ["wc. wd."], []]
    assert sentences_of(pairs, "impression") == [[], [], ["we"]]
    reports = ReportTokens(pairs, tokenizer, 8)
    assert reports.present["impression"].tolist() == [False, False, True]
    with pytest.raises(InputError, match="columns 'impression_sentences' and 'impression'"):
        ReportTokens(pairs.drop(columns="impression"), tokenizer, 8)
    with pytest.raises(InputError, match="expected at least 3"):
        ReportTokens(pairs, tokenizer, 2)
