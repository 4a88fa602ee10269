"""A paper's figure of grounded phrases, of one model or of several (BioViL Figures 3, A.1, A.2).

    cxrflow draw_figure grounding --settings figure.yaml \\
        --results results/benchmarks/phrase_grounding/biovil/seed0 … --cohort … --pixels … \\
        --output results/figures/biovil/figure3.png

Maps are drawn from the grids that phrase grounding kept, by the protocol that scored them; no model
is run. Which examples are shown follows from one model's signed CNR: the best, the median or the
worst of each finding, or of all phrases. Beside the picture a JSON file says what is on it. The
phrases, which are report text, are on neither unless ``--phrases`` is given.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.arrays import read_array
from cxr_files.errors import InputError
from cxr_files.ids import entry
from cxr_files.parquet import read_table
from cxrflow.benchmarks.figures.frame import FigureDrawing, FigureInputs
from cxrflow.benchmarks.figures.maps import scale_of
from cxrflow.benchmarks.figures.sheet import Strip, draw_sheet, panel
from cxrflow.benchmarks.grounding.pictures import stored_map
from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings
from cxrflow.benchmarks.inputs import PRIOR, open_pixels
from cxrflow.benchmarks.result import slug
from cxrflow.images.geometry import Geometry, Placement
from cxrflow.metrics.record import read_metrics
from cxrflow.names import short_name

PANEL = 176  # pixels of a panel's side
PANELS = 6  # side by side, where examples are narrower than that
LEGEND = (
    "Similarity over the radiograph, the maps of a phrase on one scale: clear is the lowest value, "
    "yellow the highest, the white line three quarters of the way; annotated boxes are dashed; "
    "numbers are signed CNR. The patient's right is on the left."
)
SCORES = ("sample_id", "category", "cnr", "signed_cnr", "miou")
COLUMNS = ("sample_id", "image_id", "phrase", "category", "boxes", "image_width", "image_height")


@dataclass(frozen=True)
class Grounded:
    """The result folder of phrase grounding of one model; rows of scores and grids correspond."""

    model: str
    seed: int
    data: dict[str, Any]
    protocol: dict[str, Any]
    scores: pd.DataFrame
    grids_Nhw: NDArray[np.float32]

    @classmethod
    def read(cls, folder: Path) -> "Grounded":
        """Read a result folder; an :class:`InputError` names the file that is damaged."""
        content = read_metrics(folder / "metrics.json")
        if content["benchmark"] != "phrase_grounding":
            raise InputError(
                f"{folder / 'metrics.json'}: field 'benchmark' is {content['benchmark']!r}, "
                "expected 'phrase_grounding'"
            )
        scores = read_table(folder / "predictions.parquet", SCORES)
        path = folder / "grids.npy"
        grids_Nhw = read_array(path, dimensions=3)
        if len(grids_Nhw) != len(scores):
            raise InputError(
                f"{path}: shape is {list(grids_Nhw.shape)}, expected [{len(scores)}, h, w], a grid "
                "for each row of predictions.parquet"
            )
        data, protocol = content["data"], content["protocol"]
        return cls(content["model"], content["seed"], data, protocol, scores, grids_Nhw)

    def map(self, row: int, placement: Placement) -> NDArray[np.float64]:
        """Return the map [S, S] of a sample on the stored square, smoothed as it was scored."""
        how = (self.protocol[name] for name in ("smoothing_sigma", "rescale"))
        return stored_map(self.grids_Nhw[row], placement, *how)


class PhraseSheet:
    """A sheet of phrases, a strip each: the image, and maps over it with its boxes."""

    def __init__(self, inputs: FigureInputs, geometry: str) -> None:
        self.samples, self.phrases = inputs.cohort.table.set_index("sample_id"), inputs.phrases
        self.pixels = open_pixels(inputs.results[0].options["pixels"], geometry)
        self.geometry = Geometry.parse(geometry)
        self.strips: list[Strip] = []
        self.lines: list[str] = []

    def require(self, sample_ids: Iterable[str]) -> None:
        """Raise InputError for a sample of the results that the cohort lacks."""
        for sample_id in sample_ids:
            if sample_id not in self.samples.index:
                raise InputError(f"sample '{sample_id}' of the results is not in the cohort")

    def add(
        self, sample_id: str, maps: Iterable[tuple[str, Grounded, int]], with_prior: bool = False
    ) -> None:
        """Add a strip; ``maps``: label, result and row of each. The prior image stands first."""
        sample: Any = self.samples.loc[sample_id]
        placement = self.geometry.place(int(sample["image_height"]), int(sample["image_width"]))
        image_ids = [sample[PRIOR], sample["image_id"]] if with_prior else [sample["image_id"]]
        *prior, current = self.pixels.read(self.pixels.rows(image_ids))
        boxes = placement.boxes([list(map(float, box)) for box in sample["boxes"]])
        panels = [panel(picture, longer=PANEL) for picture in prior]
        panels.append(panel(current, longer=PANEL))
        labels, drawn_maps = (
            [],
            [(label, result, row, result.map(row, placement)) for label, result, row in maps],
        )
        scale = scale_of(values for *_, values in drawn_maps)
        for label, result, row, values in drawn_maps:
            panels.append(panel(current, values, boxes, longer=PANEL, scale=scale))
            contrast = float(result.scores["signed_cnr"][row])
            labels.append(f"{label} {contrast:+.2f}" if np.isfinite(contrast) else f"{label} –")
        category = str(sample["category"])
        heading = f"{category}: {sample['phrase']}" if self.phrases else category
        self.strips.append(
            Strip(heading, panels, [*(["Before", "Now"] if prior else [""]), *labels], scale)
        )
        self.lines.append(f"{category}: signed CNR {', '.join(labels)}")

    def drawing(self, per_line: int, caption: str, **more: Any) -> FigureDrawing:
        """Return the sheet, and what is on it."""
        shows = ["radiographs", "phrases"] if self.phrases else ["radiographs"]
        return FigureDrawing(draw_sheet(self.strips, per_line), caption, self.lines, shows, more)


def choose_rows(
    scores: pd.DataFrame,
    rank: Literal["best", "median", "worst"],
    count: int,
    findings: Sequence[str] | None = None,
) -> list[int]:
    """Return the rows of up to ``count`` examples by signed CNR, ties in the order of their ids.

    With ``findings`` (names as in ``category``, but for case) one of each, in that order; else the
    ``count`` best, the worst (worst first) or those around the median of all. Phrases without a
    score are not chosen.
    """
    scored = scores[np.isfinite(scores["signed_cnr"])]
    ranked = scored.sort_values(["signed_cnr", "sample_id"], ascending=[False, True])
    if findings is None:
        groups, number = [ranked], count
    else:
        slugs = ranked["category"].map(slug)
        groups = [ranked[slugs == slug(finding)] for finding in findings]
        groups, number = [group for group in groups if len(group)][:count], 1
    chosen: list[int] = []
    for group in groups:
        rows = group.index.tolist()
        if rank == "worst":
            rows.reverse()
        start = max(0, (len(rows) - number) // 2) if rank == "median" else 0
        chosen += rows[start : start + number]
    return chosen


def check_same_samples(results: Sequence[Grounded]) -> None:
    """All results are of the same phrases and pictures, in one geometry."""
    first = results[0]
    for result in results:
        for field, ours, theirs in (
            ("data.fingerprint", first.data["fingerprint"], result.data["fingerprint"]),
            ("data.pictures", first.data.get("pictures"), result.data.get("pictures")),
            ("protocol.geometry", first.protocol["geometry"], result.protocol["geometry"]),
            ("sample_id", list(first.scores["sample_id"]), list(result.scores["sample_id"])),
        ):
            if ours != theirs:
                raise InputError(
                    f"phrase grounding of {result.model}: {field} is not that of {first.model}; "
                    "expected results on the same phrases and pictures"
                )


def draw(inputs: FigureInputs, settings: GroundingFigureSettings) -> FigureDrawing:
    """Draw the chosen phrases, a map of each model over them."""
    results = [Grounded.read(result.folder) for result in inputs.results]
    by_model = {result.model: result for result in results}
    if settings.by not in by_model:
        raise InputError(
            f"--results: there is none of the model '{settings.by}', which chooses the examples"
        )
    check_same_samples(results)
    chooser = by_model[settings.by]
    sheet = PhraseSheet(inputs, chooser.protocol["geometry"])
    columns = [(c.label, by_model[c.model]) for c in settings.columns if c.model in by_model]
    findings = chooser.protocol["categories"] if settings.each_finding else None
    rows = choose_rows(chooser.scores, settings.rank, settings.count, findings)
    if not rows:
        raise InputError(f"phrase grounding of {settings.by}: no phrase has a signed CNR")
    sheet.require(chooser.scores["sample_id"])
    examples = []
    for row in rows:
        sample_id = chooser.scores["sample_id"][row]
        sheet.add(sample_id, [(label, result, row) for label, result in columns])
        scores = [
            {"label": label, **{n: _finite(result.scores[n][row]) for n in SCORES[2:]}}
            for label, result in columns
        ]
        sample = sheet.samples.loc[sample_id]
        ids = entry("sample_id", sample_id)
        example = {**ids, "category": str(sample["category"]), "scores": scores}
        examples.append(example | ({"phrase": str(sample["phrase"])} if inputs.phrases else {}))
    left_out = [
        {"label": column.label, "reason": column.reason or "not trained in this run"}
        for column in settings.columns
        if column.model not in by_model
    ]
    over = "of each finding" if settings.each_finding else "of all phrases"
    caption = (
        f"Shown: the {settings.rank} {over} by signed CNR of {short_name(settings.by)}, first "
        f"seed. {LEGEND}"
    )
    if left_out:
        without = "; ".join(f"{entry['label']} ({entry['reason']})" for entry in left_out)
        caption += f" Without a column: {without}."
    return sheet.drawing(
        max(1, PANELS // (1 + len(columns))),
        caption,
        columns=[{"label": label, "model": r.model, "seed": r.seed} for label, r in columns],
        left_out=left_out,
        examples=examples,
    )


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
