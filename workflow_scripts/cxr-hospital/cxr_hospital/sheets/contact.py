"""Contact sheets of the synthetic hospital: images in rows, each below its title.

``findings``: a column a finding, a row a severity, with alternating sides and boxes; ``lateral``:
the same from the side. ``variety``: normal chests in all looks and projections, the last row
spoilt. ``categories``: two queries and two candidates for each category of 8x200. ``bones``: a row
a part of the arm, a column an abnormality, the first without any; ``views``: each part's films.
``covidx``: two rows for each class of the COVIDx copy.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from cxr_files.atomic import write_png
from cxr_files.program import parser, run
from cxr_files.settings import read_settings
from cxr_hospital.acquisition import SPOILT, Acquisition, sample_acquisition
from cxr_hospital.canvas import Array, Box, grey
from cxr_hospital.course import DEVICES, FINDINGS, ZONES, Finding, lesion_kind, sample_finding
from cxr_hospital.drawing import draw
from cxr_hospital.musculoskeletal.abnormalities import KINDS, sample_abnormality
from cxr_hospital.musculoskeletal.drawing import REGIONS, VIEWS, BoneView, draw_bones
from cxr_hospital.musculoskeletal.skeleton import sample_build
from cxr_hospital.patient import Patient, Study, make_patient
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.chexpert import (
    CATEGORIES,
    Order,
    make_chexpert_patient,
    records,
    toned,
)
from cxr_hospital.writers.covidx import CLASSES, covidx_case

_SEVERITIES = (0.25, 0.5, 0.85, 0.55)
_ROW_SIDES = ("right", "left", "right", "both")
_ROW_ZONES = ("lower", "upper", "middle", "lower")
_LINE = 13  # pixels of a line of a title
_BOX_COLOUR = (255, 190, 60)


class Tile(NamedTuple):
    """An image [H, W] in [0, 1], its title, and boxes in its pixels."""

    title: str
    image: Array
    boxes: Sequence[Box] = ()


Rows = Iterator[list[Tile]]


def exemplary(name: str, row: int) -> Finding:
    """A finding for the sheet: severity and side by row, zone by row too."""
    severity, side = _SEVERITIES[row], _ROW_SIDES[row]
    finding = sample_finding(np.random.default_rng(row), name, 1)
    if name == "Support Devices":
        side = "none" if row == 0 else "left" if side == "both" else side
        return replace(finding, kind=DEVICES[row], side=side)
    if finding.zone in ZONES:
        finding = replace(finding, zone=_ROW_ZONES[row])
    if name == "Fracture":
        finding = replace(finding, kind="healing" if row % 2 else "acute")
    if name == "Lung Lesion":
        finding = replace(finding, kind=lesion_kind(severity))
    if name in ("Cardiomegaly", "Edema"):
        side = finding.side
    elif side == "both" and name in ("Pneumothorax", "Consolidation", "Lung Lesion", "Fracture"):
        side = "left"
    return replace(finding, severity=severity, side=side)


def _chest(
    settings: HospitalSettings, number: int, pixels: int, image: Acquisition, *findings: Finding
) -> tuple[Array, list[Box]]:
    """A patient's first study with these findings in one image, and their boxes."""
    patient = make_patient(settings, number)
    study = replace(patient.studies[0], findings=findings, images=(image,))
    drawing = draw(patient, study, image, pixels)
    return drawing.image, [box for boxes in drawing.boxes.values() for box in boxes]


def _first_image(title: str, patient: Patient, study: Study, pixels: int) -> Tile:
    return Tile(title, draw(patient, study, study.images[0], pixels).image)


def findings_sheet(settings: HospitalSettings, pixels: int, views: Sequence[str]) -> Rows:
    """Another patient in each tile; rows take the views in turn."""
    settings = settings.model_copy(update={"marker_share": 0.3})
    for row in range(len(_SEVERITIES)):
        tiles = []
        for column, name in enumerate(FINDINGS):
            finding = exemplary(name, row)
            number = 100 + row * len(FINDINGS) + column
            rng = np.random.default_rng([settings.seed, number])
            view = views[row % len(views)]
            image = replace(sample_acquisition(rng, settings, "sheet", view), aspect=1.0)
            place = " ".join(word for word in (finding.side, finding.zone) if word != "none")
            title = f"{name}\n{finding.kind or finding.grade} {place}"
            tiles.append(Tile(title, *_chest(settings, number, pixels, image, finding)))
        yield tiles


def variety_sheet(settings: HospitalSettings, pixels: int) -> Rows:
    """Chests without findings."""
    kinds = [("mimic_cxr", "AP"), ("mimic_cxr", "PA"), ("mimic_cxr", "LATERAL"), ("rsna", "PA")]
    plain = [(*kind, (None,) * 8) for kind in (*kinds, ("chexpert", "AP"))]
    for row, (look, view, defects) in enumerate([*plain, ("mimic_cxr", "AP", SPOILT * 2)]):
        tiles = []
        for column, defect in enumerate(defects):
            number = 300 + row * len(defects) + column
            rng = np.random.default_rng([settings.seed, number])
            base = "mimic_cxr" if look == "chexpert" else look
            image = sample_acquisition(rng, settings, "sheet", view, look=base, spoilt=defect)
            image = toned(image, rng) if look == "chexpert" else image
            title = f"{look} {view}\n{defect or ''}"
            tiles.append(Tile(title, *_chest(settings, number, pixels, image)))
        yield tiles


def categories_sheet(settings: HospitalSettings, pixels: int) -> Rows:
    """Patients drawn to order, two rows a role."""
    patients = records(settings)
    for role in ("query", "candidate"):
        columns = []
        for category in CATEGORIES:
            ordered = (record for record in patients if record.orders == (Order(role, category),))
            examples = (make_chexpert_patient(settings, record) for record in islice(ordered, 2))
            title = f"{category}\n{role}"
            columns.append([_first_image(title, p, p.studies[0], pixels) for p in examples])
        yield from map(list, zip(*columns, strict=False))


def bone_sheet(settings: HospitalSettings, pixels: int, views: bool) -> Rows:
    """One region and person per row; one abnormality, or one view, per column."""
    for row, region in enumerate(REGIONS):
        tiles = []
        for column, kind in enumerate([*VIEWS, *VIEWS] if views else ["normal", *KINDS]):
            person = column // len(VIEWS) if views else column
            rng = np.random.default_rng([settings.seed, row, person])
            build = sample_build(rng)
            abnormalities = (sample_abnormality(rng, region, kind),) if kind in KINDS else ()
            side = ("left", "right")[(row + person) % 2]
            pose = replace(sample_acquisition(rng, settings, "", "PA"), aspect=1.2, shift_x=0.0)
            film = BoneView(kind if views else "frontal", True, pose)
            image = draw_bones(region, side, build, abnormalities, person, film, pixels)
            words = abnormalities[0].site.words if abnormalities else kind
            tiles.append(Tile(f"{region}: {words}", image))
        yield tiles


def covidx_sheet(settings: HospitalSettings, pixels: int) -> Rows:
    """The first fourteen images of each class."""
    for label in CLASSES:
        cases = (covidx_case(settings, index) for index in count())
        examples = islice((case for case in cases if case.label == label), 14)
        tiles = [_first_image(label, case.patient, case.study, pixels) for case in examples]
        yield from (tiles[:7], tiles[7:])


SHEETS: dict[str, Callable[[HospitalSettings, int], Rows]] = {
    "findings": partial(findings_sheet, views=("AP", "PA")),
    "lateral": partial(findings_sheet, views=("LATERAL",)),
    "variety": variety_sheet,
    "categories": categories_sheet,
    "bones": partial(bone_sheet, views=False),
    "views": partial(bone_sheet, views=True),
    "covidx": covidx_sheet,
}


def contact_sheet(rows: Sequence[Sequence[Tile]], size: int) -> Image.Image:
    """All tiles, each image as large as fits into ``size`` pixels below its title.

    60 greys and the colour of boxes: a small file without false contours.
    """
    label = _LINE * max(tile.title.count("\n") + 1 for tiles in rows for tile in tiles)
    sheet = Image.new("RGB", (size * max(map(len, rows)), (size + label) * len(rows)), (20, 20, 24))
    for row, tiles in enumerate(rows):
        for column, tile in enumerate(tiles):
            x, y = column * size, row * (size + label)
            picture = grey(tile.image).convert("RGB")
            scale = size / max(picture.size)
            picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
            for x0, y0, w, h in tile.boxes:
                corners = [edge * scale for edge in (x0, y0, x0 + w, y0 + h)]
                ImageDraw.Draw(picture).rectangle(corners, outline=_BOX_COLOUR)
            middle = (size - picture.width) // 2, (size - picture.height) // 2
            sheet.paste(picture, (x + middle[0], y + label + middle[1]))
            pen = ImageDraw.Draw(sheet)
            pen.multiline_text((x + 4, y + 1), tile.title, (235, 235, 235), spacing=0, font_size=11)
    palette = Image.new("P", (1, 1))
    greys = [level for number in range(60) for level in [round(number * 255 / 59)] * 3]
    palette.putpalette([*greys, *_BOX_COLOUR])
    return sheet.quantize(palette=palette, dither=Image.Dither.NONE)


def main(argv: Sequence[str] | None = None) -> None:
    """Write one contact sheet as PNG."""
    arguments = parser(__doc__)
    arguments.add_argument("--sheet", choices=SHEETS, default="findings")
    arguments.add_argument("--output", type=Path, required=True, help="PNG file to write")
    arguments.add_argument("--tile", type=int, default=150, help="pixels of a tile on the sheet")
    arguments.add_argument("--pixels", type=int, default=256, help="pixels each image is drawn at")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, HospitalSettings)
    settings = settings.model_copy(update={"spoilt_share": 0.0})
    rows = list(SHEETS[options.sheet](settings, options.pixels))
    buffer = io.BytesIO()
    contact_sheet(rows, options.tile).save(buffer, format="PNG", optimize=True)
    write_png(options.output, buffer.getvalue())


if __name__ == "__main__":
    run(main)
