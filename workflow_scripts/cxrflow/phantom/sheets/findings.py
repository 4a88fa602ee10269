"""A contact sheet of the synthetic hospital: every finding by severity and side, with its boxes.

One column per finding, one row per severity, with alternating sides. Other sheets show the same
findings in the lateral view (``--lateral``), normal chests with all kinds of acquisitions
(``--variety``), and two queries and two candidates per category of 8x200 (``--categories``).
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from cxrflow.files.atomic import atomic_path
from cxrflow.phantom.acquisition import SPOILT, sample_acquisition
from cxrflow.phantom.chexpert import CATEGORIES, Order, make_chexpert_patient, records, toned
from cxrflow.phantom.course import FINDINGS, Finding, lesion_kind, sample_finding
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.patient import Patient, Study, make_patient
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.programs.program import parser, run
from cxrflow.settings import read_settings

_SEVERITIES = (0.25, 0.5, 0.85, 0.55)
_ROW_SIDES = ("right", "left", "right", "both")
_LABEL = 26
_BOX_COLOUR = (255, 190, 60)


def exemplary(name: str, row: int) -> Finding:
    """A finding for the sheet: severity and side by row, zone by row too."""
    severity, side = _SEVERITIES[row], _ROW_SIDES[row]
    finding = sample_finding(np.random.default_rng(row), name, 1)
    if finding.zone in ("upper", "middle", "lower"):
        finding = replace(finding, zone=("lower", "upper", "middle", "lower")[row])
    alone = ("Pneumothorax", "Consolidation", "Lung Lesion", "Fracture")
    if name == "Support Devices":
        side = "left" if side == "both" else side
        kind = ("endotracheal tube", "central venous catheter", "pacemaker", "chest tube")[row]
        return replace(finding, kind=kind, side="none" if row == 0 else side)
    if name == "Fracture":
        finding = replace(finding, kind="healing" if row % 2 else "acute")
    if name == "Lung Lesion":
        finding = replace(finding, kind=lesion_kind(severity))
    if name in ("Cardiomegaly", "Edema"):
        side = finding.side
    elif side == "both" and name in alone:
        side = "left"
    return replace(finding, severity=severity, side=side)


def _tile(
    patient: Patient, study: Study, size: int, pixels: int, title: str, boxes: bool = False
) -> Image.Image:
    """The first image of a study, as large as fits below its title."""
    drawing = draw(patient, study, study.images[0], pixels)
    grey = Image.fromarray((drawing.image * 255).astype(np.uint8)).convert("RGB")
    scale = size / max(grey.size)
    grey = grey.resize((round(grey.width * scale), round(grey.height * scale)))
    pen = ImageDraw.Draw(grey)
    for finding_boxes in drawing.boxes.values() if boxes else ():
        for x, y, w, h in finding_boxes:
            corners = [v * scale for v in (x, y, x + w, y + h)]
            pen.rectangle(corners, outline=_BOX_COLOUR)
    tile = Image.new("RGB", (size, size + _LABEL), (20, 20, 24))
    tile.paste(grey, ((size - grey.width) // 2, _LABEL + (size - grey.height) // 2))
    bright = (235, 235, 235)
    ImageDraw.Draw(tile).multiline_text((4, 1), title, fill=bright, spacing=0, font_size=11)
    return tile


def sheet_of(rows: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Tiles of one size, in rows; a row may be shorter than the first."""
    width, height = rows[0][0].size
    sheet = Image.new(rows[0][0].mode, (width * len(rows[0]), height * len(rows)))
    for row, tiles in enumerate(rows):
        for column, tile in enumerate(tiles):
            sheet.paste(tile, (column * width, row * height))
    return sheet


def findings_sheet(
    settings: HospitalSettings, size: int, pixels: int, projection: str
) -> Image.Image:
    """One column a finding, one row a severity and side; another patient in each tile."""
    settings = settings.model_copy(update={"spoilt_share": 0.0, "marker_share": 0.3})

    def tile(row: int, column: int, name: str) -> Image.Image:
        finding = exemplary(name, row)
        index = 100 + row * len(FINDINGS) + column
        rng = np.random.default_rng([settings.seed, index])
        view = ("PA" if row % 2 else "AP") if projection == "frontal" else "LATERAL"
        image = replace(sample_acquisition(rng, settings, "sheet", view), aspect=1.0)
        patient = make_patient(settings, index)
        study = replace(patient.studies[0], findings=(finding,), images=(image,))
        where = " ".join(word for word in (finding.side, finding.zone) if word != "none")
        title = f"{name}\n{finding.kind or finding.grade} {where}"
        return _tile(patient, study, size, pixels, title, boxes=True)

    rows = range(len(_SEVERITIES))
    return sheet_of([[tile(row, *place) for place in enumerate(FINDINGS)] for row in rows])


def variety_sheet(settings: HospitalSettings, size: int, pixels: int) -> Image.Image:
    """Chests without findings: all looks and projections, spoilt ones in the last row."""
    kinds = [("mimic_cxr", "AP"), ("mimic_cxr", "PA"), ("mimic_cxr", "LATERAL"), ("rsna", "PA")]
    kinds.append(("chexpert", "AP"))
    states = [*((*kind, (None,) * 8) for kind in kinds), ("mimic_cxr", "AP", SPOILT * 2)]
    settings = settings.model_copy(update={"spoilt_share": 0.0})
    rows: list[list[Image.Image]] = []
    for look, view, spoilt in states:
        rows.append([])
        for column, state in enumerate(spoilt):
            index = 300 + (len(rows) - 1) * len(spoilt) + column
            rng = np.random.default_rng([settings.seed, index])
            base_look = "mimic_cxr" if look == "chexpert" else look
            image = sample_acquisition(rng, settings, "sheet", view, look=base_look, spoilt=state)
            if look == "chexpert":
                image = toned(image, rng)
            patient = make_patient(settings, index)
            study = replace(patient.studies[0], findings=(), images=(image,))
            title = f"{look} {view}\n{state or ''}"
            rows[-1].append(_tile(patient, study, size, pixels, title))
    return sheet_of(rows)


def categories_sheet(settings: HospitalSettings, size: int, pixels: int) -> Image.Image:
    """One column a category of the 8x200 copy: two queries, two candidates."""
    rows = ("query", "query", "candidate", "candidate")
    sheet = Image.new("RGB", (size * len(CATEGORIES), (size + _LABEL) * len(rows)))
    patients = records(settings)
    for column, category in enumerate(CATEGORIES):
        for role in dict.fromkeys(rows):
            places = [row for row, row_role in enumerate(rows) if row_role == role]
            ordered = [record for record in patients if record.orders == (Order(role, category),)]
            for row, record in zip(places, ordered, strict=False):
                patient = make_chexpert_patient(settings, record)
                title = f"{category}\n{role}"
                tile = _tile(patient, patient.studies[0], size, pixels, title)
                sheet.paste(tile, (column * size, row * (size + _LABEL)))
    return sheet


def _few_greys(sheet: Image.Image) -> Image.Image:
    """The sheet in 60 greys and the colour of boxes: a small file without false contours."""
    palette = Image.new("P", (1, 1))
    greys = [level for number in range(60) for level in [round(number * 255 / 59)] * 3]
    palette.putpalette([*greys, *_BOX_COLOUR])
    return sheet.quantize(palette=palette, dither=Image.Dither.NONE)


def main(argv: Sequence[str] | None = None) -> None:
    """Write one contact sheet as PNG."""
    arguments = parser(__doc__)
    arguments.add_argument("--output", type=Path, required=True, help="PNG file to write")
    arguments.add_argument("--tile", type=int, default=150, help="pixels of a tile on the sheet")
    arguments.add_argument("--pixels", type=int, default=256, help="pixels each image is drawn at")
    kind = arguments.add_mutually_exclusive_group()
    kind.add_argument("--lateral", action="store_true", help="the findings in lateral views")
    kind.add_argument("--variety", action="store_true", help="normal chests, all acquisitions")
    kind.add_argument("--categories", action="store_true", help="what the 8x200 copy searches")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, HospitalSettings)
    if options.variety:
        sheet = variety_sheet(settings, options.tile, options.pixels)
    elif options.categories:
        sheet = categories_sheet(settings, options.tile, options.pixels)
    else:
        projection = "lateral" if options.lateral else "frontal"
        sheet = findings_sheet(settings, options.tile, options.pixels, projection)
    with atomic_path(options.output) as temporary:
        _few_greys(sheet).save(temporary, format="PNG", optimize=True)


if __name__ == "__main__":
    run(main)
