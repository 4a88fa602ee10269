"""Reports and the images that they retrieve (Windsor et al. 2023, Appendix C.1, second Figure 7).

A report is compared with all test images as wholes, by the cosine of the projections unless the
model keeps another similarity. Shown are its own image with its rank and score, the two most
similar images and the least similar one, with their reports.
The paper's examples are chosen by hand; ours stand at equal distances in the order of the rank.

Shapes: N studies.
"""

import numpy as np
import pandas as pd
import torch

from cxr_files.errors import InputError
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs
from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.generation.report_retrieval import encode_different
from cxrflow.benchmarks.generation.side_by_side import at_quantiles
from cxrflow.benchmarks.model_pixels import model_pixels
from cxrflow.benchmarks.retrieval.settings import RetrievedFigureSettings
from cxrflow.benchmarks.study_images import STUDY, encoded_batches, usable_studies
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.retrieval import ranks
from cxrflow.models.loading import load

COLUMNS = STUDY
PANEL = 256  # pixels of a picture's longer side, below the beginning of its report
WHICH = ("own image", "most similar", "second", "least similar")


def shown_places(score_N: Floats, query: int) -> list[int]:
    """The own image, the most similar, the second and the least similar of a text."""
    order = np.argsort(-score_N, kind="stable")
    return [query, *order[:2].tolist(), int(order[-1])]


@torch.inference_mode()
def draw(inputs: FigureInputs, settings: RetrievedFigureSettings) -> FigureDrawing:
    """Draw a line for each example: the own image and the three that are compared with it."""
    ((_, result),) = inputs.columns(settings.columns).items()
    pixels = model_pixels(result.options["pixels"], result.options["models"])
    rows = inputs.cohort.table
    if settings.split is not None:
        rows = rows[rows["split"] == settings.split]
    table = usable_studies(rows, pixels, settings.sections).table.reset_index(drop=True)
    if len(table) < 2:
        raise InputError(f"{inputs.folder}: {len(table)} studies to search; expected 2 or more")
    model = load(result.options["models"])
    texts, places = encode_different(model, table["text"].tolist(), settings.batch_size)
    images = encoded_batches(model, pixels, table, settings.batch_size)
    pairs = model.similarity.whole.pairs(images, texts, np.array(places))["global"]
    score_NN = pairs.of_texts(slice(0, len(table))) / pairs.units
    rank_N = ranks(score_NN, np.arange(len(table))).astype(int)  # of the own image
    strips, lines = [], []
    for query in at_quantiles(pd.Series(rank_N), settings.count):
        shown_images = shown_places(score_NN[query], query)
        notes = [
            f"{name}, {score_NN[query, n]:.2f}" for name, n in zip(WHICH, shown_images, strict=True)
        ]
        notes[0] = f"rank {rank_N[query]} of {len(table)}, {score_NN[query, query]:.2f}"
        reports = table["text"].iloc[shown_images].tolist()
        for picture, report, note in zip(
            pixels.read(pixels.rows(table["image_id"].iloc[shown_images])),
            reports,
            notes,
            strict=True,
        ):
            strips.append(Strip(report, [panel(picture, longer=PANEL)], [note]))
        lines.append(
            "; ".join(f"{note}: “{report}”" for note, report in zip(notes, reports, strict=True))
        )
    kind = "cosines" if model.similarity.whole.is_linear else "the model's scores"
    caption = (
        f"Each line: a report above its own image with the rank of that image among {len(table)}, "
        "then the two most similar images and the least similar one, above each its own report; "
        f"numbers are {kind}, first seed. Examples stand at equal distances in the order of the "
        "rank."
    )
    return FigureDrawing(draw_sheet(strips, len(WHICH)), caption, lines, ["radiographs", "reports"])
