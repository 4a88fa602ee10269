"""Settings of MedCutMix (Wang et al. 2026)."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from cxrflow.encoders.settings import ImageEncoderSettings
from cxrflow.kinds import Reads
from cxrflow.pretrain.terms.base_settings import Needs, TermSettings

CUTMIX_CLASSES = (
    *("Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Lesion", "Lung Opacity", "Edema"),
    *("Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices"),
)


class CutmixSettings(TermSettings):
    """MedCutMix (Wang et al. 2026); what it does not state is ours or MGCA's, and said so."""

    title = "MedCutMix"
    validates = False

    pairs: int = Field(
        40,
        ge=0,
        description="N_max: as many augmented pairs at most, floor(N_max / classes) of each class",
    )
    per: Literal["batch", "epoch"] = Field(
        "batch", description="what has so many pairs: each batch, or one of each epoch; not stated"
    )
    classes: tuple[str, ...] = Field(
        CUTMIX_CLASSES,
        min_length=1,
        description="of the cohort's labels; ours: CheXpert's 14 without No Finding, as N_max 40 "
        "and 50 give the same scores in Table 1",
    )
    warmup_epochs: int = Field(5, ge=0, description="first epochs, without the term (section 3.1)")
    sentences: Annotated[
        Literal["name", "labeller"], Reads("labeller", "cxr_labels/rules/scope/*.yaml")
    ] = Field(
        "name",
        description="diagnostic sentences: those with the class's name (Eq. 1), or, ours, those in "
        "which our labeller reads the finding as present",
    )
    first: bool = Field(False, description="the first diagnostic sentence alone; false: all")
    layers: int = Field(
        1, ge=1, description="last layers of BERT whose states are summed to words; MGCA: 1"
    )
    region_temperature: float = Field(0.005, gt=0, description="tau_1 (section 3.1)")
    region: Literal["clip", "printed", "max", "mean"] = Field(
        "clip",
        description="of the words' attention: their sum, cut at 1 (ours) or as printed, which may "
        "exceed 1; divided by its largest value; or the mean",
    )
    layer: int = Field(
        11,
        ge=0,
        description="k, the block of a transformer or stage of a ResNet after which images are "
        "mixed (section 3.1)",
    )
    first_layer: Literal[0, 1] = Field(
        1,
        description="number of the first layer. 1, since Eq. 4 goes on from layer k + 1. With 0, "
        "as in MGCA's code, k = 11 is the last of 12 blocks: what [CLS] gives is the target's",
    )
    cls: Literal["target", "source", "mixed", "patches"] = Field(
        "target",
        description="[CLS] of a transformer, which Eq. 4 does not cover: the target's, the "
        "source's, mixed by the mean of the region; or the mean of the patches in its place",
    )
    temperature: float = Field(0.07, gt=0, description="tau_2, not stated: MGCA's")
    control: (
        Literal[
            "unmixed",
            "text_alone",
            "image_alone",
            "other_region",
            "shuffled_region",
            "other_class",
            "true_boxes",
        ]
        | None
    ) = Field(
        None,
        description="controls of ours: the targets as they are; sentences pasted and images left; "
        "images mixed and texts left; the region of another pair; regions whose patches are "
        "shuffled; the sentence of a pair of another class; the finding's true boxes, which the "
        "synthetic hospital alone knows, as the region",
    )

    @model_validator(mode="after")
    def _a_layer_is_counted(self) -> Self:
        if self.layer < self.first_layer:
            raise ValueError(f"layer is {self.layer}; expected at least first_layer, 1")
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"classes is {list(self.classes)}; expected each once")
        if self.control == "other_class" and len(self.classes) < 2:
            raise ValueError(
                f"control is other_class, but classes is {list(self.classes)}; expected several"
            )
        return self

    @property
    def count(self) -> int:
        """The augmented pairs of each class at most."""
        return self.pairs // len(self.classes)

    @property
    def own_effect(self) -> dict[str, Any]:
        return {"pairs": self.count}

    @property
    def stage(self) -> int:
        """The number of the layer that images are mixed after, counted from 1."""
        return self.layer - self.first_layer + 1

    def check_trunk(self, encoder: ImageEncoderSettings, depth: int | None) -> None:
        """Raise ValueError if images cannot be mixed in such a trunk of ``depth`` stages.

        ``depth``: None where it is not known before the trunk is made.
        """
        kind = encoder.kind
        if encoder.takes_prior:
            raise ValueError(
                f"terms.cutmix with encoder.kind {kind}, which compares an image with a prior one; "
                "expected one of single images"
            )
        if depth is not None and self.stage > depth:
            raise ValueError(
                f"terms.cutmix.layer is {self.layer}, counted from {self.first_layer}; expected a "
                f"layer of a trunk of {depth} layers (encoder.kind is {kind})"
            )
        if self.cls != "target" and encoder.has_cls is False:
            raise self.without_cls()

    def place(self, name: str) -> tuple[str, str]:
        return super().place(name) if self.control is None else ("cutmix_controls", self.control)

    @property
    def needs(self) -> Needs:
        """Nothing in its warm-up, and where there are few pairs."""
        return Needs(
            images=1,
            texts=("intact",),
            layers=self.layers,
            stage=self.stage,
            parts=frozenset({"whole", "pooled"}),
            labels=True,
            true_boxes=self.control == "true_boxes",
            sometimes=True,
        )

    @property
    def reads_regions(self) -> bool:
        """It mixes by the regions that words attend to."""
        return self.control not in ("unmixed", "text_alone", "true_boxes")

    def without_cls(self) -> ValueError:
        """What is wrong if the trunk has no [CLS]."""
        return ValueError(
            f"terms.cutmix.cls is {self.cls}, but the trunk has no [CLS]; expected target"
        )
