"""Weight files with the names that are published, at any size, for the tests of both directions.

The names are written down here one by one, from the architectures' own code, and not taken from our
modules: that the two agree is what the tests are about.
"""

import gzip
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


# Of a published CLIP: stem's width, depths, cells of a side, joint space, text's width, its layers.
CLIP = {"width": 4, "depths": (1, 2, 1, 1), "grid": 2, "joint": 24, "text": 128, "layers": 2}
CLIP_50 = {
    **{"width": 64, "depths": (3, 4, 6, 3), "grid": 7},
    **{"joint": 1024, "text": 512, "layers": 12},
}
# Byte pairs in the published form; the first line is a comment.
BYTE_PAIRS = (
    *("#version: 0.2", "n o</w>", "e f", "f u", "ef fu"),
    *("l ef", "lef t</w>", "- -</w>"),
)


def clip_shapes(sizes: dict[str, Any], pieces: int, length: int = 77) -> Shapes:
    """CLIP with a ResNet, both encoders."""
    width, inputs = sizes["width"], sizes["width"]
    found: Shapes = {}
    stem = ((width // 2, 3), (width // 2, width // 2), (width, width // 2))
    for number, (outputs, channels) in enumerate(stem, start=1):
        found[f"visual.conv{number}.weight"] = (outputs, channels, 3, 3)
        found |= batch_norm(f"visual.bn{number}", outputs)
    plain = resnet_shapes(width, sizes["depths"])
    for name, shape in plain.items():
        if name.startswith("layer"):
            found[f"visual.{name}"] = shape
            inputs = max(inputs, shape[0] if shape else 0)
    found["visual.attnpool.positional_embedding"] = (sizes["grid"] ** 2 + 1, inputs)
    for part in ("q", "k", "v"):
        found |= linear(f"visual.attnpool.{part}_proj", inputs, inputs)
    found |= linear("visual.attnpool.c_proj", sizes["joint"], inputs)
    d = sizes["text"]
    for number in range(sizes["layers"]):
        block = f"transformer.resblocks.{number}"
        found[f"{block}.attn.in_proj_weight"] = (3 * d, d)
        found[f"{block}.attn.in_proj_bias"] = (3 * d,)
        found |= linear(f"{block}.attn.out_proj", d, d)
        found |= linear(f"{block}.mlp.c_fc", 4 * d, d) | linear(f"{block}.mlp.c_proj", d, 4 * d)
        found |= layer_norm(f"{block}.ln_1", d) | layer_norm(f"{block}.ln_2", d)
    found |= layer_norm("ln_final", d)
    found |= {"token_embedding.weight": (pieces, d), "positional_embedding": (length, d)}
    return found | {"text_projection": (d, sizes["joint"]), "logit_scale": ()}


def deit_shapes(width: int, blocks: int, patch: int, tokens: int) -> Shapes:
    """The names and shapes of DeiT's files, from their authors' code."""
    shapes: Shapes = {
        "cls_token": (1, 1, width),
        "pos_embed": (1, tokens, width),
        "patch_embed.proj.weight": (width, 3, patch, patch),
        "patch_embed.proj.bias": (width,),
        **layer_norm("norm", width),
        **linear("head", 1000, width),
    }
    for number in range(blocks):
        block = f"blocks.{number}"
        shapes |= layer_norm(f"{block}.norm1", width) | layer_norm(f"{block}.norm2", width)
        shapes |= linear(f"{block}.attn.qkv", 3 * width, width)
        shapes |= linear(f"{block}.attn.proj", width, width)
        shapes |= linear(f"{block}.mlp.fc1", 4 * width, width)
        shapes |= linear(f"{block}.mlp.fc2", width, 4 * width)
    return shapes


def rad_dino_shapes(width: int, blocks: int, patch: int, grid: int) -> Shapes:
    """RAD-DINO, transformers' ``Dinov2Model``; 768, 12, 14 and 37 are the published one's."""
    found: Shapes = {
        "embeddings.cls_token": (1, 1, width),
        "embeddings.mask_token": (1, width),
        "embeddings.position_embeddings": (1, 1 + grid**2, width),
        "embeddings.patch_embeddings.projection.weight": (width, 3, patch, patch),
        "embeddings.patch_embeddings.projection.bias": (width,),
        **layer_norm("layernorm", width),
    }
    for number in range(blocks):
        layer = f"encoder.layer.{number}"
        for part in ("query", "key", "value"):
            found |= linear(f"{layer}.attention.attention.{part}", width, width)
        found |= linear(f"{layer}.attention.output.dense", width, width)
        found |= layer_norm(f"{layer}.norm1", width) | layer_norm(f"{layer}.norm2", width)
        found |= linear(f"{layer}.mlp.fc1", 4 * width, width)
        found |= linear(f"{layer}.mlp.fc2", width, 4 * width)
        found |= {f"{layer}.layer_scale{part}.lambda1": (width,) for part in (1, 2)}
    return found


def write_clip(folder: Path, merges: tuple[str, ...] = BYTE_PAIRS) -> dict[str, Tensor]:
    """A small CLIP and its byte pairs, as published; returns the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = drawn(clip_shapes(CLIP, pieces=2 * 256 + len(merges) - 1 + 2))
    torch.save(weights, folder / "clip_resnet_small.pt")
    lines = "".join(f"{line}\n" for line in merges)
    (folder / "bpe_simple_vocab_16e6.txt.gz").write_bytes(gzip.compress(lines.encode()))
    return weights


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
