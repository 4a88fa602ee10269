"""Patients of the synthetic hospital: a body, and a course of studies with findings and images.

Pure state, no drawing. Patient ``index`` depends on ``(settings.seed, index)`` alone; body, course,
times and acquisitions come from separate random streams, so that none can be read off another.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain

import numpy as np

from cxr_hospital.acquisition import REJECTED, SPOILT, Acquisition, sample_acquisitions
from cxr_hospital.course import Finding, sample_course
from cxr_hospital.settings import HospitalSettings

MOST_STUDIES = 5
#: Shares of 2, 3, 4 and 5 studies among patients with more than one.
_LENGTHS = (0.45, 0.29, 0.16, 0.10)
_BODY, _COURSE, _TIMES, _IMAGES = range(4)
#: Index of the first patient of MS-CXR-T: beyond those of any hospital.
FIRST_FOLLOWED = 1_000_000
#: Such a patient has several studies and more findings.
_FOLLOWED_SHARES = {
    "several_studies_share": 1.0,
    "no_pathology_share": 0.05,
    "several_pathologies_share": 0.55,
}


@dataclass(frozen=True)
class Anatomy:
    """Shape of one chest, in units of half the image's shorter side unless said otherwise.

    ``chest_width``, ``chest_height``: half width of the rib cage and height of the lungs.
    ``heart_ratio``: heart over chest width (cardiothoracic ratio), normal below 0.5.
    ``heart_tilt``: share of the heart left of the midline. ``heart_shift``: how far the heart is
    drawn to the patient's left. ``mediastinum``: half width.
    ``dome_right``, ``dome_left``: rise of the diaphragm's domes. ``aorta``: size of the knob.
    ``breast``: 0 none to 1. ``fat``: soft tissue beside the ribs. ``vessels``: density of the lung
    markings. ``gas``: stomach bubble, 0 none to 1.
    """

    chest_width: float
    chest_height: float
    heart_ratio: float
    heart_tilt: float
    heart_shift: float
    mediastinum: float
    dome_right: float
    dome_left: float
    rib_pairs: int
    rib_slope: float
    rib_contrast: float
    clavicle_slope: float
    spine_curve: float
    aorta: float
    breast: float
    fat: float
    vessels: float
    gas: float


@dataclass(frozen=True)
class Study:
    """One visit: its findings, their changes since the prior study, and the images.

    ``changes`` maps a finding's key to new, improved, stable or worsened, and is empty in a
    patient's first study. ``resolved``: findings of the prior study that are gone, in their state
    there.
    """

    subject_id: int
    study_id: int
    time: datetime
    findings: tuple[Finding, ...]
    changes: Mapping[int, str]
    resolved: tuple[Finding, ...]
    images: tuple[Acquisition, ...]


@dataclass(frozen=True)
class Patient:
    """One patient; ``studies`` in order of time; ``seed`` feeds the fine structure of the body."""

    index: int
    subject_id: int
    sex: str
    age: int
    anatomy: Anatomy
    seed: int
    studies: tuple[Study, ...]


def _scatter(number: int, seed: int) -> int:
    """Permute 0…9,999,999 without visible order: a 24-bit bijection with cycle walking."""
    mask = (1 << 24) - 1
    value = number
    while True:
        for round_number in range(3):
            value = (value * 0x9E3779 + seed * 0x5851 + round_number) & mask
            value ^= value >> 11
        if value < 10_000_000:
            return value


def dicom_id(*key: object) -> str:
    """A 44-character image name, 40 hexadecimal digits in five groups, fixed by ``key``."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).hexdigest()[:40]
    return "-".join(digest[start : start + 8] for start in range(0, 40, 8))


def sample_anatomy(rng: np.random.Generator, sex: str) -> Anatomy:
    """Draw a chest; women are a little smaller and may show breast shadows."""

    def around(centre: float, spread: float) -> float:
        return round(centre + spread * float(np.clip(rng.normal(), -2, 2)), 4)

    smaller = 0.03 if sex == "F" else 0.0
    return Anatomy(
        chest_width=around(0.73 - smaller, 0.03),
        chest_height=around(1.30 - smaller, 0.05),
        heart_ratio=around(0.435, 0.02),
        heart_shift=around(0.0, 0.045),
        heart_tilt=around(0.68, 0.045),
        mediastinum=around(0.135, 0.012),
        dome_right=around(0.24, 0.025),
        dome_left=around(0.22, 0.025),
        rib_pairs=int(rng.integers(8, 11)),
        rib_slope=around(0.34, 0.05),
        rib_contrast=around(0.10, 0.018),
        clavicle_slope=around(0.10, 0.05),
        spine_curve=around(0.0, 0.015),
        aorta=around(0.085, 0.012),
        breast=round(float(rng.uniform(0.3, 1.0)), 3) if sex == "F" and rng.random() < 0.8 else 0.0,
        fat=round(float(rng.uniform(0.07, 0.17)), 3),
        vessels=around(1.0, 0.12),
        gas=round(float(rng.uniform(0.4, 1.0)), 3) if rng.random() < 0.6 else 0.0,
    )


def with_body(
    rng: np.random.Generator, index: int, subject_id: int, studies: Sequence[Study]
) -> Patient:
    """Draw sex, age in years and body for these studies."""
    sex, age = str(rng.choice(["F", "M"])), int(np.clip(rng.normal(60, 17), 18, 91))
    anatomy = sample_anatomy(rng, sex)
    return Patient(index, subject_id, sex, age, anatomy, int(rng.integers(2**62)), tuple(studies))


def sample_times(
    rng: np.random.Generator, settings: HospitalSettings, studies: int
) -> list[datetime]:
    """Shifted study times in order; gaps from hours to years, now and then none at all."""
    time = datetime(2105, 1, 1) + timedelta(minutes=int(rng.integers(80 * 365 * 24 * 60)))
    times = [time]
    for _ in range(studies - 1):
        hours = float(np.clip(rng.lognormal(4.6, 1.8), 3, 24 * 1200))
        if rng.random() >= settings.time_tie_share:
            time = time + timedelta(seconds=round(hours * 3600))
        times.append(time)
    return times


def followed(settings: HospitalSettings) -> range:
    """Indices of the patients of MS-CXR-T."""
    count = settings.followed.patients if settings.followed else 0
    return range(FIRST_FOLLOWED, FIRST_FOLLOWED + count)


def of_mimic_cxr(settings: HospitalSettings) -> list[int]:
    """Indices of the patients of the MIMIC-CXR copy."""
    return list(chain(range(settings.patients), followed(settings)))


def make_patient(settings: HospitalSettings, index: int) -> Patient:
    """Draw patient ``index`` (from 0); the number of patients plays no part."""
    closely = index >= FIRST_FOLLOWED
    if closely and settings.followed is not None:
        second = {"second_frontal_share": settings.followed.second_frontal_share}
        settings = settings.model_copy(update=_FOLLOWED_SHARES | second)
    body, course, clock, camera = (
        np.random.default_rng([settings.seed, index, stream])
        for stream in (_BODY, _COURSE, _TIMES, _IMAGES)
    )
    several = course.random() < settings.several_studies_share
    count = int(course.choice([2, 3, 4, 5], p=_LENGTHS)) if several else 1
    subject_id = 10_000_000 + _scatter(index % 10_000_000, settings.seed)
    chapters = sample_course(course, settings, count, followed=closely)
    studies = []
    times = sample_times(clock, settings, count)
    for number, (time, chapter) in enumerate(zip(times, chapters, strict=True)):
        names = [dicom_id(settings.seed, index, number, image) for image in range(3)]
        kinds = REJECTED if closely else SPOILT
        images = sample_acquisitions(camera, settings, names, kinds)
        scattered = _scatter((index * MOST_STUDIES + number) % 10_000_000, settings.seed + 1)
        studies.append(Study(subject_id, 50_000_000 + scattered, time, *chapter, images))
    return with_body(body, index, subject_id, studies)


def hospital(settings: HospitalSettings) -> Iterator[Patient]:
    """All patients in order of their index."""
    return (make_patient(settings, index) for index in of_mimic_cxr(settings))
