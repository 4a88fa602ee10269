"""Joint training of ConVIRT, GLoRIA and BioViL-L: literal losses, pooling, sentences, freezing."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoModel

from cxrflow.encoders.cxr_bert import CXRBert, load_text_half, save_text_half
from cxrflow.encoders.image_encoder import ImageEncoder, ImageOutput
from cxrflow.encoders.settings import ImageEncoderSettings, TextEncoderSettings, TextPooling
from cxrflow.errors import InputError
from cxrflow.model import Model
from cxrflow.objectives.global_alignment import global_alignment
from cxrflow.objectives.local_alignment import local_alignment, local_similarity
from cxrflow.pretrain.local_term import LocalTerm
from cxrflow.pretrain.report_text import freeze_below, sentence_pool, start_text, train_only
from cxrflow.pretrain.settings import (
    JointPretrainingSettings,
    LocalAlignmentSettings,
    MaskedLanguageSettings,
)
from cxrflow.pretrain.work import local_term_work, section_work
from cxrflow.text.report_batch import ReportTokens
from cxrflow.text.tokenizer import SPECIAL_TOKENS, VocabularyInfo, load_tokenizer, write_tokenizer
from cxrflow.training.processes import ALONE
from cxrflow.training.work import local_alignment_work, projection_work, transformer_work

WORDS = ["no", "##dule", "pleural", "eff", "##usion", "##s", "heart", "is", "large", "."]
TEXT = TextEncoderSettings(layers=3, width=24, heads=2, feed_forward=32, positions=40, projection=8)
MINIMAL = {"training": {"batch_size": 4, "epochs": 1}, "augmentation": {}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text model of 3 layers with its tokenizer."""
    made = tmp_path_factory.mktemp("text")
    write_tokenizer(made, [*SPECIAL_TOKENS, *WORDS], lowercase=True)
    torch.manual_seed(0)
    save_text_half(CXRBert.build(TEXT, len(SPECIAL_TOKENS) + len(WORDS), 0), made)
    return made


@pytest.fixture
def text(folder: Path) -> CXRBert:
    return load_text_half(folder).eval()


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def unit(vector: Tensor) -> Tensor:
    return vector / torch.sqrt((vector * vector).sum())


# --- the two directions ---------------------------------------------------------------------------


def literal_convirt(images: Tensor, texts: Tensor, tau: float, share: float) -> Tensor:
    """ConVIRT Eq. 2 to 4: v are images and u texts, both compared by cosine."""
    v, u = ([unit(row) for row in side] for side in (images, texts))
    total = torch.zeros((), dtype=torch.float64)
    for i in range(len(v)):
        matched = torch.exp(v[i] @ u[i] / tau)
        to_text = -torch.log(matched / sum(torch.exp(v[i] @ one / tau) for one in u))
        to_image = -torch.log(matched / sum(torch.exp(u[i] @ one / tau) for one in v))
        total = total + share * to_text + (1 - share) * to_image
    return total / len(v)


@pytest.mark.parametrize("share", [0.0, 0.5, 0.75, 1.0])
def test_half_the_global_term_is_convirts_loss(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Tensor, "float", lambda self: self)  # the comparison needs float64
    images, texts = draw(5, 4).requires_grad_(), draw(5, 4, seed=1).requires_grad_()
    ours = 0.5 * global_alignment(images, texts, 0.1, image_to_text=share)
    literal = literal_convirt(images, texts, 0.1, share)
    torch.testing.assert_close(ours, literal, rtol=1e-12, atol=1e-12)
    sides = (images, texts)
    for found, wanted in zip(
        torch.autograd.grad(ours, sides), torch.autograd.grad(literal, sides), strict=True
    ):
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_shares_of_several_processes_add_up() -> None:
    images, texts = draw(5, 4), draw(5, 4, seed=1)
    whole = global_alignment(images, texts, 0.1, image_to_text=0.75)
    parts = [global_alignment(images, texts, 0.1, own, 0.75) for own in (slice(0, 2), slice(2, 5))]
    torch.testing.assert_close(sum(parts), whole)


# --- pooling --------------------------------------------------------------------------------------


def test_last_states_are_transformers_hidden_states(text: CXRBert) -> None:
    ids = torch.randint(5, 15, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(9) < torch.tensor([9, 4, 1])[:, None]).long()
    theirs = text.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
    ours = text.last_states(ids, mask, 3)
    assert len(ours) == 3 and len(theirs) == 4  # theirs begin with the embeddings
    for one, other in zip(ours, theirs[1:], strict=True):
        torch.testing.assert_close(one, other * mask[:, :, None], rtol=1e-4, atol=1e-5)
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


def test_pooling_is_kept_with_the_model(folder: Path, tmp_path: Path) -> None:
    started = start_text(folder, 0.1, 0.1, "max")
    save_text_half(started, tmp_path)
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert json.loads((tmp_path / "config.json").read_text())["text_pooling"] == "max"
    model = Model.load(tmp_path)
    texts = ["heart is large .", "no effusions"]
    batch = load_tokenizer(tmp_path)(texts, padding=True, return_tensors="pt")
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


def test_a_model_that_projects_cls_says_nothing_of_pooling(folder: Path, tmp_path: Path) -> None:
    save_text_half(start_text(folder, 0.1, 0.1), tmp_path)
    assert "text_pooling" not in json.loads((tmp_path / "config.json").read_text())


def test_unknown_pooling_is_refused(text: CXRBert, tmp_path: Path) -> None:
    text.config.text_pooling = "median"
    save_text_half(text, tmp_path)
    with pytest.raises(
        InputError, match=r"config\.json: text_pooling is 'median'; expected one of"
    ):
        load_text_half(tmp_path)


# --- sentences ------------------------------------------------------------------------------------

REPORTS = pd.DataFrame(
    {
        "findings_sentences": [["heart is large .", "no effusion ."], [], ["no .", "\u200b"]] * 400,
        "impression_sentences": [["large pleural effusion ."], ["is .", "heart ."], []] * 400,
    }
)


def pool_of(row: int) -> list[str]:
    """Sentences with text of a report, FINDINGS first."""
    both = [*REPORTS["findings_sentences"][row], *REPORTS["impression_sentences"][row]]
    return [sentence for sentence in both if sentence != "\u200b"]


def test_the_pool_is_all_sentences_with_text() -> None:
    both = sentence_pool(REPORTS, ("findings", "impression"))
    assert [both["impression_sentences"][row] for row in range(3)] == list(map(pool_of, range(3)))
    one = sentence_pool(REPORTS, ("findings",))
    assert one["impression_sentences"][2] == ["no ."] and one["impression_sentences"][1] == []
    assert REPORTS["impression_sentences"][2] == []  # the table given stays as it is


def test_one_sentence_is_drawn_uniformly_and_by_report_alone(folder: Path) -> None:
    tokenizer = load_tokenizer(folder)
    reports = ReportTokens(sentence_pool(REPORTS, ("findings", "impression")), tokenizer, 32)
    rows = np.arange(len(REPORTS))
    batch = reports.batch(rows, "impression", 3, 5, one_sentence=True)
    ids_of = {
        row: [tokenizer(sentence)["input_ids"] for sentence in pool_of(row)] for row in range(3)
    }
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
    lengths = reports.lengths("impression", 3)
    first = reports.batch(rows, "impression", 3, 0, one_sentence=True)
    assert lengths.tolist() == first["attention_mask"].sum(1).tolist()


def test_settings_say_which_section_a_report_must_have() -> None:
    def required(**settings: object) -> str:
        return JointPretrainingSettings(**MINIMAL, **settings).required_section

    assert required() == required(sentence_sections=["findings"]) == "impression"
    assert required(text="sentence") == "impression"
    assert required(text="sentence", sentence_sections=["findings"]) == "findings"
    with pytest.raises(ValidationError, match="expected each section once"):
        required(sentence_sections=["findings", "findings"])


# --- words and the local term ---------------------------------------------------------------------


def literal_words(text: CXRBert, ids: Tensor, kept: Tensor, layers: int) -> list[list[Tensor]]:
    """Words of every text, text by text through transformers' BERT, projected one by one."""
    found = []
    for row, real in zip(ids, kept, strict=True):
        row = row[real]
        states = text.bert(input_ids=row[None], output_hidden_states=True).hidden_states
        words: list[Tensor] = []
        for place in range(1, len(row) - 1):  # between [CLS] and [SEP]
            state = sum(layer[0, place] for layer in states[-layers:])
            piece = WORDS[int(row[place]) - len(SPECIAL_TOKENS)]
            if piece.startswith("##") and words:
                words[-1] = words[-1] + state
            else:
                words.append(state)
        found.append([text.cls_projection_head(word) for word in words])
    return found


def literal_local_loss(regions: Tensor, texts: list[list[Tensor]], length_1: bool) -> Tensor:
    """GLoRIA's published code, word by word, with its temperatures 4, 5 and 10."""
    rows = []
    for image in regions:
        row = []
        for words in texts:
            v, t = image, torch.stack(words)
            if length_1:
                v, t = torch.stack([unit(one) for one in v]), torch.stack([unit(w) for w in t])
            a = torch.softmax(4 * torch.softmax(t @ v.T, 0), 1)
            scores = [unit(w) @ unit(shares @ v) for w, shares in zip(t, a, strict=True)]
            row.append(torch.log(sum(torch.exp(5 * score) for score in scores)))
        rows.append(torch.stack(row))
    z = 10 * torch.stack(rows)
    return -(z.log_softmax(0).diagonal() + z.log_softmax(1).diagonal()).mean()


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("layers", [1, 3])
def test_local_term_is_glorias_loss_of_projected_words(
    text: CXRBert, folder: Path, layers: int, normalised: bool
) -> None:
    text.double()
    image = ImageEncoder(
        ImageEncoderSettings(block="basic", layers=(1, 1, 1, 1), width=4, channels=1, projection=8)
    ).eval()
    output = image(torch.rand(3, 1, 64, 64, generator=torch.Generator().manual_seed(0)))
    regions = output.unnormalised_patches.flatten(1, 2).double()
    batch = load_tokenizer(folder)(
        ["no pleural effusions .", "nodule", "heart is large . no effusion"],
        padding=True,
        return_tensors="pt",
    )
    ids, mask = batch["input_ids"], batch["attention_mask"]
    settings = LocalAlignmentSettings(weight=1, layers=layers, normalised=normalised)
    term = LocalTerm(settings, text, VocabularyInfo.from_folder(folder))
    words = term.words(text.last_states(ids, mask, layers), ids)
    assert words.lengths == [4, 1, 6]
    ours = term.loss(output, words, 3, ALONE)
    wanted = literal_local_loss(regions, literal_words(text, ids, mask.bool(), layers), normalised)
    torch.testing.assert_close(ours.double(), wanted, rtol=1e-4, atol=1e-5)
    for parameters in (list(text.bert.encoder.parameters()), list(image.projector.parameters())):
        for found, literal in zip(
            torch.autograd.grad(ours, parameters, retain_graph=True),
            torch.autograd.grad(wanted, parameters, retain_graph=True),
            strict=True,
        ):
            largest = float(literal.abs().max())
            torch.testing.assert_close(found, literal, rtol=1e-3, atol=1e-3 * largest + 1e-9)


def test_cls_is_a_word_where_it_is_said(text: CXRBert, folder: Path) -> None:
    ids = load_tokenizer(folder)(["no effusions"], return_tensors="pt")["input_ids"]
    states = text.last_states(ids, torch.ones_like(ids), 1)
    pieces = VocabularyInfo.from_folder(folder)
    counts = [
        LocalTerm(LocalAlignmentSettings(layers=1, cls_is_word=said), text, pieces)
        .words(states, ids)
        .lengths
        for said in (False, True)
    ]
    assert counts == [[2], [3]]


def test_even_attention_is_why_vectors_are_not_normalised() -> None:
    """With the softmax over words a patch that fits perfectly gets little of a word's attention."""
    words = torch.nn.functional.normalize(draw(12, 128), dim=1)
    patches = torch.nn.functional.normalize(draw(256, 128, seed=1), dim=1)
    patches[:12] = words  # each word has its own patch

    def attention(scale: float) -> float:
        shares = torch.softmax(4 * torch.softmax(scale * words @ patches.T, 0), 1)
        return float(shares.diagonal().mean())

    assert attention(1.0) < 2 / 256  # even: 1 / 256
    assert attention(12.0) > 10 / 256


def test_more_layers_than_there_are_is_one_line(text: CXRBert, folder: Path) -> None:
    with pytest.raises(InputError, match=r"'local_alignment.layers' is 4, but the text encoder"):
        LocalTerm(LocalAlignmentSettings(), text, VocabularyInfo.from_folder(folder))
    with pytest.raises(InputError, match=r"'frozen_layers' is 4, but the text encoder has 3"):
        freeze_below(text, 4)


# --- freezing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layers", [0, 2])
def test_frozen_layers_and_embeddings_get_no_gradient(text: CXRBert, layers: int) -> None:
    train_only(text, tokens=True, projection=True)
    freeze_below(text, layers)
    ids = torch.randint(5, 15, (2, 6), generator=torch.Generator().manual_seed(0))
    hidden = text.hidden_states(ids, torch.ones_like(ids))
    loss = text.project(hidden).square().sum()
    (loss + text.predict_tokens(hidden, torch.tensor([1])).square().sum()).backward()
    moved = {name for name, parameter in text.named_parameters() if parameter.grad is not None}
    frozen = {
        name
        for name, _ in text.named_parameters()
        if name.startswith(("bert.embeddings.", "bert.encoder.layer.0.", "bert.encoder.layer.1."))
    }
    everything = {name for name, _ in text.named_parameters()}
    assert moved == (everything - frozen if layers else everything)


# --- work -----------------------------------------------------------------------------------------


class Products(TorchDispatchMode):
    """Counts matrix products, in-place ones too, which torch's own counter leaves out."""

    PLACES = {"mm": 0, "bmm": 0, "addmm_": 1, "baddbmm_": 1}  # of the first factor

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        place = self.PLACES.get(func.overloadpacket.__name__)
        if place is not None:
            self.flops += 2 * args[place].numel() * args[place + 1].shape[-1]
        return func(*args, **(kwargs or {}))


def test_work_of_the_local_term_is_that_of_its_products() -> None:
    images, texts, regions, words, width = 3, 5, 49, 12, 64
    v = draw(images, regions, width).float().requires_grad_()
    t = draw(texts, words, width, seed=1).float().requires_grad_()
    with Products() as counter:
        local_similarity(v, t, [words] * texts).sum().backward()
    ours = texts * local_alignment_work(words, regions, images, width).flops
    assert counter.flops == pytest.approx(ours, rel=0.02)


def test_work_counts_drawn_sentences_frozen_layers_and_the_local_term(folder: Path) -> None:
    tokenizer, config = load_tokenizer(folder), load_text_half(folder).config
    reports = ReportTokens(sentence_pool(REPORTS, ("findings", "impression")), tokenizer, 32)
    off = MaskedLanguageSettings(weight=0)
    drawn = transformer_work(config, reports.lengths("impression", 3), 4).flops
    projection = projection_work(config).flops
    work = section_work(config, off, reports, "impression", 4, 3)
    assert work.flops == pytest.approx(drawn + projection)
    frozen = section_work(config, off, reports, "impression", 4, 3, frozen_layers=1)
    assert frozen.flops == pytest.approx(drawn * (2 + 1 / 3) / 3 + projection)
    image = ImageEncoder(ImageEncoderSettings(layers=(1, 1, 1, 1), width=8, projection=8))
    plain = JointPretrainingSettings(**MINIMAL)
    assert local_term_work(config, plain, reports, image, 64, 3).flops == 0
    local = plain.model_copy(update={"local_alignment": LocalAlignmentSettings(weight=1)})
    tokens = int(reports.lengths("impression").sum()) - 2 * len(reports)
    batch = reports.batch(range(len(reports)), "impression", 0, 0)["input_ids"]
    begins = torch.tensor([not piece.startswith("##") for piece in ["", *SPECIAL_TOKENS, *WORDS]])
    words = int((begins[1:][batch] & (batch >= len(SPECIAL_TOKENS))).sum()) / len(reports)
    assert words * len(reports) < tokens
    found = local_term_work(config, local, reports, image, 64, None)
    wanted = local_alignment_work(words, 2 * 2, 4, 8).flops + words * projection
    assert found.flops == pytest.approx(wanted)
    assert next(image.parameters()).device.type == "cpu"


def test_shares_of_the_local_loss_add_up_to_the_published_sum(text: CXRBert, folder: Path) -> None:
    """One process: the shared-out form is ``local_alignment`` itself."""
    settings = LocalAlignmentSettings(weight=1, layers=1)
    term = LocalTerm(settings, text, VocabularyInfo.from_folder(folder))
    ids = load_tokenizer(folder)(["no heart", "is large"], return_tensors="pt")["input_ids"]
    words = term.words(text.last_states(ids, torch.ones_like(ids), 1), ids)
    patches = draw(2, 2, 3, 8).float()
    output = ImageOutput(patches.mean((1, 2)), patches, patches)
    ours = term.loss(output, words, 2, ALONE)
    torch.testing.assert_close(
        ours, local_alignment(patches.flatten(1, 2), words.word_BWD, words.lengths)
    )
