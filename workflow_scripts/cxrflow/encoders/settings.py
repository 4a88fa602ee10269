"""Sizes of the encoders. The defaults are the papers'; a scale makes them smaller."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_serializer, model_validator

from cxrflow.settings import Settings

# How the states of a text become the one that is projected; kept in the text half's config.json.
TextPooling = Literal["cls", "max", "mean"]


class ProjectionHeadSettings(Settings):
    """How features come to the joint space; kept in the half's config.json."""

    kind: Literal["biovil", "mlp", "linear"] = Field(
        "biovil",
        description="biovil: BioViL's, of images with batch normalisation and before patches are "
        "averaged, of text with layer normalisation; mlp: linear, ReLU, linear, and linear: both "
        "after pooling (ConVIRT sections 2.2 and 4.4)",
    )
    hidden: int | None = Field(
        None, ge=1, description="width inside an mlp; null: that of its input"
    )


class TextEncoderSettings(Settings):
    """CXR-BERT: BERT base (BioViL Appendix E.1) with a projection to the joint space."""

    layers: int = Field(12, ge=1)
    width: int = Field(768, ge=8)
    heads: int = Field(12, ge=1)
    feed_forward: int = Field(3072, ge=8)
    positions: int = Field(512, ge=8, description="longest sequence in tokens")
    projection: int = Field(128, ge=2, description="width of the joint space")
    projection_head: ProjectionHeadSettings = ProjectionHeadSettings()


class ComparisonSettings(Settings):
    """The transformer that compares two images (BioViL-T section 3.1).

    The paper says that it has K layers; sizes and dropout are those of its published code.
    """

    blocks: int = Field(3, ge=1, description="K of Eq. 1")
    width: int = Field(256, ge=4, multiple_of=4, description="D_img, half of the features")
    heads: int = Field(8, ge=1)
    feed_forward: int = Field(256, ge=1)
    dropout: float = Field(
        0.1, ge=0, lt=1, description="of the tokens, of attention and of what each layer gives"
    )
    drop_path: float = Field(
        0.25, ge=0, lt=1, description="share of the studies of which a block's change is left out"
    )
    time_encoding: bool = Field(
        True, description="tell the images apart by a learned T; false: Table 7's ablation"
    )
    decomposition: bool = Field(
        True,
        description="features are static ones beside the difference; false: the transformer's "
        "alone, which then runs on a single image too (Table 7's ablation)",
    )

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width is {self.width}; expected a multiple of heads {self.heads}")
        return self


class ImageEncoderSettings(Settings):
    """ResNet and its projection (BioViL Appendix E.2); the defaults are ResNet-50."""

    kind: Literal["resnet", "multi_image"] = Field(
        "resnet", description="module of the trunk, see trunk.py"
    )
    comparison: ComparisonSettings | None = Field(
        None, description="of kind multi_image, and of no other"
    )
    block: Literal["basic", "bottleneck"] = "bottleneck"
    layers: tuple[int, int, int, int] = (3, 4, 6, 3)
    width: int = Field(64, ge=4, description="channels of the stem and the first stage")
    channels: Literal[1, 3] = Field(3, description="3 repeats the grey image, as the released")
    normalisation: Literal["none", "imagenet", "half"] = Field(
        "none",
        description="of pixels in [0, 1], before the trunk: none (BioViL), imagenet: mean and "
        "deviation of its colours (three channels), half: both 0.5 (MGCA)",
    )
    dilate: tuple[bool, bool, bool] = Field(
        (False, False, False),
        description="replace the stride of stages 2 to 4 by dilation, for a finer grid",
    )
    stem_pool: bool = Field(True, description="3x3 max pooling after the stem, as published")
    projection: int = Field(128, ge=2, description="width of the joint space")
    projection_head: ProjectionHeadSettings = ProjectionHeadSettings()

    @model_validator(mode="after")
    def _colours_are_three(self) -> Self:
        if self.normalisation == "imagenet" and self.channels != 3:
            raise ValueError(f"normalisation imagenet needs channels 3, not {self.channels}")
        return self

    @model_validator(mode="before")
    @classmethod
    def _several_images_are_compared(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("kind") == "multi_image":
            return {"comparison": {}, **values}
        return values

    @model_validator(mode="after")
    def _one_image_is_not_compared(self) -> Self:
        if (self.comparison is None) != (self.kind == "resnet"):
            raise ValueError(f"kind is {self.kind}; expected comparison with multi_image only")
        return self

    @model_serializer(mode="wrap")
    def _only_its_own(self, dump: Callable[[Self], dict[str, Any]]) -> dict[str, Any]:
        values = dump(self)
        return {n: v for n, v in values.items() if n != "comparison" or v is not None}


class ReportDecoderSettings(Settings):
    """What a report decoder reads and writes (BioViL-T Appendix F.1); kept in its config.json.

    A sequence is [CLS], the prior report, [SEP], the report, [SEP]; the last is its end. BioViL-T
    gives [prior, [SEP], current] (section 3.3) and says nothing of first token, end and lengths.
    """

    sections: tuple[Literal["findings", "impression"], ...] = Field(
        ("findings", "impression"),
        min_length=1,
        description="of reports, prior ones too, in this order (Table 3 has both kinds)",
    )
    prior_image: bool = Field(True, description="by an encoder that compares (Table 7)")
    prior_report: bool = Field(True, description="before the report, as its prompt (Table 7)")
    separator: bool = Field(True, description="[SEP] between prior report and report (Table 7)")
    length: int = Field(512, ge=8, description="positions of the decoder")
    report_length: int = Field(
        256,
        ge=4,
        description="of them for the report with its end; a longer one is cut in training, and a "
        "prior report keeps its last tokens in what is left",
    )

    @model_validator(mode="after")
    def _both_have_room(self) -> Self:
        if len(set(self.sections)) < len(self.sections):
            raise ValueError(f"sections is {list(self.sections)}; expected each section once")
        if self.report_length > self.length - 4:
            raise ValueError(
                f"report_length is {self.report_length}, length {self.length}; expected at most "
                f"{self.length - 4}, so that [CLS], some of a prior report and [SEP] have room"
            )
        return self


class CaptioningSettings(Settings):
    """What every captioner writes."""

    sections: tuple[Literal["findings", "impression"], ...] = Field(
        ("findings", "impression"),
        min_length=1,
        description="of reports, in this order; ConVIRT does not say which are decoded",
    )
    report_length: int = Field(
        256, ge=4, description="tokens of a report with its end; a longer one is cut in training"
    )

    @property
    def report(self) -> ReportDecoderSettings:
        """The same of a report decoder that knows nothing but the image."""
        return ReportDecoderSettings(
            sections=self.sections,
            prior_image=False,
            prior_report=False,
            separator=False,
            length=self.report_length + 4,
            report_length=self.report_length,
        )


class LstmCaptioningSettings(CaptioningSettings):
    """Soft attention and an LSTM (Xu et al. 2015); sizes are those of published code."""

    kind: Literal["captioning_lstm"] = "captioning_lstm"
    width: int = Field(512, ge=1, description="of words, attention and LSTM")
    dropout: float = Field(0.5, ge=0, lt=1, description="of the LSTM's state, and before the words")


class TransformerCaptioningSettings(CaptioningSettings):
    """The meshed-memory transformer (Cornia et al. 2020, section 4.2)."""

    kind: Literal["captioning_transformer"] = "captioning_transformer"
    layers: int = Field(3, ge=1, description="of the encoder, and of the decoder")
    width: int = Field(512, ge=2, multiple_of=2)
    heads: int = Field(8, ge=1)
    feed_forward: int = Field(2048, ge=1)
    memory: int = Field(40, ge=0, description="slots of each of the encoder's layers")
    dropout: float = Field(0.1, ge=0, lt=1, description="after attention and feed-forward layer")

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width is {self.width}; expected a multiple of heads {self.heads}")
        return self


Captioning = Annotated[
    LstmCaptioningSettings | TransformerCaptioningSettings, Field(discriminator="kind")
]
