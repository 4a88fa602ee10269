"""How published weights become a model folder of ours."""

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from cxr_files.settings import Settings
from cxrflow.encoders.settings import BiovilHeadSettings, ProjectionHeadKind
from cxrflow.kinds import is_outside, outside_class

OUTSIDE: Final = "cxrflow.encoders.released.outside:PublishedTrunk"
WHOLE = ("model.safetensors", "pytorch_model.bin")
# The first that is there is read; an index stands for a model in several files.
TEXT_WEIGHTS = (*WHOLE, *(f"{name}.index.json" for name in WHOLE))


@dataclass(frozen=True)
class Publication:
    """How weights of a kind are published.

    ``encoders``: of a model. Of an image encoder ``trunk`` is the kind of its trunk, ``file`` its
    file where a folder is named, ``geometry`` what released inference code takes: BioViL's shorter
    side 512, of which the central 480, BioViL-T's the central 448. ``vocabulary``: the file of byte
    pairs beside an ``image`` file that holds the text encoder as well.
    """

    encoders: tuple[str, ...]
    trunk: str | None = None
    file: str = ""
    geometry: str | None = None
    vocabulary: str | None = None


PUBLISHED = {
    "cxr_bert": Publication(("text",)),
    "bert": Publication(("text",)),
    "biovil_image": Publication(("image",), "resnet", "biovil_image*.pt", "shorter512crop480"),
    "biovil": Publication(("text", "image"), "resnet", "biovil_image*.pt", "shorter512crop480"),
    "biovil_t": Publication(
        ("text", "image"), "multi_image", "biovil_t_image*.pt", "shorter512crop448"
    ),
    "imagenet_resnet": Publication(("image",), "resnet", "resnet*.pth"),
    "deit": Publication(("image",), "vit", "deit_*.pth"),
    "vit": Publication(("text", "image"), "vit", "vit_image*.pth"),  # exports of ours
    "clip": Publication(
        ("text", "image"),
        "clip_resnet",
        "clip_resnet*",
        vocabulary="bpe_simple_vocab_16e6.txt.gz",
    ),
}


def publication(kind: str) -> Publication:
    """How weights of a kind are published; of ``module:Class`` its encoder outside says it.

    Raises:
        ValueError: there is no such kind or class.
    """
    if is_outside(kind):
        trunk = outside_class(kind, OUTSIDE)
        encoders = ("image",) if trunk.vocabulary is None else ("text", "image")
        return Publication(encoders, kind, trunk.file, trunk.geometry, trunk.vocabulary)
    if kind not in PUBLISHED:
        raise ValueError(f"is {kind!r}; expected module:Class or one of {', '.join(PUBLISHED)}")
    return PUBLISHED[kind]


def _known(kind: str) -> str:
    publication(kind)
    return kind


#: A kind of published weights, or ``module:Class`` of an encoder outside of the package.
Kind = Annotated[str, AfterValidator(_known)]


class ImportSettings(Settings):
    """Choices that the files themselves leave open."""

    geometry: str | None = Field(
        None,
        description="pixel geometry the image encoder is used with; null: shorter512crop480 for "
        "BioViL's, which is what its published inference code takes (the paper says 512), "
        "shorter512crop448 for BioViL-T's, and for ImageNet's and DeiT's the run's own",
    )
    projection: int = Field(
        128, ge=2, description="width of a projection to the joint space that the files lack"
    )
    projection_head: ProjectionHeadKind = Field(
        BiovilHeadSettings(), description="of a text encoder whose files lack a projection"
    )
    new_token_head: bool = Field(
        False,
        description="take a BERT without its head for masked tokens and start a new one; it "
        "predicts nothing before it is trained",
    )
