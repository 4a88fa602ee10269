"""ImageNet's copy (ILSVRC 2012): generic colour pictures, folders of classes, a validation list.

A stand-in for photographs, to pretrain a trunk before radiographs: things and surfaces of sixteen
classes, each a function of coordinates, in any place, size, rotation, colour and light, before
another surface. No class resembles a body.

Shapes: H x W pixels; coordinates run over [-1, 1] along the shorter side.
"""

import io
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.io import savemat

from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each

Field = NDArray[np.float64]

LEAST, MOST = 96, 144  # pixels of a side
KIT = Path("ILSVRC2012_devkit_t12", "data")
#: One validation picture for so many training pictures.
_TRAIN_PER_VALIDATION = 5
_STREAM = 2012  # of the seed's numbers
_FIRST = 90_000_001  # WordNet has no such number
_FIELDS = "ILSVRC2012_ID WNID words gloss num_children children wordnet_height num_train_images"


def _inside(distance: Field) -> Field:
    """1 where a signed distance is negative, 0 where it is positive, with a soft edge."""
    return np.clip(0.5 - 12 * distance, 0, 1)


def _polygon(x: Field, y: Field, corners: int) -> Field:
    """Signed distance, about, to a regular polygon whose sides are at distance 1 / 2."""
    turns = (math.tau * np.arange(corners) / corners)[:, None, None]
    return (np.cos(turns) * x + np.sin(turns) * y).max(axis=0) - 0.5


def _flower(x: Field, y: Field) -> Field:
    angle, radius = np.arctan2(y, x), np.hypot(x, y)
    return radius - 0.55 - 0.3 * np.cos(5 * angle)


def _cross(x: Field, y: Field) -> Field:
    across = np.maximum(np.abs(x) - 0.8, np.abs(y) - 0.22)
    return np.minimum(across, np.maximum(np.abs(y) - 0.8, np.abs(x) - 0.22))


def _bricks(x: Field, y: Field) -> Field:
    row = np.floor(4 * y)
    joint = np.minimum(np.abs((4 * y) % 1 - 0.5), np.abs((2 * x + 0.5 * row) % 1 - 0.5) * 2)
    return np.clip(8 * (joint - 0.12), 0, 1)


#: Things that stand in a place: signed distances, negative inside; of size 1.
THINGS: dict[str, Callable[[Field, Field], Field]] = {
    "disc": lambda x, y: np.hypot(x, y) - 0.7,
    "ring": lambda x, y: np.abs(np.hypot(x, y) - 0.65) - 0.16,
    "square": lambda x, y: np.maximum(np.abs(x), np.abs(y)) - 0.65,
    "triangle": lambda x, y: _polygon(x, y, 3),
    "flower": _flower,
    "cross": _cross,
    "crescent": lambda x, y: np.maximum(np.hypot(x, y) - 0.8, 0.7 - np.hypot(x - 0.4, y)),
}
#: Surfaces that fill a picture: in [0, 1].
SURFACES: dict[str, Callable[[Field, Field], Field]] = {
    "stripes": lambda x, y: 0.5 + 0.5 * np.tanh(4 * np.sin(9 * x)),
    "chequers": lambda x, y: 0.5 + 0.5 * np.tanh(6 * np.sin(7 * x) * np.sin(7 * y)),
    "dots": lambda x, y: _inside(np.hypot((3 * x) % 1 - 0.5, (3 * y) % 1 - 0.5) - 0.27),
    "waves": lambda x, y: 0.5 + 0.5 * np.sin(9 * (y + 0.25 * np.sin(5 * x))),
    "bricks": _bricks,
    "spiral": lambda x, y: 0.5 + 0.5 * np.sin(12 * np.hypot(x, y) + np.arctan2(y, x)),
    "target": lambda x, y: 0.5 + 0.5 * np.sin(14 * np.hypot(x, y)),
    "rays": lambda x, y: 0.5 + 0.5 * np.sin(12 * np.arctan2(y, x)),
    "mesh": lambda x, y: 1 - np.clip(7 * np.minimum(np.abs((3 * x) % 1 - 0.5),
                                                     np.abs((3 * y) % 1 - 0.5)), 0, 1),
}  # fmt: skip
CLASSES = (*THINGS, *SURFACES)


def ground(generator: np.random.Generator) -> tuple[Field, Field]:
    """Coordinates x and y of the pixels of a picture of any size, [H, W] each."""
    height, width = generator.integers(LEAST, MOST, 2, endpoint=True)
    half = min(height, width) / 2
    y, x = np.mgrid[:height, :width]
    return (x + 0.5 - width / 2) / half, (y + 0.5 - height / 2) / half


def picture(name: str, generator: np.random.Generator) -> NDArray[np.uint8]:
    """A picture of a class, uint8 [H, W, 3]."""
    x, y = ground(generator)
    if name in THINGS:
        mask = np.zeros(x.shape)
        for _ in range(generator.integers(1, 4)):
            size = generator.uniform(0.25, 0.6)
            mask = np.maximum(mask, _inside(THINGS[name](*_placed(x, y, size, generator)) * size))
    else:
        mask = SURFACES[name](*_placed(x, y, generator.uniform(0.6, 1.5), generator))
    back, front = _colours(generator)
    shade = 1 + 0.25 * (x * generator.uniform(-1, 1) + y * generator.uniform(-1, 1))
    shade += _clouds(x, y, generator)
    colours = back + mask[:, :, None] * (front - back)
    noise = generator.normal(0, generator.uniform(0.01, 0.06), (*x.shape, 3))
    return np.rint(255 * np.clip(colours * shade[:, :, None] + noise, 0, 1)).astype(np.uint8)


def _placed(x: Field, y: Field, size: float, generator: np.random.Generator) -> tuple[Field, Field]:
    """Coordinates of something of a size, somewhere, turned."""
    x, y = x - generator.uniform(-0.6, 0.6), y - generator.uniform(-0.6, 0.6)
    x, y = turned(x, y, size, generator)
    squeezed = generator.uniform(0.8, 1.25)
    return x * squeezed, y / squeezed


def turned(x: Field, y: Field, size: float, generator: np.random.Generator) -> tuple[Field, Field]:
    """Coordinates of something of a size, turned."""
    angle = generator.uniform(0, math.tau)
    cos, sin = math.cos(angle), math.sin(angle)
    return (cos * x + sin * y) / size, (cos * y - sin * x) / size


def _colours(generator: np.random.Generator) -> tuple[Field, Field]:
    """Two colours whose brightness differs; either may be the brighter."""
    while True:
        back, front = generator.uniform(0.05, 0.95, (2, 3))
        if abs((front - back) @ (0.299, 0.587, 0.114)) > 0.25:
            return back, front


def _clouds(x: Field, y: Field, generator: np.random.Generator) -> Field:
    """A few slow waves: no light is even."""
    waves = generator.normal(0, 2.5, (4, 2))
    phases = generator.uniform(0, math.tau, 4)
    return 0.06 * sum(
        np.sin(across * x + down * y + phase)
        for (across, down), phase in zip(waves, phases, strict=True)
    )


def wnid(name: str) -> str:
    """The number of a class, as WordNet writes one."""
    return f"n{_FIRST + CLASSES.index(name)}"


def _write_picture(output: Path, seed: int, job: tuple[int, tuple[str, str]]) -> None:
    """Write a picture of a class; ``number`` seeds it."""
    number, (name, place) = job
    pixels = picture(name, np.random.default_rng([seed, _STREAM, number]))
    Image.fromarray(pixels).save(output / place, "JPEG", quality=90)


@dataset_writer()
def write_imagenet(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write pictures and the development kit."""
    trained = [CLASSES[number % len(CLASSES)] for number in range(settings.generic_pictures)]
    jobs = [
        (name, f"train/{wnid(name)}/{wnid(name)}_{number}.JPEG")
        for number, name in enumerate(trained)
    ]
    validation_count = max(len(CLASSES), settings.generic_pictures // _TRAIN_PER_VALIDATION)
    order = np.random.default_rng([settings.seed, _STREAM]).permutation(validation_count)
    validated = [CLASSES[number % len(CLASSES)] for number in order]
    jobs += [
        (name, f"val/ILSVRC2012_val_{number:08d}.JPEG")
        for number, name in enumerate(validated, start=1)
    ]
    for place in (*(f"train/{wnid(name)}" for name in CLASSES), "val", str(KIT)):
        (folder / place).mkdir(parents=True)
    numbered = list(enumerate(jobs))
    list(each(numbered, threads, "imagenet", _write_picture, folder, settings.seed))
    truth = "".join(f"{CLASSES.index(name) + 1}\n" for name in validated)
    (folder / KIT / "ILSVRC2012_validation_ground_truth.txt").write_text(truth)
    _write_meta(folder / KIT / "meta.mat", trained)
    return {"train_images": len(trained), "validation_images": len(validated)}


def _write_meta(path: Path, trained: list[str]) -> None:
    """Write the classes and, as in the development kit, their parent in WordNet."""
    leaves = range(1, len(CLASSES) + 1)
    rows: list[tuple[object, ...]] = [
        (number, wnid(name), name, f"a picture of: {name}", 0, [], 0, trained.count(name))
        for number, name in zip(leaves, CLASSES, strict=True)
    ]
    above = f"n{_FIRST + len(CLASSES)}"
    rows.append((len(CLASSES) + 1, above, "picture", "all of them", len(rows), [*leaves], 1, 0))
    synsets = np.empty((len(rows), 1), dtype=[(name, "O") for name in _FIELDS.split()])
    for place, row in enumerate(rows):
        synsets[place, 0] = row
    content = io.BytesIO()
    savemat(content, {"synsets": synsets})
    # The first 116 bytes are free text, in which scipy writes the time.
    path.write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + content.getvalue()[116:])
