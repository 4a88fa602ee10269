"""ImageNet's copy (ILSVRC 2012): generic pictures, folders of classes and a validation list."""

import io
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from cxrflow.phantom.pictures import CLASSES, picture
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import Counts, dataset_writer, each

KIT = Path("ILSVRC2012_devkit_t12", "data")
#: One validation picture for so many training pictures.
_TRAIN_PER_VALIDATION = 5
_STREAM = 2012  # of the seed's numbers
_FIRST = 90_000_001  # WordNet has no such number
_FIELDS = "ILSVRC2012_ID WNID words gloss num_children children wordnet_height num_train_images"


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
