"""The decoder's next word says what became of a finding: against transformers on its folder."""

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from benchmark_fakes import result_of, settings_of, studies_of, write_cohort
from sklearn.metrics import balanced_accuracy_score
from test_benchmarks_temporal import ONE, PATIENTS, TWO, options, samples_of, world, write_model
from torch import nn
from transformers import BertLMHeadModel

from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.benchmarks.temporal.settings import TemporalPromptingSettings
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import Frames, load_image_encoder
from cxrflow.encoders.report_decoder import ReportDecoder, load_decoder, save_decoder
from cxrflow.encoders.settings import ReportDecoderSettings, TextEncoderSettings
from cxrflow.images.store import PixelStore
from cxrflow.text.tokenizer import SPECIAL_TOKENS, VocabularyInfo, read_tokenizer, write_tokenizer

__all__ = ["world"]
POSTERIORS = [f"own_prior_{name}_seed0" for name in DIRECTIONS]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
WHOLE = ("edema", "is", "stable", "improved", "improving", "new", "worse", "effusion", "##ned")
WORDS = [word for words in TemporalPromptingSettings().words.values() for word in words]
HALVES = [half for word in WORDS for half in (word[:4], f"##{word[4:]}") if word not in WHOLE]
LONE = (*LETTERS, *(f"##{one}" for one in LETTERS))
PIECES = list(dict.fromkeys([*SPECIAL_TOKENS, *LONE, *WHOLE, *HALVES]))
ENCODER = TextEncoderSettings(
    layers=2, width=32, heads=4, feed_forward=48, positions=64, projection=16
)


def writer(folder: Path, image: dict = TWO, **reads: object) -> Path:
    """A model folder with a random image encoder and a random decoder."""
    write_model(folder, image)
    write_tokenizer(folder, PIECES, lowercase=True)
    pieces = VocabularyInfo.from_folder(folder).fingerprint
    settings = ReportDecoderSettings.model_validate(
        {"length": 60, "report_length": 24, "sections": ["impression"], **reads}
    )
    text = CXRBert.build(ENCODER, len(PIECES), 0)
    decoder = ReportDecoder.start(text, pieces, 16, settings)
    torch.manual_seed(1)
    for parameter in decoder.parameters():  # as drawn, all images would give the same
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=0.4)
    save_decoder(decoder, folder)
    return folder


def settings(**values: object) -> TemporalPromptingSettings:
    return settings_of("temporal_prompting", {"findings": ["Edema"], "device": "cpu", **values})


def by_transformers(
    folder: Path, world: Path, chosen: TemporalPromptingSettings, prompts: list[list[int]]
) -> np.ndarray:
    """The normalised posterior, a study and a word at a time."""
    theirs = BertLMHeadModel.from_pretrained(folder / "decoder").eval()
    linear = nn.Linear(16, ENCODER.width)
    linear.load_state_dict(load_decoder(folder).cross.patches.state_dict())
    image, tokenizer = load_image_encoder(folder).eval(), read_tokenizer(folder)
    store, table = PixelStore(world / "pixels"), pairs_of(world)
    found = []
    for prompt, row in zip(prompts, table.itertuples(), strict=True):
        pixels = [
            torch.from_numpy(np.array(store.read(store.rows([one]))))[:, None].float() / 255
            for one in (row.image_id, row.prior_image_id)
        ]
        frames = Frames(*pixels)
        begin = [*prompt, *tokenizer.encode("edema is", add_special_tokens=False).ids]
        sums = []
        with torch.no_grad():
            seen = linear(image(frames).unnormalised_patches.flatten(1, 2))
            for name in DIRECTIONS:
                chances = []
                for word in chosen.words[name]:
                    ids = tokenizer.encode(word, add_special_tokens=False).ids
                    whole = torch.tensor([[*begin, *ids]])
                    logits = theirs(input_ids=whole, encoder_hidden_states=seen).logits[0]
                    after = logits.softmax(1)[len(begin) - 1 : -1]
                    chances.append(float(after[torch.arange(len(ids)), ids].prod()))
                sums.append(sum(chances) / (len(chances) if chosen.pooled == "mean" else 1))
        found.append(np.array(sums) / sum(sums))
    return np.array(found)


def given(world: Path, folder: Path | None, tmp_path: Path) -> Namespace:
    return Namespace(**vars(options(world, folder, tmp_path)), training=None)


def pairs_of(world: Path) -> pd.DataFrame:
    _, table = samples_of(world)
    return table[(table["split"] == "test") & (table["finding"] == "Edema")]


@pytest.mark.parametrize("pooled", ["sum", "mean"])
def test_answers_are_those_of_transformers(world: Path, tmp_path: Path, pooled: str) -> None:
    """Of the paper's words, most of which have several pieces here."""
    folder, chosen = writer(tmp_path / "model"), settings(pooled=pooled, batch_size=5)
    result = result_of("temporal_prompting", chosen, given(world, folder, tmp_path))
    rows = result.predictions
    start = [PIECES.index("[CLS]"), PIECES.index("[SEP]")]
    expected = by_transformers(folder, world, chosen, [start] * len(rows))
    np.testing.assert_allclose(rows[POSTERIORS].to_numpy(), expected, rtol=2e-4, atol=1e-6)
    answers = [DIRECTIONS[place] for place in expected.argmax(1)]
    assert rows["own_prior_seed0"].tolist() == answers
    value = balanced_accuracy_score(rows["label"], answers)
    assert result.metrics["macro_accuracy/edema"].value == pytest.approx(value)
    assert result.metrics["macro_accuracy/edema"].n == len(rows) == PATIENTS // 4
    assert {"macro_accuracy", "other_prior", "other_prior/edema"} <= set(result.metrics)


def test_prior_reports_stand_before_the_prefix(world: Path, tmp_path: Path) -> None:
    folder = writer(tmp_path / "model")
    table, texts = pairs_of(world), ["New edema", "worse", "stable effusion is new"]
    studies = [f"s{number}" for number in range(len(table))]
    table = table.assign(prior_study_id=studies)
    asked = given(world, folder, tmp_path)
    asked.cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table, DIRECTIONS)
    reports = studies_of(
        [texts[number % 3] for number in range(len(table) - 1)], study_id=studies[1:]
    )
    asked.training = write_cohort(tmp_path / "pairs", "pairs.parquet", reports)
    result = result_of("temporal_prompting", settings(), asked)
    tokenizer, special = read_tokenizer(folder), VocabularyInfo.from_folder(folder)
    earlier = ["", *reports["impression"]]
    prompts = [
        [special.cls_, *tokenizer.encode(text, add_special_tokens=False).ids, special.sep]
        for text in earlier
    ]
    expected = by_transformers(folder, world, settings(), prompts)
    found = result.predictions[POSTERIORS].to_numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)
    assert result.protocol["prior_report"] is True
    assert result.data["with_prior_report"] == len(studies) - 1


def test_a_decoder_that_saw_no_prior_is_given_none(world: Path, tmp_path: Path) -> None:
    """Its control is what it says itself."""
    folder = writer(tmp_path / "model", prior_image=False)
    result = result_of("temporal_prompting", settings(), given(world, folder, tmp_path))
    assert result.protocol["prior_image"] is False
    assert result.metrics["macro_accuracy"].value == result.metrics["other_prior"].value


def test_the_program_says_what_is_wrong(world, tmp_path, capsys):
    folder = writer(tmp_path / "model", ONE)
    read = ["--model", folder, "--cohort", world / "cohort", "--pixels", world / "pixels"]
    arguments = ["temporal_prompting", *map(str, read), "--output", str(tmp_path / "out")]

    def said(**values: object) -> str:
        with pytest.raises(InputError) as caught:
            main([*arguments, "--settings", json.dumps({"device": "cpu", **values})])
        return str(caught.value)

    assert "key 'findings' has '水 is', which the vocabulary of" in said(findings=["Edema", "水"])
    words = {name: [name] for name in DIRECTIONS} | {"stable": ["stable", "±0"]}
    assert "key 'words.stable' has '±0'" in said(findings=["Edema"], words=words)
    assert "words has none of class worsening" in said(words={"improving": ["a"], "stable": ["b"]})
    assert "no sample is left" in said(findings=["Pneumonia"])
    (folder / "decoder/config.json").unlink()
    assert said(findings=["Edema"]).endswith("holds no decoder/config.json; it writes no reports")


def test_rows_that_read_no_prompt(world: Path, tmp_path: Path) -> None:
    """Brighter is worse, as it is in these pictures; who says stable knows no direction."""
    asked = given(world, None, tmp_path)
    rows = {
        name: result_of("temporal_prompting", settings(), asked, name).metrics
        for name in BENCHMARKS["temporal_prompting"].references
    }
    assert rows["brightness"]["direction_auroc"].value == 1.0
    assert rows["brightness"]["macro_accuracy"].value > 0.8
    assert rows["nothing"]["macro_accuracy"].value == pytest.approx(1 / 3)
    assert rows["nothing"]["direction_auroc"].value == 0.5
    told = rows["oracle"]  # and of another patient's prior nothing is known
    assert told["macro_accuracy"].value == 1 == told["direction_auroc"].value
    assert told["other_prior"].value == pytest.approx(1 / 3)
    assert told["direction_auroc_other_prior"].value == 0.5
    assert abs(rows["random"]["macro_accuracy"].value - 1 / 3) < 0.25
