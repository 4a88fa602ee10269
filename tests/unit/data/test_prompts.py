"""Published prompts: sentences by class, classes in words, and those that would be turned round."""

import pytest
from pydantic import ValidationError

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import class_prompts
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.data.cohorts.settings import CohortSettings
from cxrflow.data.layouts import layout
from cxrflow.data.prompts import PROMPT_SETS
from cxrflow.data.protocols import PROTOCOLS, protocol
from cxrflow.data.readers.nih import CLASSES
from cxrflow.data.readers.padchest import LABELS


@pytest.mark.parametrize(
    ("name", "label", "positive", "negative"),
    [
        ("chexzero", "Pleural Effusion", "pleural effusion", "no pleural effusion"),
        ("chexzero", "Effusion", "pleural effusion", "no pleural effusion"),
        ("chexzero", "Pleural_Thickening", "pleural thickening", "no pleural thickening"),
        ("chexzero", "No Finding", "no finding", "finding"),
        ("chexzero", "normal", "normal", "abnormal"),
        ("windsor", "Edema", "edema remains visible", "There is no evidence of edema"),
        (
            "windsor",
            "No Finding",
            "There is no evidence of any finding",
            "A finding remains visible",
        ),
        ("kad", "Mass", "lung mass", "no lung mass"),
        ("kad", "Effusion", "pleural effusion", "no pleural effusion"),
        ("gloria", "Hernia", "hernia", "no hernia"),
    ],
)
def test_sentences_of_a_class(name: str, label: str, positive: str, negative: str) -> None:
    assert PROMPT_SETS[name].of(label) == ((positive,), (negative,))


def test_composed_prompts_are_of_their_class_and_differ() -> None:
    positive, negative = PROMPT_SETS["gloria"].of("Atelectasis")
    assert "mild linear atelectasis at both lung bases" in positive and "atelectasis" in positive
    assert len(set(positive)) == len(positive) == 2 * 5 * 3
    assert all("atelectasis" in text and "  " not in text for text in positive)
    assert negative == ("no atelectasis",)


@pytest.mark.parametrize("name", ["Effusion", "Pleural effusion", "pleural effusion"])
def test_an_effusion_is_composed_alike_whatever_a_data_set_calls_it(name: str) -> None:
    """NIH, VinDr-CXR and PadChest spell it otherwise than CheXpert."""
    positive, negative = PROMPT_SETS["gloria"].of(name)
    assert (positive, negative) == PROMPT_SETS["gloria"].of("Pleural Effusion")
    assert len(positive) == 2 * 4 * 3 and negative == ("no pleural effusion",)


def test_padchest_s_names_have_composed_prompts_too() -> None:
    composed, plain = PROMPT_SETS["gloria"], PROMPT_SETS["chexzero"]
    own = {name for name in LABELS if composed.of(name) != plain.of(name)}
    assert own == {
        *("pleural effusion", "atelectasis", "cardiomegaly", "consolidation", "pulmonary edema")
    }
    assert composed.of("pulmonary edema") == composed.of("Edema")


def test_lists_name_a_class_in_words_too() -> None:
    lists = {"positive_prompts": ["{} is seen"], "negative_prompts": ["no {}"]}
    settings = ZeroShotClassificationSettings.model_validate(lists)
    assert class_prompts(["Pleural_Thickening", "Mass"], settings)[0] == (
        ["no pleural thickening"],
        ["pleural thickening is seen"],
    )


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_no_class_of_nih_has_the_same_prompts_as_another(name: str) -> None:
    every = [PROMPT_SETS[name].of(label) for label in CLASSES]
    assert len(set(every)) == len(CLASSES)
    assert all(positive != negative for positive, negative in every)


def test_a_set_takes_the_place_of_the_lists_but_not_of_a_classs_own() -> None:
    own = {"Mass": {"positive": ["a mass"], "negative": ["none"]}}
    settings = ZeroShotClassificationSettings.model_validate(
        {"prompts": "chexzero", "class_prompts": own}
    )
    assert class_prompts(["Mass", "Effusion"], settings) == [
        (["none"], ["a mass"]),
        (["no pleural effusion"], ["pleural effusion"]),
    ]
    # A named pair is asked beside the set, as it is written.
    assert class_prompts(["Mass"], settings, ["{}!"], ["{}?"]) == [(["mass?"], ["mass!"])]


def test_a_set_and_lists_are_refused_and_no_set_is_no_setting() -> None:
    with pytest.raises(ValidationError, match="windsor has its own; expected no positive_prompts"):
        ZeroShotClassificationSettings(prompts="windsor", positive_prompts=["{}"])
    assert "prompts" not in ZeroShotClassificationSettings().record()


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocols_are_settings_of_a_layout(name: str) -> None:
    rules = protocol(name)
    assert "classification" in layout(name).cohorts
    CohortSettings.model_validate({"kind": "classification", **rules.cohort})
    settings = ZeroShotClassificationSettings.model_validate(rules.settings)
    assert settings.split == "test"
    if name == "nih":
        assert sorted(settings.classes or ()) == sorted(set(CLASSES) - {"No Finding"})


def test_a_layout_without_a_protocol_is_refused() -> None:
    with pytest.raises(InputError, match="no zero-shot protocol of 'mura'; expected one of chex"):
        protocol("mura")
