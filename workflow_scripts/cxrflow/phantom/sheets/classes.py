"""Contact sheets of classes other than chest findings: bones, and COVIDx's three classes.

One row per part of the arm, one column per abnormality, the first without any; ``--views`` shows
each part's films instead. ``--covidx``: two rows per class of the COVIDx copy.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from cxrflow.files.atomic import atomic_path
from cxrflow.phantom.acquisition import sample_acquisition
from cxrflow.phantom.canvas import Array, grey
from cxrflow.phantom.covidx import CLASSES, covidx_case
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.musculoskeletal.abnormalities import KINDS, sample_abnormality
from cxrflow.phantom.musculoskeletal.drawing import VIEWS, BoneView, draw_bones
from cxrflow.phantom.musculoskeletal.regions import REGIONS
from cxrflow.phantom.musculoskeletal.skeleton import sample_build
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.sheets.findings import sheet_of
from cxrflow.programs.program import parser, run
from cxrflow.settings import read_settings

_LABEL = 14


def _tile(image: Array, size: int, title: str) -> Image.Image:
    """An image, as large as fits below its title."""
    picture = grey(image)
    scale = size / max(picture.size)
    picture = picture.resize((round(picture.width * scale), round(picture.height * scale)))
    tile = Image.new("L", (size, size + _LABEL), 16)
    tile.paste(picture, ((size - picture.width) // 2, _LABEL))
    ImageDraw.Draw(tile).text((3, 0), title, fill=235, font_size=10)
    return tile


def bone_sheet(settings: HospitalSettings, size: int, pixels: int, views: bool) -> Image.Image:
    """One region and person per row; one abnormality, or one view, per column."""
    rows = []
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
            tiles.append(_tile(image, size, f"{region}: {words}"))
        rows.append(tiles)
    return sheet_of(rows)


def covidx_sheet(settings: HospitalSettings, size: int, pixels: int) -> Image.Image:
    """The first fourteen images of each class."""
    rows = []
    for label in CLASSES:
        cases = (covidx_case(settings, index) for index in count())
        examples = list(islice((case for case in cases if case.label == label), 14))
        tiles = [
            _tile(draw(case.patient, case.study, case.study.images[0], pixels).image, size, label)
            for case in examples
        ]
        rows += [tiles[:7], tiles[7:]]
    return sheet_of(rows)


def main(argv: Sequence[str] | None = None) -> None:
    """Write one contact sheet as PNG."""
    arguments = parser(__doc__)
    arguments.add_argument("--output", type=Path, required=True, help="PNG file to write")
    arguments.add_argument("--tile", type=int, default=150, help="pixels of a tile on the sheet")
    arguments.add_argument("--pixels", type=int, default=160, help="pixels each image is drawn at")
    kind = arguments.add_mutually_exclusive_group()
    kind.add_argument("--views", action="store_true", help="each part's films, nothing wrong")
    kind.add_argument("--covidx", action="store_true", help="the classes of the COVIDx copy")
    options = arguments.parse_args(argv)
    settings = read_settings(options.settings, HospitalSettings)
    settings = settings.model_copy(update={"spoilt_share": 0.0})
    if options.covidx:
        sheet = covidx_sheet(settings, options.tile, options.pixels)
    else:
        sheet = bone_sheet(settings, options.tile, options.pixels, options.views)
    with atomic_path(options.output) as temporary:
        sheet.quantize(64).save(temporary, format="PNG", optimize=True)


if __name__ == "__main__":
    run(main)
