"""Easy data augmentation: its operations, what it leaves alone, and texts as batches."""

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from small_text import MINIMAL
from tokenizers import Tokenizer

from cxr_files.errors import InputError
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.pairs.tables import pair_texts
from cxrflow.pretrain.report_text import PASSES, Texts
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.text.eda import FUNCTION_WORDS, EasyAugmentation
from cxrflow.text.settings import WORDNET_PARTS, EasyAugmentationSettings
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer
from cxrflow.training.processes import ALONE

OPERATIONS = ("synonyms", "insertions", "swaps", "deletion")
TEXT = "No acute process. The heart isn't enlarged; a 3.5 cm left-sided nodule is unchanged."
CLEANED = ["no", "acute", "process", "the", "heart", "isnt", "enlarged", "a", "cm"]
CLEANED += ["left", "sided", "nodule", "is", "unchanged"]
IMPRESSIONS = [
    ["Stable mild edema .", "No effusion or fracture is seen ."],
    ["Pneumonia ."],
    ["1 .", "2 ."],
    [],
    ["Left nodule , 3.5 cm .", "Heart is large .", "Normal spine ."],
] * 3


def only(name: str, rate: float = 0.1, **settings: object) -> EasyAugmentation:
    """A single operation."""
    rates = {operation: 0.0 for operation in OPERATIONS} | {name: rate}
    return EasyAugmentation(EasyAugmentationSettings(**rates, **settings))


def outcomes(augmentation: EasyAugmentation, words: list[str], count: int) -> Counter[str]:
    return Counter(" ".join(augmentation(words, Random(seed))) for seed in range(count))


def same_frequencies(ours: Counter[str], theirs: Counter[str]) -> None:
    """Each outcome is as frequent, within five standard deviations of 4,000 draws."""
    assert ours.total() == theirs.total() == 4000
    for text in {*ours, *theirs}:
        assert abs(ours[text] - theirs[text]) < 5 * (ours[text] + theirs[text]) ** 0.5, text


def test_cleaning_is_that_of_the_published_code() -> None:
    """Letters and blanks stay, apostrophes go, everything else becomes a blank."""
    for text in (TEXT, "", " 3 . ", "it\u2019s\ta-b\nC", "\u00c9tat \u2014 x", "a" * 50):
        line = text.replace("\u2019", "").replace("'", "").lower()
        kept = "".join(c if c in "abcdefghijklmnopqrstuvwxyz " else " " for c in line)
        assert only("swaps").cleaned(text) == kept.split()
    assert only("swaps").cleaned(TEXT) == CLEANED


def test_replacements_and_insertions_as_coded() -> None:
    """A synonym is replaced in its turn; of ten words tried the last is never inserted."""

    def literal_replacement(seed: int) -> str:
        draws, words = Random(f"literal {seed}"), ["no", "chest", "thorax"]
        order = ["chest", "thorax"]
        draws.shuffle(order)
        for source in order:  # each has the other as its one synonym
            other = {"chest": "thorax", "thorax": "chest"}[source]
            words = [other if word == source else word for word in words]
        return " ".join(words)

    words = ["no", "chest", "thorax"]
    literals = Counter(literal_replacement(seed) for seed in range(4000))
    same_frequencies(outcomes(only("synonyms", 0.7, as_coded=True), words, 4000), literals)
    assert outcomes(only("synonyms", 0.7), words, 50) == {"no thorax chest": 50}

    words = [*(["no"] * 9), "chest"]
    plain, coded = (
        outcomes(only("insertions", 0.1, as_coded=as_coded), words, 4000)[" ".join(words)] / 4000
        for as_coded in (False, True)
    )
    assert plain == pytest.approx(0.9**10, abs=0.03) and coded == pytest.approx(0.9**9, abs=0.03)
    assert coded > plain


def test_swaps_are_those_of_the_published_code() -> None:
    def literal(seed: int) -> str:
        draws, words = Random(f"literal {seed}"), list("abc")
        for _ in range(2):
            first = second = draws.randint(0, 2)
            counter = 0
            while second == first:
                second = draws.randint(0, 2)
                counter += 1
                if counter > 3:  # whatever the fourth draw is
                    second = first
                    break
            words[first], words[second] = words[second], words[first]
        return " ".join(words)

    literals = Counter(literal(seed) for seed in range(4000))
    same_frequencies(outcomes(only("swaps", 0.7), list("abc"), 4000), literals)


def test_deletions_are_those_of_the_published_code() -> None:
    def literal(seed: int) -> str:
        draws, words = Random(f"literal {seed}"), list("abc")
        rest = [word for word in words if draws.uniform(0, 1) > 0.6]
        return " ".join(rest or [words[draws.randint(0, 2)]])

    literals = Counter(literal(seed) for seed in range(4000))
    same_frequencies(outcomes(only("deletion", 0.6), list("abc"), 4000), literals)


def test_synonyms_replace_so_many_words_wherever_they_stand() -> None:
    augmentation = only("synonyms", 0.2)
    words = ["the", "heart", "is", "normal", "normal", "spine", "chest", "seen", "no", "film"]
    by_word = {word: {*augmentation.synonyms(word), word} for word in words}
    replaced = Counter[str]()
    for seed in range(500):
        augmented = augmentation(words, Random(seed))
        place, changed = 0, set()
        for word in words:
            phrase = next(
                p for p in sorted(by_word[word], key=len, reverse=True)
                if augmented[place : place + len(p.split())] == p.split()
            )  # fmt: skip
            place += len(phrase.split())
            changed |= {word} if phrase != word else set()
        assert place == len(augmented) and len(changed) == 2  # int(0.2 * 10)
        assert ("normal" in changed) == ("normal" not in augmented)
        replaced.update(changed)
    assert set(replaced) == {"normal", "spine", "chest", "seen", "film"}
    assert min(replaced.values()) > 150  # 200 of each are expected


def test_function_words_are_not_replaced(wordnet: Path) -> None:
    """Whatever WordNet has for them; a number of words that YAML would read as true or false."""
    (wordnet / "index.adj").write_text("no a 1 0 1 0 00000000\n")
    augmentation = only("synonyms", 1.0, wordnet=str(wordnet))
    assert augmentation.synonyms("no")
    assert augmentation(["no", "gland"], Random(0)) == ["no", "gland"]
    assert {"no", "on", "off"} <= FUNCTION_WORDS


def test_synonyms_are_inserted_before_the_last_word() -> None:
    augmentation = only("insertions", 0.34)
    frequencies = outcomes(augmentation, ["no", "chest", "film"], 4000)

    def literal(seed: int) -> str:
        draws, words = Random(f"literal {seed}"), ["no", "chest", "film"]
        synonyms = {"chest": "thorax", "film": "radiograph", "thorax": "chest"}
        for _ in range(10):
            source = words[draws.randint(0, 2)]
            if source in synonyms:
                words.insert(draws.randint(0, 2), synonyms[source])
                break
        return " ".join(words)

    same_frequencies(frequencies, Counter(literal(seed) for seed in range(4000)))


def test_at_least_one_operation_is_done_of_a_short_text() -> None:
    assert all(sorted(only("swaps")(["a", "b"], Random(seed))) == ["a", "b"] for seed in range(20))
    assert any(only("swaps")(["a", "b"], Random(seed)) == ["b", "a"] for seed in range(20))
    assert only("synonyms")(["large", "lung"], Random(0)) == ["big", "lung"]
    assert only("synonyms")(["lung", "lungs"], Random(0)) == ["lung", "lungs"]  # no synonym


def test_variants_are_those_that_the_published_code_returns() -> None:
    """Twelve of four operations, shuffled and cut to nine, and the cleaned text."""
    words = ["large", "nodule"]

    def literal(seed: int) -> str:
        draws = Random(f"literal {seed}")
        single = [only(name) for name in OPERATIONS]
        variants = [operation(words, draws) for operation in single for _ in range(3)]
        draws.shuffle(variants)
        return " ".join(draws.choice([*variants[:9], words]))

    variants = EasyAugmentation(EasyAugmentationSettings(operations="variants"))
    literals = Counter(literal(seed) for seed in range(4000))
    same_frequencies(outcomes(variants, words, 4000), literals)


def test_all_operations_one_after_another_are_of_the_first_text_s_size() -> None:
    words = ["lung"] * 9 + ["heart"] * 11
    settings = EasyAugmentationSettings(operations="all", deletion=0.0, synonyms=0.0)
    assert EasyAugmentation(settings)(words, Random(3)) != words
    augmented = EasyAugmentation(EasyAugmentationSettings(operations="all"))
    sizes = [len(augmented(["chest"] * 20, Random(seed))) for seed in range(300)]
    assert np.mean(sizes) == pytest.approx(22 * 0.9, abs=0.5)  # two inserted, a tenth deleted


@pytest.mark.parametrize("operations", ["single", "all", "variants"])
def test_without_operations_a_text_is_cleaned(operations: str) -> None:
    rates = {operation: 0.0 for operation in OPERATIONS}
    augmentation = EasyAugmentation(EasyAugmentationSettings(**rates, operations=operations))
    assert all(augmentation(CLEANED, Random(seed)) == CLEANED for seed in range(20))


def test_protected_words_stay_where_they_stand() -> None:
    protect = ("negation", "side", "number")
    rates = {operation: 1.0 for operation in ("synonyms", "insertions", "swaps")}
    hard = EasyAugmentationSettings(**rates, deletion=0.9, operations="single", protect=protect)
    augmentation = EasyAugmentation(hard)
    words = augmentation.cleaned(TEXT + " No second film without 2 lines.")
    assert "3.5" in words and "2" in words
    guarded = [w for w in words if w in ("no", "without", "left", "second", "3.5", "2")]
    swapped = only("swaps", 1.0, protect=protect)
    for seed in range(200):
        augmented = augmentation(words, Random(seed))
        assert [w for w in augmented if w in guarded] == guarded
        moved = swapped(words, Random(seed))
        assert [n for n, w in enumerate(moved) if w in guarded] == [
            n for n, w in enumerate(words) if w in guarded
        ]
    assert swapped(["no", "left", "2"], Random(0)) == ["no", "left", "2"]


def tokenizer() -> Tokenizer:
    letters = "abcdefghijklmnopqrstuvwxyz0123456789.,;"
    pieces = [*SPECIAL_TOKENS, *letters, *(f"##{letter}" for letter in letters)]
    return bert_tokenizer({piece: number for number, piece in enumerate(pieces)}, lowercase=True)


def texts(length: int = 200, **changes: object) -> Texts:
    settings = JointPretrainingSettings(
        **{**MINIMAL, "text_augmentation": {}, "length": length, **changes}
    )
    pairs = pd.DataFrame({"impression_sentences": IMPRESSIONS, "findings": ["The end ."] * 15})
    return pair_texts(settings, pairs, tokenizer(), training=True)


def augmented(texts: Texts, rows: list[int], epoch: int = 0, seed: int = 0) -> list[list[int]]:
    tokens = PASSES["augmented"](texts, Batch(np.array(rows), seed, epoch, ALONE))
    lengths = tokens["attention_mask"].sum(1)
    return [row[:n].tolist() for row, n in zip(tokens["input_ids"], lengths, strict=True)]


def test_texts_depend_on_seed_epoch_and_report_alone() -> None:
    both = augmented(texts(), [0, 4, 5])
    assert augmented(texts(), [4]) == [both[1]]
    assert augmented(texts(), [5, 0]) == [both[2], both[0]]
    assert both[0] != both[2]  # the same text in another report
    assert augmented(texts(), [0], epoch=1) != [both[0]] != augmented(texts(), [0], seed=1)


def test_without_operations_words_are_tokenised_as_the_cleaned_text() -> None:
    none = {operation: 0.0 for operation in OPERATIONS}
    plain = texts(text_augmentation=none, sentence_shuffling=False, text="report")
    rows = augmented(plain, [0, 4])
    for row, words in zip(
        rows,
        ["stable mild edema no effusion or fracture is seen the end",
         "left nodule cm heart is large normal spine the end"],
        strict=True,
    ):  # fmt: skip
        assert row == tokenizer().encode(words).ids
    numbers = texts(text_augmentation=none | {"protect": ["number"]}, sentence_shuffling=False)
    expected = tokenizer().encode("left nodule 3.5 cm heart is large normal spine").ids
    assert augmented(numbers, [4]) == [expected]


def test_sentences_stand_in_the_drawn_order() -> None:
    none = {operation: 0.0 for operation in OPERATIONS}
    for changes in ({}, {"text": "sentence"}):
        drawn = texts(text_augmentation=none, **changes)
        for epoch in range(4):
            batch = Batch(np.array([0, 4]), 0, epoch, ALONE)
            for intact, row in zip(
                drawn.intact(batch)["input_ids"], augmented(drawn, [0, 4], epoch), strict=True
            ):
                plain = tokenizer().decode(intact[intact != 0].tolist())
                letters = "".join(filter(str.isalpha, plain))
                assert letters == "".join(filter(str.isalpha, tokenizer().decode(row)))


def test_a_text_of_no_word_or_one_comes_back_as_it_is() -> None:
    rows = [1, 2, 3]
    drawn = texts(sentence_shuffling=False)
    intact = drawn.intact(Batch(np.array(rows), 0, 0, ALONE))
    for row, tokens, mask in zip(
        augmented(drawn, rows), intact["input_ids"], intact["attention_mask"], strict=True
    ):
        assert row == tokens[mask.bool()].tolist()


def test_a_long_text_loses_its_end() -> None:
    rows = augmented(texts(length=8), list(range(15)))
    assert max(map(len, rows)) == 8
    assert all(row[0] == 2 and row[-1] == 3 for row in rows)


def test_a_term_that_reads_augmented_texts_needs_their_settings() -> None:
    with pytest.raises(InputError, match="'text_augmentation' is null"):
        augmented(texts(text_augmentation=None), [0])


def synset(offset: int, *words: str) -> str:
    members = " ".join(f"{word} 0" for word in words)
    return f"{offset:08d} 00 n {len(words):02x} {members} 000 | a gloss  \n"


@pytest.fixture
def wordnet(tmp_path: Path) -> Path:
    """Two synsets of nouns, one of adjectives."""
    licence = "  1 This software and database is being provided \n"
    first = synset(len(licence), "effusion", "blow-up", "X_ray")
    second = synset(len(licence) + len(first), "gush", "Effusion", "foot", "7-foot")
    (tmp_path / "data.noun").write_text(licence + first + second)
    one, two = len(licence), len(licence) + len(first)
    entries = f"effusion n 2 1 @ 2 0 {one:08d} {two:08d}  \nfoot n 1 0 1 0 {two:08d}  \n"
    (tmp_path / "index.noun").write_text(licence + entries)
    (tmp_path / "noun.exc").write_text("feet foot\n")
    (tmp_path / "data.adj").write_text(synset(0, "large", "big(a)"))
    (tmp_path / "index.adj").write_text("large a 1 0 1 0 00000000\n")
    for part in ("verb", "adv"):
        (tmp_path / f"data.{part}").write_text(licence)
        (tmp_path / f"index.{part}").write_text(licence)
    return tmp_path


def test_synonyms_of_wordnet(wordnet: Path) -> None:
    synonyms = only("synonyms", wordnet=str(wordnet)).synonyms
    assert synonyms("effusion") == ["blow up", "foot", "gush", "x ray"]
    assert synonyms("effusions") == ["blow up", "effusion", "foot", "gush", "x ray"]
    assert synonyms("feet") == ["effusion", "foot", "gush"]
    assert synonyms("larger") == synonyms("largest") == ["big", "large"]
    assert synonyms("gush") == synonyms("lung") == []  # not in the index


def test_folders_that_are_not_wordnet(wordnet: Path) -> None:
    def refusal() -> str:
        with pytest.raises(InputError) as caught:
            only("synonyms", wordnet=str(wordnet)).synonyms("effusion")
        return str(caught.value)

    whole = (wordnet / "data.noun").read_bytes()
    for damage in (b"x" * 500, b"\xff\xfe" * 250, whole.replace(b" n 0", b" n zz")):
        (wordnet / "data.noun").write_bytes(damage)
        assert "data.noun: no synset at byte 50" in refusal()
    (wordnet / "index.noun").write_bytes(b"\xff\xfe\x00 n")
    assert "is no entry of WordNet's index" in refusal()
    (wordnet / "index.noun").write_text("effusion n many\n")
    assert "index.noun: line 'effusion n many' is no entry" in refusal()
    for part in WORDNET_PARTS:
        (wordnet / f"index.{part}").write_text("  a licence and nothing else\n")
    assert "index.noun and the others have no word" in refusal()
    (wordnet / "data.adv").unlink()
    assert "data.adv: not found; settings key 'text_augmentation.wordnet' expects" in refusal()


def test_settings_of_before_do_not_hold_it() -> None:
    settings = JointPretrainingSettings(**MINIMAL, text_augmentation={"protect": ["side"]})
    assert JointPretrainingSettings.model_validate(settings.record()) == settings
    assert "text_augmentation" not in JointPretrainingSettings(**MINIMAL).record()
    assert settings.text_augmentation is not None
    assert settings.text_augmentation.module == "text.eda"
