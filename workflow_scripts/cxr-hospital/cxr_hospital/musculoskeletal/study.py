"""Studies of a region of the arm: the person, the abnormalities and the films.

Two hospitals with looks of their own: that of the musculoskeletal set, whose studies have reports,
and that of the MURA copy. Patient ``index`` depends on the seed, the hospital and its own index
alone; films are drawn from a stream of their own, so that pose and tone say nothing about a study.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

import numpy as np

from cxr_hospital.acquisition import sample_acquisition
from cxr_hospital.musculoskeletal.abnormalities import Abnormality, sample_abnormality
from cxr_hospital.musculoskeletal.drawing import REGIONS, VIEWS, BoneView
from cxr_hospital.musculoskeletal.skeleton import Build, sample_build
from cxr_hospital.settings import HospitalSettings

#: How often a study is abnormal (MURA: 5,177 of 13,457), and the kinds of its abnormality.
ABNORMAL = 0.45
KIND_SHARES: Mapping[str, float] = {
    "fracture": 0.30,
    "hardware": 0.20,
    "degeneration": 0.20,
    "dislocation": 0.15,
    "lytic lesion": 0.15,
}
#: How often an abnormality of a bone comes with a worn joint.
_ALSO_WORN = 0.15
_SEVERAL_STUDIES = 0.2
_THREE_FILMS = 0.5  # else two: 2.5 a study (ConVIRT, section 4.1)
#: A random world for each hospital, apart from those of chests.
_STREAMS = {"musculoskeletal": 78, "mura": 79}


#: Ranges of a hospital's films: tone as of a chest, and height over width.
_LOOKS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "musculoskeletal": {
        "gamma": (0.75, 1.05),
        "contrast": (0.9, 1.12),
        "exposure": (0.0, 0.06),
        "noise": (0.008, 0.025),
        "aspect": (1.1, 1.4),
    },
    "mura": {
        "gamma": (1.05, 1.6),
        "contrast": (0.8, 1.15),
        "exposure": (0.0, 0.14),
        "noise": (0.012, 0.04),
        "aspect": (0.9, 1.35),
    },
}
#: How often a film shows the letter of its side.
_MARKED = {"musculoskeletal": 0.8, "mura": 0.5}


@dataclass(frozen=True)
class BoneStudy:
    """One study; ``index`` of its patient, ``number`` among the patient's, ``age`` and ``sex``."""

    index: int
    number: int
    sex: str
    age: int
    region: str
    side: str
    build: Build
    defects: tuple[Abnormality, ...]
    seed: int
    films: tuple[BoneView, ...]


def film_side(settings: HospitalSettings) -> int:
    """Pixels of a film's shorter side: five eighths of a chest's, which holds more."""
    return max(48, settings.image_size * 5 // 8)


def bone_studies(settings: HospitalSettings, hospital: str, studies: int) -> list[BoneStudy]:
    """The first so many studies of a hospital, in the order of patients."""
    patients = (bone_patient(settings, hospital, index) for index in count())
    return list(islice((study for patient in patients for study in patient), studies))


def bone_patient(settings: HospitalSettings, hospital: str, index: int) -> tuple[BoneStudy, ...]:
    """Draw patient ``index`` (from 0): one study, or two of different parts."""
    body, course, camera = (
        np.random.default_rng([settings.seed, index, stream, _STREAMS[hospital]])
        for stream in range(3)
    )
    sex, age = str(body.choice(["F", "M"])), int(np.clip(body.normal(48, 19), 18, 91))
    build = sample_build(body)
    several = course.random() < _SEVERAL_STUDIES
    regions = course.permutation(len(REGIONS))[: 1 + int(several)]
    return tuple(
        BoneStudy(
            index=index,
            number=number,
            sex=sex,
            age=age,
            region=REGIONS[place],
            side=str(course.choice(["left", "right"])),
            build=build,
            defects=_sample_abnormalities(course, REGIONS[place]),
            seed=int(course.integers(2**62)),
            films=tuple(_sample_films(camera, settings, hospital)),
        )
        for number, place in enumerate(regions)
    )


def _sample_abnormalities(rng: np.random.Generator, region: str) -> tuple[Abnormality, ...]:
    """Draw the abnormalities of a study, a worn joint first."""
    kind = str(rng.choice(list(KIND_SHARES), p=list(KIND_SHARES.values())))
    main = sample_abnormality(rng, region, kind)
    worn = sample_abnormality(rng, region, "degeneration")
    abnormal, also = rng.random() < ABNORMAL, rng.random() < _ALSO_WORN
    if not abnormal:
        return ()
    combined = also and kind in ("fracture", "hardware", "lytic lesion")
    return (worn, main) if combined else (main,)


def _sample_films(
    rng: np.random.Generator, settings: HospitalSettings, hospital: str
) -> Iterator[BoneView]:
    """Two films, or three."""
    views = tuple(VIEWS)
    for view in views if rng.random() < _THREE_FILMS else views[::2]:
        acquisition = sample_acquisition(rng, settings, "", "PA")
        changes: dict[str, Any] = {
            name: round(float(rng.uniform(*bounds)), 4) for name, bounds in _LOOKS[hospital].items()
        }
        if acquisition.spoilt == "overexposed":
            changes["contrast"] = round(0.5 * changes["contrast"], 4)
        # A limb is more rotated on the plate than a chest, and better centred.
        turned = round(3 * acquisition.rotation, 3)
        changes["rotation"] = acquisition.rotation if acquisition.spoilt == "rotated" else turned
        changes["shift_x"] = round(0.7 * acquisition.shift_x, 4)
        changes["shift_y"] = round(0.6 * acquisition.shift_y, 4)
        marked = bool(rng.random() < _MARKED[hospital])
        yield BoneView(view, marked, replace(acquisition, grid=0.0, **changes))
