"""Gradient saliency: which pixels a class's logit depends on (ConVIRT section 6, Figure 4).

After Simonyan et al. 2014: the absolute gradient of the logit of an image's class with respect to
its pixels, through the frozen encoder and the head that learnt from a share of the labels (first
run). A grey image has one channel, so that there is no greatest one to take. Shown is an image of
each class, drawn from the positives of the scored part.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cxr_files.arrays import read_array
from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.labelled_images import LABELLED
from cxrflow.benchmarks.classification.saliency_settings import SaliencyFigureSettings
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs, ModelResult
from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.heads.shares import percent
from cxrflow.benchmarks.inputs import Cohort, Pixels, choose_split, open_pixels
from cxrflow.encoders.image_encoder import Frames, ImageEncoder, load_image_encoder
from cxrflow.metrics.intervals import Floats

COLUMNS = (*LABELLED, "split")
PANEL = 168  # pixels of a panel's side
BRIGHT = 0.995  # quantile of a map that is white


def saliency(image: ImageEncoder, head_F: Tensor, pixels_HW: Tensor) -> Tensor:
    """Absolute gradient [H, W] of the logit (features times ``head_F``) of pixels in [0, 1]."""
    pixels = pixels_HW[None, None].clone().requires_grad_()
    logit = image.encoder(Frames(pixels)).pooled[0] @ head_F
    (gradient,) = torch.autograd.grad(logit, pixels)
    return gradient[0, 0].abs()


def head_of(result: ModelResult, share: str, name: str) -> Tensor:
    """The weights [F] of a class in the first run's head of a share, of a task's ``heads.npy``."""
    shares = [percent(fraction) for fraction in result.record["protocol"]["fractions"]]
    classes = result.record["data"]["classes"]
    for key, value, names in (("share", share, shares), ("classes", name, classes)):
        if value not in names:
            raise InputError(
                f"settings: key '{key}' names '{value}'; {result.folder} has {', '.join(names)}"
            )
    heads = read_array(result.folder / "heads.npy", dimensions=4)  # [shares, runs, F + 1, C]
    if heads.shape[0] != len(shares) or heads.shape[3] != len(classes):
        raise InputError(
            f"{result.folder / 'heads.npy'}: shape is {list(heads.shape)}; expected "
            f"[{len(shares)}, runs, features + 1, {len(classes)}]"
        )
    return torch.from_numpy(heads[shares.index(share), 0, :-1, classes.index(name)]).float()


def image_of(
    cohort: Cohort, name: str, stores: Sequence[Pixels], protocol: Mapping[str, Any], seed: int
) -> str:
    """The id of a positive image of a class that every model has the pixels of."""
    if name not in cohort.classes:
        raise InputError(
            f"settings: key 'classes' names '{name}'; the cohort has {', '.join(cohort.classes)}"
        )
    split = protocol["split"]
    table = choose_split(cohort.table, split, Path("samples.parquet"))
    positive = np.stack(table["labels"].tolist())[:, cohort.classes.index(name)] == 1
    for store in stores:
        positive &= store.holds(table["image_id"])
    ids = sorted(table["image_id"][positive])
    if not ids:
        raise InputError(f"samples.parquet: no image of split '{split}' is positive for {name}")
    return str(np.random.default_rng(seed).choice(ids))


def shown(values_HW: Floats) -> NDArray[np.uint8]:
    """A map as a picture, its greatest gradients white."""
    top = np.quantile(values_HW, BRIGHT)
    scaled = values_HW / (top if top > 0 else 1)
    return np.asarray(np.rint(255 * scaled.clip(0, 1)), dtype=np.uint8)


def draw(inputs: FigureInputs, settings: SaliencyFigureSettings) -> FigureDrawing:
    """Draw an image of each class, and each model's map of it."""
    columns = inputs.columns(settings.columns)
    results = list(columns.values())
    stores = [
        open_pixels(result.options["pixels"], result.record["protocol"]["geometry"])
        for result in results
    ]
    encoders = [
        load_image_encoder(result.options["models"], trunk_alone=True).eval() for result in results
    ]
    strips = []
    for name in settings.classes:
        protocol = results[0].record["protocol"]
        image_id = image_of(inputs.cohort, name, stores, protocol, settings.seed)
        pictures = [store.read(store.rows([image_id]))[0] for store in stores]
        maps = []
        for result, picture, encoder in zip(results, pictures, encoders, strict=True):
            pixels_HW = torch.from_numpy(picture.astype(np.float32) / 255)
            map_HW = saliency(encoder, head_of(result, settings.share, name), pixels_HW)
            maps.append(shown(map_HW.double().numpy()))
        panels = [panel(view, longer=PANEL) for view in (*maps, pictures[0])]
        strips.append(Strip(name, panels, [*columns, "Image"]))
    caption = (
        "Where a class's logit depends on the image: the absolute gradient with respect to the "
        f"pixels, white where it is great, of linear heads that learnt from {settings.share} % of "
        f"the labels. One image a class, drawn from the positives; first seeds, first runs."
    )
    return FigureDrawing(draw_sheet(strips, 1), caption, settings.classes, ["radiographs"])
