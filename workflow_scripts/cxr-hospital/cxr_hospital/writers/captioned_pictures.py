"""Generic pictures with captions, in place of CLIP's 400 million (Radford et al. 2021).

A picture shows one to three things of a kind, in a colour, somewhere on a surface of another
colour. Its caption says so in one sentence. Things and surfaces are those of the ImageNet copy. The
folder has the layout of a hospital's own: a picture is a study of a patient of its own, and the
caption is its report.
"""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from cxr_hospital.grammar import pick, write
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_table
from cxr_hospital.writers.imagenet import SURFACES, THINGS, ground, turned

_STREAM = 2021  # of the seed's numbers
#: Red, green and blue in [0, 1]. Models may read pictures in grey, where a colour is a brightness.
COLOURS = {
    "black": (0.15, 0.15, 0.15),
    "blue": (0.12, 0.22, 0.72),
    "red": (0.80, 0.13, 0.15),
    "green": (0.15, 0.55, 0.22),
    "grey": (0.52, 0.52, 0.52),
    "orange": (0.95, 0.55, 0.15),
    "yellow": (0.95, 0.88, 0.25),
    "white": (0.95, 0.95, 0.95),
}
#: Centre of a place, in halves of the shorter side, to the right and down; and its words.
PLACES = {
    (-0.45, -0.45): "in the upper left {|corner}",
    (0.0, -0.45): "{at the top|in the upper part}",
    (0.45, -0.45): "in the upper right {|corner}",
    (-0.45, 0.0): "on the left {|side}",
    (0.0, 0.0): "in the {middle|centre}",
    (0.45, 0.0): "on the right {|side}",
    (-0.45, 0.45): "in the lower left {|corner}",
    (0.0, 0.45): "{at the bottom|in the lower part}",
    (0.45, 0.45): "in the lower right {|corner}",
}
_PLURALS = {"cross": "crosses"}  # others take an s
_NUMBERS = {1: "{a*3|one}", 2: "{two*2|a pair of}", 3: "{three*2|a group of three}"}
_CAPTIONS = (
    "$number $colour $thing $place, on $ground.",
    "{A picture of|There $is|Here $is|} $number $colour $thing on $ground, $place.",
    "$place, $number $colour $thing{ $is {seen|shown}|} {before|on} $ground.",
    "$ground with $number $colour $thing $place.",
)
#: Least difference in brightness between things and any part of the surface behind them.
_CONTRAST = 0.15
_SHADED = 0.6  # brightness of a surface's dark parts


class Scene(NamedTuple):
    """What a picture shows and its caption says; ``place`` is a key of :data:`PLACES`."""

    thing: str
    number: int
    colour: str
    place: tuple[float, float]
    surface: str
    surface_colour: str


def _brightness(colour: str) -> float:
    return float(np.dot(COLOURS[colour], (0.299, 0.587, 0.114)))


def _contrasts(front: str, back: str) -> bool:
    light = _brightness(back)
    return not _SHADED * light - _CONTRAST < _brightness(front) < light + _CONTRAST


#: Colours of things and of surfaces that go together.
PAIRS = tuple((front, back) for front in COLOURS for back in COLOURS if _contrasts(front, back))


def sample_scene(rng: np.random.Generator) -> Scene:
    """Draw thing, number, place, surface and a pair of colours, each by itself."""
    colour, surface_colour = PAIRS[rng.integers(len(PAIRS))]
    return Scene(
        thing=list(THINGS)[rng.integers(len(THINGS))],
        number=int(rng.integers(1, 4)),
        colour=colour,
        place=list(PLACES)[rng.integers(len(PLACES))],
        surface=list(SURFACES)[rng.integers(len(SURFACES))],
        surface_colour=surface_colour,
    )


def caption(scene: Scene, rng: np.random.Generator) -> str:
    """One sentence that says all of a scene."""
    plural = _PLURALS.get(scene.thing, f"{scene.thing}s")
    ground = {"mesh": "a $of mesh", "spiral": "a $of spiral", "target": "a $of target"}
    slots = {
        "number": _NUMBERS[scene.number],
        "colour": scene.colour,
        "thing": scene.thing if scene.number == 1 else plural,
        "place": PLACES[scene.place],
        "is": "is" if scene.number == 1 else "are",
        "ground": ground.get(scene.surface, f"$of {scene.surface}"),
        "of": scene.surface_colour,
    }
    return write(pick(_CAPTIONS, rng), rng, slots).text


def picture(scene: Scene, rng: np.random.Generator) -> NDArray[np.uint8]:
    """Draw a scene, uint8 [H, W, 3]; what its caption leaves open is drawn at random."""
    x, y = ground(rng)
    pattern = SURFACES[scene.surface](*turned(x, y, rng.uniform(0.6, 1.2), rng))
    back = np.multiply.outer(1 - (1 - _SHADED) * pattern, COLOURS[scene.surface_colour])
    mask = np.zeros(x.shape)
    for across, down, size in _places(scene, rng):
        distance = THINGS[scene.thing](*turned(x - across, y - down, size, rng)) * size
        mask = np.maximum(mask, np.clip(0.5 - 24 * distance, 0, 1))
    colours = back + mask[:, :, None] * (np.asarray(COLOURS[scene.colour]) - back)
    light = 1 + 0.08 * (x * rng.uniform(-1, 1) + y * rng.uniform(-1, 1))
    noise = rng.normal(0, rng.uniform(0.01, 0.04), (*x.shape, 3))
    return np.rint(255 * np.clip(colours * light[:, :, None] + noise, 0, 1)).astype(np.uint8)


def _places(scene: Scene, rng: np.random.Generator) -> list[tuple[float, float, float]]:
    """Centre and size of each thing: a group around the place, none over another."""
    across, down = np.asarray(scene.place) + rng.uniform(-0.05, 0.05, 2)
    if scene.number == 1:
        return [(across, down, rng.uniform(0.25, 0.42))]
    reach, turn = rng.uniform(0.20, 0.26), rng.uniform(0, math.tau)
    # Neighbours are twice the radius of a thing apart, or a little more.
    size = reach * math.sin(math.pi / scene.number) * rng.uniform(0.8, 0.95)
    angles = turn + math.tau * np.arange(scene.number) / scene.number
    return [(across + reach * math.cos(a), down + reach * math.sin(a), size) for a in angles]


def _name(number: int) -> str:
    return f"c{number:07d}"


def _write_pair(output: Path, seed: int, number: int) -> None:
    """Write a picture and its caption, of which ``number`` seeds both."""
    rng = np.random.default_rng([seed, _STREAM, number])
    scene, name = sample_scene(rng), _name(number)
    (output / "reports" / f"{name}.txt").write_text(f"IMPRESSION: {caption(scene, rng)}\n")
    Image.fromarray(picture(scene, rng)).save(output / "images" / f"{name}_1.png")


@dataset_writer()
def write_captioned_pictures(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write pictures, captions, and the list of both."""
    for subfolder in ("images", "reports"):
        (folder / subfolder).mkdir()
    numbers = range(settings.captioned_pictures)
    list(each(numbers, threads, "captioned_pictures", _write_pair, folder, settings.seed))
    rows = [(_name(number), _name(number)) for number in numbers]
    write_table(folder / "studies.csv", ("study_id", "patient_id"), rows)
    return {"pictures": len(numbers)}
