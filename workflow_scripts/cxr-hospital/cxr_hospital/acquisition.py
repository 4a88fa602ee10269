"""Acquisition of an image: view, pose, exposure, detector, storage. Never a function of findings.

Everything is drawn from a random stream of its own, so that view, exposure, marker or storage say
nothing about the findings. Two looks exist: that of the MIMIC-CXR copy and, shifted in gamma,
noise, sharpness and collimation, that of the RSNA copy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxr_hospital.settings import HospitalSettings

FRONTAL_VIEWS = ("AP", "PA")
SPOILT = ("clipped", "blurred", "overexposed", "rotated")
#: All reasons to reject one of several images of a study (BioViL-T, Figure A.7).
REJECTED = (
    *SPOILT,
    *("noisy", "inverted", "mirrored", "edge-enhanced", "foreign object"),
    *("lateral view", "other part"),
)
MARKER_HEIGHTS = ("upper", "middle")
_COMPRESSED = ("rle", "jpeg_lossless", "jpeg2000")


@dataclass(frozen=True)
class Acquisition:
    """One image.

    ``view`` is the header's entry (AP, PA, LATERAL, LL or empty), ``projection`` the true one (AP,
    PA or LATERAL). ``aspect``: height over width. Pose, in units of half the shorter side:
    ``shift_x``, ``shift_y``, ``scale`` (1 fills the image), ``rotation`` in degrees.
    ``inspiration`` in [0, 1]: 1 is a deep breath, low domes. Tone: ``exposure`` (added),
    ``contrast`` (times), ``gamma``, ``noise`` (standard deviation), ``blur`` (share of the shorter
    side), ``grid`` (amplitude of grid lines), ``collimation`` (share of each edge left black).
    ``marker``: the burnt-in letter (L stands at the patient's left, R at the right) or empty, at
    ``marker_height``. ``seed`` feeds the noise. Pose and tone include the defect of a spoilt image.
    """

    image_id: str
    view: str
    projection: str
    aspect: float
    shift_x: float
    shift_y: float
    scale: float
    rotation: float
    inspiration: float
    exposure: float
    contrast: float
    gamma: float
    noise: float
    blur: float
    grid: float
    collimation: float
    marker: str
    marker_height: str
    bits: int
    monochrome1: bool
    transfer_syntax: str
    spoilt: str | None
    repeat: bool
    seed: int

    @property
    def frontal(self) -> bool:
        """True for a frontal image, whatever its header says."""
        return self.projection in FRONTAL_VIEWS


@dataclass(frozen=True)
class Look:
    """Ranges (low, high) of the tone of a data set's images, and how often a grid shows."""

    gamma: tuple[float, float]
    contrast: tuple[float, float]
    exposure: tuple[float, float]
    noise: tuple[float, float]
    blur: tuple[float, float]
    collimation: tuple[float, float]
    collimated_share: float
    grid_share: float


LOOKS: Mapping[str, Look] = {
    "mimic_cxr": Look(
        gamma=(0.85, 1.2),
        contrast=(0.85, 1.1),
        exposure=(-0.05, 0.05),
        noise=(0.008, 0.03),
        blur=(0.0, 0.0025),
        collimation=(0.01, 0.04),
        collimated_share=0.2,
        grid_share=0.1,
    ),
    "rsna": Look(
        gamma=(0.7, 0.95),
        contrast=(0.9, 1.2),
        exposure=(-0.02, 0.08),
        noise=(0.015, 0.04),
        blur=(0.001, 0.004),
        collimation=(0.01, 0.05),
        collimated_share=0.5,
        grid_share=0.02,
    ),
}


def sample_acquisition(
    rng: np.random.Generator,
    settings: HospitalSettings,
    image_id: str,
    projection: str,
    *,
    look: str = "mimic_cxr",
    spoilt: str | None = None,
    repeat: bool = False,
    kinds: Sequence[str] = SPOILT,
) -> Acquisition:
    """Draw pose, tone and storage of one image of the given projection.

    ``kinds``: the defects of images that are spoilt at random.
    """
    tone = LOOKS[look]
    lateral = projection == "LATERAL"
    header_view = str(rng.choice(["LATERAL", "LL"], p=[0.7, 0.3])) if lateral else projection
    view = "" if rng.random() < settings.blank_view_share else header_view
    portable = projection == "AP"
    if spoilt is None and rng.random() < settings.spoilt_share:
        spoilt = str(rng.choice(kinds))
    marker = str(rng.choice(["L", "R"])) if rng.random() < settings.marker_share else ""
    compressed = rng.random() < settings.compressed_share
    syntaxes = _COMPRESSED if compressed else ("explicit_le", "explicit_le", "implicit_le")
    collimated = rng.random() < tone.collimated_share
    gridded = rng.random() < tone.grid_share
    shapes = [0.15, 0.25, 0.6] if portable else [0.6, 0.3, 0.1]
    acquisition = Acquisition(
        image_id=image_id,
        view=view,
        projection=projection,
        aspect=float(rng.choice([1.2, 1.0, 0.83], p=shapes)),
        shift_x=round(float(rng.normal(0, 0.10 if portable else 0.06)), 4),
        shift_y=round(float(rng.normal(0, 0.11 if portable else 0.07)), 4),
        scale=round(float(np.clip(rng.normal(1.0, 0.09), 0.78, 1.2)), 4),
        rotation=round(float(rng.normal(0, 3.5 if portable else 2.0)), 3),
        inspiration=round(float(rng.beta(3, 2.5) if portable else rng.beta(4, 2)), 3),
        exposure=round(float(rng.uniform(*tone.exposure)), 4),
        contrast=round(float(rng.uniform(*tone.contrast)), 4),
        gamma=round(float(rng.uniform(*tone.gamma)), 4),
        noise=round(float(rng.uniform(*tone.noise)), 4),
        blur=round(float(rng.uniform(*tone.blur)), 5),
        grid=round(float(rng.uniform(0.008, 0.02)), 4) if gridded else 0.0,
        collimation=round(float(rng.uniform(*tone.collimation)), 4) if collimated else 0.0,
        marker=marker,
        marker_height=str(rng.choice(MARKER_HEIGHTS)),
        bits=int(rng.choice([12, 10, 14, 16], p=[0.7, 0.1, 0.12, 0.08])),
        monochrome1=bool(rng.random() < settings.monochrome1_share),
        transfer_syntax=str(rng.choice(syntaxes)),
        spoilt=spoilt,
        repeat=repeat,
        seed=int(rng.integers(2**62)),
    )
    return _spoil(acquisition, np.random.default_rng(acquisition.seed))


def _spoil(acquisition: Acquisition, rng: np.random.Generator) -> Acquisition:
    """Move part of the chest out of the image, shake it, burn it or turn it."""
    if acquisition.spoilt == "clipped":
        angle = float(rng.uniform(0, 2 * np.pi))
        shift = 0.45 * np.array([np.cos(angle), np.sin(angle)])
        return replace(
            acquisition,
            shift_x=round(acquisition.shift_x + float(shift[0]), 4),
            shift_y=round(acquisition.shift_y + float(shift[1]), 4),
            scale=round(acquisition.scale * 1.15, 4),
        )
    if acquisition.spoilt == "blurred":
        return replace(acquisition, blur=round(float(rng.uniform(0.012, 0.02)), 5))
    if acquisition.spoilt == "overexposed":
        # More exposure blackens the film: the lungs burn out.
        return replace(acquisition, exposure=round(float(rng.uniform(-0.32, -0.22)), 4))
    if acquisition.spoilt == "rotated":
        return replace(acquisition, rotation=float(rng.choice([-90.0, -25.0, 25.0, 90.0, 180.0])))
    if acquisition.spoilt == "noisy":
        return replace(acquisition, noise=round(float(rng.uniform(0.12, 0.25)), 4))
    if acquisition.spoilt == "inverted":
        return replace(acquisition, contrast=-acquisition.contrast)
    if acquisition.spoilt == "lateral view":
        # A lateral film whose header says frontal.
        return replace(acquisition, projection="LATERAL")
    if acquisition.spoilt == "other part":
        # The abdomen, with the bases of the lungs at the upper edge.
        return replace(acquisition, shift_y=round(float(rng.uniform(-1.15, -0.95)), 4), scale=1.15)
    return acquisition  # mirrored, edge-enhanced and with an object in drawing.py


def sample_acquisitions(
    rng: np.random.Generator,
    settings: HospitalSettings,
    image_ids: Sequence[str],
    kinds: Sequence[str] = SPOILT,
) -> tuple[Acquisition, ...]:
    """Draw the one to three images of a study; ``image_ids`` holds at least three names.

    ``kinds``: possible defects of a frontal image.
    """
    plan: list[tuple[str, str | None, bool]]  # projection, spoilt, repeat
    if rng.random() < settings.lateral_only_share:
        plan = [("LATERAL", None, False)]
    else:
        portable = rng.random() < settings.ap_share
        projection = "AP" if portable else "PA"
        plan = [(projection, None, False)]
        if rng.random() < settings.second_frontal_share:
            if portable or rng.random() < 0.4:
                # Half of the repeats follow a spoilt image; the rest were a precaution.
                first = str(rng.choice(kinds)) if rng.random() < 0.5 else None
                plan = [(projection, first, False), (projection, None, True)]
            else:
                plan.append(("AP", None, False))
        if not portable and rng.random() < settings.lateral_share:
            plan.append(("LATERAL", None, False))
    return tuple(
        sample_acquisition(
            rng,
            settings,
            image_id,
            projection,
            spoilt=spoilt,
            repeat=repeat,
            kinds=SPOILT if projection == "LATERAL" else kinds,
        )
        for image_id, (projection, spoilt, repeat) in zip(image_ids, plan, strict=False)
    )
