"""The published weights themselves, where CXR_WEIGHTS names a folder of them.

Key for key they load or are refused; that they also understand radiology shows that no tensor went
to a wrong place: words that must be guessed behind a mask, and pairs of which one side means the
same and the other does not. docs/weights.md says how the folder is laid out.
"""

import os
from pathlib import Path

import pytest
import torch

import cxrflow
from cxrflow.encoders.released.published import find_files, read_published
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.models.model import Model

FOLDER = os.environ.get("CXR_WEIGHTS")
GENERAL = "BiomedVLP-CXR-BERT-general"
SPECIALIZED = "BiomedVLP-CXR-BERT-specialized"
TEMPORAL = "BiomedVLP-BioViL-T"
CLINICAL = "Bio_ClinicalBERT"
PUBMED = (
    "BiomedNLP-PubMedBERT-base-uncased-abstract",
    "BiomedNLP-PubMedBERT-base-uncased-abstract-fulltext",
)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="CXR_WEIGHTS is not set: no folder of published weights"),
]
# One masked word each, and what a reader of reports would take for it.
MASKED = [
    ("There is no pneumothorax or pleural [MASK].", {"effusion", "effusions"}),
    ("The heart is normal in [MASK].", {"size"}),
    ("The lungs are [MASK] bilaterally.", {"clear"}),
    ("An endotracheal [MASK] ends above the carina.", {"tube"}),
    ("No acute cardiopulmonary [MASK].", {"process", "disease", "abnormality", "findings"}),
]
# The first means what the second says and not what the third does.
TRIPLETS = [
    ("The heart is enlarged", "There is cardiomegaly", "The heart is of normal size"),
    ("No pneumothorax is seen", "There is no evidence of pneumothorax", "A pneumothorax is seen"),
    ("Lungs are clear", "No consolidation in either lung", "Consolidation in both lungs"),
    ("The effusion is larger", "The effusion has increased", "The effusion has decreased"),
]


def there(name: str) -> Path:
    assert FOLDER is not None
    path = Path(FOLDER, name)
    if not path.exists():
        pytest.skip(f"{name} is not in CXR_WEIGHTS")
    return path


def guesses(model: Model, text: str) -> str:
    """The piece that the model finds likeliest behind the mask."""
    assert model.text_encoder is not None
    ids = torch.tensor([model.tokenizer.encode(text).ids])
    place = (ids[0] == model.tokenizer.token_to_id("[MASK]")).nonzero()[0]
    with torch.inference_mode():
        hidden = model.text_encoder.hidden_states(ids, torch.ones_like(ids))
        logits = model.text_encoder.predict_tokens(hidden, place)
    return str(model.tokenizer.id_to_token(int(logits.argmax())))


@pytest.mark.parametrize("name", [GENERAL, SPECIALIZED])
def test_masked_words_are_guessed(name: str) -> None:
    model = cxrflow.load(there(name))
    found = [(guesses(model, text), right) for text, right in MASKED]
    wrong = [(guess, right) for guess, right in found if guess not in right]
    assert len(wrong) <= 1, wrong


@pytest.mark.parametrize("name", [SPECIALIZED, TEMPORAL])
def test_synonyms_are_nearer_than_contradictions(name: str) -> None:
    model = cxrflow.load(there(name))
    texts = [text for triplet in TRIPLETS for text in triplet]
    embedded_T3P = model.encode_text(texts).unflatten(0, (-1, 3))
    same = (embedded_T3P[:, 0] * embedded_T3P[:, 1]).sum(1)
    other = (embedded_T3P[:, 0] * embedded_T3P[:, 2]).sum(1)
    assert bool((same > other).all()), (same, other)


def test_biovils_image_weights_see_480_pixels_as_15_cells() -> None:
    model = cxrflow.load(there(SPECIALIZED))
    if model.image_encoder is None:
        pytest.skip("biovil_image_resnet50_proj_size_128.pt is not in its folder")
    assert model.geometry == "shorter512crop480"
    found = model.encode_image(torch.rand(1, 1, 480, 480))
    assert found.projected_patches.shape == (1, 15, 15, 128)
    assert model.image_encoder.settings.layers == (3, 4, 6, 3)


def test_biovil_ts_image_weights_compare_448_pixels_in_14_cells() -> None:
    model = cxrflow.load(there(TEMPORAL))
    if model.image_encoder is None:
        pytest.skip("biovil_t_image_model_proj_size_128.pt is not in its folder")
    assert model.geometry == "shorter512crop448" and model.takes_prior
    current, prior = torch.rand(2, 1, 1, 448, 448)
    alone, compared = model.encode_image(current), model.encode_image(current, prior)
    assert compared.projected_patches.shape == (1, 14, 14, 128)
    assert compared.pooled.shape == (1, 512)
    assert torch.equal(alone.pooled[:, :256], compared.pooled[:, :256])
    assert not torch.allclose(alone.pooled, compared.pooled)


@pytest.mark.parametrize("name", [CLINICAL, *PUBMED])
def test_berts_of_the_comparison_know_english(name: str) -> None:
    folder = there(name)
    model = cxrflow.load(folder)
    assert model.tokenizer.encode("Left").tokens[1] == ("Left" if name == CLINICAL else "left")
    assert guesses(model, MASKED[1][0]) in {"size", "appearance", "limits"}
    new = model.run["initialised"]
    assert new and all(one.startswith("cls_projection_head.") for one in new)


def test_imagenets_trunk_is_taken() -> None:
    files = find_files("imagenet_resnet", there("resnet50.pth"))
    settings = ImportSettings(geometry="shorter512")
    halves = read_published("imagenet_resnet", files, settings, seed=0)
    assert halves.image is not None and halves.image.encoder.features == 2048
