"""Views of images and of texts in joint training: several, mixed; pooling, drawn sentences."""

import json
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from literal import draw
from pydantic import ValidationError
from small_programs import IMAGE, image_text_program, replace_terms
from small_text import MINIMAL, REPORTS, pool_of, write_text_model
from speed.text_steps import in_transformers
from torch import Tensor
from transformers import AutoModel, BertTokenizerFast

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder
from cxrflow.encoders.image_encoder import ImageOutput, Patches
from cxrflow.encoders.settings import TextPooling
from cxrflow.models.model import Model
from cxrflow.pretrain.objective import Batch, Term, Views
from cxrflow.pretrain.pairs.images_and_texts import ImageTextProgram, PairViews
from cxrflow.pretrain.pairs.tables import pair_texts, required_section
from cxrflow.pretrain.report_text import (
    TextPasses,
    Texts,
    sentence_pool,
)
from cxrflow.pretrain.settings import JointPretrainingSettings
from cxrflow.pretrain.starts import freeze_below, start_text, train_only
from cxrflow.pretrain.terms.base_settings import Needs
from cxrflow.pretrain.terms.settings import MaskedLanguageSettings
from cxrflow.text.report_batch import ReportTokens
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.processes import ALONE


def test_last_states_are_transformers_hidden_states(text: CXRBert) -> None:
    ids = torch.randint(5, 15, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(9) < torch.tensor([9, 4, 1])[:, None]).long()
    plain = in_transformers(text).bert
    theirs = plain(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    ours = text.last_states(ids, mask, 3)
    assert len(ours) == 3 and len(theirs) == 4  # theirs begin with the embeddings
    wanted = [states * mask[:, :, None] for states in theirs[1:]]
    torch.testing.assert_close(ours, wanted, rtol=1e-4, atol=1e-5)
    assert torch.equal(text.hidden_states(ids, mask), ours[-1])
    assert torch.equal(torch.stack(text.last_states(ids, mask, 2)), torch.stack(ours[1:]))


@pytest.mark.parametrize("pooling", ["cls", "max", "mean"])
def test_pooling_is_over_real_tokens(text: CXRBert, pooling: TextPooling) -> None:
    text.set_pooling(pooling)
    lengths = [6, 2, 4]
    mask = (torch.arange(6) < torch.tensor(lengths)[:, None]).long()
    hidden = (draw(3, 6, 24).float() - 3).requires_grad_()  # zeros of padding would be the maximum
    rows = []
    for states, length in zip(hidden, lengths, strict=True):
        real = [states[place] for place in range(length)]
        if pooling == "max":
            rows.append(torch.stack([max(state[d] for state in real) for d in range(24)]))
        else:
            rows.append(real[0] if pooling == "cls" else sum(real) / length)
    ours, literal = text.project(hidden, mask), text.cls_projection_head(torch.stack(rows))
    torch.testing.assert_close(ours, literal, rtol=1e-5, atol=1e-6)
    slope = draw(3, 8, seed=2).float()
    found, wanted = (torch.autograd.grad(one, hidden, slope)[0] for one in (ours, literal))
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_pooling_without_a_mask_is_refused(text: CXRBert) -> None:
    text.set_pooling("mean")
    with pytest.raises(ValueError, match="needs the attention mask"):
        text.project(torch.zeros(1, 2, 24))


def test_pooling_is_kept_with_the_model(text_folder: Path, tmp_path: Path) -> None:
    started = start_text(text_folder, 0.1, 0.1, "max")
    save_text_encoder(started, tmp_path)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((text_folder / name).read_bytes())
    assert json.loads((tmp_path / "config.json").read_text())["text_pooling"] == "max"
    model = Model.load(tmp_path)
    texts = ["heart is large .", "no effusions"]
    batch = BertTokenizerFast.from_pretrained(tmp_path)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        plain = AutoModel.from_pretrained(tmp_path, add_pooling_layer=False).eval()
        states = plain(**batch).last_hidden_state
        real = batch["attention_mask"].bool()
        pooled = torch.stack([states[row, real[row]].amax(0) for row in range(2)])
        head = model.text_encoder.cls_projection_head
        wanted = torch.nn.functional.normalize(head(pooled), dim=1)
    torch.testing.assert_close(model.encode_text(texts), wanted, rtol=1e-4, atol=1e-5)
    # What goes on from it pools as its own settings say.
    assert start_text(tmp_path, 0.1, 0.1).pooling == "cls"


def test_unknown_pooling_is_refused(text: CXRBert, tmp_path: Path) -> None:
    text.set_pooling("median")
    save_text_encoder(text, tmp_path)
    with pytest.raises(InputError, match=r"config\.json: key 'text_pooling' is 'median': .*'mean'"):
        load_text_encoder(tmp_path)


def test_the_pool_is_all_sentences_with_text() -> None:
    both = sentence_pool(REPORTS, ("findings", "impression"))
    assert [both["impression_sentences"][row] for row in range(3)] == list(map(pool_of, range(3)))
    one = sentence_pool(REPORTS, ("findings",))
    assert one["impression_sentences"][2] == ["no ."] and one["impression_sentences"][1] == []
    assert REPORTS["impression_sentences"][2] == []  # the table given stays as it is


def test_one_sentence_is_drawn_uniformly_and_by_report_alone(text_folder: Path) -> None:
    tokenizer = read_tokenizer(text_folder)
    reports = ReportTokens(sentence_pool(REPORTS, ("findings", "impression")), tokenizer, 32)
    rows = np.arange(len(REPORTS))
    batch = reports.batch(rows, "impression", 3, 5, one_sentence=True)
    ids_of = {row: [tokenizer.encode(text).ids for text in pool_of(row)] for row in range(3)}
    counts = {row: [0] * len(ids_of[row]) for row in range(3)}
    for row, ids, mask in zip(rows, batch["input_ids"], batch["attention_mask"], strict=True):
        counts[row % 3][ids_of[row % 3].index(ids[mask.bool()].tolist())] += 1
    assert counts[2] == [400]
    for row in (0, 1):
        expected = 400 / len(counts[row])
        assert all(abs(count - expected) < 4 * expected**0.5 for count in counts[row]), counts
    # Whatever batch a report stands in, shuffled or not; another epoch draws others.
    part = reports.batch([7, 601, 3], "impression", 3, 5, shuffle=False, one_sentence=True)
    width = part["input_ids"].shape[1]
    assert torch.equal(part["input_ids"], batch["input_ids"][[7, 601, 3], :width])
    other = reports.batch(rows, "impression", 3, 6, one_sentence=True)
    assert not torch.equal(other["attention_mask"], batch["attention_mask"])


def test_settings_say_which_section_a_report_must_have() -> None:
    def required(**settings: object) -> str:
        return required_section(JointPretrainingSettings(**MINIMAL, **settings))

    assert required() == required(sentence_sections=["findings"]) == "impression"
    assert required(text="sentence") == "impression"
    assert required(text="sentence", sentence_sections=["findings"]) == "findings"
    with pytest.raises(ValidationError, match="expected each section once"):
        required(sentence_sections=["findings", "findings"])


def test_a_report_is_impression_then_findings(text_folder: Path) -> None:
    tokenizer = read_tokenizer(text_folder)
    settings = JointPretrainingSettings(**MINIMAL, text="report", length=40)
    texts = pair_texts(settings, REPORTS[:9], tokenizer, training=False)
    tokens = texts.intact(Batch(np.array([0, 1]), 0, 0, ALONE))
    for row, ids, mask in zip((0, 1), tokens["input_ids"], tokens["attention_mask"], strict=True):
        columns = (REPORTS[f"{name}_sentences"] for name in ("impression", "findings"))
        sentences = [sentence for column in columns for sentence in column[row] or []]
        words = [id_ for one in sentences for id_ in tokenizer.encode(one).ids]
        words = [id_ for id_ in words if id_ not in (2, 3)]
        assert ids[mask.bool()].tolist() == [2, *words, 3]


@pytest.mark.parametrize("forward", ["separate", "shared"])
@pytest.mark.parametrize("layers", [0, 1, 2])
def test_texts_go_through_the_encoder_as_the_terms_need(text, text_folder, layers, forward):
    texts = Texts(ReportTokens(REPORTS[:9], read_tokenizer(text_folder), 32), ("findings",), True)
    batch = Batch(np.array([0, 3, 2, 6]), 7, 1, ALONE)
    mlm = MaskedLanguageSettings.model_validate({"forward": forward})
    needs = Needs.of_all([mlm.needs, Needs(texts=("findings",), layers=layers)])
    passes = TextPasses(text, texts.reports.vocabulary, needs, torch.device("cpu"))
    taken = texts.intact(batch)
    output = passes((taken, passes.masked(taken, batch)), batch)
    ids, mask = taken["input_ids"], taken["attention_mask"]
    assert torch.equal(output.ids, ids) and output.masked is not None and passes.masker is not None
    masked = passes.masker(ids, mask.bool(), taken["keys"], 7, 1)
    corrupted = text.last_states(masked.input_ids, mask, 2)
    read = text.last_states(ids, mask, 2) if forward == "separate" and layers else corrupted
    torch.testing.assert_close(output.states, read[-len(output.states) :])
    assert len(output.states) == max(1, layers)
    logits = text.predict_tokens(corrupted[-1], masked.positions)
    torch.testing.assert_close(output.masked.logits, logits)
    assert torch.equal(output.masked.targets, masked.targets)
    assert (output.masked.tokens, output.masked.sequences) == (len(masked.targets), 4)
    torch.testing.assert_close(output.projected, text.project(read[-1], mask))
    heads = {name.split(".")[0] for name, p in text.named_parameters() if not p.requires_grad}
    assert heads == (set() if layers else {"cls_projection_head"})


def test_without_mlm_nothing_is_masked_and_the_token_head_rests(text, text_folder):
    texts = Texts(ReportTokens(REPORTS[:9], read_tokenizer(text_folder), 32), ("findings",), True)
    needs, batch = Needs(texts=("findings",)), Batch(np.array([0, 3]), 7, 1, ALONE)
    passes = TextPasses(text, texts.reports.vocabulary, needs, torch.device("cpu"))
    taken = texts.intact(batch)
    assert passes.masked(taken, batch) is None
    rest = {name for name, parameter in text.named_parameters() if not parameter.requires_grad}
    assert rest and all(name.startswith("cls.") for name in rest)


@pytest.mark.parametrize("layers", [0, 2])
def test_frozen_layers_and_embeddings_get_no_gradient(text: CXRBert, layers: int) -> None:
    train_only(text, tokens=True, projection=True)
    freeze_below(text, layers)
    ids = torch.randint(5, 15, (2, 6), generator=torch.Generator().manual_seed(0))
    hidden = text.hidden_states(ids, torch.ones_like(ids))
    loss = text.project(hidden).square().sum()
    (loss + text.predict_tokens(hidden, torch.tensor([1])).square().sum()).backward()
    moved = {name for name, parameter in text.named_parameters() if parameter.grad is not None}
    everything = {name for name, _ in text.named_parameters()}
    below = ("bert.embeddings.", "bert.encoder.layer.0.", "bert.encoder.layer.1.")
    frozen = {name for name in everything if name.startswith(below)}
    assert moved == (everything - frozen if layers else everything)


class Mixed(Term):
    """Images that hold a part of another image, near the projection of both."""

    needs = Needs(images=2, texts=("intact",), stage=3)
    compares = False

    def loss(self, views: Views) -> Tensor:
        assert isinstance(views, PairViews)
        mixed = views.resumed((views.features + views.features.roll(1, 0)) / 2)
        return mixed.projected_global.sum() + views.images[1].pooled.mean()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImageTextProgram:
    replace_terms(monkeypatch, {"global_alignment": Mixed})
    folder = write_text_model(tmp_path)
    settings = JointPretrainingSettings.model_validate(
        {**MINIMAL, "terms": {"global_alignment": {}}, "encoder": IMAGE, "length": 16}
    )
    made = image_text_program(
        settings, REPORTS, load_text_encoder(folder), folder,
        augmentation=lambda pixels, seed, epoch, view: pixels + view,
    )  # fmt: skip
    made.image.eval()
    return made


def views_of(program: ImageTextProgram) -> PairViews:
    return program.views("train", Batch(np.array([5, 0, 30, 11]), 3, 5, ALONE))


same = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-6)


def test_views_of_an_image_are_encoded_each(program: ImageTextProgram) -> None:
    views = views_of(program)
    for number in range(2):
        assert torch.equal(views.pixels(number).current, views.pixels(0).current + number)
        same(views.images[number], program.image(views.pixels(number)))


def test_features_go_on_from_a_stage(program: ImageTextProgram) -> None:
    views, rows = views_of(program), torch.tensor([3, 1])
    whole, trunk = views.images[0], cast(Any, program.image.encoder)
    hidden = trunk.forward_until(views.pixels(0), 3).current
    assert torch.equal(views.features, hidden)
    other = ImageOutput(*(part if part is None else part[rows] for part in whole))
    same(views.resumed(hidden[rows]), other)
    same(views.resumed(hidden[rows], mean_pooled=True), other)  # a ResNet pools so anyway
    mixed = (hidden + hidden.roll(1, 0)) / 2
    grid = trunk.encoder.layer4(mixed)
    same(views.resumed(mixed), program.image.project(Patches(grid, grid.mean((2, 3)))))


def test_texts_are_composed_of_sentences(program: ImageTextProgram) -> None:
    program.text.eval()
    views = views_of(program)
    assert [[s.text for s in text] for text in views.sentences] == [
        [], ["large pleural effusion ."], ["large pleural effusion ."], []
    ]  # fmt: skip
    tokens = [[token for s in text for token in s.tokens] for text in views.sentences]
    composed, intact = views.composed(tokens), views.texts["intact"]
    assert torch.equal(composed.ids, intact.ids) and torch.equal(composed.mask, intact.mask)
    torch.testing.assert_close(composed.projected, intact.projected)


def test_a_term_trains_what_comes_before_the_mixing(program: ImageTextProgram) -> None:
    losses = program.objective(views_of(program))
    losses.total.backward()
    moved = {name for name, p in program.image.named_parameters() if p.grad is not None}
    assert moved == {name for name, _ in program.image.named_parameters()}


def test_terms_read_features_after_one_stage() -> None:
    assert Needs.of_all([Needs(stage=3), Needs(images=2), Needs(stage=3)]).stage == 3
    with pytest.raises(InputError, match=r"after stages \[2, 3\]; expected one"):
        Needs.of_all([Needs(stage=3), Needs(stage=2)])


def test_a_view_that_a_program_has_not_is_named() -> None:
    views = Views(Batch(np.arange(2), 0, 0, ALONE))
    with pytest.raises(InputError, match="reads reports that a decoder .* program has not"):
        _ = views.written
    with pytest.raises(InputError, match="reads pixels of images"):
        views.pixels(0)
