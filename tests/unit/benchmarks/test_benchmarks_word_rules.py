"""What the words of two sentences tell by themselves, and the reference rows made of it."""

import itertools
import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import DATA, QUICK, result_of, write_cohort
from config_overlays import DEMO
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.metrics import roc_auc_score

from cxr_hospital.radiology_pairs import radiology_pairs
from cxr_hospital.temporal_pairs import temporal_pairs
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.rows.sentences import similarities
from cxrflow.config import load_config
from cxrflow.data.readers.nli import LABELS

RULES = BENCHMARKS["paraphrase_detection"].floors
HOSPITAL = load_config([DEMO]).values.synthetic_hospital  # of the demonstration
LARGEST = 0.75
FIRST = ["No left effusion.", "Clear lungs.", "Small left effusion", "Edema, edema"]
SECOND = ["There is no effusion.", "The lungs are clear.", "No left effusion", "opacity"]
LIGHT = """
import sys
from cxrflow.benchmarks.evaluate import main
main(sys.argv[1:])
assert not {"torch", "sklearn"} & set(sys.modules), sorted(sys.modules)
"""


@pytest.mark.parametrize(
    ("rule", "vectors"), [("words", CountVectorizer), ("tfidf", TfidfVectorizer)]
)
def test_cosines_are_those_of_scikit_learn(rule: str, vectors: type) -> None:
    corpus = [*FIRST, *SECOND]
    fitted = vectors(token_pattern=r"\w+").fit(corpus)
    a, b = (fitted.transform(side).toarray() for side in (FIRST, SECOND))
    wanted = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    assert similarities(rule, FIRST, SECOND, corpus) == pytest.approx(wanted)


def test_the_other_rules_by_hand() -> None:
    by_hand = ("random", "negation", "overlap", "length", "nothing")
    found = {rule: similarities(rule, FIRST, SECOND, []).tolist() for rule in by_hand}
    assert found["nothing"] == [0, 0, 0, 0]
    assert found["negation"] == [1, 1, 0, 1]
    assert found["overlap"] == [2 / 5, 2 / 4, 2 / 4, 0]
    assert found["length"] == [3 / 4, 2 / 4, 1, 1 / 2]
    assert len(set(found["random"])) == 4 and 0 <= min(found["random"]) <= max(found["random"]) < 1


def test_words_of_change_are_compared_by_their_direction() -> None:
    first = ["Effusion has increased.", "Stable edema", "Edema is smaller", "No effusion"]
    second = ["Worsening effusion", "Edema has improved", "Edema is smaller, new air", "No edema"]
    assert similarities("change_words", first, second, []).tolist() == [1, 0, 0, 1]


def areas(pairs: Iterable[tuple[str, str, bool]]) -> dict[str, float]:
    """By rule, how well it tells the similar pairs from the opposed, in the better direction."""
    first, second, similar = map(list, zip(*pairs, strict=True))
    words = [[set(text.lower().strip(".").replace(",", "").split()) for text in side]
             for side in (first, second)]  # fmt: skip
    more = {
        "second's words in the first": [len(a & b) / len(b) for a, b in zip(*words, strict=True)],
        "longer first": [len(a) - len(b) for a, b in zip(*words, strict=True)],
        "both long": [len(a) + len(b) for a, b in zip(*words, strict=True)],
    }
    rules = {rule: similarities(rule, first, second, first + second) for rule in RULES}
    found = {name: float(roc_auc_score(similar, scores)) for name, scores in (rules | more).items()}
    return {name: max(area, 1 - area) for name, area in found.items()}


def test_no_rule_of_words_tells_entailments_from_contradictions() -> None:
    """In either file."""
    previous: set[frozenset[str]] = set()
    for file in (0, 1):
        found = areas(
            (row.premise, row.hypothesis, row.label == "entailment")
            for row in radiology_pairs(HOSPITAL, HOSPITAL.radnli_pairs, file, previous)
            if row.label != "neutral"
        )
        assert max(found.values()) < LARGEST, (file, found)


def test_no_rule_of_words_tells_paraphrases_from_contradictions() -> None:
    pairs = temporal_pairs(HOSPITAL, HOSPITAL.followed.sentence_pairs)
    for subset in ({"Swaps"}, {"RadGraph"}, {"Swaps", "RadGraph"}):
        found = areas(
            (pair.first, pair.second, pair.category == "paraphrase")
            for pair in pairs
            if pair.subset in subset
        )
        assert max(found.values()) < LARGEST, (subset, found)


def samples(labels: tuple[str, ...], count: int = 60) -> pd.DataFrame:
    """The first label's pairs share a word, and no pair of the others does."""
    rows = []
    for number, label in zip(range(count), itertools.cycle(labels), strict=False):
        second = "air" if label == labels[0] else "fluid"
        rows.append((f"s{number}", f"air at site{number}", f"{second} on day{number % 5}", label))
    table = pd.DataFrame(rows, columns=["sample_id", "premise", "hypothesis", "label"])
    return table.assign(split="test")


def test_rules_stand_in_for_a_models_cosine() -> None:
    table = samples(("entailment", "contradiction"))
    cohort = Cohort(table, DATA)
    found = {
        name: result_of("paraphrase_detection", {}, reference=name, cohort=cohort) for name in RULES
    }
    assert found["words"].metrics["accuracy"].value == 1
    assert found["words"].protocol["embedding"] == "words"
    assert found["negation"].metrics["auroc"].value == 0.5
    assert 0.2 < found["random"].metrics["auroc"].value < 0.8
    overlap = result_of("sentence_similarity", {}, reference="overlap", cohort=cohort)
    assert overlap.metrics["cont_gap"].value == pytest.approx(1 / 5)


def test_a_rule_waits_for_no_large_library(tmp_path: Path) -> None:
    """Importing torch and scikit-learn takes three times as long as such a row."""
    cohort = write_cohort(tmp_path, "samples.parquet", samples(("entailment", "contradiction")))
    row = ["sentence_similarity", "--reference", "words", "--cohort", str(cohort)]
    command = [sys.executable, "-c", LIGHT, *row, "--output", str(tmp_path / "scores")]
    subprocess.run([*command, "--settings", json.dumps(QUICK)], check=True)
    assert (tmp_path / "scores/metrics.json").is_file()


def test_a_regression_on_words_stands_in_for_the_encoder(tmp_path: Path) -> None:
    benchmark, table = "natural_language_inference", samples(LABELS, 120)
    tested = [
        table.assign(split=split, sample_id=split + table["sample_id"])
        for split in ("validate", "test")
    ]
    cohort = Cohort(pd.concat(tested, ignore_index=True), DATA)
    folders = Namespace(
        training=write_cohort(tmp_path, "samples.parquet", table.assign(split="train"))
    )
    found = {
        name: result_of(benchmark, {"run_seeds": [0, 1]}, folders, name, cohort=cohort)
        for name in BENCHMARKS[benchmark].references
    }
    right = {name: result.metrics["accuracy"].value for name, result in found.items()}
    # Of three labels the first is told from the others, which are alike.
    assert right["words"] == right["hypothesis"] == pytest.approx(2 / 3)
    # Each test pair stands among the validation pairs, too, from which it then does not learn.
    assert 0.4 < right["supervised"] < 0.8  # the labels that are alike come out below chance
    assert right["negation"] == pytest.approx(1 / 3) and 0.2 < right["random"] < 0.5
    spread = {name: found[name].metrics["accuracy_sd"].value for name in ("random", "words")}
    assert spread["random"] > 0 == spread["words"]
