"""What jobs hand to each other and other programs to us: pixel stores and maps, a file changed.

A store that opens although a file of it has changed holds the same pixels, names and geometry. A
map that is read is of finite numbers.
"""

import io
import shutil
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from PIL import Image

from cxrflow.benchmarks.rows.external import read_map
from cxrflow.images.build import build_store
from cxrflow.images.geometry import Geometry
from cxrflow.images.settings import PixelSettings
from cxrflow.images.shards import Source
from cxrflow.images.store import PixelStore
from fuzz.mutations import damaged
from fuzz.texts import changed
from fuzz.trial import Trial

COUNT = 600
PICTURES = 5
SETTINGS = PixelSettings(images_per_shard=2, max_failed_share=0)


class Case(NamedTuple):
    """A store's folder, and the sound one; or a map."""

    path: Path
    sound: Path | None


def run(trial: Trial, work: Path) -> None:
    """Each case is a copy of a store with one file changed, or a changed map."""
    sound = work / "sound"
    write_sound(work, sound)
    read(Case(sound, sound))
    (work / "cases").mkdir()
    cases = [draw(trial.random(n), sound, work / f"cases/{n:05d}") for n in range(trial.count)]
    trial.attempt(read, cases)


def write_sound(work: Path, sound: Path, geometry: str = "shorter16") -> None:
    """A store of some pictures."""
    random = np.random.default_rng(0)
    for number in range(PICTURES):
        values = random.integers(0, 256, (40, 30 + number), dtype=np.uint8)
        Image.fromarray(values).save(work / f"{number}.png")
    sources = [Source(str(number), f"{number}.png") for number in range(PICTURES)]
    build_store(work, sources, Geometry.parse(geometry), SETTINGS, sound, 1)


def draw(random: Random, sound: Path, place: Path) -> Case:
    """Change a file of a copy, or a map."""
    if random.random() < 0.4:
        return Case(_map(random, place), None)
    shutil.copytree(sound, place)
    path = random.choice(sorted(p for p in place.iterdir() if not p.name.startswith(".")))
    content = path.read_bytes()
    if path.suffix == ".json":
        path.write_bytes(changed(random, path.name, content))
    else:
        path.write_bytes(damaged(random, content))
    return Case(place, sound)


def _map(random: Random, place: Path) -> Path:
    """A changed map: an array or a picture."""
    buffer = io.BytesIO()
    values = np.arange(48, dtype=random.choice(("<f4", "<f8", "<c8", "<i2", "|u1"))).reshape(6, 8)
    path = place.with_suffix(random.choice((".npy", ".png")))
    if path.suffix == ".npy":
        np.save(buffer, values)
    else:
        Image.fromarray(values.real.astype(np.uint8)).save(buffer, "PNG")
    path.write_bytes(damaged(random, buffer.getvalue()))
    return path


def read(case: Case) -> None:
    """Open a store and compare it, or read a map."""
    if case.sound is None:
        if not np.isfinite(read_map(case.path)).all():
            raise AssertionError("a map of numbers that are not finite was read")
        return
    store, sound = PixelStore(case.path), PixelStore(case.sound)
    rows = np.arange(len(sound))
    same = (
        store.geometry == sound.geometry
        and store.index["image_id"].equals(sound.index["image_id"])
        and np.array_equal(store.read(rows), sound.read(rows))
        and [store.placement(row) for row in rows] == [sound.placement(row) for row in rows]
    )
    if not same:
        raise AssertionError("a store was opened whose pixels are others")
