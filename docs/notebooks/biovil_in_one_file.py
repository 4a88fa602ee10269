"""BioViL's joint training in one file, to be read beside the paper.

Boecking et al. 2022 (arXiv 2204.09817), "Making the Most of Text Semantics to Improve Biomedical
Vision-Language Processing". Sections and tables are the paper's; "Open:" is what it leaves open.

    python docs/notebooks/biovil_in_one_file.py results --steps 20

trains as the package does: on a CPU the weights are the same, bit for bit, under the same names,
and without `--steps` those of the model `biovil/biovil`. Read from the results of `make demo`:

    cohorts/biovil/mimic_cxr/pairs.parquet          images and the sentences of their reports
    cohorts/biovil/{rsna,ms_cxr}/samples.parquet    labelled images; phrases and their boxes
    pixels/biovil/<cohort>/shorter128/              decoded images of each of the three cohorts
    models/biovil/cxr_bert/seed0/                   CXR-BERT after phase III, with its tokenizer
    models/biovil/simclr/seed0/image/               the image encoder after SimCLR

Shapes: B pairs of a batch, L places of its longest text, T real tokens, D width of the text
encoder, P of the joint space, h x w cells of a grid, S pixels of a side, M masked pieces, V pieces
of the vocabulary; in attention N texts of at most W tokens, H heads of width d.
"""

import argparse
import json
import math
from copy import deepcopy
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, groupby
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence


@dataclass
class Recipe:
    """The demonstration's recipe. Behind a size stands the paper's own."""

    results: Path
    seed: int = 0
    geometry: str = "shorter128"  # shorter512: the shorter side to 512, then the centre (4.1)
    length: int = 64  # 512 tokens
    dropout: float = 0.1  # 0.25, attention included (2.2); small encoders learn less by that
    dilate: tuple[bool, ...] = (False, False, True)  # none: ResNet-50 has 16 x 16 cells at 512
    finer: bool = True  # False; phrases are grounded on a grid twice as fine
    joint_width: int = 128  # section 2.2
    temperature: float = 0.5  # tau_2, section 2.2
    alignment_weight: float = 0.5  # lambda_GA, section 2.2
    mask_rate: float = 0.15  # section 4.2
    angle: float = 30.0  # this and the next three: Table E.1, image-text pretraining
    shear: float = 15.0
    brightness: float = 0.2
    contrast: float = 0.2
    # Open: how long and how fast. At the paper's size the package takes what BioViL-T states.
    batch_size: int = 32  # 240
    epochs: int = 20  # 50
    steps: int | None = None  # in place of epochs
    learning_rate: float = 5e-4  # 2e-5
    warmup: float = 0.03  # share of the steps; this and the linear fall as in phase III (E.1)
    weight_decay: float = 0.01  # torch's


# --- Random numbers -------------------------------------------------------------------------------
# Each is a hash (SplitMix64) of seed, epoch, sample, purpose and place: a sample is augmented,
# shuffled and masked alike in whatever batch it comes, and a run that resumes goes on as before.

GOLDEN, FIRST, SECOND = map(np.uint64, (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> 30)) * FIRST
    x = (x ^ (x >> 27)) * SECOND
    return x ^ (x >> 31)


def text_draws(key_B, seed: int, epoch: int, purpose: int, places) -> np.ndarray:
    """32 random bits for each of L places of every text, [B, L]: 1 to 3 mask words, 17 shuffles."""
    state_B = np.zeros(len(key_B), np.uint64)
    for word in (seed, epoch, purpose):
        state_B = mix(state_B + np.uint64((word + 1) * int(GOLDEN) % 2**64))
    state_B = mix(state_B ^ mix(key_B.astype(np.uint64) * GOLDEN))
    return mix(state_B[:, None] + (places.astype(np.uint64) + 1) * GOLDEN) >> 32


def image_draws(key_B, seed: int, epoch: int) -> Tensor:
    """Numbers in [0, 1) of each image, float32 [17, B]; those not used here are for SimCLR."""
    state_B = np.full(len(key_B), seed, np.uint64)
    for word in (epoch, 0, key_B, 1):  # 0: the first view of an image; 1: its parameters
        state_B = mix(state_B + GOLDEN) ^ np.uint64(word)
    bits = mix(mix(state_B + GOLDEN) + np.arange(17, dtype=np.uint64)[:, None] * SECOND + GOLDEN)
    return torch.from_numpy((bits >> 40).astype(np.float32)) * 2.0**-24


# --- Reports and images (sections 2.1, 4.1) -------------------------------------------------------


class Vocabulary:
    """Word pieces of a tokenizer, and which of them may be masked."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        number = self.tokenizer.get_vocab()
        special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
        self.pad, _, self.cls, self.sep, self.mask = map(number.get, special)
        pieces = sorted(number, key=number.get)
        self.ordinary_V = np.array([p not in special and p[:7] != "[unused" for p in pieces])
        self.continues_V = np.array([p.startswith("##") and p != "##" for p in pieces])

    def pieces(self, sentences: list[str]) -> list[list[int]]:
        encoded = self.tokenizer.encode_batch_fast(sentences, add_special_tokens=False)
        return [sentence.ids for sentence in encoded]

    def sequences(self, texts: list[list[int]]) -> Tensor:
        """[CLS], the pieces of each text, [SEP]: int64 [B, L]."""
        rows = [torch.tensor([self.cls, *pieces, self.sep]) for pieces in texts]
        return pad_sequence(rows, batch_first=True, padding_value=self.pad)

    def mask_words(self, ids_BL: Tensor, key_B, seed: int, epoch: int, rate: float):
        """Dynamic whole-word masking (section 2.1): new ids, and which are to be predicted."""
        # Words are chosen one by one, as in RoBERTa. Open: as in BERT, 80 % of their pieces become
        # [MASK], 10 % any piece.
        ids, places = ids_BL.numpy(), np.arange(ids_BL.shape[1])
        choice, action, piece = (text_draws(key_B, seed, epoch, n, places) for n in (1, 2, 3))
        ordinary_BL, (ordinary,) = self.ordinary_V[ids], self.ordinary_V.nonzero()
        inside_BL = self.continues_V[ids] & ordinary_BL
        inside_BL[:, 1:] &= ordinary_BL[:, :-1]
        # All pieces of a word have the draw of the place where it starts.
        start_BL = np.maximum.accumulate(np.where(inside_BL, 0, places), axis=1)
        choice_BL = np.take_along_axis(choice, start_BL, axis=1)
        target_BL = ordinary_BL & (choice_BL < round(rate * 2**32))
        random_BL = ordinary[piece * np.uint64(len(ordinary)) >> 32]
        new_BL = np.where(action < round(0.9 * 2**32), random_BL, ids)
        new_BL = np.where(action < round(0.8 * 2**32), self.mask, new_BL)
        return torch.from_numpy(np.where(target_BL, new_BL, ids)), torch.from_numpy(target_BL)


def rows_with_images(recipe: Recipe, cohort: str, file: str) -> list[tuple]:
    """Rows of a table, each with its image's number in the store and pixels, uint8 [S, S]."""
    folder = recipe.results / "pixels/biovil" / cohort / recipe.geometry
    files = [shard["file"] for shard in json.loads((folder / "store.json").read_text())["shards"]]
    shards = [np.load(folder / file, mmap_mode="r") for file in files]
    index = enumerate(pq.read_table(folder / "index.parquet").to_pylist())
    images = {row["image_id"]: (n, shards[row["shard"]][row["row"]]) for n, row in index}
    table = pq.read_table(recipe.results / "cohorts/biovil" / cohort / file).to_pylist()
    return [(row, *images[row["image_id"]]) for row in table if row["image_id"] in images]


def grey(images: list[np.ndarray]) -> Tensor:
    """Pixels in [0, 1], float32 [B, 1, S, S]."""
    return torch.from_numpy(np.stack(images))[:, None] * (1 / 255)


def augment(pixels: Tensor, key_B, recipe: Recipe, epoch: int) -> Tensor:
    """Random shear, rotation, brightness, contrast (Appendix E.2), as in torchvision; no flips."""
    half, draw = pixels.shape[-1] / 2, image_draws(key_B, recipe.seed, epoch)
    angle = (draw[0] * 2 - 1) * math.radians(recipe.angle)
    shear = (draw[1] * 2 - 1) * math.radians(recipe.shear)
    # Where in [-1, 1] a pixel of the view comes from: the inverse of a shear, then a rotation.
    cos, sin, tan = torch.cos(angle), torch.sin(angle), torch.tan(shear)
    matrix = torch.stack([cos - tan * sin, sin + tan * cos, -sin, cos], 1).view(-1, 2, 2) / half
    place = torch.arange(2 * half) + (0.5 - half)
    x, y = matrix[:, :, :1] * place, matrix[:, :, 1:] * place
    grid = (x[:, :, None, :] + y[:, :, :, None]).permute(0, 2, 3, 1)
    views = F.grid_sample(pixels, grid, align_corners=False)  # black outside of the image
    u, v, order = draw[12:15, :, None, None, None]
    brightness = 1 - recipe.brightness + 2 * recipe.brightness * u
    contrast = 1 - recipe.contrast + 2 * recipe.contrast * v  # about the image's mean
    for is_brightness in (order < 0.5, order >= 0.5):  # one after the other, in random order
        factor = torch.where(is_brightness, brightness, contrast)
        shift = torch.where(is_brightness, 0.0, (1 - factor) * views.mean((1, 2, 3), keepdim=True))
        views = torch.addcmul(shift, views, factor).clamp(0, 1)
    return views


class Pairs:
    """Images and IMPRESSIONs of a part of MIMIC-CXR (section 4.1: no other section is read)."""

    def __init__(self, recipe: Recipe, split: str, words: Vocabulary) -> None:
        self.recipe, self.words, self.images, self.texts = recipe, words, [], []
        for study, *image in rows_with_images(recipe, "mimic_cxr", "pairs.parquet"):
            sentences = words.pieces(study["impression_sentences"] or [])
            if study["split"] == split and any(sentences):
                self.images.append(image)
                self.texts.append(sentences)
        self.size = min(recipe.batch_size, len(self.texts))
        self.batches = len(self.texts) // self.size  # an incomplete last one is left out

    def batch(self, seed: int, epoch: int, number: int, training: bool) -> tuple[Tensor, ...]:
        """Pixels [B, 1, S, S]; texts, intact and masked, and where they are masked, all [B, L]."""
        order = np.random.default_rng([seed, epoch, len(self.texts)]).permutation(len(self.texts))
        rows, recipe = order[number * self.size :][: self.size], self.recipe
        numbers, images = zip(*(self.images[row] for row in rows), strict=True)
        pixels, texts = grey(images), [self.texts[row] for row in rows]
        if training:  # sentences are shuffled, too (section 2.1)
            pixels = augment(pixels, np.array(numbers), recipe, epoch)
            draws = text_draws(rows, seed, epoch, 17, np.arange(max(map(len, texts))))
            orders = [draw[: len(text)].argsort() for draw, text in zip(draws, texts, strict=True)]
            texts = [[text[n] for n in order] for order, text in zip(orders, texts, strict=True)]
        ids_BL = self.words.sequences([list(chain(*text))[: recipe.length - 2] for text in texts])
        key_B = 2 * rows + 1  # IMPRESSION is the second section of a report
        return pixels, ids_BL, *self.words.mask_words(ids_BL, key_B, seed, epoch, recipe.mask_rate)


# --- The image encoder (section 2.2, Appendix E.2) ------------------------------------------------


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1, dilation: int = 1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 * dilation, dilation, bias=False)


class Block(nn.Module):
    """Convolutions beside a shortcut (He et al. 2016); the first of 3 x 3 has the stride."""

    def __init__(self, widths: list[int], kernels: tuple[int, ...], stride, dilation) -> None:
        super().__init__()
        self.depth, (inputs, *_, outputs) = len(kernels), widths
        for n, kernel in enumerate(kernels):
            step = stride if n == kernels.index(3) else 1
            self.add_module(f"conv{n + 1}", conv(*widths[n : n + 2], kernel, step, dilation))
            self.add_module(f"bn{n + 1}", nn.BatchNorm2d(widths[n + 1]))
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample.extend([conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)])

    def forward(self, x: Tensor) -> Tensor:
        out = x
        for n in range(1, self.depth + 1):
            out = getattr(self, f"bn{n}")(getattr(self, f"conv{n}")(F.relu(out) if n > 1 else out))
        return F.relu(out + self.downsample(x))


class ResNet(nn.Module):
    """ResNet-50 in the paper, under torchvision's names; the demonstration's is smaller."""

    def __init__(self, block: str, layers, width: int, channels: int, dilate) -> None:
        super().__init__()
        kernels, growth = {"basic": ((3, 3), 1), "bottleneck": ((1, 3, 1), 4)}[block]
        self.conv1, self.bn1 = conv(channels, width, 7, 2), nn.BatchNorm2d(width)
        inputs, dilation = width, 1
        for n, (depth, dilated) in enumerate(zip(layers, (False, *dilate), strict=True)):
            spread, blocks = dilation, []
            # A finer grid: stride becomes dilation, as in torchvision from the next block on.
            stride, dilation = (1, 2 * dilation) if dilated else (2 if n else 1, dilation)
            inner, outputs = width * 2**n, width * 2**n * growth
            for _ in range(depth):
                widths = [inputs, *[inner] * (len(kernels) - 1), outputs]
                blocks.append(Block(widths, kernels, stride, spread))
                inputs, stride, spread = outputs, 1, dilation
            self.add_module(f"layer{n + 1}", nn.Sequential(*blocks))
        self.features = inputs
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))


class ImageEncoder(nn.Module):
    """E_img and P_img: [B, 1, S, S] to the image v [B, P] and its patches V [B, h, w, P]."""

    def __init__(self, recipe: Recipe) -> None:
        super().__init__()
        folder = recipe.results / "models/biovil/simclr/seed0/image"
        sizes = json.loads((folder / "config.json").read_text())
        self.channels, width = sizes["channels"], recipe.joint_width
        trunk = ResNet(*(sizes[k] for k in ("block", "layers", "width", "channels")), recipe.dilate)
        self.encoder = nn.ModuleDict({"encoder": trunk})
        # P_img is new: SimCLR trains the trunk alone. Open: where its normalisation (E.2) stands.
        layers = conv(trunk.features, width, 1), nn.BatchNorm2d(width)
        layers = *layers, nn.ReLU(), nn.Conv2d(width, width, 1)
        self.projector = nn.ModuleDict({"model": nn.Sequential(*layers)})
        start = load_file(folder / "model.safetensors").items()
        self.load_state_dict(self.state_dict() | {k: v for k, v in start if k[:8] == "encoder."})
        self.to(memory_format=torch.channels_last)  # as kernels of convolutions prefer it

    def forward(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        grid = self.encoder["encoder"](pixels.expand(-1, self.channels, -1, -1))
        patches = self.projector["model"](grid)  # projected before the mean (section 2.2)
        return F.normalize(patches.mean((2, 3))), F.normalize(patches.permute(0, 2, 3, 1), dim=3)


# --- The text encoder, CXR-BERT (section 2.1, Appendix E.1) ---------------------------------------


def dropout(x: Tensor, rate: float) -> Tensor:
    """Four values share a draw of 64 bits: the rate is a multiple of 2^-16."""
    if not rate:
        return x
    dropped = round(rate * 2**16)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    keep = words.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - 2**15
    return x * (keep * (2**16 / (2**16 - dropped)))


class TextEncoder:
    """E_txt, P_txt and the head of MLM: BERT (Devlin et al. 2019), its weights by their names."""

    def __init__(self, recipe: Recipe) -> None:
        folder = recipe.results / "models/biovil/cxr_bert/seed0"
        sizes = json.loads((folder / "config.json").read_text())
        self.layers, self.heads = sizes["num_hidden_layers"], sizes["num_attention_heads"]
        start = load_file(folder / "model.safetensors").items()
        self.weights = {name: nn.Parameter(value) for name, value in start}
        self.words = Vocabulary(folder)

    def dense(self, x: Tensor, *names: str) -> Tensor:
        weight, bias = ([self.weights[f"{n}.{kind}"] for n in names] for kind in ("weight", "bias"))
        return F.linear(x, torch.cat(weight), torch.cat(bias))

    def norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, 1e-12)

    def states(self, ids_BL: Tensor, rate: float = 0.0) -> Tensor:
        """The last layer, [B, L, D]: of real tokens alone, the shortest text first."""
        real_BL = ids_BL != self.words.pad
        lengths, order = real_BL.sum(1).sort(stable=True)
        lengths, token_T = lengths.tolist(), ids_BL[order][real_BL[order]]
        place_T = torch.cat([torch.arange(length) for length in lengths])
        ids = {"word": token_T, "token_type": torch.zeros_like(token_T), "position": place_T}
        name = "bert.embeddings.{}_embeddings.weight"
        sum_TD = sum(F.embedding(ids[kind], self.weights[name.format(kind)]) for kind in ids)
        hidden_TD = dropout(self.norm(sum_TD, "bert.embeddings.LayerNorm"), rate)
        for layer in (f"bert.encoder.layer.{number}" for number in range(self.layers)):
            itself, output = f"{layer}.attention.self", f"{layer}.attention.output"
            qkv = self.dense(hidden_TD, f"{itself}.query", f"{itself}.key", f"{itself}.value")
            new_TD = self.dense(self.attend(qkv, lengths, rate), f"{output}.dense")
            hidden_TD = self.norm(dropout(new_TD, rate) + hidden_TD, f"{output}.LayerNorm")
            new_TD = F.gelu(self.dense(hidden_TD, f"{layer}.intermediate.dense"))
            new_TD = dropout(self.dense(new_TD, f"{layer}.output.dense"), rate)
            hidden_TD = self.norm(new_TD + hidden_TD, f"{layer}.output.LayerNorm")
        texts = hidden_TD.split(lengths)
        return pad_sequence([texts[n] for n in order.argsort()], batch_first=True)

    def attend(self, qkv_T3D: Tensor, lengths: list[int], rate: float) -> Tensor:
        """softmax(q k^T / sqrt(d)) v within each text, [T, D]; texts of like length at once."""
        contexts, texts = [], iter(qkv_T3D.split(lengths))
        for _, group in groupby(lengths, lambda length: (length - 1) // 32):
            length_N = torch.tensor([*group])
            padded_NW = pad_sequence([next(texts) for _ in length_N], batch_first=True)
            q, k, v = padded_NW.unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)  # NHWd
            real_NW = torch.arange(q.shape[2]) < length_N[:, None]
            scores_NHWW = (q * q.shape[3] ** -0.5) @ k.mT
            weights = scores_NHWW.masked_fill(~real_NW[:, None, None], -math.inf).softmax(3)
            context_NWHd = (dropout(weights, rate) @ v).transpose(1, 2)
            contexts.append(context_NWHd.flatten(2)[real_NW])
        return torch.cat(contexts)

    def project(self, states_BLD: Tensor) -> Tensor:
        """t [B, P], of [CLS] (section 2.2). Open: how; here as in the released weights."""
        head = "cls_projection_head"
        hidden_BP = F.gelu(self.dense(states_BLD[:, 0], f"{head}.dense_to_hidden"))
        return self.dense(self.norm(hidden_BP, f"{head}.LayerNorm"), f"{head}.dense_to_output")

    def predict(self, states_MD: Tensor) -> Tensor:
        """Logits [M, V] of masked pieces, by the weights of the word embeddings."""
        head, word = "cls.predictions", self.weights["bert.embeddings.word_embeddings.weight"]
        hidden_MD = F.gelu(self.dense(states_MD, f"{head}.transform.dense"))
        hidden_MD = self.norm(hidden_MD, f"{head}.transform.LayerNorm")
        return F.linear(hidden_MD, word, self.weights[f"{head}.bias"])

    def embed(self, sentences: list[str]) -> Tensor:
        """Sentences in the joint space, of length 1, [B, P]."""
        ids_BL = self.words.sequences(self.words.pieces(sentences))
        return F.normalize(self.project(self.states(ids_BL)))


# --- The objective and the training (section 2.2) -------------------------------------------------


def global_alignment(image_BP: Tensor, text_BP: Tensor, temperature: float) -> Tensor:
    """L_GA, Eq. 2: an image finds its text among those of the batch, and a text its image."""
    logits_BB = F.normalize(image_BP) @ F.normalize(text_BP).mT / temperature
    own, logits = torch.arange(len(logits_BB)), (logits_BB, logits_BB.mT)
    return sum(F.cross_entropy(each, own, reduction="sum") for each in logits) / len(own)


def objective(image: ImageEncoder, text: TextEncoder, pairs: Pairs, *batch: int) -> Tensor:
    """lambda_GA L_GA + L_MLM of a batch, by seed, epoch and number."""
    recipe = pairs.recipe
    pixels, ids_BL, masked_BL, target_BL = pairs.batch(*batch, image.training)
    # Open: whether Eq. 2 sees masked texts. Here it sees intact ones, beside them in one pass.
    texts = torch.cat([ids_BL, masked_BL])
    intact_BLD, states_BLD = text.states(texts, recipe.dropout * image.training).chunk(2)
    l_ga = global_alignment(image(pixels)[0], text.project(intact_BLD), recipe.temperature)
    # Open: a mean over texts, as L_MLM is printed, or over masked pieces, as in the library named.
    logits_MV, targets_M = text.predict(states_BLD[target_BL]), ids_BL[target_BL]
    l_mlm = F.cross_entropy(logits_MV, targets_M, reduction="sum") / max(1, len(targets_M))
    return recipe.alignment_weight * l_ga + l_mlm


def train(recipe: Recipe) -> tuple[ImageEncoder, TextEncoder]:
    """The encoders as they are when the validation loss is smallest (section 4.1)."""
    torch.manual_seed(recipe.seed)  # of the image's projection
    image = ImageEncoder(recipe)
    text = TextEncoder(recipe)
    pairs, dev = (Pairs(recipe, part, text.words) for part in ("train", "validate"))
    steps = recipe.steps or recipe.epochs * pairs.batches
    warmup, smallest, best = round(recipe.warmup * steps), math.inf, None
    parameters = [*text.weights.values(), *image.parameters()]
    matrices, others = ([p for p in parameters if (p.ndim > 1) is b] for b in (True, False))
    groups = {"params": matrices}, {"params": others, "weight_decay": 0.0}
    optimiser = torch.optim.AdamW(groups, weight_decay=recipe.weight_decay, fused=True)
    for step in range(steps):
        epoch, number = divmod(step, pairs.batches)
        digest = sha256(f"[{recipe.seed},{step}]".encode()).digest()
        torch.manual_seed(int.from_bytes(digest[:8]) % 2**63)  # dropout hangs on the step alone
        fall = 1 - (step - warmup) / max(1, steps - warmup)  # to zero
        for group in optimiser.param_groups:
            group["lr"] = recipe.learning_rate * min((step + 1) / max(1, warmup), fall)
        loss = objective(image.train(), text, pairs, recipe.seed, epoch, number)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if number == pairs.batches - 1 or step == steps - 1:
            with torch.no_grad():
                losses = [objective(image.eval(), text, dev, 0, 0, n) for n in range(dev.batches)]
            value = float(torch.stack(losses).double().mean())
            print(f"step {step + 1} of {steps}: loss {loss:.4f}, in validation {value:.4f}")
            if value < smallest:
                smallest, best = value, deepcopy((image, text))
    return best


# --- Zero-shot classification (sections 2.2, 4.4) and phrase grounding (sections 4.1, 4.3) --------


@torch.no_grad()
def zero_shot(recipe: Recipe, image: ImageEncoder, text: TextEncoder) -> dict:
    """Pneumonia on RSNA by two prompts (section 4.4, Table 6)."""
    table = rows_with_images(recipe, "rsna", "samples.parquet")
    test = [(row["labels"][0] == 1, pixels) for row, _, pixels in table if row["split"] == "test"]
    image_BP = torch.cat([image(grey([pixels]))[0] for _, pixels in test]).double()
    prompts = text.embed(["Findings suggesting pneumonia", "No evidence of pneumonia"])
    scores = (image_BP @ prompts.double().mT).softmax(1)[:, 0].numpy()
    truth = np.array([label for label, _ in test])
    gaps = scores[truth][:, None] - scores[~truth]
    return {"auroc": float(np.mean((gaps > 0) + (gaps == 0) / 2))}


def refine(image: ImageEncoder) -> ImageEncoder:
    """Dilation in place of the last stride (section 2.2): the old cells, and new ones between."""
    image = deepcopy(image)
    layers = [layer for layer in image.encoder.modules() if isinstance(layer, nn.Conv2d)]
    *_, last, shortcut = (n for n, layer in enumerate(layers) if layer.stride == (2, 2))
    layers[last].stride = layers[shortcut].stride = (1, 1)
    for layer in (layer for layer in layers[last + 1 :] if layer.kernel_size == (3, 3)):
        layer.dilation = layer.padding = (2 * layer.dilation[0],) * 2
    return image


def agreement(grid_hw: np.ndarray, sample: dict, size: int) -> tuple[float, float]:
    """CNR and mIoU (section 4.1). Open: on which pixels; here all of the image's that are seen."""
    sides, axes = (sample["image_height"], sample["image_width"]), []
    for side, cells in zip(sides, grid_hw.shape, strict=True):
        resized, centre = size * side // min(sides), np.arange(side) + 0.5
        share = (centre * resized / side - round((resized - size) / 2)) / size
        seen = (share >= 0) & (share < 1)  # in the central square
        axes.append((centre, seen, (share[seen] * cells).astype(int)))
    (y, seen_y, cell_y), (x, seen_x, cell_x) = axes
    mask = np.zeros(sides, bool)
    for left, top, width, height in sample["boxes"]:
        mask |= ((y >= top) & (y < top + height))[:, None] & (x >= left) & (x < left + width)
    mask, values = mask[seen_y][:, seen_x], grid_hw[cell_y][:, cell_x]
    if mask.all() or not mask.any():
        return math.nan, math.nan
    inner, outer = values[mask], values[~mask]
    above = [values > threshold for threshold in (0.1, 0.2, 0.3, 0.4, 0.5)]
    miou = np.mean([(mask & each).sum() / (mask | each).sum() for each in above])
    return abs(inner.mean() - outer.mean()) / np.sqrt(inner.var() + outer.var()), miou


@torch.no_grad()
def grounding(recipe: Recipe, image: ImageEncoder, text: TextEncoder) -> dict:
    """Phrases of MS-CXR, means over findings (section 4.3, Tables 5 and A.4)."""
    image, scores = refine(image) if recipe.finer else image, {}
    for sample, _, pixels in rows_with_images(recipe, "ms_cxr", "samples.parquet"):
        _, (patches_hwP,) = image(grey([pixels]))
        grid_hw = patches_hwP @ text.embed([sample["phrase"]])[0]  # cosines
        values = agreement(grid_hw.double().numpy(), sample, len(pixels))
        scores.setdefault(sample["category"], []).append(values)
    means = np.nanmean([np.nanmean(values, axis=0) for values in scores.values()], axis=0)
    return dict(zip(("cnr", "miou"), means.tolist(), strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Train BioViL on the results of `make demo`.")
    parser.add_argument("results", type=Path, help="folder of the results")
    parser.add_argument("--steps", type=int, help="updates; otherwise 20 epochs")
    recipe = Recipe(**vars(parser.parse_args()))
    encoders = train(recipe)
    print(zero_shot(recipe, *encoders) | grounding(recipe, *encoders))
