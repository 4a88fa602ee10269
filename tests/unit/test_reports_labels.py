"""CheXpert labels on hand-written sentences; aggregation; reasons; hostile text."""

import math
import time

import pytest
from held_out_wording import read_codes
from test_label_sentences import read

from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.labels.scope.labeller import ScopeLabeller, aggregate
from cxrflow.reports.settings import ReportSettings

CASES = read("conventions.tsv")


def labels(sentence: str) -> dict[str, float]:
    values = ScopeLabeller().label([[sentence]])[0]
    return {o: v for o, v in zip(OBSERVATIONS, values, strict=True) if not math.isnan(v)}


@pytest.mark.parametrize("row", CASES, ids=lambda row: row["sentence"])
def test_sentence_no_finding_included(row: dict[str, str]) -> None:
    assert labels(row["sentence"]) == dict(read_codes(row["labels"]))


def test_columns_are_in_the_order_of_the_csv() -> None:
    assert len(OBSERVATIONS) == 14
    assert OBSERVATIONS[0] == "No Finding" and OBSERVATIONS[-1] == "Support Devices"


def test_positive_outranks_uncertain_outranks_negative() -> None:
    found = [("Edema", 0, False), ("Edema", -1, True), ("Fracture", -1, True)]
    values = dict(zip(OBSERVATIONS, aggregate([*found, ("Fracture", 1, True)]), strict=True))
    assert values["Edema"] == -1 and values["Fracture"] == 1
    assert math.isnan(values["No Finding"]) and math.isnan(values["Pneumonia"])


@pytest.mark.parametrize(
    ("report", "no_finding"),
    [
        ("The patient was rotated.", True),
        ("No edema.", True),
        ("Left pacemaker.", True),
        ("Possible edema.", False),
        ("Emphysema.", False),
        ("Possible pulmonary embolism.", False),
        ("Tuberculosis.", False),
        ("Dilated loops of bowel.", False),
        ("Non-dilated loops of bowel.", True),
        ("No emphysema.", True),
        ("The mediastinum is stable.", True),
        ("The mediastinum may be widened.", False),
        ("The heart size is stable.", False),
    ],
)
def test_no_finding(report: str, no_finding: bool) -> None:
    assert ("No Finding" in labels(report)) == no_finding


def test_every_label_can_say_why() -> None:
    sentences = ["Heart size is normal.", "No small left effussion."]
    reasons = ScopeLabeller().explain(sentences)
    heart, effusion = reasons
    assert (heart.observation, heart.value, heart.sentence) == ("Cardiomegaly", 0, 0)
    assert sentences[0][heart.cue_start : heart.cue_end] == "normal"
    assert (effusion.phrase, effusion.rule, effusion.sentence) == ("effussion", "no", 1)
    assert sentences[1][effusion.start : effusion.end] == "effussion"
    assert sentences[1][effusion.cue_start : effusion.cue_end] == "No"


def test_labels_do_not_depend_on_what_was_read_before() -> None:
    labeller = ScopeLabeller()
    for row in CASES:
        labeller.label([[row["sentence"]]])
    for row in CASES:
        report = [[row["sentence"]]]
        again, fresh = labeller.label(report), ScopeLabeller().label(report)
        assert repr(again) == repr(fresh)


@pytest.mark.parametrize(
    "text",
    [
        "no effusion, " * 30_000,
        "effusion or " * 30_000,
        "(" * 150_000 + "effusion" + ")" * 150_000,
        "effusion" * 1_250_000,
        "possible " * 30_000 + "effusion",
        "the heart is normal and " * 15_000,
        "mass effect calcified nodule " * 15_000,
        "\x00\x01\x1b effusion \u202e " * 20_000,
        "a/b-c_d'e " * 30_000,
    ],
    ids=["commas", "or", "nested", "no blanks", "cues", "clauses", "barred", "control", "marks"],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    started = time.process_time()
    ScopeLabeller().label([[text]])
    assert time.process_time() - started < 8


def test_what_is_labelled_follows_the_layout_unless_it_is_said() -> None:
    def chosen(layout: str, **labels: str) -> str | None:
        return ReportSettings.model_validate({"labels": labels}).of_layout(layout).labels.text

    assert chosen("mimic_cxr") == "conclusion"
    assert chosen("open_i") == chosen("files") == "findings_and_impression"
    assert chosen("open_i", text="conclusion") == "conclusion"
