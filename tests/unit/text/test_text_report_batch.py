"""Batches of report texts, and the words that are masked in them."""

import numpy as np
import pandas as pd
import pytest
import torch

from cxr_files.errors import InputError
from cxrflow.compute.keyed_random import row_state, threshold, uniform
from cxrflow.text.report_batch import SECTIONS, ReportTokens, WordMasker
from cxrflow.text.sentences import sentences_of
from cxrflow.text.settings import MaskingSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, VocabularyInfo, read_tokenizer, write_tokenizer

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


WHOLE = [f"w{n}" for n in range(40)]
PARTS = [f"##p{n}" for n in range(30)]
INFO = VocabularyInfo((*SPECIAL_TOKENS, *WHOLE, *PARTS))
PAD, UNK, CLS, SEP, MASK = range(5)
FIRST_PART = 5 + len(WHOLE)
_64 = (1 << 64) - 1


def mix(value: int) -> int:
    """SplitMix64's finaliser on Python integers."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _64
    return value ^ (value >> 31)


def draw(seed: int, epoch: int, stream: int, key: int, place: int) -> int:
    golden = 0x9E3779B97F4A7C15
    state = 0
    for value in (seed, epoch, stream):
        state = mix((state + value * golden + golden) & _64)
    state = mix(state ^ mix((key * golden) & _64))
    return mix((state + (place + 1) * golden) & _64) >> 32


def make_batch(rows: int, length: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of [CLS] words [SEP], some with two documents, padded."""
    rng = np.random.default_rng(seed)
    ids = np.zeros((rows, length), dtype=np.int64)
    for row in ids:
        place = 0
        while place < length - 6 and (place == 0 or rng.random() < 0.5):
            size = int(rng.integers(1, length - place - 2))
            tokens = rng.integers(UNK, len(INFO.pieces), size)
            tokens[tokens == MASK] = 9
            tokens[(tokens > UNK) & (tokens < 5)] = 8
            row[place : place + size + 2] = [CLS, *tokens, SEP]
            place += size + 2
    ids = torch.from_numpy(ids)
    return ids, ids != PAD


def words_of(ids: list[int], maskable: list[bool]) -> list[list[int]]:
    """BERT's ## rule, one token after the other."""
    words: list[list[int]] = []
    previous = False
    for place, (token, allowed) in enumerate(zip(ids, maskable, strict=True)):
        allowed = allowed and token >= 5
        if allowed and previous and token >= FIRST_PART:
            words[-1].append(place)
        elif allowed:
            words.append([place])
        previous = allowed
    return words


def reference(ids, maskable, keys, seed, epoch, settings):
    """The masker's definition, literally."""
    new, positions = ids.tolist(), []
    for row, key in enumerate(keys.tolist()):
        words = words_of(ids[row].tolist(), maskable[row].tolist())
        if settings.unit == "token":
            words = [[place] for word in words for place in word]
        draws = {word[0]: draw(seed, epoch, 1, key, word[0]) for word in words}
        chosen = [w for w in words if draws[w[0]] < round(settings.rate * 2**32)]
        for place in sorted(place for word in chosen for place in word):
            positions.append(row * ids.shape[1] + place)
            action = draw(seed, epoch, 2, key, place)
            if action < round(settings.mask_share * 2**32):
                new[row][place] = MASK
            elif action < round((settings.mask_share + settings.random_share) * 2**32):
                ordinary = len(INFO.pieces) - 5
                new[row][place] = 5 + (draw(seed, epoch, 3, key, place) * ordinary >> 32)
    return torch.tensor(new), positions


@pytest.mark.parametrize("unit", ["word", "token"])
@pytest.mark.parametrize("rate", [0.15, 0.5])
def test_equal_to_the_reference(unit, rate):
    settings = MaskingSettings(rate=rate, unit=unit, mask_share=0.6, random_share=0.3)
    masker = WordMasker(INFO, settings)
    ids, maskable = make_batch(40, 50)
    maskable &= torch.from_numpy(np.random.default_rng(1).random(ids.shape) < 0.95)
    keys = torch.arange(40) * 7_000_000_019
    masked = masker(ids, maskable, keys, seed=3, epoch=2)
    expected, positions = reference(ids, maskable, keys, 3, 2, settings)
    assert masked.positions.tolist() == positions and len(positions) > 50
    assert torch.equal(masked.input_ids, expected)
    assert torch.equal(masked.targets, ids.flatten()[masked.positions])


def test_uniform_numbers():
    """Equal to integer arithmetic; mean, spread and neighbours look uniform."""
    keys, places = torch.arange(300), torch.arange(300)
    numbers = uniform(row_state(keys, 5, 6, 7)[:, None], places)
    assert numbers[17, 23].item() == draw(5, 6, 7, 17, 23)
    assert numbers.min() >= 0 and numbers.max() < 2**32
    unit = numbers.double() / 2**32
    assert abs(unit.mean() - 0.5) < 0.005 and abs(unit.var() - 1 / 12) < 0.002
    bits = torch.stack([(numbers >> bit) & 1 for bit in range(32)]).double().mean(dim=(1, 2))
    assert (bits - 0.5).abs().max() < 0.01
    for shifted in (unit.roll(1, 0), unit.roll(1, 1)):
        assert abs(torch.corrcoef(torch.stack([unit.flatten(), shifted.flatten()]))[0, 1]) < 0.02
    for changed in ((6, 6, 7), (5, 7, 7), (5, 6, 8), (-5, 6, 7)):
        assert not torch.equal(numbers, uniform(row_state(keys, *changed)[:, None], places))
    assert threshold(0.0) == 0 and threshold(1.0) == 2**32


def test_statistics_of_the_defaults():
    """15 % of the words, of the tokens too, and 80/10/10 of those."""
    ids, maskable = make_batch(1500, 128)
    masked = WordMasker(INFO, MaskingSettings())(ids, maskable, torch.arange(1500), 0, 0)
    ordinary = int((ids >= 5).sum())
    total = len(masked.targets)
    assert total / ordinary == pytest.approx(0.15, abs=0.004)
    new = masked.input_ids.flatten()[masked.positions]
    masks = (new == MASK).double().mean().item()
    same = (new == masked.targets).double().mean().item()
    assert masks == pytest.approx(0.8, abs=0.01)
    # A random piece is the true one once in 70.
    assert same == pytest.approx(0.1 + 0.1 / 70, abs=0.008)
    pieces = new[(new != MASK) & (new != masked.targets)]
    assert set(pieces.tolist()) == set(range(5, INFO.size)), "all ordinary pieces, nothing special"


def test_whole_words_and_nothing_special():
    ids, maskable = make_batch(200, 60)
    masked = WordMasker(INFO, MaskingSettings(rate=0.3))(ids, maskable, torch.arange(200), 1, 1)
    chosen = torch.zeros(ids.numel(), dtype=torch.bool)
    chosen[masked.positions] = True
    chosen = chosen.view_as(ids)
    assert not (chosen & (ids < 5)).any()
    assert torch.equal(masked.input_ids[~chosen], ids[~chosen])
    for row in range(200):
        for word in words_of(ids[row].tolist(), maskable[row].tolist()):
            assert len(set(chosen[row, word].tolist())) == 1, "a word was split"


def test_masks_depend_on_key_epoch_and_seed_only():
    ids, maskable = make_batch(30, 64)
    masker = WordMasker(INFO, MaskingSettings())
    keys = torch.arange(30) + 100
    masked = masker(ids, maskable, keys, 4, 5)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(0))[:11]
    permuted = masker(ids[order], maskable[order], keys[order], 4, 5)
    assert torch.equal(permuted.input_ids, masked.input_ids[order])
    wider = torch.nn.functional.pad(ids, (0, 9))
    padded = masker(wider, wider != PAD, keys, 4, 5)
    assert torch.equal(padded.input_ids[:, :64], masked.input_ids)
    for seed, epoch, shift in ((5, 5, 0), (4, 6, 0), (4, 5, 1)):
        changed = masker(ids, maskable, keys + shift, seed, epoch)
        assert not torch.equal(changed.input_ids, masked.input_ids)


def test_nothing_to_mask():
    ids = torch.tensor([[CLS, SEP, PAD], [CLS, UNK, SEP]])
    masked = WordMasker(INFO, MaskingSettings())(ids, ids != PAD, torch.arange(2), 0, 0)
    assert torch.equal(masked.input_ids, ids) and len(masked.positions) == 0


def test_the_input_is_not_changed():
    ids, maskable = make_batch(5, 40)
    before = ids.clone()
    WordMasker(INFO, MaskingSettings(rate=0.9))(ids, maskable, torch.arange(5), 0, 0)
    assert torch.equal(ids, before)


def test_shares_must_fit():
    with pytest.raises(ValueError, match="must not exceed 1"):
        MaskingSettings(mask_share=0.8, random_share=0.3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_the_same_on_a_gpu():
    ids, maskable = make_batch(50, 64)
    masker = WordMasker(INFO, MaskingSettings())
    on_cpu = masker(ids, maskable, torch.arange(50), 1, 2)
    on_gpu = masker(ids.cuda(), maskable.cuda(), torch.arange(50).cuda(), 1, 2)
    assert torch.equal(on_cpu.input_ids, on_gpu.input_ids.cpu())
    assert torch.equal(on_cpu.positions, on_gpu.positions.cpu())
