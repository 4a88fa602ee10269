"""Settings of the image part: how pixels are stored, how training views are drawn.

The numbers are those of BioViL Table E.1; where the table can be read in two ways, see
docs/pixels.md.
"""

from typing import Self

from pydantic import Field, model_validator

from cxrflow.command import Settings


class PixelSettings(Settings):
    """How the pixel store is made; the geometry is given beside them."""

    min_side: int = Field(
        default=16, ge=2, description="Images with a shorter side below this count as failed."
    )
    images_per_shard: int = Field(
        default=512, ge=1, description="Rows of a shard file: what an interrupted build can lose."
    )
    max_failed_share: float = Field(
        default=0.01, ge=0, le=1, description="The build stops when more than this share failed."
    )


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
        default=(0.33, 3.0), description="Height over width of the occlusion (public settings)."
    )
    occlusion_probability: float = Field(
        default=0.5, ge=0, le=1, description="Not in the paper; torchvision's default."
    )
    elastic_probability: float = Field(default=0.0, ge=0, le=1, description="Elastic warp.")
    elastic_sigma: float = Field(
        default=4.0, gt=0, description="Width of the smoothing, in pixels of the image."
    )
    elastic_alpha: float = Field(
        default=34.0,
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
