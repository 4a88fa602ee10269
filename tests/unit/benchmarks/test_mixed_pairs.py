"""What MedCutMix mixes beside the truth: pairs of a small model, each measure by hand."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image
from small_text import write_text_model

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxr_hospital.truth import TABLES
from cxrflow.benchmarks.grounding.mixed_pairs import (
    measure_pair,
    predict,
    sides_named,
    sides_of,
)
from cxrflow.benchmarks.grounding.settings import MixedPairsSettings
from cxrflow.benchmarks.inputs import Cohort
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.config import Config, load_config
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder
from cxrflow.encoders.image_encoder import ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import MgcaHeadSettings, VitSettings
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source
from cxrflow.models.model import Model
from cxrflow.text.cleaned_reports import clean_in_tokenizer

HEAD = MgcaHeadSettings(hidden=12)
SIZES = VitSettings(
    blocks=2, width=16, heads=2, patch=8, grid=3, channels=1, projection=6, projection_head=HEAD
)
NAME = "Pleural Effusion"
REPORTS = [
    ("Large left pleural effusion. Heart is large.", "right", [2, 10, 16, 20]),
    ("No pleural effusion is large. Right pleural effusion.", "right", [2, 10, 16, 20]),
    ("Large pleural effusion.", "left", [28, 10, 18, 20]),
    ("Heart is large.", "left", [28, 10, 18, 20]),  # positive, but never by its name
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> ModelInputs:
    folder = tmp_path_factory.mktemp("mixed")
    (folder / "model").mkdir()
    write_text_model(folder / "model")
    config = load_text_encoder(folder / "model").config
    config = config.model_copy(update={"projection_head": HEAD, "projection_size": 6})
    torch.manual_seed(4)
    save_text_encoder(CXRBert(config), folder / "model")
    save_image_encoder(ImageEncoder(SIZES), folder / "model")
    clean_in_tokenizer(folder / "model")
    run = {"data": {"geometry": "longer32"}, "settings": {"augmentation": {"size": 24}}}
    write_json(folder / "model" / "run.json", run)
    sources, rows, sentences, boxes = [], [], [], []
    for number, (text, _, box) in enumerate(REPORTS):
        grey = np.random.default_rng(number).integers(0, 255, (40, 48), dtype=np.uint8)
        Image.fromarray(grey).save(folder / f"i{number}.png")
        sources.append(Source(f"i{number}", f"i{number}.png"))
        rows.append((f"p{number}", f"{number}", f"i{number}", "train", [1.0, 0.0], None, text))
        boxes.append((f"i{number}", NAME, *box))
        told = [s for s in text.split(". ") if NAME.lower() in s.lower() and "No " not in s]
        sentences += [(number, NAME, s if s.endswith(".") else f"{s}.") for s in told]
    columns = ["subject_id", "study_id", "image_id", "split", "labels", "findings", "impression"]
    build_store(folder, sources, Geometry.parse("longer32"), PixelSettings(), folder / "pixels", 1)
    table = pd.DataFrame(sentences, columns=["study_id", "observation", "sentence"])
    table.to_parquet(folder / TABLES["sentences"].file)
    columns_of_box = ["image_id", "observation", "x", "y", "width", "height"]
    pd.DataFrame(boxes, columns=columns_of_box).to_parquet(folder / TABLES["boxes"].file)
    options = Namespace(
        model=folder / "model", pixels=folder / "pixels", truth=folder, cohort=folder
    )
    made = ModelInputs(options, "pairs.parquet")
    made.cohort = Cohort(pd.DataFrame(rows, columns=columns), {}, (NAME, "Edema"))
    return made


def settings(**values) -> MixedPairsSettings:
    return MixedPairsSettings(classes=(NAME,), **values)


def test_each_measure_is_that_of_the_definition(inputs: ModelInputs) -> None:
    result = predict(inputs, settings(region="mean"))
    table = result.table.set_index("sample_id")
    assert len(table) == 3 and set(table["subject_id"]) == {"p0", "p1", "p2"}
    model = Model.load(inputs.options.model)
    for name, row in table.iterrows():
        source, target = (int(part[1]) for part in str(name).partition("/")[0].split(">"))
        assert source != target and 3 not in (source, target)
        text, _, (x, y, w, h) = REPORTS[source]
        shown = model.encode_image(Path(inputs.options.cohort) / f"i{source}.png")
        patch_MP = shown.projected_patches[0].flatten(0, 1).double()
        encoded = model.encode_texts([text])
        assert encoded.words is not None
        cleaned = text.lower().replace(".", "").split()
        number_of_sentence = np.repeat(
            np.arange(text.count(".")), [len(s.split()) for s in text.rstrip(".").split(". ")]
        )
        wanted = [
            n for n, s in enumerate(text.rstrip(".").split(". ")) if "pleural effusion" in s.lower()
        ]
        words = [w for w, n in enumerate(number_of_sentence) if n in wanted]
        assert len(cleaned) == encoded.words.lengths[0]
        word_WP = torch.nn.functional.normalize(encoded.words.word_BWD[0].double(), dim=1)
        region = (word_WP[words] @ patch_MP.T / 0.005).softmax(1).mean(0)
        # The square of 32 pixels holds 48 x 40 ones; its centre begins 4 pixels in.
        pixels = np.zeros((24, 24))
        scale, above = 32 / 48, (32 - 26) // 2
        for row_ in range(24):
            for column in range(24):
                px = (column + 4 + 0.5) / scale
                py = (row_ + 4 + 0.5 - above) / (26 / 40)
                pixels[row_, column] = x <= px < x + w and y <= py < y + h
        inside = pixels.reshape(3, 8, 3, 8).mean((1, 3)).ravel()
        expected = float((region.numpy() * inside).sum() / region.sum())
        assert row["attention_in_box"] == pytest.approx(expected, abs=1e-4)
        assert row["box_share"] == pytest.approx(inside.mean(), abs=1e-4)
        assert row["sentence_correct"] == {0: 1.0, 1: 0.5, 2: 1.0}[source]
    assert result.statistic is not None
    values = result.statistic(np.ones((1, 3)))
    assert values["sentence_correct"][0] == pytest.approx(2.5 / 3)
    assert values["box_share/pleural_effusion"][0] == pytest.approx(table["box_share"].mean())
    assert result.data["pairs"] == {NAME: 3}


def test_our_labeller_takes_the_sentence_that_says_it_is_there(inputs: ModelInputs) -> None:
    table = predict(inputs, settings(sentences="labeller")).table
    assert (table["sentence_correct"] == 1).all() and len(table) == 3


def test_a_region_shows_what_half_of_its_box_is_of() -> None:
    region, source, target = (np.array(v) for v in ([1, 0.2, 0], [0.5, 0.5, 0], [0, 0.5, 1]))
    found = measure_pair(region, source, target)
    assert found["attention_in_box"] == pytest.approx(0.6 / 1.2)
    assert found["box_share"] == pytest.approx(1 / 3)
    assert (found["source_region"], found["target_region"]) == (1.0, 1.0)  # 0.6 and 0.93
    assert measure_pair(1 - region, source, target)["source_region"] == 0
    nowhere = measure_pair(region, 0 * source, target)
    assert np.isnan([nowhere["attention_in_box"], nowhere["box_share"]]).all()


def test_sides_are_the_patients() -> None:
    assert sides_named(["Small LEFT effusion", "right base"]) == {"left", "right"}
    assert sides_named(["bibasilar atelectasis"]) == sides_named(["bilateral effusions"])
    assert sides_named(["both"]) == {"left", "right"} and sides_named(["heart"]) == set()
    assert sides_of([[0, 0, 10, 5]], 48) == {"right"} and sides_of([[30, 0, 9, 9]], 48) == {"left"}


def test_what_cannot_be_paired_is_named(inputs: ModelInputs) -> None:
    with pytest.raises(InputError, match="'classes' names 'Hernia'; the cohort has Pleural"):
        predict(inputs, MixedPairsSettings(classes=("Hernia",)))
    with pytest.raises(InputError, match="no class has two patients of split 'train'"):
        predict(inputs, MixedPairsSettings(classes=("Edema",)))


def test_it_is_measured_where_the_hospital_knows_the_truth() -> None:
    root = Path(__file__).parents[3]
    plain = load_config([root / "config.yaml"])
    assert not plain.models.knows_findings("medcutmix/mimic_cxr")
    tailed = load_config([root / "config.yaml", root / "long_tail.yaml"])
    assert tailed.results.keys() == {"medcutmix"}
    assert tailed.models.knows_findings("medcutmix/mimic_cxr")
    assert tailed.values.results == "results/long_tail"
    assert tailed.tasks["medcutmix/mixed_pairs"].available
    assert tailed.results["medcutmix"].cells("mixed_pairs")
    hospital = {"synthetic_hospital": plain.values.synthetic_hospital}
    without = Config(tailed.values.model_copy(update=hospital))  # the papers stay
    assert not without.tasks["medcutmix/mixed_pairs"].available
