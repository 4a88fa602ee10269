"""The report decoder: a text encoder that writes, looking at an image (BioViL-T Appendix F.1).

It starts from a text encoder, whose self-attention becomes causal; cross-attention over the
projected patches comes into every block. Its folder, ``decoder/`` of a model folder, loads in plain
transformers as ``BertLMHeadModel``, which knows all but the linear layer of the patches.

Shapes: B studies, L tokens, M patches of width P, N predicted tokens, V vocabulary.
"""

from pathlib import Path
from typing import Literal, Self

from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.encoders.bert import BertConfig
from cxrflow.encoders.cross_attention import CrossAttention
from cxrflow.encoders.cxr_bert import TIED, CXRBert, read_config, require_positions
from cxrflow.encoders.settings import ReportDecoderSettings
from cxrflow.encoders.weights import load_weights, read_weights, save_weights

FOLDER = "decoder"


class DecoderConfig(BertConfig):
    """``config.json`` of a decoder: BERT's keys, and what it reads and writes."""

    architectures: tuple[Literal["BertLMHeadModel"]] = ("BertLMHeadModel",)
    is_decoder: Literal[True] = True  # type: ignore[assignment]
    add_cross_attention: Literal[True] = True  # type: ignore[assignment]
    patch_width: int
    vocabulary: str  # fingerprint of its pieces
    report: ReportDecoderSettings


class ReportDecoder(nn.Module):
    """Next-token prediction over a text encoder's vocabulary; ``text`` is changed by training."""

    def __init__(self, text: CXRBert, config: DecoderConfig) -> None:
        super().__init__()
        self.config, self.settings = config, config.report
        self.bert, self.cls = text.bert, text.cls  # tied, as they were
        self.cross = CrossAttention(text.config, config.patch_width)

    @classmethod
    def start(
        cls,
        text: CXRBert,
        vocabulary: str,
        patch_width: int,
        settings: ReportDecoderSettings,
    ) -> Self:
        """A decoder with the weights and the dropout of ``text``; its cross-attention is new.

        ``vocabulary`` is the fingerprint of the pieces.
        """
        require_positions(text, settings.length, "decoder.length")
        sizes = text.config.model_dump(exclude={"is_decoder", "add_cross_attention"})
        config = DecoderConfig(
            **sizes, patch_width=patch_width, vocabulary=vocabulary, report=settings
        )
        return cls(text, config)

    def forward(
        self,
        input_ids_BL: Tensor,
        attention_mask_BL: Tensor,
        patches_BMP: Tensor,
        positions_N: Tensor,
    ) -> Tensor:
        """Logits [N, V] of the tokens after ``positions_N``, flat indices into B*L."""
        states_BLD = self.cross.states(
            self.bert, input_ids_BL, attention_mask_BL, patches_BMP, causal=True
        )
        return self.cls(states_BLD.flatten(0, 1).index_select(0, positions_N))


def require_vocabulary(of_decoder: str, vocabulary: str, source: Path) -> None:
    """The tokenizer of ``source`` must have the pieces that a decoder was trained with."""
    if vocabulary != of_decoder:
        raise InputError(
            f"{source}: the fingerprint of its tokenizer's pieces is {vocabulary}, but the decoder "
            f"was trained with {of_decoder}; expected the same pieces"
        )


def save_decoder(decoder: ReportDecoder, folder: Path) -> None:
    """Write ``decoder/config.json`` and ``decoder/model.safetensors``."""
    config = {**decoder.config.model_dump(mode="json"), "model_type": "bert"}
    weights = {_published(n): value for n, value in decoder.state_dict().items() if n not in TIED}
    save_weights(folder / FOLDER, config, weights, {"format": "pt"})


def load_decoder(folder: Path) -> ReportDecoder:
    """Read ``decoder/`` of a model folder; an :class:`InputError` names what is wrong."""
    source = folder / FOLDER
    config = read_config(source, DecoderConfig)
    encoder = config.model_dump(exclude={"is_decoder", "add_cross_attention"})
    decoder = ReportDecoder(CXRBert(BertConfig.model_validate(encoder)), config)
    path = source / "model.safetensors"
    names = {_published(name): name for name in decoder.state_dict()}
    weights = {names.get(name, name): value for name, value in read_weights(path).items()}
    load_weights(decoder, weights, path, [{name} for name in TIED])
    return decoder.eval()


def _published(name: str) -> str:
    """transformers' name of a parameter."""
    if not name.startswith("cross.layer."):
        return name
    _, _, number, rest = name.split(".", 3)
    return f"bert.encoder.layer.{number}.crossattention.{rest}"
