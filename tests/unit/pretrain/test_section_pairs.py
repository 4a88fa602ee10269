"""What a training starts from, as its record names it, and what phase III matches."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from small_text import write_text_model

from cxr_files.atomic import file_digest, write_json
from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import load_text_encoder
from cxrflow.pretrain.inputs import Pairs, Run, model_fingerprint
from cxrflow.pretrain.objective import Batch
from cxrflow.pretrain.packed_corpus import require_filled_parts
from cxrflow.pretrain.section_pairs import (
    SectionPairsProgram,
    matched_reports,
    single_section,
    words_alone,
)
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.report_batch import SECTIONS, ReportTokens
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE, Processes
from cxrflow.training.settings import TrainingSettings

TWICE = {"section_matching": {"pair": "findings_findings"}, "mlm": {"forward": "shared"}}


def settings(terms) -> TextPretrainingSettings:
    training = {"batch_size": 4, "epochs": 1}
    return TextPretrainingSettings(training=training, terms=terms, length=40)


@pytest.fixture
def pairs(tmp_path) -> Pairs:
    """Ten patients; every third report has no IMPRESSION, the last no FINDINGS."""
    findings = [["heart is large .", "no effusion .", "no .", "pleural nodule ."]] * 9 + [None]
    frame = pd.DataFrame(
        {
            **{f"{name}_id": [f"{name}{n}" for n in range(10)] for name in ("subject", "study")},
            "image_id": None,
            "findings": None,
            "impression": None,
            "findings_sentences": findings,
            "impression_sentences": [["no nodule ."] if n % 3 else None for n in range(10)],
            "split": "train",
        }
    )
    frame.to_parquet(tmp_path / "pairs.parquet")
    write_json(tmp_path / "flow.json", {"dataset": "d", "cohort": "c", "synthetic": True})
    return Pairs(tmp_path / "pairs.parquet")


def test_reports_without_impression_count_where_findings_are_matched(pairs):
    both = matched_reports(pairs, "train", settings({"section_matching": {}, "mlm": {}}))
    assert len(both) == 6  # 1, 2, 4, 5, 7 and 8
    alone = matched_reports(pairs, "train", settings(TWICE))
    assert alone["study_id"].tolist() == [f"study{n}" for n in range(9)]
    for one, other in zip(alone["findings_sentences"], alone["impression_sentences"], strict=True):
        assert list(one) == list(other)


def test_reports_of_one_section_are_learnt_by_their_words_alone(pairs):
    """Not where FINDINGS are matched with themselves, nor where any report has both sections."""
    matched = settings({"section_matching": {}, "mlm": {"weight": 0.1}})
    assert single_section(pairs, matched) is None
    pairs.frame["impression_sentences"] = None
    assert single_section(pairs, matched) == "findings"
    assert single_section(pairs, settings({"mlm": {}})) == "findings"
    assert single_section(pairs, settings(TWICE)) is None
    alone = words_alone(matched, "findings").terms
    assert (alone.section_matching, alone.mlm.weight) == (None, 1.0)
    assert (
        len(matched_reports(pairs, "train", words_alone(matched, "findings"), ("findings",))) == 9
    )
    with pytest.raises(InputError, match="only FINDINGS; expected terms.mlm beside it"):
        words_alone(settings({"section_matching": {}}), "findings")
    stopping = matched.training.stopping.model_copy(update={"monitor": "section_matching"})
    training = matched.training.model_copy(update={"stopping": stopping})
    with pytest.raises(InputError, match="'section_matching', but no training report has both"):
        words_alone(matched.model_copy(update={"training": training}), "findings")


def test_both_texts_are_the_findings_masked_and_ordered_each_for_itself(pairs, tmp_path):
    folder = write_text_model(tmp_path)
    chosen = settings(TWICE)
    frame = matched_reports(pairs, "train", chosen)
    reports = ReportTokens(frame, read_tokenizer(folder), 40)
    texts = (reports.batch(np.arange(9), name, seed=1, epoch=0) for name in SECTIONS)
    first, second = texts
    for one, other in zip(first["input_ids"], second["input_ids"], strict=True):
        assert sorted(one.tolist()) == sorted(other.tolist())
    assert not torch.equal(first["input_ids"], second["input_ids"])
    assert not set(first["keys"].tolist()) & set(second["keys"].tolist())
    run = Run(0, torch.device("cpu"), ALONE)
    samples = dict.fromkeys(("train", "validate"), pairs.samples(frame))
    text = load_text_encoder(folder)
    program = SectionPairsProgram(chosen, run, samples, reports, reports, text, folder)
    views = program.views("train", Batch(np.arange(9), 1, 0, ALONE))
    one, other = views.texts["findings"], views.texts["impression"]
    assert one.masked is not None and other.masked is not None
    # The states are the masked texts', so that FINDINGS that read alike are not alike.
    assert not torch.allclose(one.projected, other.projected)
    loss = program.objective(views)
    assert torch.isfinite(loss.total) and float(loss.terms["section_matching"]) > 0


@pytest.mark.parametrize("mlm", [None, {"forward": "separate"}])
def test_findings_are_matched_masked_or_not_at_all(mlm):
    with pytest.raises(ValidationError, match="expected mlm.forward: shared"):
        settings({**TWICE, "mlm": mlm})


def test_a_start_is_known_by_both_of_its_halves(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    text, image = tmp_path / "model.safetensors", tmp_path / "image" / "model.safetensors"
    with pytest.raises(InputError, match=r"holds no model\.safetensors"):
        model_fingerprint(tmp_path)
    text.write_bytes(b"text")
    found = [model_fingerprint(tmp_path)]
    for content in (b"image", b"another"):
        image.write_bytes(content)
        found.append(model_fingerprint(tmp_path))
    assert len(set(found)) == 3 and found[0] == file_digest(text)[:16]
    text.unlink()
    assert model_fingerprint(tmp_path) == file_digest(image)[:16]


def test_every_part_of_a_batch_has_a_row_in_every_process() -> None:
    def check(accumulate: int, rows: int = 100, world: int = 1) -> None:
        training = TrainingSettings(batch_size=13, steps=1, accumulate=accumulate)
        require_filled_parts(training, rows, Processes(0, world))

    check(13)
    check(3, world=4)
    check(1, rows=0)  # another message
    for wrong, has in (((14, 100), 13), ((4, 100, 4), 3), ((8, 5), 5)):
        with pytest.raises(InputError, match=f"is {wrong[0]}, but .* have {has} each"):
            check(*wrong)
