"""The musculoskeletal copy: the folder that a hospital fills with bone radiographs and reports."""

from pathlib import Path

from cxr_hospital.canvas import grey
from cxr_hospital.musculoskeletal.drawing import draw_bones
from cxr_hospital.musculoskeletal.report import bone_report
from cxr_hospital.musculoskeletal.study import BoneStudy, bone_studies, film_side
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer, each, write_table


def _write_study(output: Path, settings: HospitalSettings, study: BoneStudy) -> int:
    name = study_name(study)
    (output / "reports" / f"{name}.txt").write_text(bone_report(settings, study))
    size = film_side(settings)
    for number, film in enumerate(study.films, start=1):
        image = draw_bones(
            study.region, study.side, study.build, study.defects, study.seed, film, size
        )
        grey(image).save(output / "images" / f"{name}_{number}.png")
    return len(study.films)


def study_name(study: BoneStudy) -> str:
    """The id of a study."""
    return f"b{study.index:06d}{study.number + 1}"


@dataset_writer()
def write_musculoskeletal(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write a fifth as many studies as the chest copy has; ConVIRT: 48,000 and 217,000 pairs."""
    for subfolder in ("images", "reports"):
        (folder / subfolder).mkdir()
    number = min(max(settings.patients // 2, 14), 48_000)
    studies = bone_studies(settings, "musculoskeletal", number)
    images = sum(each(studies, threads, "musculoskeletal", _write_study, folder, settings))
    columns = ("study_id", "patient_id", "body_part")
    rows = [(study_name(study), f"m{study.index:06d}", study.region) for study in studies]
    write_table(folder / "studies.csv", columns, rows)
    return {
        "studies": len(studies),
        "patients": len({study.index for study in studies}),
        "images": images,
        "abnormal_studies": sum(bool(study.defects) for study in studies),
    }
