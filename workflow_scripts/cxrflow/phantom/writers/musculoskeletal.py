"""The musculoskeletal copy: the folder that a hospital fills with bone radiographs and reports."""

import functools
from pathlib import Path

import numpy as np
from PIL import Image

from cxrflow.phantom.musculoskeletal.drawing import draw_bones
from cxrflow.phantom.musculoskeletal.report import bone_report
from cxrflow.phantom.musculoskeletal.study import BoneStudy, bone_studies, film_side
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.writers.folder import each, write_dataset, write_table


def _write_study(output: Path, settings: HospitalSettings, study: BoneStudy) -> int:
    name = study_name(study)
    (output / "reports" / f"{name}.txt").write_text(bone_report(settings, study))
    size = film_side(settings)
    for number, film in enumerate(study.films, start=1):
        image = draw_bones(study.part, study.side, study.build, study.found, study.seed, film, size)
        picture = Image.fromarray(np.rint(image * 255).astype(np.uint8))
        picture.save(output / "images" / f"{name}_{number}.png")
    return len(study.films)


def study_name(study: BoneStudy) -> str:
    """The id of a study."""
    return f"b{study.index:06d}{study.number + 1}"


def write_musculoskeletal(settings: HospitalSettings, output: str | Path, threads: int = 1) -> bool:
    """Write a study for five patients of the chest copy; False when they are there already."""

    def build(folder: Path) -> dict[str, int]:
        for part in ("images", "reports"):
            (folder / part).mkdir()
        number = min(max(settings.patients // 5, 14), 48_000)  # the paper has 48,000 pairs
        studies = bone_studies(settings, "musculoskeletal", number)
        one = functools.partial(_write_study, folder, settings)
        images = sum(each(one, studies, threads, "musculoskeletal"))
        columns = ("study_id", "patient_id", "body_part")
        rows = [(study_name(study), f"m{study.index:06d}", study.part) for study in studies]
        write_table(folder / "studies.csv", columns, rows)
        return {
            "studies": len(studies),
            "patients": len({study.index for study in studies}),
            "images": images,
            "abnormal_studies": sum(bool(study.found) for study in studies),
        }

    return write_dataset("musculoskeletal", settings, output, build)
