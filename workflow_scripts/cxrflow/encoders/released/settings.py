"""How published weights become a model folder of ours."""

from typing import Literal

from pydantic import Field

from cxrflow.encoders.settings import BiovilHeadSettings, ProjectionHeadKind
from cxrflow.settings import Settings

Kind = Literal["cxr_bert", "bert", "biovil_image", "biovil", "biovil_t", "imagenet_resnet"]

# The program whose models a kind stands for: what such a model can do.
PROGRAMS: dict[Kind, str] = {
    "cxr_bert": "text",
    "bert": "text",
    "biovil_image": "image",
    "imagenet_resnet": "image",
    "biovil": "joint",
    "biovil_t": "temporal",
}

# The halves of a model that a kind is.
PARTS: dict[Kind, tuple[str, ...]] = {
    "cxr_bert": ("text",),
    "bert": ("text",),
    "biovil_image": ("image",),
    "imagenet_resnet": ("image",),
    "biovil": ("text", "image"),
    "biovil_t": ("text", "image"),
}

# The module of an image half's trunk.
TRUNKS: dict[Kind, str] = {
    "biovil_image": "resnet",
    "imagenet_resnet": "resnet",
    "biovil": "resnet",
    "biovil_t": "multi_image",
}

# Released: shorter side 512, of which inference code takes the central 480, BioViL-T's 448.
GEOMETRIES: dict[Kind, str] = {
    "biovil_image": "shorter512crop480",
    "biovil": "shorter512crop480",
    "biovil_t": "shorter512crop448",
}

TEXT_WEIGHTS = ("model.safetensors", "pytorch_model.bin")  # the first that is there is read
# The image file of a kind, where a folder is named.
IMAGE_FILES: dict[Kind, str] = {
    "biovil_image": "biovil_image*.pt",
    "biovil": "biovil_image*.pt",
    "biovil_t": "biovil_t_image*.pt",
    "imagenet_resnet": "resnet*.pth",
}


class ImportSettings(Settings):
    """Choices that the files themselves leave open."""

    geometry: str | None = Field(
        None,
        description="pixel geometry the image half is used with; null: shorter512crop480 for "
        "BioViL's, which is what its published inference code takes (the paper says 512), "
        "shorter512crop448 for BioViL-T's, and for ImageNet's the run's own",
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
