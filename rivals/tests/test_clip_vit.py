"""CLIP's vision transformer: published weights give what other code of it computes."""

import gzip
from pathlib import Path

import pytest
import torch
from rivals.clip_vit import DEVIATION, MEAN
from torch import Tensor
from transformers import CLIPConfig, CLIPModel

import cxrflow
from cxr_files.errors import InputError
from cxrflow.encoders.image_encoder import Frames
from cxrflow.encoders.released.settings import ImportSettings
from cxrflow.pretrain.imported import import_weights
from released_files import BYTE_PAIRS

KIND = "rivals.clip_vit:ClipVit"
PIECES = 2 * 256 + len(BYTE_PAIRS) - 1 + 2
NAMES = {
    "text_model.embeddings.token_embedding": "token_embedding",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.encoder.layers": "transformer.resblocks",
    "text_model.final_layer_norm": "ln_final",
    "text_projection.weight": "text_projection",
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.patch_embedding": "visual.conv1",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "vision_model.pre_layrnorm": "visual.ln_pre",
    "vision_model.encoder.layers": "visual.transformer.resblocks",
    "vision_model.post_layernorm": "visual.ln_post",
    "visual_projection.weight": "visual.proj",
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "self_attn": "attn",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
}


@pytest.fixture(scope="module")
def theirs() -> CLIPModel:
    """The architecture by transformers, small, of random weights."""
    sizes = {"hidden_size": 128, "intermediate_size": 512, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 2, "projection_dim": 24}
    torch.manual_seed(0)
    text = {**sizes, "vocab_size": PIECES, "eos_token_id": PIECES - 1, "pad_token_id": 1}
    vision = {**sizes, "image_size": 32, "patch_size": 8}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
    model = CLIPModel(config).eval()
    for parameter in model.parameters():  # none of them at a start of zeros or ones
        torch.nn.init.normal_(parameter, std=0.2)
    return model


def published(model: CLIPModel) -> dict[str, Tensor]:
    """Its weights by the names of CLIP's authors, whose attention has one matrix for three."""
    state = {}
    for name, value in model.state_dict().items():
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        if "position_ids" not in name:
            state[name] = value.clone()
    for name in [name for name in state if ".q_proj." in name]:
        parts = [state.pop(name.replace(".q_", f".{part}_")) for part in "qkv"]
        state[name.replace("q_proj.", "in_proj_")] = torch.cat(parts)
    for name in ("text_projection", "visual.proj"):
        state[name] = state[name].T.contiguous()
    return state


def written(folder: Path, weights: dict[str, Tensor]) -> Path:
    """The files as a user has them."""
    folder.mkdir()
    torch.save(weights, folder / "clip_vit_b32.pt")
    lines = "".join(f"{line}\n" for line in BYTE_PAIRS)
    (folder / "bpe_simple_vocab_16e6.txt.gz").write_bytes(gzip.compress(lines.encode()))
    return folder


def read(folder: Path, output: Path) -> None:
    settings = ImportSettings(geometry="longer32")
    import_weights(KIND, folder, None, settings, "cxr_repair/clip_released", 0, output)


def test_both_encoders_are_the_published_ones(theirs: CLIPModel, tmp_path: Path) -> None:
    read(written(tmp_path / "weights", published(theirs)), tmp_path / "model")
    model = cxrflow.load(tmp_path / "model")
    assert model.image_encoder is not None and model.text_encoder is not None
    assert model.run["program"] == "joint" and model.run["initialised"] == []
    pixels_B1HW = torch.rand(3, 1, 32, 32, generator=torch.Generator().manual_seed(1))
    ids = model.tokenizer.encode("no left effusion").ids
    with torch.no_grad():
        normal = ((pixels_B1HW - MEAN) / DEVIATION).expand(-1, 3, -1, -1)
        expected = theirs.visual_projection(theirs.vision_model(normal).pooler_output)
        trunk = model.image_encoder.encoder
        torch.testing.assert_close(
            trunk(Frames(pixels_B1HW)).pooled, expected, rtol=1e-4, atol=1e-4
        )
        halfway = trunk.forward_from(trunk.forward_until(Frames(pixels_B1HW), 1), 1)
        torch.testing.assert_close(halfway.pooled, expected, rtol=1e-4, atol=1e-4)
        text = theirs.text_projection(theirs.text_model(torch.tensor([ids])).pooler_output)
        projected = model.encode_tokens([ids]).projection
    torch.testing.assert_close(projected.float(), text, rtol=1e-4, atol=1e-4)


def test_what_is_missing_or_left_over_is_one_line(theirs: CLIPModel, tmp_path: Path) -> None:
    weights = published(theirs)
    lost = {name: value for name, value in weights.items() if name != "ln_final.bias"}
    with pytest.raises(InputError, match=r"bert\.final\.bias is missing"):
        read(written(tmp_path / "lost", lost), tmp_path / "model")
    odd = {**weights, "visual.strange": torch.zeros(1)}
    with pytest.raises(InputError, match=r"strange belongs to no parameter"):
        read(written(tmp_path / "odd", odd), tmp_path / "model")
    folder = written(tmp_path / "bare", weights)
    (folder / "bpe_simple_vocab_16e6.txt.gz").unlink()
    with pytest.raises(InputError, match="expected its byte pairs"):
        read(folder, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_another_size_of_image_is_refused(theirs: CLIPModel, tmp_path: Path) -> None:
    read(written(tmp_path / "weights", published(theirs)), tmp_path / "model")
    model = cxrflow.load(tmp_path / "model")
    assert model.image_encoder is not None
    with pytest.raises(InputError, match="'encoder.grid' is 4.* expected 32 x 32"):
        model.image_encoder.encoder(Frames(torch.rand(1, 1, 40, 32)))
