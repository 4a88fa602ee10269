"""MGCA's training: cleaned reports, words and their weights, projections, resting prototypes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError
from small_text import MINIMAL, write_text_model
from speed.text_steps import in_transformers
from stored_pictures import Pictures
from torch import Tensor, nn
from transformers import AutoModel

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxr_labels.present import positive_findings
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder, save_text_encoder
from cxrflow.encoders.heads.mgca import ImageHead, TextHead
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.encoders.settings import MgcaHeadSettings
from cxrflow.pretrain.inputs import Run
from cxrflow.pretrain.objective import Encoders, TextOutput
from cxrflow.pretrain.pairs.images_and_texts import freeze_unread
from cxrflow.pretrain.pairs.preparation import renew_projection
from cxrflow.pretrain.pairs.whole_reports import (
    ImageReportProgram,
    ReportTable,
    prepare_text,
    report_texts,
)
from cxrflow.pretrain.settings import ImageReportSettings
from cxrflow.pretrain.terms.mgca_settings import TokenAlignmentSettings
from cxrflow.pretrain.terms.settings import ImageReportTerms
from cxrflow.pretrain.terms.token_alignment import TokenAlignment
from cxrflow.text.cleaned_reports import clean_in_tokenizer, cleaned_sentences, count_words
from cxrflow.text.report_batch import ReportTokens
from cxrflow.text.tokenizer import VocabularyInfo, read_tokenizer
from cxrflow.training.processes import ALONE
from cxrflow.training.program import ParameterRule
from cxrflow.training.samples import SampleTable
from cxrflow.training.settings import TrainingSettings
from cxrflow.training.step import DataClock, Step

HEAD = MgcaHeadSettings(hidden=12)
REPORTS = pd.DataFrame(
    {
        "impression": ["1. Large PLEURAL effusion.\n2. No nodule.", None, "Heart."] * 8,
        "findings": ["The heart is large.", "Heart is large; no effusion.", ""] * 8,
    }
)


# --- reports --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "sentences"),
    [
        (
            ("1. Large left effusion.\n2. No pneumothorax.", "Heart: normal."),
            ["large left effusion", "no pneumothorax", "heart normal"],
        ),
        (("Stable.", "A 2.5 cm nodule"), ["5 cm nodule"]),  # cut at "Stable.", "A 2." and ""
        ((None, float("nan")), []),
        (("T-spine, ___ year-old café",), ["t spine ___ year old caf"]),
        (("No\ufffd\ufffdedema. \u4e2d\u6587 \u5b57",), ["no edema"]),
    ],
)
def test_sentences_are_cleaned(sections: tuple[Any, ...], sentences: list[str]) -> None:
    read = cleaned_sentences(sections)
    assert [sentence.cleaned for sentence in read] == sentences
    assert count_words(read) == len(" ".join(sentences).split())


def test_texts_are_impression_then_findings(tmp_path: Path) -> None:
    folder = write_text_model(tmp_path)
    settings = settings_of(length=12)
    tokenizer = read_tokenizer(folder)
    texts = report_texts(settings, REPORTS, tokenizer, training=True)
    batch = SimpleNamespace(own=np.array([0, 1]), seed=0, epoch=3)
    ids = texts.intact(batch)["input_ids"]  # type: ignore[arg-type]
    report = "large pleural effusion no nodule the heart is large"
    assert ids.shape == (2, 12)
    assert ids[0].tolist() == [*tokenizer.encode(report).ids[:11], tokenizer.token_to_id("[SEP]")]
    assert ids[1, :8].tolist() == tokenizer.encode("heart is large no effusion").ids[:8]


def test_a_labeller_reads_sentences_as_they_were_written(tmp_path: Path) -> None:
    """A semicolon ends what "no" denies; cleaning takes it away. A sentence that is cut is none."""
    tokenizer = read_tokenizer(write_text_model(tmp_path))
    reports = pd.DataFrame(
        {"impression": ["1. No edema; large effusion, heart is large."], "findings": ["Old."]}
    )
    batch = SimpleNamespace(rows=np.array([0]), seed=0, epoch=0)
    for length, text in ((12, "No edema; large effusion, heart is large"), (8, "")):
        texts = report_texts(settings_of(length=length), reports, tokenizer, training=True)
        ((sentence,),) = texts.sentences(batch)  # type: ignore[arg-type]
        assert sentence.text == text
        ids = tokenizer.encode(
            "no edema large effusion heart is large", add_special_tokens=False
        ).ids
        assert sentence.tokens.tolist() == ids[: length - 2]
    lost = reports.assign(impression_sentences=[["a"]], impression_written=[["a", "b"]])
    with pytest.raises(ValueError, match="'impression_written' has other sentences than the list"):
        ReportTokens(lost, tokenizer, 8)
    assert positive_findings("No edema; large effusion") == {"Pleural Effusion"}
    assert "Pleural Effusion" not in positive_findings("no edema large effusion")


def test_a_cleaning_tokenizer_reads_prompts_as_reports(tmp_path: Path) -> None:
    folder = write_text_model(tmp_path)
    before = read_tokenizer(folder)
    clean_in_tokenizer(folder)
    after = read_tokenizer(folder)
    raw = "No NODULE: heart; is lárge, (Pleural/effusion)"
    sentence = cleaned_sentences([raw])[0]
    assert after.encode(raw).ids == before.encode(sentence.cleaned).ids
    assert before.encode(raw).ids != after.encode(raw).ids
    assert VocabularyInfo.from_tokenizer(before) == VocabularyInfo.from_tokenizer(after)


def test_reports_of_fewer_than_three_words_are_left_out_and_counted(tmp_path: Path) -> None:
    """Words after cleaning, of both sections together: a sentence of one word is none."""
    texts = {
        "train": [
            ("No nodule.", "Clear."),
            ("Stable. No", "nodule."),
            ("No nodule.", "Big heart."),
        ],
        "validate": [("Clear. Stable.", "Normal heart."), (None, None)],
    }
    rows = [(split, *text) for split, both in texts.items() for text in both]
    table = pd.DataFrame(rows, columns=["split", "impression", "findings"])
    ids = [str(number) for number in range(len(table))]
    table = table.assign(subject_id=ids, study_id=ids, image_id=ids)
    table.to_parquet(tmp_path / "pairs.parquet")
    write_json(tmp_path / "flow.json", {"dataset": "toy", "cohort": "toy", "synthetic": True})
    pairs, settings = ReportTable(tmp_path / "pairs.parquet"), settings_of()
    store: Any = SimpleNamespace(path=tmp_path, holds=lambda ids: np.ones(len(ids), dtype=bool))
    kept = pairs.rows("train", settings, store, priors=False)
    assert kept["study_id"].tolist() == ["2"]
    reason = "fewer than 3 words in impression and findings, cleaned"
    (dropped,) = pairs.describe()["dropped"]
    assert dropped == {"reason": reason, "count": 2, "failed": False, "part": "train"}
    assert pairs.dropped[0].examples == ("0", "1")
    with pytest.raises(InputError) as refused:
        pairs.rows("validate", settings, store, priors=False)
    assert str(refused.value) == (
        f"{tmp_path / 'pairs.parquet'}: split 'validate': every report has {reason}"
    )


# --- words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sep_is_word", [False, True])
def test_words_and_their_weights_are_sums_over_pieces(tmp_path: Path, sep_is_word: bool) -> None:
    """States and attention of transformers' own BERT, summed piece by piece."""
    folder = write_text_model(tmp_path)
    text, tokenizer = load_text_encoder(folder).eval(), read_tokenizer(folder)
    pieces = VocabularyInfo.from_tokenizer(tokenizer)
    texts = [tokenizer.encode(t) for t in ("no effusions", "heart is large no nodule")]
    length = max(len(encoded.ids) for encoded in texts)
    ids = torch.tensor([encoded.ids + [0] * (length - len(encoded.ids)) for encoded in texts])
    mask = (ids != 0).long()
    settings = TokenAlignmentSettings(sep_is_word=sep_is_word)
    encoders: Any = SimpleNamespace(text=text, vocabulary=pieces)
    term = TokenAlignment(settings, encoders)
    states = text.last_states(ids, mask, 2)
    output = TextOutput(text, ids, mask, states, None)
    words, weights = term.reader(text, states, ids), term.attention(output)
    bert = in_transformers(text).bert
    bert.set_attn_implementation("eager")
    theirs = bert(input_ids=ids, attention_mask=mask, output_attentions=True)
    of_cls = theirs.attentions[-1][:, :, 0].mean(1)
    for number, encoded in enumerate(texts):
        groups: list[list[int]] = []
        for place, piece in enumerate(encoded.tokens):
            if piece == "[CLS]" or (piece == "[SEP]" and not sep_is_word):
                continue
            if piece.startswith("##"):
                groups[-1].append(place)
            else:
                groups.append([place])
        assert words.lengths[number] == len(groups)
        for word, group in enumerate(groups):
            summed = theirs.last_hidden_state[number, group].sum(0)
            expected = text.cls_projection_head(summed)
            torch.testing.assert_close(words.word_BWD[number, word], expected, rtol=1e-4, atol=1e-5)
            attention = of_cls[number, group].sum()
            torch.testing.assert_close(weights[number, word], attention, rtol=1e-4, atol=1e-6)
        assert not weights[number, len(groups) :].any()


# --- projections ----------------------------------------------------------------------------------


def literal(head: nn.Module, rows: Tensor) -> Tensor:
    """Linear, statistics over all rows, ReLU, linear, statistics over all rows."""
    first, norm, _, last, _ = head.layers  # type: ignore[misc]

    def standardised(x: Tensor) -> Tensor:
        return (x - x.mean(0)) / (x.var(0, unbiased=False) + 1e-5).sqrt()

    hidden = standardised(first(rows)) * norm.weight + norm.bias
    return standardised(last(hidden.relu()))


def test_the_projection_of_images_is_of_the_whole_and_of_patches() -> None:
    torch.manual_seed(0)
    head = ImageHead(5, 3, HEAD)
    grid, pooled = torch.randn(4, 5, 2, 3), torch.randn(4, 5)
    image, patches = head(grid, pooled)
    torch.testing.assert_close(image, literal(head.model, pooled))
    rows = grid.permute(0, 2, 3, 1)
    torch.testing.assert_close(patches.flatten(0, 2), literal(head.local, rows.flatten(0, 2)))
    assert not any(parameter is None for parameter in head.parameters())
    assert [name for name, _ in head.local.named_parameters()][-1] == "layers.3.bias"  # no affine


def test_padding_is_left_out_of_the_statistics_or_counts() -> None:
    torch.manual_seed(0)
    words, lengths = torch.randn(3, 4, 5), [4, 1, 2]
    real = [words[text, :length] for text, length in enumerate(lengths)]
    head = TextHead(5, 3, HEAD)
    projected = head.words(words, lengths)
    expected = literal(head.local, torch.cat(real))
    places = [projected[text, :length] for text, length in enumerate(lengths)]
    torch.testing.assert_close(torch.cat(places), expected)
    assert all(not projected[text, length:].any() for text, length in enumerate(lengths))
    padded = TextHead(5, 3, MgcaHeadSettings(hidden=12, padded_words=6))
    padded.load_state_dict(head.state_dict())
    zeros = torch.zeros(3, 6, 5)
    for text, rows in enumerate(real):
        zeros[text, : len(rows)] = rows
    behind = words * (torch.arange(4) < torch.tensor(lengths)[:, None])[:, :, None]
    expected = literal(padded.local, zeros.flatten(0, 1)).unflatten(0, (3, 6))
    torch.testing.assert_close(padded.words(behind, lengths), expected, rtol=1e-4, atol=1e-5)


# --- what published code does otherwise -----------------------------------------------------------


def settings_of(**changes: Any) -> ImageReportSettings:
    sizes = {"kind": "vit", "blocks": 2, "width": 8, "heads": 2, "patch": 16, "grid": 4}
    encoder = {**sizes, "channels": 1, "projection": 6, "projection_head": HEAD.model_dump()}
    return ImageReportSettings.model_validate({**MINIMAL, "encoder": encoder, **changes})


def changed_text(folder: Path, **changes: Any) -> CXRBert:
    text = load_text_encoder(folder)
    prepare_text(text, settings_of(**changes), folder)
    return text.eval()


def test_a_text_encoder_of_fewer_layers_is_read_without_knowing(tmp_path: Path) -> None:
    """One position and no segments: plain transformers computes the same from the folder."""
    folder = write_text_model(tmp_path)
    coded = {"text_layers": 2, "single_position": True, "segment_embedding": False}
    text = changed_text(folder, **coded)
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 7, 6, 5, 3]])
    ours = text.hidden_states(ids, torch.ones_like(ids))
    # Nothing tells places apart: an order changes no state.
    torch.testing.assert_close(ours[0, 0], ours[1, 0])
    torch.testing.assert_close(ours[0, 1], ours[1, 3])
    whole = load_text_encoder(folder).hidden_states(ids, torch.ones_like(ids))
    assert not torch.allclose(whole[0, 0], whole[1, 0], atol=1e-4)
    save_text_encoder(text, tmp_path / "saved")
    plain = AutoModel.from_pretrained(tmp_path / "saved").eval()
    assert len(plain.encoder.layer) == 2
    torch.testing.assert_close(plain(ids).last_hidden_state, ours, rtol=1e-4, atol=1e-5)
    again = load_text_encoder(tmp_path / "saved").eval()
    torch.testing.assert_close(again.hidden_states(ids, torch.ones_like(ids)), ours)


def test_more_layers_than_there_are_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'text_layers' is 6, but .* has 3 layers"):
        changed_text(write_text_model(tmp_path), text_layers=6)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"padded_words": 14}, "padded_words is 14; expected at least 15"),
        ({"ghost_batch": 2}, "ghost_batch is 2 without .*padded_words"),
        ({"text": "impression"}, "Input should be 'report'"),
        (
            {"terms": {"global_alignment": {}, "cutmix": {"layer": 1}}},
            "no other term trains, so that regions would be random; expected terms.token_alignment",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(changes: dict[str, Any], said: str) -> None:
    values = settings_of().model_dump() | {"length": 16, **changes}
    if padded := values.pop("padded_words", None):
        values["encoder"]["projection_head"]["padded_words"] = padded
    with pytest.raises(ValidationError, match=said):
        ImageReportSettings.model_validate(values)


def test_mixing_without_regions_needs_no_trained_words() -> None:
    for control in ("unmixed", "text_alone", "true_boxes"):
        settings_of(terms={"global_alignment": {}, "cutmix": {"layer": 1, "control": control}})
    settings_of(terms={"token_alignment": {}, "cutmix": {"layer": 1}})


# --- the program ----------------------------------------------------------------------------------

TERMS = {"global_alignment": {}, "token_alignment": {}, "prototypes": {"number": 7}}


def program_of(folder: Path, **changes: Any) -> ImageReportProgram:
    torch.manual_seed(0)
    settings = settings_of(**{"terms": TERMS, "length": 12, **changes})
    image, text = ImageEncoder(settings.encoder), load_text_encoder(write_text_model(folder))
    renew_projection(text, settings.encoder)
    texts = report_texts(settings, REPORTS, read_tokenizer(folder), training=True)
    splits: Any = dict.fromkeys(("train", "validate"), Pictures(len(REPORTS)))
    samples = dict.fromkeys(splits, SampleTable(range(8)))
    run = Run(0, torch.device("cpu"), ALONE)
    by_split = dict.fromkeys(splits, texts)
    program = ImageReportProgram(settings, run, samples, splits, by_split, image, text, folder)
    program.augmentation = lambda pixels, seed, epoch, view: pixels  # type: ignore[assignment]
    return program


def step_of(program: ImageReportProgram) -> tuple[Step, DataClock]:
    training = TrainingSettings(
        batch_size=4, epochs=3, optimiser={"learning_rate": 0.01, "weight_decay": 0.5}
    )
    device = torch.device("cpu")
    step = Step(program, training, 0, 6, device, "fp32", ALONE)
    return step, DataClock(program.modules.values())


def test_prototypes_rest_in_the_first_epoch_and_stay_of_length_one(tmp_path: Path) -> None:
    """To the bit, whatever the weight decay; then they are trained as if they had just begun."""
    program = program_of(tmp_path)
    vectors: Any = program.terms["prototypes"].vectors
    step, clock = step_of(program)
    before = vectors.detach().clone()
    for number in range(4):
        step(number, clock)
        assert torch.equal(vectors, before) == (number < 2)
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(7))
    moments = step.optimiser.state[vectors]
    assert int(moments["step"]) == 2


def test_a_rule_lets_parameters_rest(tmp_path: Path) -> None:
    program = program_of(tmp_path)
    program.parameter_rules = [ParameterRule("text.*", rest=2)]
    step, clock = step_of(program)
    before = {name: value.clone() for name, value in program.text.named_parameters()}
    for number in range(5):
        step(number, clock)
        moved = [
            name
            for name, value in program.text.named_parameters()
            if value.requires_grad and not torch.equal(value, before[name])
        ]
        assert bool(moved) == (number >= 4)


@pytest.mark.parametrize("decay_all", [False, True])
def test_decay_may_be_of_all_parameters(tmp_path: Path, decay_all: bool) -> None:
    step, _ = step_of(program_of(tmp_path, decay_all=decay_all))
    decayed = {
        parameter.ndim
        for group in step.optimiser.param_groups
        if group["weight_decay"]
        for parameter in group["params"]
    }
    assert (1 in decayed) == decay_all and 2 in decayed


LOCAL = {"layers": 2}
CLIP = {
    **{"kind": "clip_resnet", "layers": [1, 1, 1, 1], "width": 8, "outputs": 8, "grid": 2},
    **{"channels": 1, "normalisation": "none", "projection": 6},
    "projection_head": HEAD.model_dump(),
}


@pytest.mark.parametrize("trunk", [{}, CLIP], ids=["transformer", "CLIP"])
@pytest.mark.parametrize(
    ("terms", "parts"),
    [
        (TERMS, {"model", "local"}),
        ({"global_alignment": {}}, {"model"}),
        ({"token_alignment": {}}, {"local"}),
        ({"local_alignment": LOCAL, "mlm": {}}, {"local"}),
        ({"token_alignment": {}, "simclr": {"hidden": 6, "output": 5}}, {"local"}),
    ],
    ids=lambda value: " and ".join(value) if isinstance(value, dict) else "",
)
def test_what_no_term_trains_is_frozen(
    tmp_path: Path, terms: dict[str, Any], parts: set[str], trunk: dict[str, Any]
) -> None:
    """Processes that train together wait for every parameter that could have a gradient."""
    changes = {"encoder": trunk} if trunk else {}
    program = program_of(tmp_path, terms=terms, **changes)
    assert not program.skips
    step, clock = step_of(program)
    program.parameter_rules = ()
    step(2, clock)
    for module in program.modules.values():
        for name, parameter in module.named_parameters():
            assert parameter.requires_grad == (parameter.grad is not None), name
    assert program.image.projector is not None
    trained = program.image.projector.named_parameters()
    assert {name.split(".")[0] for name, p in trained if p.requires_grad} == parts


@pytest.mark.parametrize(
    ("terms", "skips"),
    [
        ({"token_alignment": {}, "cutmix": {"layer": 1}}, True),
        ({"token_alignment": {}, "neighbours": {}}, True),
        ({"token_alignment": {}, "global_alignment": {}, "cutmix": {"layer": 1}}, False),
        ({"global_alignment": {}, "multi_view": {"base": {"local_alignment": LOCAL}}}, False),
    ],
)
def test_what_is_read_in_some_steps_or_of_further_pairs_stays_trainable(
    terms: dict[str, Any], skips: bool, tmp_path: Path
) -> None:
    image, text = ImageEncoder(settings_of().encoder), load_text_encoder(write_text_model(tmp_path))
    renew_projection(text, image.settings)
    assert freeze_unread(ImageReportTerms.model_validate(terms), image, text) == skips
    assert all(p.requires_grad for half in (image, text) for p in half.parameters())


def test_a_ghost_batch_of_texts_holds_no_second_view(tmp_path: Path) -> None:
    """Only images have several views that go through an encoder together."""
    terms = {"global_alignment": {}, "simclr": {"hidden": 6, "output": 5}}
    head = HEAD.model_copy(update={"padded_words": 11})
    encoder = settings_of().encoder.model_copy(update={"projection_head": head})
    program = program_of(tmp_path, terms=terms, ghost_batch=2, encoder=encoder.model_dump())
    groups = {
        name: {layer.group for layer in module.modules() if hasattr(layer, "group")}
        for name, module in program.modules.items()
    }
    assert groups == {"text": {2}, "image": {4}, "global_alignment": set(), "simclr": {4}}


def test_patches_of_an_encoder_without_cls_weigh_alike() -> None:
    output = SimpleNamespace(cls_attention=None, unnormalised_patches=torch.rand(2, 3, 4, 5))
    encoders: Encoders = SimpleNamespace(  # type: ignore[assignment]
        text=SimpleNamespace(config=SimpleNamespace(projection_head=HEAD)),
        vocabulary=VocabularyInfo(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")),
    )
    term = TokenAlignment(TokenAlignmentSettings(), encoders)
    views: Any = SimpleNamespace(images=[output])
    patches, weights = term._patches(views)
    assert patches.shape == (2, 12, 5) and torch.equal(weights, torch.full((2, 12), 1 / 12))
