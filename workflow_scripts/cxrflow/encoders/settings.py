"""Sizes of the encoders. The defaults are the papers'; a scale makes them smaller."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from cxr_files.settings import Settings
from cxrflow.kinds import Kind, OneKind


def equal_heads(width: str = "width", heads: str = "heads") -> Any:
    """A validator: attention splits ``width`` into as many equal parts as there are ``heads``."""

    def share(settings: Settings) -> Settings:
        size, divisor = getattr(settings, width), getattr(settings, heads)
        if size % divisor:
            raise ValueError(f"{width} is {size}; expected a multiple of {heads} {divisor}")
        return settings

    return model_validator(mode="after")(share)


def _each_once(sections: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(sections)) < len(sections):
        raise ValueError(f"is {list(sections)}; expected each section once")
    return sections


# Sections of a report, in the order in which they are read.
Sections = Annotated[
    tuple[Literal["findings", "impression"], ...], Field(min_length=1), AfterValidator(_each_once)
]

# How the states of a text become the one that is projected; kept in the text encoder's config.json.
TextPooling = Literal["cls", "max", "mean"]


class ProjectionHeadSettings(Kind):
    """How features come to the joint space; kept in the config.json of image and text encoder."""

    room = "encoders.heads"


class BiovilHeadSettings(ProjectionHeadSettings):
    """BioViL's: a perceptron with batch normalisation on patches, layer normalisation on text."""

    kind: Literal["biovil"] = "biovil"


class MlpHeadSettings(ProjectionHeadSettings):
    """Linear, ReLU, linear, after pooling (ConVIRT section 2.2)."""

    kind: Literal["mlp"] = "mlp"
    hidden: int | None = Field(None, ge=1, description="width inside; null: that of the input")


class LinearHeadSettings(ProjectionHeadSettings):
    """One linear layer after pooling (ConVIRT section 4.4)."""

    kind: Literal["linear"] = "linear"


class MgcaHeadSettings(ProjectionHeadSettings):
    """Linear, BN, ReLU, linear, BN, of the whole and another of patches and words (MGCA)."""

    kind: Literal["mgca"] = "mgca"
    hidden: int = Field(2048, ge=1, description="width inside, of MGCA's published code")
    padded_words: int | None = Field(
        None,
        ge=1,
        description="words that a text is padded to before the projection of words. Padding then "
        "counts in batch statistics and in token_alignment; null: it is left out (ours). MGCA's "
        "code: 111, the tokens of a text but [CLS]",
    )


class ClipHeadSettings(ProjectionHeadSettings):
    """CLIP's: nothing after the attention pooling of images, one matrix of the text's state."""

    kind: Literal["clip"] = "clip"


ProjectionHeadKind = Annotated[
    BiovilHeadSettings | MlpHeadSettings | LinearHeadSettings | MgcaHeadSettings | ClipHeadSettings,
    OneKind("biovil"),
]


class TextEncoderSettings(Settings):
    """CXR-BERT: BERT base (BioViL Appendix E.1) with a projection to the joint space."""

    layers: int = Field(12, ge=1)
    width: int = Field(768, ge=8)
    heads: int = Field(12, ge=1)
    feed_forward: int = Field(3072, ge=8)
    positions: int = Field(512, ge=8, description="longest sequence in tokens")
    projection: int = Field(128, ge=2, description="width of the joint space")
    projection_head: ProjectionHeadKind = BiovilHeadSettings()


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

    _heads = equal_heads()


class ImageEncoderSettings(Kind):
    """The settings that image encoders of every kind have."""

    room = "encoders"
    outside: ClassVar[bool] = True
    base = "cxrflow.encoders.image_encoder:ImageTrunk"
    takes_prior: ClassVar[bool] = False  # True: compares an image with the one before it
    has_cls: ClassVar[bool | None] = None  # True: the features begin with [CLS]; None: not said
    weightless: ClassVar[tuple[str, ...]] = ("projection", "projection_head", "normalisation")

    channels: Literal[1, 3] = Field(3, description="3 repeats the grey image, as the released")
    normalisation: Literal["none", "imagenet", "half"] = Field(
        "none",
        description="of pixels in [0, 1], before the trunk: none (BioViL), imagenet: mean and "
        "deviation of its colours (three channels), half: both 0.5 (MGCA)",
    )
    projection: int = Field(128, ge=2, description="width of the joint space")
    projection_head: ProjectionHeadKind = BiovilHeadSettings()

    @model_validator(mode="after")
    def _colours_are_three(self) -> Self:
        if self.normalisation not in ("none", "half") and self.channels != 3:
            raise ValueError(
                f"normalisation {self.normalisation} needs channels 3, not {self.channels}"
            )
        return self

    @property
    def single(self) -> "ImageEncoderSettings":
        """The settings of the part that sees one image at a time."""
        return self

    @property
    def depth(self) -> int | None:
        """Stages of the trunk; None: the trunk alone knows."""
        return None


class ConvolutionalSettings(ImageEncoderSettings):
    """Sizes of a ResNet (BioViL Appendix E.2); the defaults are ResNet-50."""

    weightless = (*ImageEncoderSettings.weightless, "dilate")
    has_cls = False

    block: Literal["basic", "bottleneck"] = "bottleneck"
    layers: tuple[int, int, int, int] = (3, 4, 6, 3)
    # With fewer than 8 oneDNN 3.12 writes beyond the gradient of a 1 x 1 convolution of stride 2 on
    # CPUs with AVX2 and no AVX-512: wrong gradients, or the process dies.
    width: int = Field(64, ge=8, description="channels of the stem and the first stage")
    dilate: tuple[bool, bool, bool] = Field(
        (False, False, False),
        description="replace the stride of stages 2 to 4 by dilation, for a finer grid",
    )
    stem_pool: bool = Field(True, description="3x3 max pooling after the stem, as published")

    @property
    def depth(self) -> int:
        return len(self.layers)


class ResNetSettings(ConvolutionalSettings):
    """A ResNet, of single images."""

    kind: Literal["resnet"] = "resnet"


class MultiImageSettings(ConvolutionalSettings):
    """A ResNet, and a transformer that compares its features of two images (BioViL-T)."""

    takes_prior = True

    kind: Literal["multi_image"] = "multi_image"
    comparison: ComparisonSettings = ComparisonSettings()

    @property
    def single(self) -> ResNetSettings:
        return ResNetSettings(**self.model_dump(exclude={"kind", "comparison"}))


class VitSettings(ImageEncoderSettings):
    """A vision transformer with [CLS]; the defaults are ViT-B/16 at 224 x 224 (MedCutMix 3.1)."""

    has_cls = True

    kind: Literal["vit"] = "vit"
    blocks: int = Field(12, ge=1)
    width: int = Field(768, ge=1)
    heads: int = Field(12, ge=1)
    patch: int = Field(16, ge=1, description="pixels of a patch's side")
    grid: int = Field(14, ge=1, description="patches of an image's side, which have positions")

    @property
    def depth(self) -> int:
        return self.blocks

    _heads = equal_heads()


class ClipResNetSettings(ImageEncoderSettings):
    """CLIP's modified ResNet (Radford et al. 2021, section 2.4); the defaults are its ResNet-50."""

    has_cls = False

    kind: Literal["clip_resnet"] = "clip_resnet"
    layers: tuple[int, int, int, int] = (3, 4, 6, 3)
    width: int = Field(64, ge=2, multiple_of=2, description="channels of stem and first stage")
    grid: int = Field(
        7, ge=1, description="cells of a side that have positions; of another grid they are resized"
    )
    outputs: int = Field(1024, ge=1, description="width of the attention pooling's result")
    normalisation: Literal["none", "imagenet", "half", "clip"] = Field(  # type: ignore[assignment]
        "clip", description="of pixels in [0, 1]; clip: mean and deviation of CLIP's own pictures"
    )
    projection: int = Field(1024, ge=2, description="width of the joint space")
    projection_head: ProjectionHeadKind = ClipHeadSettings()

    @property
    def depth(self) -> int:
        return len(self.layers)


ImageEncoderKind = Annotated[
    ResNetSettings | MultiImageSettings | VitSettings | ClipResNetSettings, OneKind("resnet")
]


class ReportDecoderSettings(Settings):
    """The texts that a report decoder reads and writes (BioViL-T Appendix F.1), in its config.json.

    A sequence is [CLS], the prior report, [SEP], the report, [SEP]; the last is its end. BioViL-T
    gives [prior, [SEP], current] (section 3.3) and says nothing of first token, end and lengths.
    """

    sections: Sections = Field(
        ("findings", "impression"),
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
        if self.report_length > self.length - 4:
            raise ValueError(
                f"report_length is {self.report_length}, length {self.length}; expected at most "
                f"{self.length - 4}, so that [CLS], some of a prior report and [SEP] have room"
            )
        return self


class CaptioningSettings(Kind):
    """The reports that captioners of every kind write."""

    room = "encoders"
    outside: ClassVar[bool] = True
    base: ClassVar[str] = "cxrflow.encoders.captioning:Captioner"

    sections: Sections = Field(
        ("findings", "impression"),
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

    _heads = equal_heads()


Captioning = Annotated[LstmCaptioningSettings | TransformerCaptioningSettings, OneKind()]
