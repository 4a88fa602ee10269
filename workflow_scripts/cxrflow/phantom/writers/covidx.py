"""The COVIDx v4 copy: two lists without header, images in four spellings of two formats."""

from pathlib import Path

import numpy as np

from cxrflow.phantom.canvas import grey
from cxrflow.phantom.covidx import CLASSES, covidx_case
from cxrflow.phantom.drawing import draw
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import Counts, dataset_writer, each

#: Of the test list's 300 lines 197 lack the collection.
_WITHOUT_SOURCE = 2 / 3


def _write_image(output: Path, settings: HospitalSettings, index: int) -> tuple[str, str, str]:
    """Write one image; returns its split, its class and its line."""
    case = covidx_case(settings, index)
    size = max(48, settings.image_size // 2)
    image = draw(case.patient, case.study, case.study.images[0], size).image
    split = "test" if case.tested else "train"
    path = output / "data" / split / case.file
    grey(image).save(path, quality=92)  # which PNG ignores
    line = [case.patient_id, case.file, case.label, case.source]
    rng = np.random.default_rng([case.study.images[0].seed, 2])
    if case.tested and rng.random() < _WITHOUT_SOURCE:
        line.pop()
    return split, case.label, " ".join(line)


@dataset_writer()
def write_covidx(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write an image for three patients of the chest copy."""
    for name in ("data/train", "data/test", "labels"):
        (folder / name).mkdir(parents=True)
    number = min(max(settings.patients // 3, 48), 13_898)
    written = list(each(range(number), threads, "covidx", _write_image, folder, settings))
    for split in ("train", "test"):
        lines = sorted(line for split_of_line, _, line in written if split_of_line == split)
        (folder / "labels" / f"{split}_COVIDx4.txt").write_text("\n".join(lines) + "\n")
    return {
        "train_images": sum(split == "train" for split, _, _ in written),
        "test_images": sum(split == "test" for split, _, _ in written),
        **{name: sum(label == name for _, label, _ in written) for name in CLASSES},
    }
