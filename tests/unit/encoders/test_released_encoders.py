"""Published text encoders and files of weights: every name has its place, nothing is guessed."""

import json
import re
from pathlib import Path

import pytest
import torch
from literal import identical
from transformers import BertConfig as PlainConfig
from transformers import BertForMaskedLM

from cxr_files.atomic import write_json
from cxr_files.errors import InputError
from cxrflow.encoders.bert import BertConfig
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.released.published import find_files, source_files
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.encoders.released.text import (
    read_released_text,
)
from released_files import (
    BASE,
    TINY,
    bert_shapes,
    cxr_bert_config,
    cxr_bert_shapes,
    drawn,
    linear,
    projection_shapes,
    token_head_shapes,
    write_cxr_bert,
    write_text_folder,
)

DEFAULT = ImportSettings(projection=6)
PLAIN = {**TINY, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
NEXT_SENTENCE = linear("bert.pooler.dense", 16, 16) | linear("cls.seq_relationship", 2, 16)


def read(folder: Path, cxr_bert: bool = True, complete: bool = False, seed: int = 0, **settings):
    chosen = DEFAULT.model_copy(update=settings)
    return read_released_text(folder, cxr_bert, complete, chosen, seed)


def refusal(folder: Path) -> str:
    """Why a folder of CXR-BERT is not read, in a line."""
    with pytest.raises(InputError) as raised:
        read(folder)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def write_bert(folder: Path, weights: dict[str, torch.Tensor], **config) -> Path:
    return write_text_folder(folder, weights, PLAIN | config)


def plain_bert() -> dict[str, torch.Tensor]:
    return drawn({**bert_shapes(TINY), **token_head_shapes(TINY)})


def with_ties(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return weights | {
        "cls.predictions.decoder.weight": weights["bert.embeddings.word_embeddings.weight"],
        "cls.predictions.decoder.bias": weights["cls.predictions.bias"],
    }


def test_the_published_names_and_shapes_are_ours() -> None:
    """CXR-BERT at its real size: 12 layers, 768 wide, 30,522 pieces, projection 128."""
    with torch.device("meta"):
        ours = CXRBert(BertConfig(**BASE, projection_size=128))
    published = cxr_bert_shapes(BASE, 128) | {
        "cls.predictions.decoder.weight": (30522, 768),
        "cls.predictions.decoder.bias": (30522,),
    }
    assert {name: tuple(value.shape) for name, value in ours.state_dict().items()} == published
    projection = 768 * 128 + 128 + 2 * 128 + 128 * 128 + 128
    bert_base = 109_514_298  # with its head for masked tokens, as everybody counts it
    assert sum(parameter.numel() for parameter in ours.parameters()) == bert_base + projection


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("tied", [True, False])
def test_cxr_bert_is_taken_whole(tmp_path: Path, file: str, tied: bool) -> None:
    weights = drawn(cxr_bert_shapes(TINY, 6))
    extra = {"bert.embeddings.position_ids": torch.arange(12)[None]}
    written = {name: value.clone() for name, value in with_ties(weights).items()}
    tensors = (written if tied else weights) | extra
    write_text_folder(tmp_path, tensors, cxr_bert_config(TINY, 6), file=file)
    text, new = read(tmp_path, complete=True)
    assert new == []
    identical(text.state_dict(), with_ties(weights))
    assert text.config.hidden_dropout_prob == text.config.attention_probs_dropout_prob == 0.25
    assert text.config.projection_size == 6


def test_published_bert_computes_what_transformers_does(tmp_path: Path) -> None:
    reference = BertForMaskedLM(PlainConfig(**TINY)).eval()
    weights = plain_bert()
    reference.load_state_dict(with_ties(weights))
    write_bert(tmp_path, weights)
    text, _ = read(tmp_path, cxr_bert=False)
    ids = torch.tensor([[2, 5, 6, 4, 3]])
    with torch.no_grad():
        hidden = text.eval().hidden_states(ids, torch.ones_like(ids))
        ours = text.predict_tokens(hidden, torch.arange(5))
        torch.testing.assert_close(ours, reference(ids).logits[0], rtol=1e-5, atol=1e-5)


def test_clinical_bert_in_the_names_of_tensorflow(tmp_path: Path) -> None:
    """gamma and beta, the pooler and the next-sentence head beside it, no model_type."""
    weights = plain_bert()
    old = {
        re.sub(r"LayerNorm\.weight$", "LayerNorm.gamma", re.sub(r"LayerNorm\.bias$",
        "LayerNorm.beta", name)): value
        for name, value in weights.items()
    }  # fmt: skip
    assert sum(name.endswith("gamma") for name in old) == 1 + 2 * 2 + 1
    write_bert(tmp_path, old | drawn(NEXT_SENTENCE))
    text, new = read(tmp_path, cxr_bert=False)
    assert new == sorted(projection_shapes(TINY, 6))
    own = text.state_dict()
    assert all(torch.equal(own[name], value) for name, value in with_ties(weights).items())


def test_a_bert_without_heads_needs_the_word_for_a_new_one(tmp_path: Path) -> None:
    drawn_once = drawn(bert_shapes(TINY))
    weights = {name.removeprefix("bert."): value for name, value in drawn_once.items()}
    weights |= {"pooler.dense.weight": torch.zeros(16, 16), "pooler.dense.bias": torch.zeros(16)}
    write_bert(tmp_path, weights, model_type="bert")
    with pytest.raises(InputError, match=r"pytorch_model.bin: .*cls\.predictions\.bias is missing"):
        read(tmp_path, cxr_bert=False)
    text, new = read(tmp_path, cxr_bert=False, new_token_head=True)
    heads = {**token_head_shapes(TINY), **projection_shapes(TINY, 6)}
    assert new == sorted({*heads, "cls.predictions.decoder.bias"})
    embeddings = text.state_dict()["bert.embeddings.word_embeddings.weight"]
    assert torch.equal(embeddings, weights["embeddings.word_embeddings.weight"])
    assert text.cls.predictions.decoder.weight is text.bert.embeddings.word_embeddings.weight


def test_what_is_new_comes_from_the_seed_alone(tmp_path: Path) -> None:
    write_bert(tmp_path, plain_bert())
    torch.manual_seed(5)
    before = torch.get_rng_state()
    heads = [
        read(tmp_path, cxr_bert=False, seed=seed)[0].cls_projection_head.dense_to_hidden.weight
        for seed in (0, 0, 1)
    ]
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's draws are moved


def test_a_cxr_bert_without_projection_gets_one_unless_it_must_be_there(tmp_path: Path) -> None:
    weights = drawn(cxr_bert_shapes(TINY, 6))
    kept = {name: value for name, value in weights.items() if "projection_head" not in name}
    write_text_folder(tmp_path, kept, cxr_bert_config(TINY, 6))
    assert read(tmp_path)[1] == sorted(projection_shapes(TINY, 6))
    with pytest.raises(InputError, match="cls_projection_head.dense_to_hidden.weight is missing"):
        read(tmp_path, complete=True)


DENSE = "bert.encoder.layer.1.output.dense.weight"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        (DENSE, None, f"{DENSE} is missing"),
        (DENSE.replace("1", "2"), torch.zeros(16, 24), "2.output.dense.weight belongs to no param"),
        (DENSE, torch.full((16, 24), torch.nan), "dense.weight holds 384 of 384 numbers that are"),
        (DENSE, torch.zeros(16, 25), "dense.weight has shape [16, 25], expected [16, 24]"),
        ("cls_projection_head.dense_to_output.bias", None, "dense_to_output.bias is missing"),
        ("cls.predictions.decoder.weight", torch.zeros(15, 16), "differs from bert.embeddings.w"),
        ("bert.embeddings.LayerNorm.gamma", torch.zeros(16), "is there under two names"),
        ("bert.pooler.dense.weight", torch.zeros(3, 3), "has shape [3, 3], expected [16, 16]"),
    ],
)
def test_other_weights_are_refused_by_name(tmp_path: Path, name: str, value, said: str) -> None:
    weights = drawn(cxr_bert_shapes(TINY, 6)) | {name: value}
    weights = {name: value for name, value in weights.items() if value is not None}
    write_text_folder(tmp_path, weights, cxr_bert_config(TINY, 6))
    line = refusal(tmp_path)
    assert line.startswith(f"{tmp_path / 'pytorch_model.bin'}: ") and said in line


def test_errors_name_three_tensors_and_count_the_rest(tmp_path: Path) -> None:
    write_text_folder(tmp_path, {"nothing": torch.zeros(1)}, cxr_bert_config(TINY, 6))
    line = refusal(tmp_path)
    assert line.count(" is missing") == 3 and " more" in line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_size": "wide"}, "key 'hidden_size' is 'wide'"),
        ({"hidden_size": 15}, "multiple of num_attention_heads"),
        ({"hidden_act": "relu"}, "key 'hidden_act' is 'relu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ({"model_type": "roberta"}, "key 'model_type' is 'roberta'"),
        ({"model_type": "bert", "projection_size": None}, "the other kind is 'bert'"),
    ],
)
def test_a_config_of_something_else_is_refused(tmp_path: Path, change: dict, said: str) -> None:
    write_cxr_bert(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    line = refusal(tmp_path)
    assert str(path) in line and said in line


def test_a_cxr_bert_is_not_taken_for_a_bert(tmp_path: Path) -> None:
    write_cxr_bert(tmp_path)
    with pytest.raises(InputError, match="the other kind is 'cxr_bert'"):
        read(tmp_path, cxr_bert=False)


class _Runs:
    def __reduce__(self):
        return (print, ("a pickle ran code",))


@pytest.mark.parametrize("content", ["code", "list", "number", "cut", "nothing", "text", "abc"])
def test_files_that_are_no_state_dict(tmp_path: Path, content: str, capsys) -> None:
    write_cxr_bert(tmp_path)
    path = tmp_path / "pytorch_model.bin"
    if content == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif content == "abc":  # opcodes of a pickle
        path.write_text(content)
    elif content == "text":
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
    else:
        values = {"code": {"x": _Runs()}, "list": [1], "number": {"x": 1}, "nothing": {}}
        torch.save(values[content], path)
    said = refusal(tmp_path)
    assert said.startswith(f"{path}: ") and "weights_only" not in said
    assert content != "code" or "reading it would run" in said
    assert "a pickle ran code" not in capsys.readouterr().out


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.safetensors", "config.json"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 440473133\n",
            "is a Git LFS pointer of a file of 440,473,133 bytes, not the file; `git lfs pull`",
        ),
        (b"<!DOCTYPE html><html>Not found</html>", "is a web page, not the file; fetch it by"),
    ],
)
def test_what_lies_in_place_of_weights_is_named(tmp_path, file, content, said):
    write_cxr_bert(tmp_path)
    if file == "model.safetensors":
        (tmp_path / "pytorch_model.bin").unlink()
    (tmp_path / file).write_bytes(content)
    assert said in refusal(tmp_path)


@pytest.mark.parametrize("file", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("name", ["bert.embeddings.LayerNorm.bias", "bert.pooler.dense.bias"])
def test_numbers_that_are_not_finite_are_counted_by_name(tmp_path, file, name):
    """Also in what nothing of ours reads: who made it has a broken model."""
    weights = drawn(cxr_bert_shapes(TINY, 6), seed=1)
    weights["bert.pooler.dense.weight"] = torch.zeros(16, 16)
    weights["bert.pooler.dense.bias"] = torch.zeros(16)
    weights[name][[2, 5]] = torch.tensor([torch.nan, torch.inf])
    write_text_folder(tmp_path, weights, cxr_bert_config(TINY, 6), file=file)
    assert f"{name} holds 2 of 16 numbers that are not finite" in refusal(tmp_path)


@pytest.mark.parametrize("kind", ["pytorch_model{}.bin", "model{}.safetensors"])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_a_model_in_several_files_is_read_by_its_index(tmp_path, kind, prefix):
    weights = drawn(cxr_bert_shapes(TINY, 6), seed=1)
    config, folder = cxr_bert_config(TINY, 6), tmp_path / "parts"
    whole = write_text_folder(tmp_path / "whole", weights, config, file=kind.format(""))
    expected = read(whole)[0].state_dict()
    names = sorted(weights)
    index = {}
    for number, part in enumerate((names[::2], names[1::2])):
        file = kind.format(f"-{number + 1:05d}-of-00002")
        kept = {f"{prefix}{name}": weights[name] for name in part}
        write_text_folder(folder, kept, config, file=file)
        index |= dict.fromkeys(kept, file)
    beside = folder / f"{kind.format('')}.index.json"
    write_json(beside, {"weight_map": index})
    joined = read(folder)[0].state_dict()
    identical(joined, expected)
    assert len(source_files(find_files("cxr_bert", folder))) >= 4
    (folder / file).rename(folder / "elsewhere")
    assert f"{file} is not there; expected all" in refusal(folder)
    write_json(beside, {"weight_map": dict.fromkeys(names, "../../secret.bin")})
    assert "path leads out" in refusal(folder)


def test_safetensors_come_before_a_pickle_and_one_must_be_there(tmp_path: Path) -> None:
    write_cxr_bert(tmp_path)
    (tmp_path / "pytorch_model.bin").rename(tmp_path / "elsewhere.bin")
    with pytest.raises(InputError, match=r"model.safetensors or pytorch_model.bin"):
        read(tmp_path)
    weights = drawn(cxr_bert_shapes(TINY, 6), seed=1)
    write_text_folder(tmp_path, weights, cxr_bert_config(TINY, 6), file="model.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never read")
    text, _ = read(tmp_path)
    assert torch.equal(text.state_dict()["cls.predictions.bias"], weights["cls.predictions.bias"])
