"""The images beside which a peak of a map is judged: studies of a cohort, encoded and labelled.

Shapes: N images, h x w grid, P width of the joint space.
"""

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import torch

from cxr_files.errors import InputError
from cxr_labels.labeller import make_labeller
from cxrflow.benchmarks.grounding.calibration import FEWEST, Calibration, shown_cells
from cxrflow.benchmarks.grounding.calibration_settings import CalibrationSettings
from cxrflow.benchmarks.inputs import image_batches
from cxrflow.benchmarks.model_pixels import ModelPixels
from cxrflow.benchmarks.study_images import usable_studies
from cxrflow.similarity.similarity import EncodedImages
from cxrflow.text.sentences import sentences_of


@torch.inference_mode()
def calibrate(
    model: Any, table: pd.DataFrame, pixels: ModelPixels, settings: CalibrationSettings
) -> Calibration:
    """Encode images of studies with a report, evenly spaced in ``table``, and label the reports.

    Without priors, also for a model that takes them.

    Raises:
        InputError: fewer than ``FEWEST`` studies have an image and a report.
    """
    studies = usable_studies(table, pixels, settings.sections).table
    if len(studies) < FEWEST:
        raise InputError(
            f"{len(studies)} studies of split '{settings.split}' have an image in the store and a "
            f"report; expected at least {FEWEST}"
        )
    chosen = np.unique(np.linspace(0, len(studies) - 1, settings.images).round().astype(int))
    table = studies.iloc[chosen].reset_index(drop=True)
    encoded = [
        EncodedImages.of(model.encode_image(frames))
        for _, frames in image_batches(pixels, table, settings.batch_size)
    ]
    patches_NhwP = torch.cat([batch.patches for batch in encoded if batch.patches is not None])
    places = [pixels.placement(int(row)) for row in pixels.rows(table["image_id"])]
    cell_masks = [shown_cells(place, *patches_NhwP.shape[1:3]) for place in places]
    by_section = (sentences_of(table, section) for section in settings.sections)
    sentences = [list(chain(*report)) for report in zip(*by_section, strict=True)]
    labels = make_labeller(settings.labels).label(sentences)
    return Calibration(
        EncodedImages(torch.cat([batch.embedding for batch in encoded]).cpu(), patches_NhwP.cpu()),
        torch.from_numpy(np.stack(cell_masks)),
        np.array([list(row) for row in labels], dtype=np.float64),
    )
