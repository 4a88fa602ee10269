"""Reference rows that have learnt nothing, and the controls of phrase grounding."""

import inspect
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import (
    CATEGORIES,
    CELLS,
    DATA,
    QUICK,
    SIZE,
    FakeModel,
    classification_samples,
    grounding_samples,
    metrics_of,
    result_of,
    write_cohort,
)
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.grounding.controls import (
    control_phrases,
    names_place,
    place_words,
    side_exchanged,
)
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.registry import BENCHMARKS, EXTERNAL, imported
from cxrflow.benchmarks.result import Result
from cxrflow.benchmarks.rows.boxes import covered, mean_of_others, reference_maps
from cxrflow.benchmarks.rows.pictures import described
from cxrflow.images.geometry import Geometry
from cxrflow.images.store import PixelStore

COUNT = 60
PROBE = {"fractions": [1.0], "probe_seeds": [0, 1]}


def scored(folder, pixels, benchmark, name, table, **settings):
    """The metrics that the program writes for a reference row."""
    cohort = write_cohort(folder / "cohort", "samples.parquet", table)
    read = {"cohort": cohort, "pixels": pixels, "settings": QUICK | settings}
    said = metrics_of(main, benchmark, reference=name, **read, output=folder / name)
    assert said["model"] == f"reference/{name}" and said["seed"] == 0
    return {name: entry["value"] for name, entry in said["metrics"].items()}


def boxed(samples: pd.DataFrame) -> pd.DataFrame:
    """Phrases that say where their square is: it stands on the left in one half of the patients."""
    left = samples["subject_id"].str[1:].astype(int) % 2 == 0
    words = np.where(left, "left", "right")
    boxes = [[[(4 if one else 40) + n % 5, 40, 16, 16]] for n, one in enumerate(left)]
    return samples.assign(phrase=[f"bright area on the {word}" for word in words], boxes=boxes)


def test_means_leave_the_own_patient_out():
    maps = np.arange(5.0)[:, None, None] * np.ones((5, 2, 2))
    found = mean_of_others(maps, ["a", "a", "a", "b", "b"], ["p", "p", "q", "r", "r"])[:, 0, 0]
    # Of b there is no other patient.
    assert found.tolist() == [2.0, 2.0, 0.5, 0.0, 0.0]
    every = np.full((5, 2, 2), 7.0)
    found = mean_of_others(maps, ["a", "a", "a", "b", "b"], ["p", "p", "q", "r", "r"], every)
    assert found[:, 0, 0].tolist() == [2.0, 2.0, 0.5, 7.0, 7.0]


def test_a_cell_is_covered_by_its_share():
    sample = pd.Series({"image_height": 64, "image_width": 64})
    found = covered([[0, 0, 3, 2]], sample, Geometry.parse("shorter64"))
    assert found.shape == (32, 32)
    assert found[0, :3].tolist() == [1.0, 0.5, 0.0] and found.sum() == 1.5


def test_place_words_place_the_box(pixels, tmp_path):
    table = boxed(grounding_samples(COUNT))
    values = {
        name: scored(tmp_path, pixels, "phrase_grounding", name, table, categories=list(CATEGORIES))
        for name in BENCHMARKS["phrase_grounding"].floors
    }
    # With words of place the boxes of others are about the own; without, it is on either side.
    assert values["place_box"]["miou"] > 0.7 > values["finding_box"]["miou"]
    assert values["place_box"]["signed_cnr"] > 1.5 * values["finding_box"]["signed_cnr"]
    assert values["mean_box"]["signed_cnr"] > 0


def test_the_blob_is_in_the_middle():
    samples = grounding_samples(6)
    (first, *_) = reference_maps("centre", samples, Geometry.parse("shorter64"))
    assert np.array_equal(first, first[::-1, ::-1]) and first.argmax() in (15 * 33, 15 * 33 + 1)
    assert first[16, 24] / first[16, 16] == pytest.approx(np.exp(-(8.5**2 - 0.5**2) / 128), 1e-6)


def test_probes_on_pixels_agree_with_scikit_learn(pixels, tmp_path):
    """The thumbnail's features, probed by hand with a library; nothing is at chance."""
    table = classification_samples(COUNT)
    found = scored(tmp_path, pixels, "linear_probe", "thumbnail", table, **PROBE)
    store = PixelStore(pixels)
    features = described("thumbnail", store.read(store.rows(table["image_id"])))
    labels = np.array([one[0] for one in table["labels"]])
    train = (table["split"] == "train").to_numpy()
    head = LogisticRegression(max_iter=1000).fit(features[train], labels[train])
    area = roc_auc_score(labels[~train], head.decision_function(features[~train]))
    assert area > 0.7 and found["auroc/100"] == pytest.approx(area, abs=0.15)
    assert scored(tmp_path, pixels, "linear_probe", "nothing", table, **PROBE)["auroc/100"] == 0.5


def test_brightness_needs_no_prompts(pixels, tmp_path):
    """Of the pictures those with a square are brighter."""
    table = classification_samples(COUNT)
    bright = scored(tmp_path, pixels, "zero_shot_classification", "brightness", table)
    assert bright["auroc"] == 1.0 == bright["auroc/suggesting_acute"]
    nothing = scored(tmp_path, pixels, "zero_shot_classification", "nothing", table)
    assert nothing["auroc"] == 0.5 and nothing["prompts_spread"] == 0


def test_descriptions_of_pixels():
    images = np.zeros((2, 64, 64), np.uint8)
    images[1, :8, :8] = 255
    assert described("nothing", images).shape == (2, 1)
    thumbnail = described("thumbnail", images)
    assert thumbnail[0].sum() == 0 and thumbnail[1].tolist() == [1.0] + [0.0] * 63
    histogram = described("intensity", images)
    assert histogram[:, 0].tolist() == [1.0, 63 / 64] and histogram[1, -1] == 1 / 64
    random = described("random", images)
    assert np.array_equal(random, described("random", images)) and random.shape == (2, 512)
    # Rahimi and Recht: products approach the Gaussian kernel exp(-|x - y|^2 / (2 width^2)).
    distance = np.linalg.norm(described("thumbnail", images)[0] - 0) + 4.0  # 16 cells of 32 x 32
    wanted = np.exp(-((distance / (0.2 * 32)) ** 2) / 2)
    assert random[0] @ random[1] == pytest.approx(wanted, abs=0.12)


def test_segmentation_by_boxes_and_by_brightness(pixels, tmp_path):
    table = grounding_samples(COUNT)
    table["split"] = ["train" if n % 2 else "test" for n in range(len(table))]
    bright = scored(tmp_path, pixels, "segmentation", "brightness", table, **PROBE)
    mean = scored(tmp_path, pixels, "segmentation", "mean_box", table, **PROBE)
    # The squares are bright, and stand in many places.
    assert bright["iou"] > 0.9 > 0.4 > mean["iou"]
    assert not any("/100" in name for name in bright)


def test_an_unknown_row_is_one_line(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["segmentation", "--reference", "centre", "--cohort", "c", "--output", "o"])
    assert "has no reference 'centre'; has mean_box, brightness" in capsys.readouterr().err


# --- controls -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrase", "other"),
    [
        ("Small left effusion", "Small right effusion"),
        ("Right basal opacity, right lung", "Left basal opacity, left lung"),
        ("left and right effusions", None),
        ("both bases, left", None),
        ("Edema", None),
        ("the leftmost", None),
    ],
)
def test_sides_are_exchanged(phrase, other):
    assert side_exchanged(phrase) == other


def test_places_are_known_by_their_words():
    placed = ["left effusion", "bibasilar atelectasis", "Perihilar haze", "apical air", "midlung"]
    assert all(map(names_place, placed))
    assert not any(map(names_place, ["Pulmonary edema", "The heart is large", "pneumonia"]))
    assert place_words("Left lower lobe, left base") == ["base", "left", "lower"]


def test_each_gets_one_of_another_group():
    groups = pd.Series(list("aaabbccde"))
    found = exchange(groups)
    assert sorted(found) == list(range(9)) and all(groups[found].to_numpy() != groups)
    lonely = exchange(pd.Series(list("aaab")))
    assert (lonely == -1).sum() == 2
    unnamed = exchange(pd.Series(["a", None, None, "a"]))  # patients that nobody named
    assert sorted(unnamed) == list(range(4)) and set(unnamed[[0, 3]]) == {1, 2}
    assert sorted(exchange(pd.Series([None] * 5, dtype=object))) == list(range(5))


@dataclass
class Reader(FakeModel):
    """Sees the bright square, and reads one word: a phrase of Edema points away from it."""

    def encode_text(self, texts: list[str]) -> torch.Tensor:
        dark = torch.tensor(["Edema" in text or "right" in text for text in texts])
        return torch.nn.functional.one_hot((~dark).long(), 2).float()


def test_controls_are_what_their_exchanged_inputs_score(pixels):
    table = grounding_samples(COUNT)
    left = [f"{category}, left" for category in table["category"]]
    table = table.assign(phrase=left)
    settings = PhraseGroundingSettings.model_validate(QUICK | {"categories": list(CATEGORIES)})
    store = PixelStore(pixels)

    def result_of_rows(rows: pd.DataFrame) -> Result:
        contents = {"cohort": Cohort(rows, DATA), "pixels": store, "model": Reader()}
        return result_of("phrase_grounding", settings, **contents)

    def signed(rows: pd.DataFrame) -> pd.Series:
        return result_of_rows(rows).predictions.set_index("sample_id")["signed_cnr"]

    result = result_of_rows(table)
    scores = result.predictions.set_index("sample_id")
    wanted = signed(table.assign(phrase=control_phrases(table)["other_finding"]))
    assert np.allclose(scores["signed_cnr_other_finding"], wanted)
    partner = exchange(table["subject_id"])
    wanted = signed(table.assign(image_id=table["image_id"].to_numpy()[partner]))
    assert np.allclose(scores["signed_cnr_other_image"], wanted)
    wanted = signed(table.assign(phrase=[text.replace("left", "right") for text in left]))
    assert np.allclose(scores["signed_cnr_other_side"], wanted)
    assert result.metrics["signed_cnr/other_side"].value == pytest.approx(wanted.mean())
    each = scores.groupby("category")["signed_cnr_other_image"].mean()
    assert result.metrics["signed_cnr/other_image"].value == pytest.approx(each.mean())
    assert result.metrics["signed_cnr/placed"].n == len(table)
    assert "signed_cnr/unplaced" not in result.metrics
    assert SIZE % CELLS == 0


def questions(program: str) -> set[str]:
    """What a program asks its row for."""
    source = Path(imported(program).__file__).read_text("utf-8")
    named = set(re.findall(r"inputs\.ask\((\w+)", source))
    return named | ({"features"} if "inputs.features" in source else set())


@pytest.mark.parametrize("benchmark", [name for name, e in BENCHMARKS.items() if e.references])
def test_a_row_answers_what_a_model_does(benchmark):
    """By a method with the arguments of the program's own function; there are four to ask for."""
    entry = BENCHMARKS[benchmark]
    asked = questions(entry.program)
    if benchmark == "zero_shot_findings":  # it labels what this one scores
        asked |= questions(BENCHMARKS["zero_shot_classification"].program)
    assert asked and asked <= {"features", "scores", "maps", "reports"}
    for row in [entry.baselines, *([EXTERNAL] if entry.external else [])]:
        for question in asked:
            answer = getattr(imported(row), question, None)
            own = getattr(imported(entry.program), question, None)
            # Who puts candidates in any order is asked for none, and a file's vectors are scores.
            if answer is None:
                assert entry.references == ("nothing",) or row == EXTERNAL, (row, question)
            elif own is not None and question != "features":
                parameters = [len(inspect.signature(f).parameters) for f in (own, answer)]
                assert parameters[0] + 1 == parameters[1], (row, question)
