"""Weight files with the names that are published, at any size, for the tests of both directions.

The names are written down here one by one, from the architectures' own code, and not taken from our
modules: that the two agree is what the tests are about.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = ("no", "pleural", "effusion", "left", "##s", ".", "!", "?", "mild", "edema")
TINY = {
    "vocab_size": 15,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
}
BASE = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
Shapes = dict[str, tuple[int, ...]]


def linear(name: str, outputs: int, inputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def layer_norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def bert_shapes(sizes: dict[str, int]) -> Shapes:
    """BERT without a head."""
    d, ff = sizes["hidden_size"], sizes["intermediate_size"]
    found: Shapes = {
        "bert.embeddings.word_embeddings.weight": (sizes["vocab_size"], d),
        "bert.embeddings.position_embeddings.weight": (sizes["max_position_embeddings"], d),
        "bert.embeddings.token_type_embeddings.weight": (sizes["type_vocab_size"], d),
        **layer_norm("bert.embeddings.LayerNorm", d),
    }
    for number in range(sizes["num_hidden_layers"]):
        layer = f"bert.encoder.layer.{number}"
        for part in ("query", "key", "value"):
            found |= linear(f"{layer}.attention.self.{part}", d, d)
        found |= linear(f"{layer}.attention.output.dense", d, d)
        found |= layer_norm(f"{layer}.attention.output.LayerNorm", d)
        found |= linear(f"{layer}.intermediate.dense", ff, d)
        found |= linear(f"{layer}.output.dense", d, ff)
        found |= layer_norm(f"{layer}.output.LayerNorm", d)
    return found


def token_head_shapes(sizes: dict[str, int]) -> Shapes:
    """The head for masked tokens, without what is tied."""
    d = sizes["hidden_size"]
    return {
        "cls.predictions.bias": (sizes["vocab_size"],),
        **linear("cls.predictions.transform.dense", d, d),
        **layer_norm("cls.predictions.transform.LayerNorm", d),
    }


def projection_shapes(sizes: dict[str, int], projection: int) -> Shapes:
    """CXR-BERT's projection of [CLS]."""
    return {
        **linear("cls_projection_head.dense_to_hidden", projection, sizes["hidden_size"]),
        **layer_norm("cls_projection_head.LayerNorm", projection),
        **linear("cls_projection_head.dense_to_output", projection, projection),
    }


def cxr_bert_shapes(sizes: dict[str, int], projection: int) -> Shapes:
    """All of CXR-BERT."""
    return {
        **bert_shapes(sizes), **token_head_shapes(sizes), **projection_shapes(sizes, projection)
    }  # fmt: skip


def batch_norm(name: str, width: int) -> Shapes:
    vectors = ("weight", "bias", "running_mean", "running_var")
    return {**{f"{name}.{part}": (width,) for part in vectors}, f"{name}.num_batches_tracked": ()}


def resnet_shapes(width: int, depths: tuple[int, int, int, int], channels: int = 3) -> Shapes:
    """torchvision's ResNet of bottlenecks; ``width`` 64 and depths 3, 4, 6, 3 are ResNet-50."""
    found: Shapes = {"conv1.weight": (width, channels, 7, 7), **batch_norm("bn1", width)}
    inputs = width
    for stage, depth in enumerate(depths):
        inner = width * 2**stage
        for block in range(depth):
            name = f"layer{stage + 1}.{block}"
            found[f"{name}.conv1.weight"] = (inner, inputs, 1, 1)
            found[f"{name}.conv2.weight"] = (inner, inner, 3, 3)
            found[f"{name}.conv3.weight"] = (4 * inner, inner, 1, 1)
            for number, size in ((1, inner), (2, inner), (3, 4 * inner)):
                found |= batch_norm(f"{name}.bn{number}", size)
            if block == 0:
                found[f"{name}.downsample.0.weight"] = (4 * inner, inputs, 1, 1)
                found |= batch_norm(f"{name}.downsample.1", 4 * inner)
            inputs = 4 * inner
    return found | linear("fc", 1000, inputs)


def biovil_image_shapes(
    width: int = 8, depths: tuple[int, int, int, int] = (1, 2, 1, 1), projection: int = 6
) -> Shapes:
    """BioViL's image weights, the unused layer fc included."""
    trunk = {f"encoder.encoder.{n}": shape for n, shape in resnet_shapes(width, depths).items()}
    return {
        **trunk,
        "projector.model.0.weight": (projection, 32 * width, 1, 1),
        **batch_norm("projector.model.1", projection),
        "projector.model.3.weight": (projection, projection, 1, 1),
        "projector.model.3.bias": (projection,),
    }


def biovil_t_image_shapes(
    width: int = 8,
    depths: tuple[int, int, int, int] = (1, 2, 1, 1),
    projection: int = 6,
    compared: int = 16,
) -> Shapes:
    """BioViL-T's image weights: BioViL's, and three blocks that compare ``compared`` features."""
    found = biovil_image_shapes(width, depths, projection)
    found["encoder.backbone_to_vit.weight"] = (compared, 32 * width, 1, 1)
    found["encoder.missing_previous_emb"] = (1, compared, 1, 1)
    found["encoder.vit_pooler.type_embed"] = (2, 1, compared)
    for number in range(3):
        block = f"encoder.vit_pooler.blocks.{number}"
        found |= layer_norm(f"{block}.norm1", compared)
        for part in ("proj_q", "proj_k", "proj_v"):
            found[f"{block}.attn.{part}.weight"] = (compared, compared)
        found |= linear(f"{block}.attn.proj", compared, compared)
        found |= layer_norm(f"{block}.norm2", compared)
        found |= linear(f"{block}.mlp.fc1", compared, compared)
        found |= linear(f"{block}.mlp.fc2", compared, compared)
    found |= layer_norm("encoder.vit_pooler.norm_post", compared)
    return found | {"projector.model.0.weight": (projection, 2 * compared, 1, 1)}


def drawn(shapes: Shapes, seed: int = 0) -> dict[str, Tensor]:
    """Random tensors of these shapes; variances are positive, counters whole numbers."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator) * 0.2
        if name.endswith("running_var"):
            value = value.abs() + 0.5
        found[name] = torch.tensor(7) if name.endswith("tracked") else value
    return found


def write_text_folder(
    folder: Path,
    weights: dict[str, Tensor],
    config: dict[str, Any],
    pieces: tuple[str, ...] = SPECIAL + WORDS,
    file: str = "pytorch_model.bin",
) -> Path:
    """A text encoder's folder as published, with vocab.txt alone."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    if file.endswith(".bin"):
        torch.save(weights, folder / file)
    else:
        from safetensors.torch import save_file

        save_file(weights, folder / file, {"format": "pt"})
    return folder


def cxr_bert_config(sizes: dict[str, int], projection: int) -> dict[str, Any]:
    """What the released config.json says, the name of its authors' code included."""
    return {
        **sizes,
        "model_type": "cxr-bert",
        "architectures": ["CXRBertModel"],
        "auto_map": {"AutoModel": "modeling_cxrbert.CXRBertModel"},
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.25,
        "attention_probs_dropout_prob": 0.25,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
        "projection_size": projection,
    }


def write_cxr_bert(folder: Path, projection: int = 6) -> Path:
    """A small CXR-BERT with drawn weights, as released."""
    weights = drawn(cxr_bert_shapes(TINY, projection))
    return write_text_folder(folder, weights, cxr_bert_config(TINY, projection))


def write_biovil_t(folder: Path, projection: int = 8) -> Path:
    """A small BioViL-T: a CXR-BERT folder with the image weights in it."""
    write_cxr_bert(folder, projection)
    weights = drawn(biovil_t_image_shapes(projection=projection))
    torch.save(weights, folder / "biovil_t_image_model_proj_size_128.pt")
    return folder


def write_biovil(folder: Path, projection: int = 6) -> Path:
    """A small BioViL: a CXR-BERT folder with the image weights in it."""
    write_cxr_bert(folder, projection)
    weights = drawn(biovil_image_shapes(projection=projection))
    torch.save(weights, folder / "biovil_image_resnet50_proj_size_128.pt")
    return folder
