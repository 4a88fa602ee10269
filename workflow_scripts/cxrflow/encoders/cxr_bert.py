"""CXR-BERT: a BERT masked language model with a projection of [CLS] to the joint space.

ConVIRT (section 3.3) projects the maximum over all tokens in its place (``config.text_pooling``).

BioViL section 2.1 and Appendix E.1. Parameter names are those of the released checkpoints
(``bert.*``, ``cls.*``, ``cls_projection_head.*``), so weights travel both ways, and the folder a
model is saved to loads as plain BERT in transformers.

Shapes: B sequences, L tokens, T real tokens of a batch, D width, P joint space, M predicted
positions, V vocabulary.
"""

from collections import deque
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from cxr_files.atomic import read_object, require_whole
from cxr_files.errors import InputError
from cxr_files.settings import from_record
from cxrflow.compute.device_copy import sent
from cxrflow.encoders.attention import TokenBlocks
from cxrflow.encoders.bert import Bert, BertConfig, Layer, TokenHead, initialised
from cxrflow.encoders.projection import TextProjection
from cxrflow.encoders.settings import TextEncoderSettings, TextPooling
from cxrflow.encoders.weights import load_weights, read_weights, save_weights

ConfigT = TypeVar("ConfigT", bound=BertConfig)
TokenWise = Callable[..., Tensor]  # layer and states [T, ...] to states [T, ...]

# The left is the right by another name; files hold both, or one of them.
TIED = {
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}
POSITIONS = "bert.embeddings.position_embeddings.weight"
# Text encoders of another architecture, by ``model_type`` of config.json: modules of this folder
# with a ``TextEncoder``, imported where such a folder is read.
OTHER_KINDS = ("clip_text",)


class CXRBert(nn.Module):
    """BERT for masked language modelling plus ``cls_projection_head``.

    The vocabulary head is applied by the caller, and only at the positions that are predicted
    (``predict_tokens``).
    """

    config_class: ClassVar[type[BertConfig]] = BertConfig
    causal: ClassVar[bool] = False  # True: a token sees itself and those before it
    published: ClassVar[dict[str, Any]] = {
        "model_type": "bert",
        "architectures": ["BertForMaskedLM"],
    }

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        deviation = config.initializer_range
        self.bert = initialised(Bert(config), deviation)
        self.cls = initialised(TokenHead(config), deviation)
        self.cls_projection_head = initialised(text_projection(config), deviation)
        self.cls.predictions.decoder.weight = self.bert.embeddings.word_embeddings.weight
        self.cls.predictions.decoder.bias = self.cls.predictions.bias
        self.single_position = False  # every token stands at the first (MGCA's published code)
        self._before_attention: TokenWise = Layer.before_attention
        self._after_attention: TokenWise = Layer.after_attention

    @classmethod
    def build(cls, settings: TextEncoderSettings, vocabulary_size: int, pad_id: int) -> "CXRBert":
        """A randomly initialised encoder of the given sizes."""
        return cls(
            BertConfig(
                vocab_size=vocabulary_size,
                hidden_size=settings.width,
                num_hidden_layers=settings.layers,
                num_attention_heads=settings.heads,
                intermediate_size=settings.feed_forward,
                max_position_embeddings=settings.positions,
                pad_token_id=pad_id,
                projection_size=settings.projection,
                projection_head=settings.projection_head,
            )
        )

    def set_dropout(self, hidden: float, attention: float) -> None:
        """Change the dropout of a loaded model (BioViL section 2.1: 25 %, attention included)."""
        rates = {"hidden_dropout_prob": hidden, "attention_probs_dropout_prob": attention}
        self.config = self.config.model_copy(update=rates)
        for name, module in self.named_modules():
            if isinstance(module, nn.Dropout):
                module.p = attention if name.endswith("attention.self.dropout") else hidden

    @property
    def pooling(self) -> TextPooling:
        """The states that are projected: of [CLS], or the maximum or mean over all tokens."""
        return self.config.text_pooling

    def set_pooling(self, pooling: TextPooling) -> None:
        """Change the states that are projected, in config.json too."""
        self.config = self.config.model_copy(update={"text_pooling": pooling})

    def hidden_states(
        self,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor,
        segment_ids_BL: Tensor | None = None,
    ) -> Tensor:
        """Last-layer states [B, L, D] of padded sequences; zero at padding (mask 0).

        ``segment_ids_BL`` tells the second of two texts (1) from the first (0), as BERT does; left
        out, all is the first.
        """
        return self.last_states(input_ids_BL, attention_mask_BL, 1, segment_ids_BL)[0]

    def last_states(
        self,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor,
        layers: int,
        segment_ids_BL: Tensor | None = None,
    ) -> list[Tensor]:
        """States [B, L, D] of the last ``layers`` layers in their order; zero at padding.

        One more than there are layers begins with the embeddings.
        """
        length = input_ids_BL.shape[1]
        position_ids_L = torch.arange(length, device=input_ids_BL.device)
        return self._last_states(
            input_ids_BL,
            attention_mask_BL.long() - 1,
            position_ids_L.expand_as(input_ids_BL),
            layers,
            segment_ids_BL,
        )

    def packed_states(
        self, input_ids_BL: Tensor, document_BL: Tensor, position_ids_BL: Tensor
    ) -> Tensor:
        """Last-layer states [B, L, D] of packed rows: a token sees only its own document.

        ``document_BL`` numbers the document of every token in its row from 0, below L; padding is
        -1 and its states are zero. It may stay on the CPU when the rest is on a GPU, which saves
        waiting for the GPU. The work is that of the real tokens alone (``TokenBlocks``).
        """
        return self._last_states(input_ids_BL, document_BL, position_ids_BL, 1)[0]

    def _last_states(
        self,
        input_ids_BL: Tensor,
        document_BL: Tensor,
        position_ids_BL: Tensor,
        count: int,
        segment_ids_BL: Tensor | None = None,
    ) -> list[Tensor]:
        """Return the states [B, L, D] of the last ``count`` layers, as :meth:`packed_states`."""
        blocks = TokenBlocks.of(document_BL, input_ids_BL.device)
        if segment_ids_BL is None:
            segment_ids_BL = torch.zeros_like(input_ids_BL)
        if self.single_position:
            position_ids_BL = torch.zeros_like(position_ids_BL)
        ids = (input_ids_BL, position_ids_BL, segment_ids_BL)
        hidden_TD = self.bert.embeddings(*(id_BL.flatten()[blocks.tokens] for id_BL in ids))
        layers: Any = self.bert.encoder.layer
        last = deque([hidden_TD], maxlen=count)
        for layer in layers:
            qkv_T3D = self._before_attention(layer, hidden_TD)
            context_TD = blocks.attend(qkv_T3D, layer.heads, layer.rate, self.causal)
            hidden_TD = self._after_attention(layer, context_TD, hidden_TD)
            last.append(hidden_TD)
        last[-1] = self.bert.final(hidden_TD)
        return [blocks.spread(states_TD, input_ids_BL.shape) for states_TD in last]

    def cls_attention(self, entering_BLD: Tensor, attention_mask_BL: Tensor) -> Tensor:
        """Weights with which [CLS] attends to all tokens in the last layer, [B, heads, L].

        MGCA weighs tokens by them. ``entering_BLD`` are the states that enter the layer, the first
        of ``last_states(..., 2)``. The layer itself never holds its weights; this computes one row
        of them anew, without dropout, 0 at padding.
        """
        layer: Any = self.bert.encoder.layer[-1]
        project = layer.attention.self
        q_BHd = project.query(entering_BLD[:, 0]).unflatten(1, (project.heads, -1))
        k_BLHd = project.key(entering_BLD).unflatten(2, (project.heads, -1))
        scores_BHL = torch.einsum("bhd,blhd->bhl", q_BHd, k_BLHd) / q_BHd.shape[-1] ** 0.5
        padding_B1L = sent(attention_mask_BL, scores_BHL.device)[:, None] == 0
        return scores_BHL.masked_fill(padding_B1L, -torch.inf).softmax(-1)

    def compile_parts(self, options: dict[str, Any]) -> None:
        """Compile the token-wise parts of a layer with these ``options`` of torch.compile.

        One graph serves all layers and all numbers of tokens. Attention, whose blocks change with
        every batch, stays as it is.
        """
        self._before_attention = _any_length(torch.compile(Layer.before_attention, **options))
        self._after_attention = _any_length(torch.compile(Layer.after_attention, **options))

    def project(self, hidden_BLD: Tensor, attention_mask_BL: Tensor | None = None) -> Tensor:
        """Projected [CLS], [B, P], not normalised (Eq. 1 and 2 use it normalised).

        With ``pooling`` max or mean the projection of that over all real tokens, [CLS] and [SEP]
        included ("over all output vectors", ConVIRT section 3.3). The mask says which are real, on
        any device; without it these two raise :class:`ValueError`.
        """
        if self.pooling == "cls":
            return self.cls_projection_head(hidden_BLD[:, 0])
        if attention_mask_BL is None:
            raise ValueError(f"pooling {self.pooling} needs the attention mask")
        there_BL1 = sent(attention_mask_BL, hidden_BLD.device).bool()[:, :, None]
        if self.pooling == "max":
            return self.cls_projection_head(hidden_BLD.masked_fill(~there_BL1, -torch.inf).amax(1))
        summed_BD = hidden_BLD.masked_fill(~there_BL1, 0).sum(1)
        return self.cls_projection_head(summed_BD / there_BL1.sum(1))

    def project_words(self, word_BWD: Tensor, lengths: Sequence[int]) -> Tensor:
        """Words [B, W, D], sums of token states, in the joint space, [B, W, P].

        By the projection of [CLS], as BioViL-T section 3.2 projects text tokens, unless the head
        has one for words. Text b has the first ``lengths[b]`` words.
        """
        return self.cls_projection_head.words(word_BWD, lengths)

    def predict_tokens(self, hidden_BLD: Tensor, positions_M: Tensor) -> Tensor:
        """Vocabulary logits [M, V] at ``positions_M``, flat indices into B*L."""
        return self.cls(hidden_BLD.flatten(0, 1).index_select(0, positions_M))


def text_projection(config: BertConfig) -> TextProjection:
    """A projection of the kind and sizes of ``config``, with torch's own initial weights."""
    head = config.projection_head
    projection: TextProjection = head.code("TextHead")(
        config.hidden_size, config.projection_size, head
    )
    return projection


def _any_length(compiled: TokenWise) -> TokenWise:
    """Tell the compiler that nothing may be assumed about T, not even its first value.

    A graph that is only marked as dynamic still carries choices made for the T of the batch that
    came first, which is another one after a resumption, and inductor makes a second graph for CPUs
    beyond 4096 tokens.
    """

    def call(layer: Any, *states_TD: Tensor) -> Tensor:
        # A view would bring its base along, whose size is not marked.
        copies_TD = [states.clone() if states._is_view() else states for states in states_TD]
        for states in copies_TD:
            torch._dynamo.decorators.mark_unbacked(states, 0)
        return compiled(layer, *copies_TD)

    return call


def save_text_encoder(text: CXRBert, folder: Path) -> None:
    """Write ``config.json`` and ``model.safetensors`` as transformers does."""
    config = text.config.model_dump(mode="json") | text.published
    save_weights(folder, config, untied(text), {"format": "pt"})


def untied(text: CXRBert) -> dict[str, Tensor]:
    """The parameters on the CPU, tied ones once.

    Where only the first position is read, all are like it: readers need not know.
    """
    weights = {
        name: value.detach().float().cpu().contiguous()
        for name, value in text.state_dict().items()
        if name not in TIED
    }
    if text.single_position:
        positions = weights[POSITIONS]
        weights[POSITIONS] = positions[:1].expand_as(positions).contiguous()
    return weights


def load_text_encoder(folder: Path) -> CXRBert:
    """Read the text encoder; an :class:`InputError` names what is missing."""
    path = folder / "model.safetensors"
    for file in (folder / "config.json", path):
        if not file.is_file():
            raise InputError(f"{file}: file not found; the folder has no text encoder")
    kind = _kind_of(folder / "config.json")
    config = read_config(folder, kind.config_class)
    with torch.random.fork_rng(devices=[]):  # cheaper than to build it without values
        text = kind(config)
    load_weights(text, read_weights(path), path, [{name} for name in TIED])
    return text.eval()


def _kind_of(path: Path) -> type[CXRBert]:
    """Return the class of the text encoder that a ``config.json`` describes."""
    require_whole(path)
    model_type = read_object(path).get("model_type")
    if model_type not in OTHER_KINDS:
        return CXRBert
    kind: type[CXRBert] = import_module(f"cxrflow.encoders.{model_type}").TextEncoder
    return kind


def read_config(folder: Path, kind: type[ConfigT]) -> ConfigT:
    """Read ``config.json``; an :class:`InputError` names the key that is missing or wrong."""
    path = folder / "config.json"
    require_whole(path)
    try:
        config: ConfigT = from_record(kind, read_object(path), str(path))
        return config
    except InputError as error:
        first, *_ = str(error).splitlines()  # a folder of another kind lacks many
        raise InputError(first) from None


def require_positions(text: CXRBert, length: int, key: str = "length") -> None:
    """The encoder must have a position embedding for every token of the longest sequence."""
    if length > text.config.max_position_embeddings:
        raise InputError(
            f"settings: key '{key}' is {length}, but the text encoder has "
            f"{text.config.max_position_embeddings} positions"
        )


def require_layers(text: CXRBert, layers: int, key: str) -> None:
    """The encoder must have as many layers as the settings read or freeze."""
    if layers > text.config.num_hidden_layers:
        raise InputError(
            f"settings: key '{key}' is {layers}, but the text encoder has "
            f"{text.config.num_hidden_layers} layers; expected no more than that"
        )


def require_embeddings(text: CXRBert, pieces: int, folder: Path) -> None:
    """Every piece of the tokenizer in ``folder`` must have an embedding."""
    if pieces > text.config.vocab_size:
        raise InputError(
            f"{folder}: the tokenizer has {pieces} pieces, but vocab_size in config.json is "
            f"{text.config.vocab_size}; expected no more than that"
        )
