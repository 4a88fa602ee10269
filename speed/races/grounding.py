"""One image and ten phrases to similarity maps against plain torch and transformers.

Random weights of the paper's sizes: ResNet-50 at 512 x 512 pixels, BERT base. Decoding the file and
drawing are not part of it (`speed/races/dicom.py` races the first).
"""

from copy import deepcopy
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertTokenizerFast

from cxrflow.benchmarks.grounding.one_image import similarity_grids
from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.encoders.settings import ResNetSettings, TextEncoderSettings
from cxrflow.models.model import Model
from cxrflow.text.tokenizer import read_tokenizer
from cxrflow.training.precision import choose_precision
from speed.race import Race
from speed.text_steps import PIECES, WORDS, describe, in_transformers, invent_vocabulary

PHRASES, SIDE, NEAR = 10, 512, 5e-3
LENGTHS = (3, 16)  # words of the shortest and the longest phrase
CPU = torch.device("cpu")


def invent_phrases() -> list[str]:
    """Phrases of different lengths, as MS-CXR's are (Table C.2)."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(*LENGTHS, PHRASES).round().astype(int)
    return [" ".join(f"w{word}" for word in rng.integers(0, WORDS, n)) for n in lengths]


def plain(
    tokenizer: Any, text: Any, image: ImageEncoder, pixels: NDArray[np.uint8], phrases: list[str]
) -> Tensor:
    """The same by a plain script: padded phrases through BertModel, contiguous convolutions."""
    with torch.inference_mode():
        batch = tokenizer(phrases, padding=True, return_tensors="pt")
        hidden = text.bert(**batch).last_hidden_state
        phrase = normalize(text.cls_projection_head(hidden[:, 0]), dim=1)
        frames = Frames(torch.from_numpy(pixels)[None, None].float() / 255)
        patches = image(frames).projected_patches[0]
        return torch.einsum("hwp,np->nhw", patches, phrase)


def nearly_equal(ours: NDArray[np.float64], theirs: Tensor) -> None:
    furthest = float(np.abs(ours - theirs.numpy()).max())
    assert furthest <= NEAR, f"cosines {furthest:g} apart"


def races(
    text: TextEncoderSettings = TextEncoderSettings(),  # noqa: B008  # settings never change
    image: ResNetSettings = ResNetSettings(),  # noqa: B008
    side: int = SIDE,
) -> list[Race]:
    torch.manual_seed(0)
    with TemporaryDirectory(prefix="cxrflow-race-") as folder:
        invent_vocabulary(Path(folder))
        tokenizer = read_tokenizer(folder)
        peer = partial(plain, BertTokenizerFast.from_pretrained(folder))
    encoder = ImageEncoder(image).eval()
    bert = CXRBert.build(text, PIECES, 0).eval()
    model = Model(Path("random"), CPU, {}, bert, encoder, tokenizer)
    peer = partial(peer, in_transformers(bert), deepcopy(encoder))
    pixels = np.random.default_rng(1).integers(0, 256, (side, side)).astype(np.uint8)
    phrases = invent_phrases()
    with FlopCounterMode(display=False) as counted:
        peer(pixels, phrases)
    precision = choose_precision("auto", CPU)
    flops = counted.get_total_flops()
    name = "plain torch and transformers"
    return [
        Race(
            name="grounding",
            what=f"{PHRASES} phrases in one image of {side} x {side} pixels",
            ours=lambda: similarity_grids(model, pixels, phrases, precision),
            peers={name: lambda: peer(pixels, phrases)},
            check=nearly_equal,
            gates={name: 1.1},
            amount=1,
            unit="image",
            notes=[
                f"compared: every cosine, to {NEAR:g}; random weights; the peer in fp32, "
                f"ours the phrases in {precision} and the image in fp32",
                f"text encoder: {describe(text)}; phrases of {LENGTHS[0]} to {LENGTHS[1]} words",
                f"the peer multiplies {flops / 1e9:.1f} GFLOP, padding included",
            ],
        )
    ]
