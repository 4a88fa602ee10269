"""A patient's two images, and what a phrase finds with the prior and without (BioViL-T, Table 5).

Maps are drawn from the grids that phrase grounding kept of one model in two tasks: one gave it the
current image alone, the other the prior as well. Shown is, of each finding, the phrase that is the
median by signed CNR with the prior, of images that have one.
"""

import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs
from cxrflow.benchmarks.grounding import comparison
from cxrflow.benchmarks.grounding.comparison import LEGEND, Grounded, PhraseSheet, choose_rows
from cxrflow.benchmarks.grounding.settings import PriorFigureSettings
from cxrflow.benchmarks.inputs import PRIOR
from cxrflow.names import short_name

COLUMNS = (*comparison.COLUMNS, PRIOR)


def draw(inputs: FigureInputs, settings: PriorFigureSettings) -> FigureDrawing:
    """Draw the chosen phrases on the prior and the current image, with both maps."""
    if len(inputs.results) != 2:
        raise InputError("--results: expected two, with priors and without")
    beside, alone = (Grounded.read(result.folder) for result in inputs.results)
    if (beside.model, beside.seed) != (alone.model, alone.seed):
        raise InputError(
            f"{inputs.results[1].folder}: the result is of {alone.model}, seed {alone.seed}; "
            f"expected {beside.model}, seed {beside.seed}, as in {inputs.results[0].folder}"
        )
    sheet, ids = PhraseSheet(inputs, beside.protocol["geometry"]), beside.scores["sample_id"]
    sheet.require(ids)
    row_alone = pd.Series(range(len(alone.scores)), index=alone.scores["sample_id"])
    prior = sheet.samples[PRIOR].reindex(ids)
    able = prior.notna().to_numpy() & sheet.pixels.holds(prior)
    able &= ids.isin(row_alone.index).to_numpy()
    findings = beside.protocol["categories"]
    rows = choose_rows(beside.scores[able], "median", settings.count, findings)
    if not rows:
        raise InputError(
            f"phrase grounding of {beside.model}: no phrase on an image with a prior has a score "
            "in both tasks"
        )
    for row in rows:
        maps = ("One image", alone, int(row_alone[ids[row]])), ("With the prior", beside, row)
        sheet.add(ids[row], maps, with_prior=True)
    return sheet.drawing(
        1,
        "From left to right: the prior image, the current one, the phrase's map without and with"
        f" the prior. Of each finding the median by signed CNR of {short_name(beside.model)} with"
        f" the prior, first seed. {LEGEND}",
    )
