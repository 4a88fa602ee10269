"""Phrases in one radiograph: where does a model see what they say?

    cxrflow ground --model results/models/biovil/biovil/seed0 --image x.dcm \\
        --phrase "Left pleural effusion" --phrase "Enlarged heart" --output heat.png

BioViL section 4.3 and Figure 3 for a DICOM, PNG or JPEG file. The image is decoded and brought to
the model's geometry by the code that builds pixel stores, so a file gives here what it gave there.
For each phrase the greatest cosine with a patch is printed, and where that patch is; the picture
shows the cosines over the radiograph, a panel a phrase, what the model saw within a thin frame.
Where the model folder is calibrated (``cxrflow calibrate``), also the share of images without the
finding whose greatest cosine is less; not with a prior, as the calibration's images have none.
"""

import logging
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from cxr_files.atomic import write_png
from cxr_files.errors import InputError
from cxrflow.benchmarks.figures.maps import scale_of
from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.grounding.calibration import Calibration, Percentile, shown_cells
from cxrflow.benchmarks.grounding.phrases import plain_phrases
from cxrflow.benchmarks.grounding.region import make_window, prepare_grid
from cxrflow.benchmarks.grounding.settings import OneImageSettings
from cxrflow.data.readers.dicom_headers import scan
from cxrflow.encoders.dilation import refine_grid
from cxrflow.encoders.image_encoder import Frames
from cxrflow.images.geometry import Geometry, Placement
from cxrflow.images.inference_view import require_seen_geometry
from cxrflow.images.shards import read_images
from cxrflow.models.model import Model
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.training.precision import Precision, autocast, choose_device, choose_precision

log = logging.getLogger("cxrflow")

VIEWS = ("AP", "PA")
DRAWN = "(by a model of drawn radiographs: it knows nothing of patients)"
SHOWN = 448  # pixels of the longer side of a drawn radiograph


@dataclass(frozen=True)
class Peak:
    """The patch that answers most to a phrase."""

    similarity: float  # cosine
    x: float  # its centre, in pixels of the file from the upper left corner
    y: float


@dataclass(frozen=True)
class Grounding:
    """N phrases in an image of H x W pixels."""

    phrases: list[str]
    grids_Nhw: NDArray[np.float64]  # cosines, smoothed if that was asked for
    placement: Placement  # of the image in the square the model saw
    pixels_SS: NDArray[np.uint8]  # that square
    shown: NDArray[np.uint8]  # the whole radiograph, its longer side SHOWN pixels
    settings: OneImageSettings
    limits: str | None = None  # what the picture says of the model
    percentiles: tuple[Percentile | None, ...] = ()  # of the phrases' peaks, if calibrated

    def map(self, number: int) -> NDArray[np.float64]:
        """Cosines of phrase ``number`` on the file's pixels [H, W]; NaN outside the crop."""
        return self._on_pixels(number, self.placement)

    def peak(self, number: int) -> Peak:
        """The patch with the greatest cosine, of those whose centre shows the image."""
        grid_hw = self.grids_Nhw[number]
        inside = np.where(shown_cells(self.placement, *grid_hw.shape), grid_hw, -np.inf)
        row, column = np.unravel_index(int(inside.argmax()), inside.shape)
        cell_h, cell_w = (self.placement.size / n for n in inside.shape)
        centre = [(column + 0.5) * cell_w, (row + 0.5) * cell_h, 0, 0]
        x, y, _, _ = self.placement.to_original([centre])[0]
        return Peak(float(inside[row, column]), float(x), float(y))

    def draw(self) -> bytes:
        """PNG: the radiograph, and under each phrase's map, with the bar of its scale."""
        height, width = self.shown.shape
        placement = replace(self.placement, original_height=height, original_width=width)
        crop = placement.inside_original()
        strips = [Strip("", [panel(self.shown, crop=crop)], [""])]
        for number, phrase in enumerate(self.phrases):
            values = self._on_pixels(number, placement)
            scale = scale_of([self.grids_Nhw[number]])
            view = panel(self.shown, values, crop=crop, scale=scale)
            percentile = self.percentiles[number] if self.percentiles else None
            label = ""
            if percentile is not None:
                of = "normal ones" if percentile.normal else "those without"
                label = f"peak above {percentile.share:.0%} of {of}"
            caption = f"{phrase}\n{DRAWN}" if self.limits else phrase
            strips.append(Strip(caption, [view], [label], scale))
        return draw_sheet(strips, per_line=min(3, len(strips)))

    def _on_pixels(self, number: int, placement: Placement) -> NDArray[np.float64]:
        grid_hw = self.grids_Nhw[number]
        return make_window(grid_hw.shape, [], placement, self.settings.upsample).whole(grid_hw)


def similarity_grids(
    model: Model,
    pixels_SS: NDArray[np.uint8],
    phrases: list[str],
    precision: Precision = "fp32",
    prior_SS: NDArray[np.uint8] | None = None,
) -> NDArray[np.float64]:
    """Cosines [N, h, w] of N phrases with the patches of one image, which is encoded once.

    ``precision`` is that of the text encoder: bf16 moves a cosine by less than 0.003, that of the
    image encoder would by up to 0.2 (docs/grounding.md).
    """
    frames = Frames(pixels_SS, prior_SS).each(
        lambda image: torch.from_numpy(image)[None, None].float() / 255
    )
    images = EncodedImages.of(model.encode_image(frames))
    with autocast(model.device, precision):
        texts = model.encode_texts(phrases)
    with torch.inference_mode():
        return model.similarity.maps(images, texts).double().cpu().numpy()


def ground(
    model: Model,
    image: str | Path,
    phrases: Sequence[str],
    settings: OneImageSettings | None = None,
    prior: str | Path | None = None,
) -> Grounding:
    """Ground ``phrases`` in the radiograph of a file; ``prior`` is an earlier one of the patient.

    Raises:
        InputError: a file cannot be used, a phrase is empty, the model lacks an encoder, it sees no
            stored squares, or it takes single images and a prior is given.
    """
    settings = settings or OneImageSettings()
    trained = model  # as calibrated, without dilation
    if not phrases or not all(phrase.strip() for phrase in phrases):
        raise InputError(f"phrases: {list(phrases)} holds no words; expected at least one phrase")
    if any(settings.dilate):
        image_encoder = deepcopy(model.image_encoder)
        if image_encoder is not None:
            refine_grid(image_encoder, settings.dilate)
        model = replace(model, image_encoder=image_encoder)
    stored = Geometry.parse(model.geometry)
    geometry = require_seen_geometry(model.run, stored, f"the model {model.folder}")
    display = Geometry("longer", SHOWN, SHOWN)
    frames = [image] if prior is None else [image, prior]
    current, *earlier = read_images(frames, settings.pixels, geometry, display)
    (height, width), (pixels_SS, shown_SS) = current
    prior_SS = earlier[0][1][0] if earlier else None
    x, y, w, h = (int(value) for value in display.place(height, width).inside_stored())
    plain = plain_phrases(list(phrases), settings.strip_punctuation)
    precision = choose_precision(settings.text_precision, model.device)
    grids_Nhw = similarity_grids(model, pixels_SS, plain, precision, prior_SS)
    prepared = [prepare_grid(grid, settings.smoothing_sigma, "none") for grid in grids_Nhw]
    placement = geometry.place(height, width)
    percentiles: list[Percentile | None] = []
    calibration = Calibration.read(model.folder)
    if calibration is not None and prior_SS is not None:
        log.warning(
            "%s: peaks are not compared with those of its calibration, whose images have no prior",
            model.folder,
        )
    elif calibration is not None:
        if any(settings.dilate):
            grids_Nhw = similarity_grids(trained, pixels_SS, plain, precision)
        shown_hw = shown_cells(placement, *grids_Nhw.shape[1:])
        peaks = [float(grid_hw[shown_hw].max()) for grid_hw in grids_Nhw]
        with autocast(model.device, precision):
            percentiles = [
                calibration.percentile(trained, *of_phrase)
                for of_phrase in zip(phrases, plain, peaks, strict=True)
            ]
    return Grounding(
        list(phrases),
        np.stack(prepared),
        placement,
        pixels_SS,
        shown_SS[y : y + h, x : x + w],
        settings,
        model.limits,
        tuple(percentiles),
    )


def draw(
    folder: Path,
    image: Path,
    phrases: list[str],
    output: Path,
    settings: OneImageSettings,
    prior: Path | None = None,
) -> None:
    """Write the picture; print where each phrase answers most, and the picture's name."""
    for radiograph in filter(None, (image, prior)):
        warn_of_view(radiograph)
    model = Model.load(folder, choose_device(settings.device))
    if model.limits:
        log.warning(model.limits)
    maps = ground(model, image, phrases, settings, prior)
    write_png(output, maps.draw())
    size = f"{maps.placement.original_width} x {maps.placement.original_height}"
    for number, phrase in enumerate(maps.phrases):
        peak = maps.peak(number)
        place = f"at x {peak.x:.0f}, y {peak.y:.0f} of {size} pixels"
        percentile = maps.percentiles[number] if maps.percentiles else None
        if percentile is not None:
            of = "with a normal report" if percentile.normal else "without it"
            place += f", above {percentile.share:.0%} of {percentile.images} images {of}"
        print(f"{peak.similarity:.3f} {place}: {phrase}")
    print(f"picture: {output}")


def warn_of_view(image: Path) -> None:
    """Say so where a DICOM header names a view that models of frontal images have not seen."""
    view = scan(image.parent, [image.name])["view"].iloc[0]
    if isinstance(view, str) and view.upper() not in VIEWS:
        log.warning(
            "%s: its header says view %s; the papers' models know frontal views alone (%s)",
            *(image, view, ", ".join(VIEWS)),
        )
