"""The MURA copy: another hospital's bone studies; two lists a part, paths that name the release."""

from pathlib import Path

import numpy as np

from cxr_hospital.canvas import grey
from cxr_hospital.musculoskeletal.drawing import draw_bones
from cxr_hospital.musculoskeletal.study import BoneStudy, bone_studies, film_side
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each

_RELEASE = "MURA-v1.1"
_COLOUR = 0.1  # of the images are stored as colour, grey as they are
#: One patient in ``_VALID`` is in the validation split; in MURA, one in fifteen.
_VALID = 4


def _split(study: BoneStudy) -> str:
    return "valid" if study.index % _VALID == _VALID - 1 else "train"


def _folder(study: BoneStudy) -> str:
    label = "positive" if study.defects else "negative"
    place = f"{_split(study)}/XR_{study.region.upper()}/patient{study.index + 1:05d}"
    return f"{place}/study{study.number + 1}_{label}"


def _write_study(output: Path, settings: HospitalSettings, study: BoneStudy) -> list[str]:
    folder, paths = _folder(study), []
    (output / folder).mkdir(parents=True)
    for number, film in enumerate(study.films, start=1):
        rng = np.random.default_rng([film.acquisition.seed, 1])
        size = round(film_side(settings) * float(rng.uniform(0.85, 1.2)))
        image = draw_bones(
            study.region, study.side, study.build, study.defects, study.seed, film, size
        )
        paths.append(f"{folder}/image{number}.png")
        grey(image).convert("RGB" if rng.random() < _COLOUR else "L").save(output / paths[-1])
    return paths


@dataset_writer()
def write_mura(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write a study for four patients of the chest copy."""
    number = min(max(settings.patients // 4, 28), 14_656)  # published: 13,457 and 1,199 studies
    studies = bone_studies(settings, "mura", number)
    written = list(each(studies, threads, "mura", _write_study, folder, settings))
    for split in ("train", "valid"):
        ours = [(s, p) for s, p in zip(studies, written, strict=True) if _split(s) == split]
        images = [f"{_RELEASE}/{path}\n" for _, paths in ours for path in paths]
        labels = [f"{_RELEASE}/{_folder(study)}/,{int(bool(study.defects))}\n" for study, _ in ours]
        (folder / f"{split}_image_paths.csv").write_text("".join(images))
        (folder / f"{split}_labeled_studies.csv").write_text("".join(labels))
    return {
        "studies": len(studies),
        "images": sum(map(len, written)),
        "abnormal_studies": sum(bool(study.defects) for study in studies),
        "valid_studies": sum(_split(study) == "valid" for study in studies),
    }
