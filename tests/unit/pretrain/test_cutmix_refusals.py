"""Settings that MedCutMix cannot be trained with."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from small_cutmix import CUTMIX, contrast, folder, make, term_of, variant

from cxr_files.errors import InputError
from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.terms.cutmix_settings import CutmixSettings

__all__ = ["folder"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["Hernia"]}, "classes' names Hernia, which the cohort's labels lack"),
        ({"layers": 4}, "layers' is 4, but the text encoder has 3 layers"),
    ],
)
def test_settings_that_do_not_fit_are_one_line(change, message, folder) -> None:
    with pytest.raises(InputError, match=message):
        make(folder, {"global_alignment": {}, "cutmix": {**CUTMIX, **change}})


@pytest.mark.parametrize(
    ("change", "encoder", "message"),
    [
        ({"layer": 5}, {}, "layer is 5, counted from 1; expected a layer of a trunk of 4 layers"),
        ({"layer": 4, "first_layer": 0}, {}, "layer is 4, counted from 0; expected a layer of"),
        ({"layer": 12}, {"kind": "vit", "blocks": 11}, "is 12, counted from 1; .* of 11 layers"),
        ({"layer": 5}, {"kind": "clip_resnet"}, "layer is 5, .* of 4 layers"),
        ({}, {"kind": "multi_image"}, "encoder.kind multi_image, which compares an image with a"),
        ({"cls": "source"}, {}, "cls is source, but the trunk has no .CLS.; expected target"),
    ],
)
def test_a_trunk_that_images_cannot_be_mixed_in_is_named_by_the_settings(
    change, encoder, message
) -> None:
    terms = {"global_alignment": {}, "cutmix": {**CUTMIX, **change}}
    training = {"batch_size": 12, "epochs": 3, "optimiser": {"name": "sgd"}}
    with pytest.raises(ValidationError, match=message):
        JointPretrainingSettings.model_validate(
            {"training": training, "augmentation": {}, "terms": terms, "encoder": encoder}
        )


def test_a_trunk_of_another_kind_is_asked_when_it_is_made() -> None:
    settings, encoder = CutmixSettings(layer=3), ImageEncoderSettings.model_construct(kind="own")
    settings.check_trunk(encoder, encoder.depth)
    with pytest.raises(ValueError, match="layer is 3, .* of a trunk of 2 layers"):
        settings.check_trunk(encoder, 2)


def test_a_cohort_without_labels_and_a_trunk_without_cls(folder: Path) -> None:
    with pytest.raises(InputError, match="the cohort has none; expected `labels: published`"):
        make(folder, {"global_alignment": {}, "cutmix": CUTMIX}, labels=None)
    program = variant(folder)
    term = term_of(program)
    term.settings = term.settings.model_copy(update={"cls": "source"})  # a trunk of another kind
    with pytest.raises(InputError, match="cls is source, but the trunk has no"):
        contrast(program)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layer": 0}, "layer is 0; expected at least first_layer, 1"),
        ({"classes": ["Edema", "Edema"]}, "expected each once"),
        ({"classes": ["Edema"], "control": "other_class"}, "other_class, but .* expected several"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        CutmixSettings(**change)
    assert deepcopy(CutmixSettings()).pairs // len(CutmixSettings().classes) == 3
    assert [n // 13 for n in (30, 40, 50)] == [2, 3, 3]
