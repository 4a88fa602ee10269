"""Settings of the image part: how pixels are stored, how training views are drawn.

The numbers are those of BioViL Table E.1; where the table can be read in two ways, see
docs/pixels.md.
"""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Before, Seed, Settings


class PixelSettings(Settings):
    """How the pixel store is made; the geometry is given beside them."""

    min_side: int = Field(
        default=16, ge=2, description="Images with a shorter side below this count as failed."
    )
    max_image_mib: int = Field(
        default=128,
        ge=1,
        le=4096,
        description="A larger image, decoded, counts as failed; a chest radiograph has up to 40.",
    )
    max_seconds: float = Field(
        default=60.0,
        gt=0,
        description="Of processor time; an image that takes more counts as failed.",
    )
    upright: Annotated[bool, Before(False)] = Field(
        default=False,
        description="Turn a PNG or JPEG by its EXIF orientation, as a phone's picture needs. Not "
        "where boxes are in pixels of the file as stored.",
    )
    images_per_shard: int = Field(
        default=512, ge=1, description="Rows of a shard file: what an interrupted build can lose."
    )
    max_failed_share: float = Field(
        default=0.01, ge=0, le=1, description="The build stops when more than this share failed."
    )
    max_shared_share: Annotated[float, Before(0.05)] = Field(
        default=0.05,
        ge=0,
        le=1,
        description="The build stops when more than this share of the images have an equal one of "
        "another patient in another part of the split; fewer are counted.",
    )


class RegistrationSettings(Settings):
    """How a prior image is registered to the current one (BioViL-T, Appendix F.7).

    What the paper states: four degrees of freedom, 128 bins, five starts, both directions, several
    scales, a bilateral filter. The rest is ours.
    """

    bins: int = Field(default=128, ge=8, description="Of the mutual information (F.7).")
    starts: int = Field(
        default=5, ge=1, description="Random starts, each in both directions (F.7)."
    )
    seed: Seed = Field(default=0, description="Of the starts, which are those of every pair.")
    start_rotation: float = Field(default=10.0, ge=0, description="Starts: within ± degrees.")
    start_scale: float = Field(default=0.1, ge=0, lt=1, description="Starts: within 1 ± this.")
    start_shift: float = Field(
        default=0.1, ge=0, lt=1, description="Starts: within ± this share of the side, each axis."
    )
    domain_sigma: float = Field(
        default=4.0, gt=0, description="Bilateral filter, in pixels; SimpleITK's default."
    )
    range_sigma: float = Field(
        default=50.0, gt=0, description="Bilateral filter, in grey levels; SimpleITK's default."
    )
    shrink_factors: tuple[int, ...] = Field(
        default=(4, 2, 1), description="Scales, the coarsest first; the last is 1."
    )
    least_side: int = Field(
        default=64, ge=16, description="Scales at which a side has fewer pixels are left out."
    )
    candidates: int = Field(
        default=2, ge=1, description="Ends of the coarsest scale that the next one goes on with."
    )
    first_step: float = Field(
        default=2.0, gt=0, description="At the coarsest scale, in its pixels."
    )
    next_step: float = Field(
        default=0.5, gt=0, description="At finer scales, which start near their end; likewise."
    )
    last_step: float = Field(
        default=0.05, gt=0, description="A step that was halved below this is the last."
    )
    iterations: int = Field(default=40, ge=1, description="Steps of one run on one scale, at most.")
    pairs_per_shard: int = Field(
        default=256, ge=1, description="What an interrupted run of the program can lose."
    )

    @model_validator(mode="after")
    def _scales_become_finer(self) -> Self:
        factors = self.shrink_factors
        if list(factors) != sorted(set(factors), reverse=True) or not factors or factors[-1] != 1:
            raise ValueError(f"shrink_factors must fall to 1, not {list(factors)}")
        return self

    def levels(self, size: int) -> list[int]:
        """The shrink factors for an image of ``size`` pixels a side."""
        return [f for f in self.shrink_factors if f == 1 or size // f >= self.least_side]

    def level_bins(self, size: tuple[int, ...], factor: int) -> int:
        """The bins of a scale: at the coarse ones at most half a side, or cells are empty."""
        return self.bins if factor == 1 else min(self.bins, min(size) // 2)


_INTERVALS = (
    *("crop_scale", "occlusion_scale", "crop_ratio", "occlusion_ratio"),
    *("scaling", "blur_sigma"),
)


class SecondCropSettings(Settings):
    """A further view of an image: a random crop of its first one, of the same aspect (low-data
    study, Appendix B.1: "a 50% random crop of the already-augmented original image")."""

    share: float = Field(default=0.5, gt=0, le=1, description="What the crop keeps.")
    of: Literal["area", "side"] = Field(
        default="area",
        description="What it is a share of: the view's area or each of its sides; not stated.",
    )

    @property
    def side(self) -> float:
        """The crop's share of each side."""
        return self.share if self.of == "side" else math.sqrt(self.share)


class AugmentationSettings(Settings):
    """Random changes of a training view. The defaults are Table E.1's image–text column."""

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
    second_crop: SecondCropSettings | None = Field(
        default=None,
        description="Views after an image's first are random crops of that one, at its size "
        "(DeCLIP in the low-data study); null: each view is augmented for itself.",
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
