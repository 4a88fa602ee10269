"""Settings of phrase grounding: its protocol, the papers' figures, one image (BioViL 4.1, 4.3).

And of the measures of MedCutMix's pairs (Wang et al. 2026, section 2).
"""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from cxr_files.settings import Seed, Settings
from cxrflow.benchmarks.figures.settings import ColumnsFigureSettings, FigureSettings
from cxrflow.benchmarks.heads.settings import ProbeSettings
from cxrflow.benchmarks.settings import EncodingSettings, MapSettings, Section, Shares, SizeLimits
from cxrflow.data.cohorts.settings import Split
from cxrflow.images.settings import PixelSettings
from cxrflow.kinds import Reads
from cxrflow.names import Name
from cxrflow.pretrain.terms.cutmix_settings import CUTMIX_CLASSES


class PhraseGroundingSettings(MapSettings, EncodingSettings):
    """Phrase grounding on MS-CXR (BioViL sections 4.1 and 4.3; split null: all of MS-CXR)."""

    categories: list[str] = Field(
        default=[
            "Atelectasis",
            "Cardiomegaly",
            "Consolidation",
            "Lung Opacity",
            "Edema",
            "Pneumonia",
            "Pneumothorax",
            "Pleural Effusion",
        ],
        min_length=1,
        description="findings of the macro average, in the order of Table 5",
    )
    dilate: tuple[bool, bool, bool] = Field(
        default=(False, False, False),
        description="trunk stages 2 to 4 whose stride becomes dilation here, as in segmentation "
        "(section 2.2 names it for segmentation); all false: the grid as trained, and released "
        "code's",
    )
    smoothing_sigma: float | None = Field(
        default=None,
        gt=0,
        description="Gaussian on the grid, in cells; null: none (paper); released code: 1.5",
    )
    strip_punctuation: bool = Field(
        default=False,
        description="leave out . ! ? at a phrase's end, as released code does; false: as annotated",
    )
    rescale: Literal["auto", "none", "minmax"] = Field(
        default="auto",
        description="minmax: each map to [-1, 1]; auto: for models trained with a local loss, none "
        "for others (Appendix A.3)",
    )
    thresholds: list[float] = Field(
        default=[0.1, 0.2, 0.3, 0.4, 0.5],
        min_length=1,
        description="of mIoU, on the similarity (section 4.1)",
    )
    controls: bool = Field(
        default=True,
        description="score each sample with another finding's phrase, another patient's image, and "
        "left and right exchanged (not in the paper)",
    )
    size_limits: SizeLimits = Field(
        default=(0.05, 0.15),
        description="shares of the image between small, medium and large box unions, which are "
        "also scored apart (not in the paper)",
    )
    figures: int = Field(
        default=0,
        ge=0,
        description="example pictures to write; they show radiographs, as the papers' figures do, "
        "so 0 leaves those out too",
    )
    figure_phrases: bool = Field(
        default=False, description="print the phrase, which is report text, with each picture"
    )


class GroundingFigureSettings(ColumnsFigureSettings):
    """A figure of grounded phrases (BioViL Figures 3, A.1 and A.2).

    The papers choose their examples by hand; ours are chosen by the signed CNR of one model.
    """

    PROGRAM: ClassVar = "benchmarks.grounding.comparison"
    READS: ClassVar = ("pixels",)

    kind: Literal["grounding"] = "grounding"
    task: Name = Field(description="phrase grounding of one cohort")
    by: Name = Field(description="model whose signed CNR chooses the examples")
    rank: Literal["best", "median", "worst"]
    each_finding: bool = Field(description="one example a finding; false: over all findings")
    count: int = Field(ge=1, le=12, description="examples, at most")

    @model_validator(mode="after")
    def _chosen_by_a_column(self) -> "GroundingFigureSettings":
        models = [column.model for column in self.columns if column.model is not None]
        if self.by not in models or len(set(models)) < len(models):
            raise ValueError(f"by: '{self.by}' must be one of the columns' models, each once")
        return self

    @property
    def of_pictures(self) -> bool:
        return True

    def requires(self, results: Sequence[Any]) -> Sequence[Any]:
        return [(self.task, self.by)]

    def phrases(self, of_task: bool, allowed: bool) -> bool:
        return of_task


class PriorFigureSettings(FigureSettings):
    """A figure of phrases grounded with a prior image and without (ours; BioViL-T, Table 5)."""

    PROGRAM: ClassVar = "benchmarks.grounding.with_prior"
    READS: ClassVar = ("pixels",)
    SHOWS: ClassVar = frozenset({"images"})

    kind: Literal["priors"] = "priors"
    task: Name = Field(description="phrase grounding on images with their priors")
    alone: Name = Field(description="phrase grounding of the same phrases on the images alone")
    model: Name = Field(description="which sees a prior where there is one")
    count: int = Field(ge=1, le=12, description="examples, one a finding, at most")

    def results(self, tables: Any) -> list[tuple[str, str | None]]:
        """The (task, model) pairs it shows."""
        return [(self.task, self.model), (self.alone, self.model)]

    def requires(self, results: Sequence[Any]) -> Sequence[Any]:
        return results

    def phrases(self, of_task: bool, allowed: bool) -> bool:
        return allowed


class OneImageSettings(Settings):
    """Phrases grounded in one image file (BioViL section 4.3, Figure 3)."""

    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
    text_precision: Literal["auto", "bf16", "fp32"] = Field(
        default="auto",
        description="arithmetic of the text encoder, auto: bf16 on a GPU that multiplies it; "
        "the image is always encoded in fp32",
    )
    pixels: PixelSettings = Field(
        default=PixelSettings(),
        description="how grey values become 8 bits: as in the pixel store the model learnt from",
    )
    strip_punctuation: bool = Field(
        default=False, description="leave out . ! ? at a phrase's end, as released code does"
    )
    dilate: tuple[bool, bool, bool] = Field(
        default=(False, False, False),
        description="trunk stages 2 to 4 whose stride becomes dilation: a finer grid",
    )
    smoothing_sigma: float | None = Field(
        default=None,
        gt=0,
        description="Gaussian on the grid, in cells; null: none (paper); released code: 1.5",
    )
    upsample: Literal["nearest", "bilinear"] = Field(
        default="bilinear", description="from the grid to the pixels that are drawn"
    )


class MixedPairsSettings(EncodingSettings):
    """Pairs drawn and mixed as MedCutMix does it; what it does not say is in its settings."""

    split: Split | None = Field(
        default="train", description="images that are paired; the term pairs those of training"
    )
    sections: tuple[Section, ...] = Field(
        default=("impression", "findings"), min_length=1, description="of a report, in this order"
    )
    cleaned: bool = Field(
        default=True, description="sentences as MGCA's code cleans and cuts them; false: ours"
    )
    length: int = Field(
        default=112,
        ge=3,
        description="tokens of a text; sentences beyond are cut off, as MGCA does",
    )
    classes: tuple[str, ...] = Field(
        default=CUTMIX_CLASSES, min_length=1, description="of the cohort's labels"
    )
    pairs: int = Field(default=20, ge=1, description="of each class, at most")
    seed: Seed = Field(default=0, description="of the pairs")
    sentences: Annotated[
        Literal["name", "labeller"], Reads("labeller", "cxr_labels/rules/scope/*.yaml")
    ] = Field(
        default="name",
        description="diagnostic sentences: those with the class's name (Eq. 1), or, ours, those in "
        "which our labeller reads the finding as present",
    )
    first: bool = Field(default=False, description="the first of them alone; false: all")
    layers: int = Field(default=1, ge=1, description="last layers of BERT that are summed to words")
    region_temperature: float = Field(default=0.005, gt=0, description="tau_1 (section 3.1)")
    region: Literal["clip", "printed", "max", "mean"] = Field(
        default="clip", description="of the words' attention, as the term's"
    )


class SegmentationSettings(ProbeSettings, MapSettings):
    """Segmentation of pneumonia on RSNA, by prompts and by linear probes (BioViL section 4.5).

    Samples are images with boxes. The paper gives no optimiser of its probes.
    """

    unit: Literal["image", "box"] = Field(
        default="image",
        description="a sample; image: with the union of its boxes; box: each box by itself, the "
        "image's others outside it (the paper's 6634 + 2907 are near RSNA's 9555 boxes, not its "
        "6012 images with boxes)",
    )
    dilate: tuple[bool, bool, bool] = Field(
        default=(False, False, True),
        description="trunk stages 2 to 4 whose stride becomes dilation here, beside those trained "
        "so: a finer grid of the same weights (section 2.2; the last stage makes H/16 of a "
        "ResNet-50 trained at H/32); all false: as trained",
    )
    encoder_batch_size: int = Field(default=32, ge=1, description="images encoded at once; speed")
    map: Literal["softmax", "positive"] = Field(
        default="softmax",
        description="zero-shot; softmax: over the cosines with both prompts (section 2.2); "
        "positive: the cosine with the positive prompt",
    )
    scale: Literal["minmax", "affine"] = Field(
        default="minmax",
        description="to [0, 1] before the threshold; minmax: each map by its own least and "
        "greatest value; affine: by the least and greatest that a score can have, which leaves "
        "the probes' probabilities as they are. CNR does not depend on it",
    )
    threshold: float = Field(default=0.6, ge=0, lt=1, description="IoU and Dice: above (4.5)")
    size_limits: SizeLimits = Field(
        default=(0.08, 0.16),
        description="boxes' share of the image from which a sample is medium, and large",
    )
    fractions: Shares = Field(
        default=[0.05, 1.0], description="shares of the training images (Table 7)"
    )
