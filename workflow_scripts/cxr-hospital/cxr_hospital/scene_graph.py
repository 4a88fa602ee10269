"""A scene graph of a frontal image, as Chest ImaGenome has them: regions, attributes, comparisons.

Regions are boxes of the anatomy, in the 224 x 224 letter-boxed image and in original pixels.
Attributes and comparisons follow the report, sentence by sentence, not the truth: a change without
a word is missing, and now and then one is misread, as by the published pipeline.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cxr_hospital.acquisition import Acquisition
from cxr_hospital.anatomy import Chest, sides_of
from cxr_hospital.canvas import Canvas, Points
from cxr_hospital.course import Finding
from cxr_hospital.patient import Patient, Study
from cxr_hospital.progression import (
    DIRECTIONS,
    IMPROVING,
    STABLE,
    WORSENING,
    ChangeMention,
    ImagePair,
    mentions,
)
from cxr_hospital.settings import HospitalSettings

FRAME = 224
COMPARISONS = {IMPROVING: "improved", STABLE: "no change", WORSENING: "worsened"}
ATTRIBUTES = {
    "Consolidation": "anatomicalfinding|yes|consolidation",
    "Edema": "anatomicalfinding|yes|pulmonary edema/hazy opacity",
    "Pleural Effusion": "anatomicalfinding|yes|pleural effusion",
    "Pneumonia": "disease|yes|pneumonia",
    "Pneumothorax": "anatomicalfinding|yes|pneumothorax",
}
_SIDES = {1: "left", -1: "right"}
_ZONES = {"upper": "upper lung zone", "middle": "mid lung zone", "lower": "lower lung zone"}
#: Region of a finding by its zone; the whole lung where the zone has none.
_REGION = {
    **_ZONES,
    "apex": "apical zone",
    "base": "costophrenic angle",
    "hilum": "hilar structures",
}
#: Shares of mentions that the pipeline reads as another direction, and as two directions.
_MISREAD, _READ_TWICE = 0.03, 0.02
_STREAM = 105


def regions(chest: Chest) -> dict[str, Points]:
    """Name -> points [N, 2] in chest coordinates whose bounds are the region's box."""
    boxes = {"cardiac silhouette": chest.heart(), "mediastinum": chest.mediastinum()}
    for side, name in _SIDES.items():
        lung = chest.lung(side)
        boxes[f"{name} lung"] = lung
        for zone, words in _ZONES.items():
            place = chest.place(side, zone)
            boxes[f"{name} {words}"] = _around(place.centre, place.reach)
        top, inner = lung[:, 1].min(), side * 0.15 * chest.width
        outer = side * chest.width
        boxes[f"{name} apical zone"] = np.array([[inner, top], [outer, top + 0.2 * chest.height]])
        boxes[f"{name} hilar structures"] = _around(chest.hilum(side), (0.14, 0.2))
        angle = (0.86 * outer, chest.base - 0.08)
        boxes[f"{name} costophrenic angle"] = _around(angle, (0.12, 0.12))
    return boxes


def _around(centre: tuple[float, float], reach: tuple[float, float]) -> Points:
    return np.array([np.subtract(centre, reach), np.add(centre, reach)], dtype=np.float64)


def _objects(patient: Patient, image: Acquisition, size: int) -> list[dict[str, Any]]:
    """Boxes of the regions that lie in the image."""
    canvas = Canvas(image, size)
    longer = max(canvas.width, canvas.height)
    scale = FRAME / longer
    pad = np.array([longer - canvas.width, longer - canvas.height]) / 2
    objects = []
    for name, points in regions(Chest(patient.anatomy, image, 0.0)).items():
        corners = canvas.pixels(points)
        bounds = [canvas.width, canvas.height]
        low = np.clip(corners.min(0), 0, bounds).round().astype(int)
        high = np.clip(corners.max(0), 0, bounds).round().astype(int)
        if (high <= low).any():
            continue
        small = np.rint(np.concatenate([low + pad, high + pad]) * scale).astype(int).tolist()
        large = [*low.tolist(), *high.tolist()]
        objects.append(
            {
                "object_id": f"{image.image_id}_{name}",
                **_corners(small, ""),
                "bbox_name": name,
                "synsets": [],
                "name": name.title(),
                **_corners(large, "original_"),
            }
        )
    return objects


def _corners(box: list[int], prefix: str) -> dict[str, int]:
    x1, y1, x2, y2 = box
    values = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "width": x2 - x1, "height": y2 - y1}
    return {f"{prefix}{name}": value for name, value in values.items()}


def regions_of(finding: Finding) -> list[str]:
    """Names of the regions that a finding stands in."""
    sides = sides_of(finding) if finding.side != "none" else (-1, 1)
    return [f"{_SIDES[side]} {_REGION.get(finding.zone, 'lung')}" for side in sides]


def relationships(
    settings: HospitalSettings, pair: ImagePair, sentences: Sequence[str]
) -> list[dict[str, Any]]:
    """Comparisons of the current image's regions with the prior's, as the report words them."""
    study = pair.study
    rng = np.random.default_rng([settings.seed, study.study_id, _STREAM])
    comparisons = []
    readings = [(mention, *rng.random(2)) for mention in mentions(study, sentences)]
    for number, (mention, misread, twice) in enumerate(readings):
        directions = list(_read(mention, misread, twice))
        for region in dict.fromkeys(name for finding in mention.of for name in regions_of(finding)):
            comparisons += [
                {
                    "relationship_id": f"{study.study_id}|{number}|{region}|{way}",
                    "predicate": "[]",
                    "synsets": [],
                    "relationship_names": [f"comparison|yes|{COMPARISONS[way]}"],
                    "relationship_contexts": [1.0],
                    "phrase": mention.sentence,
                    "attributes": [ATTRIBUTES[mention.finding]],
                    "bbox_name": region,
                    "subject_id": f"{pair.current.image_id}_{region}",
                    "object_id": f"{pair.prior.image_id}_{region}",
                }
                for way in directions
            ]
    return comparisons


def _read(mention: ChangeMention, misread: float, twice: float) -> Iterator[str]:
    """Yield the one or two directions that the pipeline reads from a mention."""
    options = [way for way in dict.fromkeys(DIRECTIONS.values()) if way != mention.direction]
    wrong = options[int(2 * misread / _MISREAD) % 2]
    yield wrong if misread < _MISREAD else mention.direction
    if twice < _READ_TWICE:
        yield (mention.direction if misread < _MISREAD else options[int(2 * twice / _READ_TWICE)])


def _attributes(study: Study, image: Acquisition, sentences: Sequence[str]) -> list[dict[str, Any]]:
    """Findings that the report mentions, by region."""
    attributes = []
    for finding in study.findings:
        if finding.name not in ATTRIBUTES:
            continue
        words = ATTRIBUTES[finding.name].split("|")[-1].split("/")[0].split()[-1]
        phrases = [text for text in sentences if re.search(words, text, re.IGNORECASE)]
        for region in regions_of(finding) if phrases else ():
            attributes.append(
                {
                    "object_id": f"{image.image_id}_{region}",
                    "bbox_name": region,
                    region: True,
                    "attributes": [[ATTRIBUTES[finding.name]] for _ in phrases],
                    "phrases": phrases,
                    "phrase_IDs": [f"{study.study_id}|{n}" for n, _ in enumerate(phrases)],
                    "sections": ["finalreport" for _ in phrases],
                }
            )
    return attributes


def scene_graph(
    settings: HospitalSettings,
    patient: Patient,
    study: Study,
    image: Acquisition,
    pair: ImagePair | None,
    sentences: Sequence[str],
) -> dict[str, Any]:
    """One file of the silver data set; ``pair`` is the image with the one it is compared with."""
    return {
        "image_id": image.image_id,
        "viewpoint": image.view,
        "patient_id": patient.subject_id,
        "study_id": study.study_id,
        "gender": patient.sex,
        "age_decile": f"{patient.age // 10 * 10}-{patient.age // 10 * 10 + 10}",
        "reason_for_exam": "___",
        "StudyOrder": patient.studies.index(study) + 1,
        "StudyDateTime": study.time.strftime("%Y-%m-%d %H:%M:%S UTC"),
        "objects": _objects(patient, image, settings.image_size),
        "attributes": _attributes(study, image, sentences),
        "relationships": [] if pair is None else relationships(settings, pair, sentences),
    }
