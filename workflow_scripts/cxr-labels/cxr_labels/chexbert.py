"""The ``chexbert`` engine: the network CheXbert (Smit et al. 2020), with weights of the user's.

BERT-base-uncased whose [CLS] output goes to 14 linear heads: 13 choose among blank, positive,
negative and uncertain, and the one of No Finding between blank and positive. A text's runs of
blanks become one, and it is cut at 512 tokens, the two special ones included. The network gives
labels and no reasons. BioViL-T (Table 1) measures generated reports with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import BertWordPieceTokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from cxr_files.errors import InputError
from cxr_files.weights import no_plain_numbers, unreadable
from cxr_labels.observations import (
    BLANK,
    NEGATIVE,
    OBSERVATIONS,
    POSITIVE,
    UNCERTAIN,
    Labels,
)

WEIGHTS: Final = "chexbert.pth"
VOCABULARY: Final = "vocab.txt"
# The order of the heads, which is not that of OBSERVATIONS.
HEADS: Final = (
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
    "No Finding",
)
# The labels of a head's classes, in order; the head of No Finding has the first two.
CLASSES: Final = (BLANK, float(POSITIVE), float(NEGATIVE), float(UNCERTAIN))
# Not in any tensor's shape: the width of an attention head in every published BERT.
HEAD_WIDTH: Final = 64
LONGEST: Final = 512
BATCH: Final = 32  # reports

_EMBEDDINGS = (
    "word_embeddings.weight",
    "position_embeddings.weight",
    "token_type_embeddings.weight",
    "LayerNorm.weight",
    "LayerNorm.bias",
)
_OF_A_LAYER = tuple(
    f"{module}.{kind}"
    for module in (
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "attention.output.LayerNorm",
        "intermediate.dense",
        "output.dense",
        "output.LayerNorm",
    )
    for kind in ("weight", "bias")
)
# In the file, but not used for labels: BERT's pooler, and positions that count from 0.
_UNUSED = ("bert.pooler.dense.weight", "bert.pooler.dense.bias", "bert.embeddings.position_ids")


def key_map(layers: int) -> dict[str, str]:
    """Published names of all tensors (without ``module.``) to ours."""
    names = [f"bert.embeddings.{name}" for name in _EMBEDDINGS]
    names += [f"bert.encoder.layer.{i}.{name}" for i in range(layers) for name in _OF_A_LAYER]
    heads = {
        f"linear_heads.{i}.{kind}": f"heads.{name}.{kind}"
        for i, name in enumerate(HEADS)
        for kind in ("weight", "bias")
    }
    return {**{name: name for name in names}, **heads}


class CheXbertNetwork(nn.Module):
    """Token ids to the 14 heads' logits; published dropout before the heads is off in use."""

    def __init__(self, config: BertConfig):
        super().__init__()
        self.bert = BertModel(config, add_pooling_layer=False)
        self.heads = nn.ModuleDict(
            {
                name: nn.Linear(config.hidden_size, 2 if name == "No Finding" else len(CLASSES))
                for name in HEADS
            }
        )

    def forward(self, ids_BL: Tensor, mask_BL: Tensor) -> dict[str, Tensor]:
        """Logits ``[B, 4]`` (No Finding ``[B, 2]``) by observation; ``mask_BL`` is 1 on tokens."""
        hidden_BLD = self.bert(ids_BL, attention_mask=mask_BL).last_hidden_state
        return {name: head(hidden_BLD[:, 0]) for name, head in self.heads.items()}


class CheXbertLabeller:
    """Labels reports with CheXbert.

    ``path`` is ``chexbert.pth`` or a folder that holds it; bert-base-uncased's ``vocab.txt``, or a
    folder of that name with it, lies beside the weights.

    Raises:
        InputError: a file is missing or damaged, or is another network's.
    """

    def __init__(self, path: str | Path):
        weights = Path(path) / WEIGHTS if Path(path).is_dir() else Path(path)
        tensors = _tensors(weights)
        config = _config(tensors, weights)
        self._network = CheXbertNetwork(config)
        _load(self._network, tensors, config.num_hidden_layers, weights)
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._network.to(self._device).eval()
        self._tokenizer = _tokenizer(
            _vocabulary(weights), config.vocab_size, config.max_position_embeddings
        )

    def label(self, reports: Sequence[Sequence[str]]) -> list[Labels]:
        """The labels of each report; its sentences are joined by a blank."""
        texts = [" ".join(" ".join(sentences).split()) for sentences in reports]
        ids = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        # Texts of like length together, so that little is padded.
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        labels: dict[int, Labels] = {}
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            labels.update(zip(batch, self._classify([ids[i] for i in batch]), strict=True))
        return [labels[i] for i in range(len(ids))]

    @torch.inference_mode()
    def _classify(self, ids: Sequence[Sequence[int]]) -> Iterator[Labels]:
        longest = max(map(len, ids))
        ids_BL = torch.tensor([[*tokens, *[0] * (longest - len(tokens))] for tokens in ids])
        lengths_B = torch.tensor([len(tokens) for tokens in ids])
        mask_BL = (torch.arange(longest) < lengths_B[:, None]).long()
        logits = self._network(ids_BL.to(self._device), mask_BL.to(self._device))
        classes = {name: values.argmax(dim=1).tolist() for name, values in logits.items()}
        columns = [[CLASSES[code] for code in classes[name]] for name in OBSERVATIONS]
        return zip(*columns, strict=True)


def _tensors(path: Path) -> dict[str, Tensor]:
    """The file's tensors by their published names, ``module.`` taken off."""
    if not path.is_file():
        raise InputError(
            f"{path}: not found; labels.chexbert names CheXbert's weights, {WEIGHTS}, "
            "or the folder they lie in"
        )
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that are no pickle fail anyhow
        raise InputError(f"{path}: {unreadable(path, error)}") from None
    state: Any = content.get("model_state_dict") if isinstance(content, Mapping) else None
    if not isinstance(state, Mapping) or not all(isinstance(v, Tensor) for v in state.values()):
        raise InputError(f"{path}: field 'model_state_dict' is missing or holds no tensors")
    for name, tensor in state.items():
        if (what := no_plain_numbers(tensor)) is not None:
            raise InputError(f"{path}: '{name}' is {what}; expected a dense tensor")
        broken = int((~tensor.isfinite()).sum())
        if broken:
            raise InputError(
                f"{path}: {name} holds {broken} of {tensor.numel()} numbers that are not finite"
            )
    tensors = {name.removeprefix("module."): tensor for name, tensor in state.items()}
    return {name: tensor for name, tensor in tensors.items() if name not in _UNUSED}


def _config(tensors: Mapping[str, Tensor], path: Path) -> BertConfig:
    """BERT's sizes, from the tensors' shapes."""

    def shape(name: str) -> tuple[int, int]:
        if name not in tensors or tensors[name].ndim != 2:
            raise InputError(f"{path}: tensor '{name}' is missing, expected a matrix")
        rows, columns = tensors[name].shape
        return rows, columns

    vocabulary, width = shape("bert.embeddings.word_embeddings.weight")
    if width % HEAD_WIDTH:
        raise InputError(f"{path}: width {width}, expected a multiple of {HEAD_WIDTH}")
    layers = {name.split(".")[3] for name in tensors if name.startswith("bert.encoder.layer.")}
    return BertConfig(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=len(layers),
        num_attention_heads=width // HEAD_WIDTH,
        intermediate_size=shape("bert.encoder.layer.0.intermediate.dense.weight")[0],
        max_position_embeddings=shape("bert.embeddings.position_embeddings.weight")[0],
        type_vocab_size=shape("bert.embeddings.token_type_embeddings.weight")[0],
    )


def _load(network: nn.Module, tensors: Mapping[str, Tensor], layers: int, path: Path) -> None:
    names, state = key_map(layers), network.state_dict()
    missing, unknown = sorted(names.keys() - tensors.keys()), sorted(tensors.keys() - names.keys())
    if missing or unknown:
        problem = f"'{missing[0]}' is missing" if missing else f"'{unknown[0]}' is not expected"
        raise InputError(f"{path}: not CheXbert's weights: tensor {problem}")
    for name, our_name in names.items():
        shape, expected = tuple(tensors[name].shape), tuple(state[our_name].shape)
        if shape != expected:
            raise InputError(f"{path}: tensor '{name}' has shape {shape}, expected {expected}")
    network.load_state_dict({our_name: tensors[name] for name, our_name in names.items()})


def _vocabulary(weights: Path) -> Path:
    beside = weights.parent
    places = [beside / VOCABULARY, beside / "bert-base-uncased" / VOCABULARY]
    for place in places:
        if place.is_file():
            return place
    raise InputError(
        f"{places[0]}: not found; CheXbert reads with the vocabulary of bert-base-uncased: put "
        f"{VOCABULARY} from https://huggingface.co/bert-base-uncased beside {weights.name}"
    )


def _tokenizer(path: Path, size: int, positions: int) -> BertWordPieceTokenizer:
    try:
        words = path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error})") from None
    if len(words) != size:
        raise InputError(f"{path}: {len(words)} pieces, expected {size} as in the weights")
    for piece in ("[UNK]", "[CLS]", "[SEP]"):
        if piece not in words:
            raise InputError(f"{path}: no piece '{piece}', expected bert-base-uncased's vocabulary")
    tokenizer = BertWordPieceTokenizer(str(path), lowercase=True)
    tokenizer.enable_truncation(min(positions, LONGEST))
    return tokenizer
