"""Settings of the image part: how pixels are stored, how training views are drawn.

The numbers are those of BioViL Table E.1. Where the table can be read in two ways, both readings
are named here (:data:`ELASTIC_READINGS`, :data:`OCCLUSION_RATIO_READINGS`).
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from cxrflow.command import Settings

Intensity = Literal["minmax", "percentile", "mimic_jpg"]

#: Table E.1 prints "Elastic transform (σ, α) = (4, 34)". As labelled, σ = 4 and α = 34: the values
#: of Simard et al. [68], which the label cites. torchvision's own function takes (α, σ), so the
#: same pair handed to it in the printed order means the opposite. Values are (sigma, alpha).
ELASTIC_READINGS: dict[str, tuple[float, float]] = {
    "sigma_4_alpha_34": (4.0, 34.0),
    "sigma_34_alpha_4": (34.0, 4.0),
}

#: Table E.1 prints the occlusion ratio as (0.33, 0.3), an interval whose ends are swapped. The
#: authors' public SimCLR settings have (0.33, 3), torchvision's default is (0.3, 3.3).
OCCLUSION_RATIO_READINGS: dict[str, tuple[float, float]] = {
    "one_third_to_three": (0.33, 3.0),
    "as_printed": (0.3, 0.33),
}


class PixelSettings(Settings):
    """How the pixel store is made; the geometry is given beside them."""

    intensity: Intensity = Field(
        default="minmax",
        description="How grey values become 8 bits, per image. minmax: smallest value to 0, largest"
        " to 255 (the authors' public code). percentile: the same between two percentiles."
        " mimic_jpg: minmax, then histogram equalisation, as MIMIC-CXR-JPG was made;"
        " for DICOM input that shall look like that edition.",
    )
    percentiles: tuple[float, float] = Field(
        default=(1.0, 99.0), description="Ends of the stretch when intensity is percentile."
    )
    min_side: int = Field(
        default=16, ge=2, description="Images with a shorter side below this count as failed."
    )
    images_per_shard: int = Field(
        default=512, ge=1, description="Rows of a shard file: what an interrupted build can lose."
    )
    max_failed_share: float = Field(
        default=0.01, ge=0, le=1, description="The build stops when more than this share failed."
    )

    @model_validator(mode="after")
    def _percentiles_are_an_interval(self) -> Self:
        low, high = self.percentiles
        if not 0 <= low < high <= 100:
            raise ValueError("percentiles must be two numbers 0 <= low < high <= 100")
        return self


_INTERVALS = (
    *("crop_scale", "occlusion_scale", "crop_ratio", "occlusion_ratio"),
    *("scaling", "blur_sigma"),
)


class AugmentationSettings(Settings):
    """What a training view may look like. The defaults are Table E.1's image–text column."""

    angle: float = Field(default=30.0, ge=0, le=180, description="Rotation within ± degrees.")
    shear: float = Field(default=15.0, ge=0, lt=90, description="Shear along x, ± degrees.")
    brightness: float = Field(default=0.2, ge=0, description="Factor within 1 ± this.")
    contrast: float = Field(default=0.2, ge=0, description="Factor within 1 ± this.")
    flip_probability: float = Field(
        default=0.0, ge=0, le=1, description="Horizontal flip; 0 keeps left and right."
    )
    translation: float = Field(
        default=0.0, ge=0, lt=1, description="Shift within ± this share of each side."
    )
    scaling: tuple[float, float] | None = Field(
        default=None, description="Factor of the image's size, about its centre; null: none."
    )
    size: int | None = Field(
        default=None,
        ge=8,
        description="Side of a view; null: that of the stored image. Without crop_scale a window of"
        " this side at a random place (validation: the central one), else what a crop is resized to"
        " (validation: the whole image).",
    )
    crop_scale: tuple[float, float] | None = Field(
        default=None, description="Share of the area a random resized crop keeps; null: no crop."
    )
    crop_ratio: tuple[float, float] = Field(
        default=(3 / 4, 4 / 3), description="Width over height of the crop (torchvision's default)."
    )
    occlusion_scale: tuple[float, float] | None = Field(
        default=None, description="Share of the area that is blacked out; null: no occlusion."
    )
    occlusion_ratio: tuple[float, float] = Field(
        default=OCCLUSION_RATIO_READINGS["one_third_to_three"],
        description="Height over width of the occlusion; see OCCLUSION_RATIO_READINGS.",
    )
    occlusion_probability: float = Field(
        default=0.5, ge=0, le=1, description="Not in the paper; torchvision's default."
    )
    elastic_probability: float = Field(default=0.0, ge=0, le=1, description="Elastic warp.")
    elastic_sigma: float = Field(
        default=ELASTIC_READINGS["sigma_4_alpha_34"][0],
        gt=0,
        description="Width of the smoothing, in pixels of the image; see ELASTIC_READINGS.",
    )
    elastic_alpha: float = Field(
        default=ELASTIC_READINGS["sigma_4_alpha_34"][1],
        ge=0,
        description="What the smoothed noise of [-1, 1] is multiplied with, in pixels.",
    )
    blur_sigma: tuple[float, float] | None = Field(
        default=None, description="Width of a Gaussian blur in pixels of the view; null: none."
    )
    blur_probability: float = Field(default=1.0, ge=0, le=1, description="Of the blur.")
    noise: float = Field(
        default=0.0, ge=0, description="Standard deviation of Gaussian noise; the image is [0, 1]."
    )
    noise_probability: float = Field(
        default=0.5, ge=0, le=1, description="Not in the paper; the authors' public settings."
    )

    @model_validator(mode="after")
    def _intervals_are_ordered(self) -> Self:
        for name in _INTERVALS:
            interval = getattr(self, name)
            if interval is not None and not 0 < interval[0] <= interval[1]:
                raise ValueError(f"{name} must be two numbers 0 < low <= high, not {interval}")
        for name in ("crop_scale", "occlusion_scale"):
            interval = getattr(self, name)
            if interval is not None and interval[1] > 1:
                raise ValueError(f"{name} is a share of the area, at most 1, not {interval}")
        return self

    @classmethod
    def joint(cls) -> Self:
        """Table E.1, column Image-Text Pretraining: no flip, so that left stays left."""
        return cls()

    @classmethod
    def image_only(cls) -> Self:
        """Table E.1, column Image-only Pretraining (SimCLR)."""
        return cls(
            angle=180.0,
            shear=40.0,
            flip_probability=0.5,
            crop_scale=(0.75, 1.0),
            occlusion_scale=(0.15, 0.4),
            elastic_probability=0.4,
            noise=0.05,
        )

    @classmethod
    def fine_tuning(cls) -> Self:
        """Table E.1, column Fine-tuning for Downstream Tasks."""
        return cls(angle=45.0, shear=25.0, flip_probability=0.5)

    @classmethod
    def none(cls) -> Self:
        """No augmentation: a view is the stored image."""
        return cls(angle=0.0, shear=0.0, brightness=0.0, contrast=0.0)
