"""How images and texts are compared: by the cosine, locally, by cross-attention."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError, field_serializer
from small_text import write_text_model
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, normalize
from transformers import BertConfig, BertLMHeadModel

import cxrflow
from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.zero_shot_classification import prompt_similarities
from cxrflow.benchmarks.generation.report_retrieval import encode_texts
from cxrflow.commands.export import export
from cxrflow.encoders.cross_attention import CrossAttention
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, save_image_encoder
from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings
from cxrflow.kinds import TRUSTED
from cxrflow.models.model import Model
from cxrflow.objectives.local_alignment import Matching, local_similarity
from cxrflow.pretrain.objective import TextOutput
from cxrflow.pretrain.terms.local_alignment import LocalAlignment
from cxrflow.pretrain.terms.pair_matching import PairMatching
from cxrflow.pretrain.terms.settings import (
    JointTerms,
    LocalAlignmentSettings,
    PairMatchingSettings,
    StudyTerms,
)
from cxrflow.similarity import similarity as module
from cxrflow.similarity.cosine import Cosine
from cxrflow.similarity.folder import load_similarity, require_loadable, save_similarity
from cxrflow.similarity.perceptron import Perceptron, PerceptronSettings
from cxrflow.similarity.settings import SimilaritySettings
from cxrflow.similarity.similarity import EncodedImages, Similarity
from cxrflow.similarity.words import WordReader
from cxrflow.text.tokenizer import VocabularyInfo

TEXTS = ["no pleural effusions .", "nodule", "heart is large . no effusion"]
PIXELS = torch.rand(4, 1, 32, 32, generator=torch.Generator().manual_seed(0))
UNIT = {"model_similarity": True, "layers": 1, "normalised": True, "word_softmax": False}
UNIT |= {"match": "dot"}
TERMS = {
    "local": (LocalAlignment, LocalAlignmentSettings(model_similarity=True, layers=2)),
    "local of unit vectors": (LocalAlignment, LocalAlignmentSettings(**UNIT)),
    "perceptron": (PairMatching, PairMatchingSettings(model_similarity=True, hidden=5)),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with both encoders, projected linearly."""
    torch.manual_seed(0)
    write_text_model(tmp_path)
    text = load_text_encoder(tmp_path)
    for name, parameter in text.named_parameters():
        if name.endswith("bias"):  # those of a new model are zero, those of a trained one are not
            nn.init.normal_(parameter, std=0.1)
    save_text_encoder(text, tmp_path)
    sizes = {"block": "basic", "layers": [1, 1, 1, 1], "width": 8, "channels": 1}
    head = {"projection": 8, "projection_head": {"kind": "linear"}}
    save_image_encoder(ImageEncoder(ResNetSettings.model_validate(sizes | head)), tmp_path)
    write_json(tmp_path / "run.json", {"data": {"geometry": "shorter32"}})
    return tmp_path


def trained(folder: Path, name: str) -> Any:
    """A term as a program makes it, with weights that are not those it starts from."""
    text = load_text_encoder(folder)
    image = SimpleNamespace(settings=SimpleNamespace(projection=text.config.projection_size))
    vocabulary = VocabularyInfo.from_folder(folder)
    program = SimpleNamespace(text=text, vocabulary=vocabulary, image=image)
    kind, settings = TERMS[name]
    term = kind(settings, program)  # type: ignore[arg-type]
    for parameter in term.parameters():
        nn.init.normal_(parameter)
    return term.eval()


def in_training(term: Any, model: Model) -> Tensor:
    """[images, texts]: how the term compares, from what a program's views hold."""
    assert model.image_encoder is not None and model.text_encoder is not None
    with torch.inference_mode():
        patches = model.image_encoder(Frames(PIXELS)).unnormalised_patches
        ids, mask, states = model._states(model._tokens(TEXTS), 2)
        text = TextOutput(model.text_encoder, ids, mask, states, None)
        if isinstance(term, PairMatching):
            rows = [term.perceptron.logits(patches.mean((1, 2)), row.expand(4, -1))
                    for row in text.projected]  # fmt: skip
            return torch.stack(rows, dim=1)
        words, settings = term.words(text), term.settings
        regions, embedded = patches.flatten(1, 2), words.word_BWD
        if settings.normalised:
            regions, embedded = normalize(regions, dim=2), normalize(embedded, dim=2)
        matching = Matching(
            settings.temp1, settings.temp2, settings.word_softmax, settings.match,
            settings.aggregation,
        )  # fmt: skip
        return local_similarity(regions, embedded, words.lengths, matching)


@pytest.mark.parametrize("name", TERMS)
def test_a_model_is_scored_by_what_it_was_trained_with(folder, name, monkeypatch):
    term = trained(folder, name)
    save_similarity(term.similarity(), folder)
    model = cxrflow.load(folder)
    assert f"compares by {type(term.similarity()).__name__}" in repr(model)
    scores = model.similarities(PIXELS, TEXTS)
    torch.testing.assert_close(scores, in_training(term, model), rtol=1e-4, atol=1e-5)
    # Zero-shot prompts, retrieval and curation ask the same; blocks change nothing.
    images = EncodedImages.of(model.encode_image(PIXELS))
    pair = (TEXTS[:1], TEXTS[1:])
    prompts = prompt_similarities(model, images, [pair], "normalised")
    wanted = torch.stack([scores[:, 0], scores[:, 1:].mean(1)], dim=1).double()
    np.testing.assert_allclose(prompts[:, 0], wanted, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(module, "BLOCK", 2)
    texts = encode_texts(model, TEXTS, batch_size=2)
    torch.testing.assert_close(model.similarity.scores(images, texts), scores)
    paired = model.similarity.paired_scores(images.rows(slice(3)), texts)
    torch.testing.assert_close(paired, scores[:3].diagonal())
    # A map is of every patch of an image with its text; all images may share one.
    maps = model.similarity_map(PIXELS[:3], TEXTS)
    assert images.patches is not None and maps.shape == images.patches[:3].shape[:3]
    torch.testing.assert_close(maps[:1], model.similarity_map(PIXELS[:1], TEXTS[:1]))
    assert model.similarity_map(PIXELS, TEXTS[:1]).shape[0] == 4


def test_a_map_of_a_perceptron_is_its_score_patch_by_patch(folder: Path) -> None:
    term = trained(folder, "perceptron")
    images = EncodedImages(torch.empty(2, 8), torch.randn(2, 3, 3, 8))
    text = cxrflow.load(folder).encode_texts(TEXTS[:1])
    assert images.patches is not None
    maps = term.perceptron.maps(images, text)
    for image, row, column in ((0, 0, 0), (1, 2, 1)):
        logit = term.perceptron.logits(images.patches[image, row, column], text.projection[0])
        torch.testing.assert_close(maps[image, row, column], logit)


def test_a_map_of_words_is_the_mean_of_their_cosines(folder: Path) -> None:
    save_similarity(trained(folder, "local").similarity(), folder)
    model = cxrflow.load(folder)
    texts = model.encode_texts(TEXTS)
    assert texts.words is not None
    images = EncodedImages(torch.empty(3, 8), torch.randn(3, 2, 2, texts.projection.shape[1]))
    assert images.patches is not None
    maps = model.similarity.maps(images, texts)
    for number, length in enumerate(texts.words.lengths):
        words = texts.words.word_BWD[number, :length]
        cosines = cosine_similarity(images.patches[number, 1, 0][None], words, dim=1)
        torch.testing.assert_close(maps[number, 1, 0], cosines.mean())


def test_without_a_similarity_of_its_own_a_model_compares_by_cosine(folder: Path) -> None:
    model = cxrflow.load(folder)
    assert isinstance(model.similarity, Cosine) and isinstance(load_similarity(folder), Cosine)
    image, text = model.encode_image(PIXELS), model.encode_text(TEXTS)
    wanted = image.projected_global.double() @ text.double().T
    torch.testing.assert_close(model.similarities(PIXELS, TEXTS), wanted)
    wanted = torch.einsum("bhwp,bp->bhw", image.projected_patches[:3], text)
    assert torch.equal(model.similarity_map(PIXELS[:3], TEXTS), wanted)
    with pytest.raises(InputError, match="3 texts for 4 studies"):
        model.similarity_map(PIXELS, TEXTS)


def test_only_one_term_gives_a_model_its_similarity() -> None:
    both = dict.fromkeys(("local_alignment", "pair_matching"), {"model_similarity": True})
    with pytest.raises(ValidationError, match="local_alignment and pair_matching are both"):
        StudyTerms.model_validate(both)
    terms = JointTerms.model_validate({"global_alignment": {}, "local_alignment": {}})
    assert terms.similarity is None
    paired = StudyTerms.model_validate({"pair_matching": {"model_similarity": True}})
    assert paired.similarity == "perceptron"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "telepathy"}, "kind is 'telepathy', which this package has not"),
        ({"kind": "folder"}, "kind is 'folder', which is no similarity"),
        ({"config": {"width": 8}}, "key 'hidden' is missing"),
        ({"word_layers": 2}, "'words.continues' is missing"),
        ({"config": {"width": 4, "hidden": 5}}, "expected"),
    ],
)
def test_a_folder_that_does_not_fit_is_named(folder, changes, message):
    save_similarity(trained(folder, "perceptron").similarity(), folder)
    path = folder / "similarity/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(InputError) as error:
        cxrflow.load(folder)
    assert message in str(error.value) and str(folder / "similarity") in str(error.value)


class Sizes(SimilaritySettings):
    """Of one number."""

    size: int = 1


class Rounded(Sizes):
    """Written otherwise than it is."""

    factor: float = 0.5

    @field_serializer("factor")
    def _rounded(self, factor: float) -> float:
        return round(factor)


class Outside(Perceptron):
    """A similarity of this module, not of the package."""

    settings: Sizes

    def __init__(self, settings: Sizes, words: WordReader | None = None) -> None:
        Similarity.__init__(self, settings, words)
        self.bias = nn.Parameter(torch.ones(settings.size))

    class Inner(Perceptron):
        """Not at the top of its module."""

        settings: PerceptronSettings


class OfMore(Outside):
    """A constructor that is told more."""

    settings: Sizes

    def __init__(self, settings: Sizes, words: WordReader | None, more: int) -> None:
        super().__init__(settings, words)


class OfLess(Outside):
    """A weight whose size no setting tells."""

    settings: Sizes

    def __init__(self, settings: Sizes, words: WordReader | None = None, size: int = 2) -> None:
        super().__init__(settings, words)
        self.bias = nn.Parameter(torch.ones(size))


class OfShared(Outside):
    """Two weights of one memory, which no file holds."""

    settings: Sizes

    def __init__(self, settings: Sizes, words: WordReader | None = None) -> None:
        super().__init__(settings, words)
        self.register_buffer("offset", self.bias.detach())


class Bare(Outside):
    """Without the annotation that says which settings it takes."""


class OfRounded(Outside):
    settings: Rounded


def unfindable() -> type[Outside]:
    """A class of a module that is no file that Python finds."""
    return type("Unfindable", (Outside,), {"__module__": "of_no_file", "__annotations__": {}})


@pytest.mark.parametrize(
    ("similarity", "message"),
    [
        (
            lambda: Outside.Inner(PerceptronSettings(width=2, hidden=2)),
            "expected a class at the top",
        ),
        (lambda: unfindable()(Sizes()), "expected a class at the top of a module"),
        (lambda: OfMore(Sizes(), None, 3), "expected a constructor of its `settings` and words"),
        (lambda: OfLess(Sizes(), None, 5), "expected a constructor of its `settings` and words"),
        (lambda: OfShared(Sizes()), "Some tensors share memory"),
        (lambda: Bare(Sizes()), "expected an annotation `settings:`"),
        (lambda: OfRounded(Rounded()), "factor=0.0.* expected settings that are kept"),
    ],
)
def test_what_cannot_be_loaded_again_is_refused_in_one_line(similarity, message):
    require_loadable(Outside(Sizes(size=3)), "terms.mine")
    with pytest.raises(InputError, match=rf"^terms\.mine: its similarity .*{message}") as error:
        require_loadable(similarity(), "terms.mine")
    assert "\n" not in str(error.value)


def test_a_similarity_from_outside_is_loaded_where_it_is_trusted(folder, monkeypatch):
    similarity = Outside(Sizes(size=3))
    similarity.bias.data.fill_(7)
    save_similarity(similarity, folder)
    module = Outside.__module__
    assert (
        json.loads((folder / "similarity/config.json").read_text())["kind"] == f"{module}:Outside"
    )
    again = load_similarity(folder)
    assert isinstance(again, Outside) and torch.equal(again.bias, similarity.bias)
    monkeypatch.delitem(sys.modules, module)
    said = (
        f"config.json: kind '{module}:Outside' is code outside of cxrflow; if you trust it, import"
    )
    with pytest.raises(InputError, match=f"{said} {module} first or name it in .*{TRUSTED}"):
        cxrflow.load(folder)


def test_the_released_layout_has_no_place_for_it(folder: Path, tmp_path: Path) -> None:
    save_similarity(trained(folder, "perceptron").similarity(), folder)
    with pytest.raises(InputError, match="no place for a similarity other than the cosine"):
        export(folder, tmp_path / "out")


SIZES = TextEncoderSettings(
    layers=2, width=32, heads=4, feed_forward=48, positions=40, projection=16
)
LENGTHS = (9, 4, 40, 9, 33)


def text_and_cross(patch_width: int = 6) -> tuple[CXRBert, CrossAttention]:
    torch.manual_seed(0)
    text = CXRBert.build(SIZES, vocabulary_size=50, pad_id=0).eval()
    cross = CrossAttention(text.config, patch_width).eval()
    for parameter in cross.parameters():  # larger than at the start, when they hardly matter
        nn.init.normal_(parameter, std=0.3)
    return text, cross


def in_transformers(text: CXRBert, cross: CrossAttention) -> BertLMHeadModel:
    """The same network; what it attends to is patches after their linear layer."""
    sizes = {**text.config.model_dump(), "is_decoder": True, "add_cross_attention": True}
    theirs = BertLMHeadModel(BertConfig(**sizes)).eval()
    weights = {n: v for n, v in text.state_dict().items() if not n.startswith("cls_proj")}
    for name, value in cross.state_dict().items():
        if not name.startswith("patches."):
            _, number, rest = name.split(".", 2)
            weights[f"bert.encoder.layer.{number}.crossattention.{rest}"] = value
    theirs.load_state_dict(weights)
    return theirs


def batch() -> tuple[Tensor, Tensor, Tensor]:
    ids = torch.randint(5, 50, (len(LENGTHS), max(LENGTHS)))
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).long()
    return ids * mask, mask, torch.randn(len(LENGTHS), 7, 6)


@pytest.mark.parametrize("causal", [True, False])
def test_states_and_gradients_equal_those_of_transformers(causal: bool) -> None:
    text, cross = text_and_cross()
    theirs = in_transformers(text, cross)
    ids, mask, patches = batch()
    weight = torch.randn(*ids.shape, SIZES.width) * mask[:, :, None]

    states = cross.states(text.bert, ids, mask, patches, causal)
    (states * weight).sum().backward()

    seen = mask
    if not causal:
        for layer in theirs.bert.encoder.layer:
            layer.attention.self.is_causal = False
        seen = (1.0 - mask[:, None, None].expand(-1, -1, ids.shape[1], -1)) * -1e9
    expected = (
        theirs.bert(
            ids, attention_mask=seen, encoder_hidden_states=cross.patches(patches)
        ).last_hidden_state
        * mask[:, :, None]
    )
    cross_patches = cross.patches.weight.grad
    assert cross_patches is not None
    found = cross_patches.clone()
    cross.zero_grad()
    (expected * weight).sum().backward()

    torch.testing.assert_close(states, expected, atol=2e-5, rtol=1e-4)
    assert not states[1, 4:].any()
    torch.testing.assert_close(found, cross.patches.weight.grad, atol=1e-4, rtol=1e-3)
    keys = [dict(one.named_parameters()) for one in (text.bert, theirs.bert)]
    for name, parameter in keys[0].items():
        torch.testing.assert_close(
            parameter.grad, keys[1][name].grad, atol=1e-3, rtol=1e-3, msg=name
        )


def test_a_token_of_a_causal_text_does_not_see_what_follows() -> None:
    text, cross = text_and_cross()
    ids, mask, patches = batch()
    changed = ids.clone()
    changed[:, 3] = 49
    one, other = (cross.states(text.bert, i, mask, patches, causal=True) for i in (ids, changed))
    assert torch.equal(one[:, :3], other[:, :3])
    assert not torch.allclose(one[:, 3], other[:, 3])


def test_each_text_looks_at_its_own_image() -> None:
    text, cross = text_and_cross()
    ids, mask, patches = batch()
    other = patches.clone()
    other[2] += 1
    one, two = (cross.states(text.bert, ids, mask, p, causal=False) for p in (patches, other))
    same = [torch.equal(a, b) for a, b in zip(one, two, strict=True)]
    assert same == [True, True, False, True, True]


def test_initial_weights_are_berts() -> None:
    torch.manual_seed(1)
    cross = CrossAttention(CXRBert.build(SIZES, 50, 0).config, 6)
    assert cross.patches.weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert not cross.layer[1].self.query.bias.any()
    assert (cross.layer[1].output.LayerNorm.weight == 1).all()
