"""Floors and ceilings: every benchmark that scores models has both, and its ceiling succeeds."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import (
    CATEGORIES,
    QUICK,
    classification_samples,
    grounding_samples,
    metrics_of,
    pairs_of_studies,
    write_cohort,
)
from retrieval_fixtures import write_retrieval
from sklearn.metrics import roc_auc_score

from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.rows.detector import detect_in_folds, surroundings
from cxrflow.benchmarks.rows.supervised_pairs import (
    _by_meanings,
    _by_words,
    out_of_fold,
    similarity,
)
from cxrflow.benchmarks.rows.truth import grades, nearest

ROOT = Path(__file__).parents[3]
SCORING = {name: entry for name, entry in BENCHMARKS.items() if entry.needs}
PROBE = {"fractions": [1.0], "probe_seeds": [0, 1]}
GROUNDING = {"categories": list(CATEGORIES)}


@pytest.mark.parametrize("name", SCORING)
def test_a_benchmark_has_floors_and_a_ceiling_or_says_why_not(name: str) -> None:
    entry = SCORING[name]
    if entry.no_rows:
        assert not entry.references and not entry.ceilings
        return
    assert entry.floors, f"{name} has no floor"
    assert entry.ceilings, f"{name} has no ceiling"
    assert {*entry.ceilings} <= {*entry.references}


def test_what_measures_data_has_neither() -> None:
    for name, entry in BENCHMARKS.items():
        assert entry.needs or not (entry.references or entry.no_rows), name


def rows_of(table: str) -> dict[str, list[str]]:
    """The rows that the second column names, by the benchmarks of the first, or of one above."""
    named: dict[str, list[str]] = {}
    benchmarks: list[str] = []
    for line in table.splitlines():
        if line.startswith(("| `", "| | `")):
            first, second, _ = line[1:].split("|", 2)
            benchmarks = re.findall(r"`(\w+)`", first) or benchmarks
            for name in benchmarks:
                named.setdefault(name, []).extend(re.findall(r"`(\w+)`", second))
    return named


def test_the_documentation_names_every_row() -> None:
    """By the tables of docs/references.md: floors, and below them ceilings."""
    text = (ROOT / "docs/references.md").read_text("utf-8")
    above, below = text.split("## Floors and ceilings")
    floors, ceilings = rows_of(above), rows_of(below.partition("\n## ")[0])
    with_rows = {name: entry for name, entry in SCORING.items() if not entry.no_rows}
    assert floors.keys() == ceilings.keys() == with_rows.keys()
    for name, entry in with_rows.items():
        assert {*floors[name]} == {*entry.floors}, name
        assert ceilings[name] == [*entry.ceilings], name
    for name in SCORING.keys() - with_rows.keys():
        assert f"`{name}`" in below


def scored(folder: Path, pixels: Path, benchmark: str, row: str, cohort: Path, **more):
    """The values that the program writes for a row, and its other counts."""
    settings = QUICK | more.pop("settings", {})
    said = metrics_of(
        main, benchmark, reference=row, cohort=cohort, pixels=pixels, settings=settings,
        output=folder / benchmark / row, **more,
    )  # fmt: skip
    return said["metrics"]


@pytest.mark.parametrize("benchmark", ["phrase_grounding", "segmentation"])
def test_a_detector_is_above_other_patients_boxes(pixels, tmp_path, benchmark):
    table = grounding_samples(60)
    table["split"] = ["train" if n % 2 else "test" for n in range(len(table))]
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table)
    settings = GROUNDING if benchmark == "phrase_grounding" else {"split": "test", **PROBE}
    learnt, floor = (
        scored(tmp_path, pixels, benchmark, row, cohort, settings=settings)["signed_cnr"]
        for row in ("detector", "mean_box")
    )
    assert learnt["low"] > floor["high"] and learnt["boxes"] == learnt["n"]


@pytest.mark.parametrize(
    ("benchmark", "metric", "settings"),
    [
        ("phrase_grounding", "miou", GROUNDING),
        ("segmentation", "iou", PROBE),
        ("zero_shot_classification", "auroc", {}),
        ("linear_probe", "auroc/100", PROBE),
        ("image_retrieval", "precision/5", {"cutoffs": [5]}),
        ("text_retrieval", "precision/5", {"cutoffs": [5]}),
    ],
)
def test_who_is_told_the_answer_is_above_who_sees_no_image(
    pixels, tmp_path, benchmark, metric, settings
):
    if BENCHMARKS[benchmark].kind == "retrieval":
        cohort = write_retrieval(tmp_path / "cohort")
    else:
        boxed = BENCHMARKS[benchmark].program.startswith("grounding")
        table = grounding_samples(60) if boxed else classification_samples(60)
        if boxed:
            table["split"] = ["train" if n % 2 else "test" for n in range(len(table))]
            # Edges lie within cells: a map without any spread would have no contrast.
            table["boxes"] = [[[5 + 8 * (n % 5), 41, 15, 15]] for n in range(len(table))]
            settings = {"split": "test"} | settings
        cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table)
    floor = {"phrase_grounding": "mean_box", "segmentation": "mean_box"}.get(benchmark, "nothing")
    told, untold = (
        scored(tmp_path, pixels, benchmark, row, cohort, settings=settings)[metric]
        for row in ("oracle", floor)
    )
    assert told["value"] > 0.85 > 0.8 > untold["value"]  # boxes are brought to a grid


# --- states ---------------------------------------------------------------------------------------

MILD, SEVERE = "Edema both upper mild", "Edema left lower severe new"
DRAWN = [
    "", MILD, f"{SEVERE}; Support Devices right moderate pacemaker",
    "Support Devices left moderate pacemaker; resolved Edema both upper",
]  # fmt: skip


def test_grades_are_those_of_the_findings_that_are_there() -> None:
    graded = grades(pd.Series(DRAWN), ("Edema", "Support Devices", "No Finding", "Fracture"))
    assert graded == pytest.approx(
        np.array([[0, 0, 1, 0], [1 / 3, 0, 2 / 3, 0], [1, 2 / 3, 0, 0], [0, 2 / 3, 1, 0]])
    )


def test_the_nearest_state_shares_most_of_its_parts() -> None:
    training = pd.Series([MILD, f"{MILD}; {SEVERE}", "", SEVERE])
    wanted = pd.Series([SEVERE, f"{SEVERE}; {MILD}", "", "Fracture left  mild acute"])
    assert nearest(wanted, training).tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize(
    ("benchmark", "metric"),
    [("zero_shot_findings", "auroc"), ("fold_probe", "auroc"),
     ("pair_retrieval", "recall/1/image_to_text"), ("report_generation", "bleu_4")],
)  # fmt: skip
def test_who_knows_the_state_is_above_who_knows_nothing(pixels, tmp_path, benchmark, metric):
    """Reports say what was drawn, in words of their own."""
    count = 60
    state_of = [MILD if n % 2 else "" for n in range(count)]
    texts = [
        f"There is {'mild edema of both lungs' if s else 'no edema at all here'}." for s in state_of
    ]
    table = pairs_of_studies(np.zeros((count, 1)), texts)
    if benchmark == "pair_retrieval":  # each state its own report
        state_of = [f"Fracture left {n} mild" for n in range(count)]
        table["impression"] = [f"Fracture {n}." for n in range(count)]
    if benchmark == "report_generation":
        table["split"] = ["train", "test"] * (count // 2)
        table = table.assign(prior_study_id=None, prior_image_id=None)
        state_of = [MILD if n % 4 < 2 else "" for n in range(count)]
        table["impression"] = [texts[1] if state else texts[0] for state in state_of]
    cohort = write_cohort(tmp_path / "cohort", "pairs.parquet", table)
    known = pd.DataFrame({"study_id": table["study_id"], "state": state_of})
    (tmp_path / "truth").mkdir()
    known.to_parquet(tmp_path / "truth/TRUTH_STATES.parquet")
    settings = {
        "zero_shot_findings": {"classes": ["Edema"]},
        "fold_probe": {"classes": ["Edema"], "metrics": ["auroc"]},
        "pair_retrieval": {"cutoffs": [1]},
        "report_generation": {"controls": False, "tagger": "keywords"},
    }[benchmark]
    floor = "random" if benchmark == "report_generation" else "nothing"
    told = scored(
        tmp_path, pixels, benchmark, "states", cohort, settings=settings, truth=tmp_path / "truth"
    )[metric]
    untold = scored(tmp_path, pixels, benchmark, floor, cohort, settings=settings)[metric]
    assert told["value"] > 0.95 > 0.8 > untold["value"]


# --- words ----------------------------------------------------------------------------------------


def pairs(count: int, seed: int = 0) -> pd.DataFrame:
    """Sentences that contradict each other where one has “no” and the other has not."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        no = rng.random(2) < 0.5
        first, second = (f"{'no ' if n else ''}effusion at site{number % 7}" for n in no)
        label = "entailment" if no[0] == no[1] else "contradiction"
        rows.append((first, f"{second} on day{number}", label))
    return pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])


def test_words_of_pairs_are_learnt_from_other_pairs() -> None:
    table = pairs(120)
    similar = (table["label"] == "entailment").to_numpy()
    assert ((similarity(table) > 0.5) == similar).mean() > 0.95
    # Of labels that are drawn nothing is learnt: no head has seen the pair that it judges.
    shuffled = table.assign(label=np.random.default_rng(1).permutation(table["label"]))
    told = shuffled["label"] == "entailment"
    assert 0.3 < ((similarity(shuffled) > 0.5) == told).mean() < 0.7


def test_meanings_hold_for_words_that_never_met() -> None:
    """Five words of each of three changes; no head has seen the two words that it compares."""
    words = [f"{change}{number}" for change in "abc" for number in range(5)]
    rows, rng = [], np.random.default_rng(0)
    for two_words in combinations(words, 2):
        first, second = rng.permutation(two_words)
        label = "paraphrase" if first[0] == second[0] else "contradiction"
        rows.append((f"effusion {first}", f"effusion {second}", label))
    table = pd.DataFrame(rows, columns=["premise", "hypothesis", "label"])
    similar = (table["label"] == "paraphrase").to_numpy()
    by_words, by_meanings = (
        roc_auc_score(similar, out_of_fold(table, similar.astype(int), head))
        for head in (_by_words, _by_meanings)
    )
    assert by_words < 0.6 < 0.95 < by_meanings


def test_a_label_without_enough_pairs_is_refused() -> None:
    with pytest.raises(InputError, match="pairs of sentences with the label .*; expected 10"):
        similarity(pairs(14))


# --- boxes ----------------------------------------------------------------------------------------


def bright_squares(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise [N, 64, 64] with a bright square anywhere, and the cells [N, 16, 16] that it covers."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 90, (count, 64, 64)).astype(np.uint8)
    boxes = np.zeros((count, 16, 16))
    for image, box in zip(images, boxes, strict=True):
        y, x = rng.integers(0, 12, 2)
        image[4 * y : 4 * y + 16, 4 * x : 4 * x + 16] = 200
        box[y : y + 4, x : x + 4] = 1
    return images, boxes


def test_a_detector_finds_what_it_has_learnt_of_other_patients() -> None:
    images, boxes = bright_squares(30)
    features, patients = surroundings(images, 16), np.arange(30) // 2
    maps = detect_in_folds(features, boxes, patients)
    assert ((maps > 0.5) == (boxes > 0.5)).mean() > 0.98
    # Of boxes that are others' it learns nothing, and it has not seen those that it judges.
    of_others = detect_in_folds(features, boxes[::-1], patients)
    inside = of_others[boxes[::-1] > 0.5].mean() - of_others[boxes[::-1] < 0.5].mean()
    assert abs(inside) < 0.1 < maps[boxes > 0.5].mean() - maps[boxes < 0.5].mean()


def test_a_detector_needs_boxes_and_other_patients() -> None:
    features = surroundings(bright_squares(4)[0], 16)
    with pytest.raises(InputError, match="'boxes' covers 0 of 512 cells"):
        detect_in_folds(features, np.zeros((4, 16, 16)), np.arange(4) // 2)
    with pytest.raises(InputError, match="1 patient with boxes"):
        detect_in_folds(features, np.ones((4, 16, 16)), np.zeros(4, np.int64))


@pytest.mark.parametrize("name", SCORING)
def test_baselines_answer_for_ceilings(name: str) -> None:
    """The class that the entry names is there, and knows the row by its name."""
    entry = SCORING[name]
    for row in entry.ceilings:
        assert imported(entry.baselines)(row, entry.settings()).name == row
