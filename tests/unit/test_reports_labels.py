"""CheXpert labels on hand-written sentences; aggregation; reasons; hostile text."""

import math
import time

import pytest

from cxrflow.reports.labels.observations import OBSERVATIONS
from cxrflow.reports.labels.scope.labeller import ScopeLabeller, aggregate
from cxrflow.reports.settings import ReportSettings

SHORT = {
    "ECM": "Enlarged Cardiomediastinum",
    "CM": "Cardiomegaly",
    "LL": "Lung Lesion",
    "LO": "Lung Opacity",
    "ED": "Edema",
    "CO": "Consolidation",
    "PN": "Pneumonia",
    "AT": "Atelectasis",
    "PT": "Pneumothorax",
    "PE": "Pleural Effusion",
    "PO": "Pleural Other",
    "FX": "Fracture",
    "SD": "Support Devices",
    "NF": "No Finding",
}
# sentence, and all labels that are not blank (+ positive, - negative, ? uncertain)
CASES = [
    ("There is a small left pleural effusion.", "PE+"),
    ("No pleural effusion.", "PE- NF+"),
    ("No pneumothorax, pleural effusion or focal consolidation.", "PT- PE- CO- NF+"),
    ("No focal consolidation, pneumothorax, or large pleural effusion.", "CO- PT- PE- NF+"),
    ("There is no pneumothorax but there is a small effusion.", "PT- PE+"),
    ("No pneumothorax, small right effusion.", "PT- PE+"),
    ("No edema; moderate effusion.", "ED- PE+"),
    ("No pneumothorax with small bilateral effusions.", "PT- PE+"),
    ("No effusion and stable cardiomegaly.", "PE- CM+"),
    ("The heart is enlarged and there is no effusion.", "CM+ PE-"),
    ("Small effusion and no pneumothorax.", "PE+ PT-"),
    ("Without evidence of pneumonia.", "PN- NF+"),
    ("Lungs are clear without focal consolidation or effusion.", "CO- PE- NF+"),
    ("The lungs are free of consolidation.", "CO- NF+"),
    ("Negative for pneumothorax.", "PT- NF+"),
    ("Pneumothorax is not seen.", "PT- NF+"),
    ("Effusions, consolidation and pneumothorax are not seen.", "PE- CO- PT- NF+"),
    ("Neither effusion nor pneumothorax is present.", "PE- PT- NF+"),
    ("The pneumothorax is no longer seen.", "PT- NF+"),
    ("The effusion has resolved.", "PE- NF+"),
    ("Right effusion has completely resolved.", "PE- NF+"),
    ("Interval resolution of the edema.", "ED- NF+"),
    ("Effusion has not resolved.", "PE+"),
    ("The effusion has not completely resolved.", "PE+"),
    ("Incomplete resolution of the left effusion.", "PE+"),
    ("Resolving edema.", "ED+"),
    ("Pneumothorax: none.", "PT- NF+"),
    ("Pneumonia is unlikely.", "PN- NF+"),
    ("No new opacity.", "LO?"),
    ("No new consolidation or effusion.", "CO? PE?"),
    ("No evidence of new pneumonia.", "PN?"),
    ("No change in the right effusion.", "PE+"),
    ("Right effusion without change.", "PE+"),
    ("Without significant change in bibasilar atelectasis.", "AT+"),
    ("No significant interval change in moderate edema.", "ED+"),
    ("Opacity has not changed.", "LO+"),
    ("No increase in the effusion.", "PE+"),
    ("Pneumonia cannot be excluded.", "PN?"),
    ("Cannot exclude a small effusion.", "PE?"),
    ("A small pneumothorax is not excluded.", "PT?"),
    ("Underlying consolidation cannot be entirely ruled out.", "CO?"),
    ("No evidence to rule out pneumonia.", "PN?"),
    ("The effusion has nearly resolved.", "PE+"),
    ("Possible left lower lobe pneumonia.", "PN?"),
    ("Opacity may represent pneumonia.", "LO+ PN?"),
    ("Opacities which could reflect atelectasis.", "LO+ AT?"),
    ("Atelectasis versus pneumonia.", "AT? PN?"),
    ("Left basilar opacity, atelectasis vs. consolidation.", "LO+ AT? CO?"),
    ("Atelectasis or infiltrate at the left base.", "AT? LO?"),
    ("Bibasilar atelectasis/consolidation.", "AT? CO?"),
    ("Opacity concerning for pneumonia.", "LO+ PN?"),
    ("Findings suspicious for fracture.", "FX?"),
    ("Pneumonia is suspected.", "PN?"),
    ("Probable small effusion.", "PE?"),
    ("Questionable nodule in the right apex.", "LL?"),
    ("Likely atelectasis.", "AT+"),
    ("Consistent with mild pulmonary edema.", "ED+"),
    ("No findings concerning for pneumonia.", "PN- NF+"),
    ("Stable cardiomegaly.", "CM+"),
    ("Heart size is normal.", "CM- NF+"),
    ("The heart is mildly enlarged.", "CM+"),
    ("The heart is not enlarged.", "CM- NF+"),
    ("Heart size is borderline.", "CM?"),
    ("Borderline cardiomegaly.", "CM+"),
    ("The heart is borderline enlarged.", "CM?"),
    ("Heart size is top normal.", "CM- NF+"),
    ("The heart may be mildly enlarged.", "CM?"),
    ("The heart does not appear enlarged.", "CM- NF+"),
    ("A small effusion is difficult to exclude.", "PE?"),
    ("New right basilar opcity.", "LO+"),
    ("The ETT ends above the carina.", "SD+ NF+"),
    ("Heart size is unchanged.", "CM?"),
    ("Heart size is at the upper limits of normal.", "CM- NF+"),
    ("The heart remains enlarged.", "CM+"),
    ("Normal heart size and mediastinal contours.", "CM- ECM- NF+"),
    ("Heart and mediastinum are within normal limits.", "CM- ECM- NF+"),
    ("The cardiomediastinal silhouette is unremarkable.", "ECM- NF+"),
    ("Cardiomediastinal silhouette is stable.", "ECM?"),
    ("The mediastinum is widened.", "ECM+"),
    ("Heart is enlarged, mediastinum is normal.", "CM+ ECM-"),
    ("Opacity behind the heart.", "LO+"),
    ("Heart failure.", "ED+ CM?"),
    ("No evidence of congestive heart failure.", "ED- NF+"),
    ("Possible heart failure.", "ED? CM?"),
    ("Pericardial effusion.", "NF+"),
    ("Calcified nodule in the left apex.", ""),
    ("Massive cardiomegaly.", "CM+"),
    ("Calcified granuloma.", ""),
    ("Mild scoliosis.", ""),
    ("No scoliosis.", "NF+"),
    ("Biapical pleural thickening.", "PO+"),
    ("Pleural scarring.", "PO+"),
    ("Old healed rib fracture.", "FX+"),
    ("No displaced rib fracture is identified.", "FX- NF+"),
    ("Left-sided pacemaker in normal position.", "SD+ NF+"),
    ("The right PICC ends in the SVC.", "SD+ NF+"),
    ("The endotracheal tube has been removed.", "SD- NF+"),
    ("Kerley B lines.", ""),
    ("The lungs are clear.", "NF+"),
    ("Small left effussion.", "PE+"),
    ("No pneumothroax.", "PT- NF+"),
    ("Mild atelectesis at the left base.", "AT+"),
    ("Stable cardiomegally.", "CM+"),
    ("EDEMA HAS WORSENED.", "ED+"),
    ("___ effusion compared with ___.", "PE+"),
    ("Low lung volumes with air-space disease.", "LO+"),
    ("Partial collapse of the right middle lobe.", "AT+"),
    ("Compression fracture, vertebral collapse.", "FX+"),
]
MARKS = {"+": 1.0, "-": 0.0, "?": -1.0}


def labels(sentence: str, **settings: str) -> dict[str, float]:
    values = ScopeLabeller(**settings).label([[sentence]])[0]
    return {o: v for o, v in zip(OBSERVATIONS, values, strict=True) if not math.isnan(v)}


@pytest.mark.parametrize(("sentence", "expected"), CASES)
def test_sentence(sentence: str, expected: str) -> None:
    wanted = {SHORT[word[:-1]]: MARKS[word[-1]] for word in expected.split()}
    assert labels(sentence) == wanted


def test_alternatives_can_count_as_positive() -> None:
    for sentence in ("Atelectasis or consolidation.", "Atelectasis versus consolidation."):
        assert labels(sentence, alternatives="positive") == {"Atelectasis": 1, "Consolidation": 1}


def test_columns_are_in_the_order_of_the_csv() -> None:
    assert len(OBSERVATIONS) == 14
    assert OBSERVATIONS[0] == "No Finding" and OBSERVATIONS[-1] == "Support Devices"


def test_positive_outranks_uncertain_outranks_negative() -> None:
    values = dict(
        zip(
            OBSERVATIONS,
            aggregate([("Edema", 0), ("Edema", -1), ("Fracture", -1), ("Fracture", 1)]),
            strict=True,
        )
    )
    assert values["Edema"] == -1 and values["Fracture"] == 1
    assert math.isnan(values["No Finding"]) and math.isnan(values["Pneumonia"])


@pytest.mark.parametrize(
    ("pairs", "no_finding"),
    [
        ([], True),
        ([("Edema", 0)], True),
        ([("Support Devices", 1)], True),
        ([("Edema", -1)], False),
        ([("Other finding", 1)], False),
        ([("Other finding", 0)], True),
    ],
)
def test_no_finding(pairs: list[tuple[str, int]], no_finding: bool) -> None:
    value = aggregate(pairs)[0]
    assert value == 1 if no_finding else math.isnan(value)


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
    used = ScopeLabeller()
    for sentence, _ in CASES:
        used.label([[sentence]])
    for sentence, _ in CASES:
        again, fresh = used.label([[sentence]]), ScopeLabeller().label([[sentence]])
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
