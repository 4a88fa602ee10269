"""A patient's two images, and what a phrase finds with the prior and without (BioViL-T, Table 5).

Maps are drawn from the grids that phrase grounding kept of one model in two tasks: one gave it the
current image alone, the other the prior as well. Shown is, of each finding, the phrase that is the
median by signed CNR with the prior, of images that have one.
"""

from argparse import Namespace
from typing import Any

import numpy as np
import pandas as pd

from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.grounding.comparison import COLUMNS, LEGEND, PANEL, Grounded, choose_rows
from cxrflow.benchmarks.grounding.settings import PriorFigureSettings
from cxrflow.benchmarks.inputs import PRIOR, Cohort, Pixels, open_pixels, read_cohort
from cxrflow.errors import InputError
from cxrflow.images.geometry import Geometry
from cxrflow.names import short_name

ALONE, BESIDE = "One image", "With the prior"


def draw_figure(
    settings: PriorFigureSettings,
    beside: Grounded,
    alone: Grounded,
    cohort: Cohort,
    pixels: Pixels,
    phrases: bool,
) -> tuple[bytes, dict[str, Any]]:
    """The picture as PNG, and what is on it; ``beside``: the results with the prior."""
    samples = cohort.table.set_index("sample_id")
    scores = beside.scores
    of_alone = pd.Series(range(len(alone.scores)), index=alone.scores["sample_id"])
    unknown = [sample_id for sample_id in scores["sample_id"] if sample_id not in samples.index]
    if unknown:
        raise InputError(f"sample '{unknown[0]}' of the results is not in the cohort")
    earlier = samples[PRIOR].reindex(scores["sample_id"])
    able = earlier.notna().to_numpy() & pixels.holds(earlier)
    able &= scores["sample_id"].isin(of_alone.index).to_numpy()
    findings = beside.protocol["categories"]
    rows = choose_rows(scores[able], "median", settings.count, findings)
    if not rows:
        raise InputError(
            f"phrase grounding of {beside.model}: no phrase on an image with a prior has a score "
            "in both tasks"
        )
    geometry = Geometry.parse(str(pixels.geometry))
    strips, lines = [], []
    for row in rows:
        sample = samples.loc[scores["sample_id"][row]]
        placement = geometry.place(int(sample["image_height"]), int(sample["image_width"]))
        current, prior = pixels.read(pixels.rows([sample["image_id"], sample[PRIOR]]))
        boxes = placement.boxes([list(map(float, box)) for box in sample["boxes"]])
        panels = [panel(prior, longer=PANEL), panel(current, boxes=boxes, longer=PANEL)]
        labels = ["Before", "Now"]
        same = int(of_alone[scores["sample_id"][row]])
        for label, result, place in ((ALONE, alone, same), (BESIDE, beside, row)):
            panels.append(panel(current, result.map(place, placement), boxes, longer=PANEL))
            contrast = float(result.scores["signed_cnr"][place])
            labels.append(f"{label} {contrast:+.2f}" if np.isfinite(contrast) else f"{label} –")
        category = str(sample["category"])
        heading = f"{category}: {sample['phrase']}" if phrases else category
        strips.append(Strip(heading, panels, labels))
        lines.append(f"{category}: signed CNR {', '.join(labels[2:])}")
    caption = (
        "From left to right: the prior image, the current one, the phrase's map without and with"
        f" the prior. Of each finding the median by signed CNR of {short_name(beside.model)} with"
        f" the prior, first seed. {LEGEND}"
    )
    return draw_sheet(strips, 1), {
        **beside.shown_data(phrases),
        "caption": caption,
        "lines": lines,
    }


def draw(options: Namespace, settings: PriorFigureSettings) -> tuple[bytes, dict[str, Any]]:
    if len(options.results) != 2:
        raise InputError("--results: expected two, with priors and without")
    beside, alone = map(Grounded.read, options.results)
    if (beside.model, beside.seed) != (alone.model, alone.seed):
        raise InputError(
            f"{options.results[1]}: the result is of {alone.model}, seed {alone.seed}; expected "
            f"{beside.model}, seed {beside.seed}, as in {options.results[0]}"
        )
    cohort = read_cohort(options.cohort, "samples.parquet", (*COLUMNS, PRIOR))
    pixels = open_pixels(options.pixels[0], beside.protocol["geometry"])
    return draw_figure(settings, beside, alone, cohort, pixels, options.phrases)
