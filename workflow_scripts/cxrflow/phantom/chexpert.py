"""A third hospital: patients of the CheXpert copy, and cases drawn to order for 8x200.

Bodies, courses and reports are as in the MIMIC-CXR copy, from random streams of their own; images
have another look (darker, flatter, smooth, mostly with black edges, 8 bits), most are portable.
Of each category of ConVIRT's 8x200 sets there are patients who have that and nothing else
(Appendix C): candidates, and queries, which are well posed and show it clearly.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cxrflow.phantom.acquisition import Acquisition, Look, sample_acquisition, sample_acquisitions
from cxrflow.phantom.course import Chapter, Finding, sample_course, sample_finding
from cxrflow.phantom.patient import Patient, Study, sample_times, with_body
from cxrflow.phantom.report import write_report
from cxrflow.phantom.settings import HospitalSettings

#: The labels, in the order of CheXpert's lists.
OBSERVATIONS = (
    *("No Finding", "Enlarged Cardiomediastinum", "Cardiomegaly", "Lung Opacity", "Lung Lesion"),
    *("Edema", "Consolidation", "Pneumonia", "Atelectasis", "Pneumothorax", "Pleural Effusion"),
    *("Pleural Other", "Fracture", "Support Devices"),
)
CATEGORIES = (
    *("Atelectasis", "Cardiomegaly", "Edema", "Fracture", "No Finding", "Pleural Effusion"),
    *("Pneumonia", "Pneumothorax"),
)
LOOK = Look(
    gamma=(1.3, 1.7),
    contrast=(0.72, 0.9),
    exposure=(0.02, 0.08),
    noise=(0.004, 0.012),
    blur=(0.0015, 0.004),
    collimation=(0.02, 0.07),
    collimated_share=0.75,
    grid_share=0.02,
)
#: What CheXpert is like: 10 % of the studies without a finding, 85 % of the frontal images AP, 14 %
#: of all lateral, 2 % of the studies with a second frontal one.
_SHARES = {
    "no_pathology_share": 0.1,
    "several_pathologies_share": 0.5,
    "ap_share": 0.75,
    "lateral_share": 0.6,
    "lateral_only_share": 0.0,
    "second_frontal_share": 0.02,
    "blank_view_share": 0.0,
}
#: Shares of one to four studies in train.
_LENGTHS = (0.45, 0.25, 0.2, 0.1)
#: Six patients of 8x200 have a candidate and a query.
_BOTH = 6
_CLEAR = 0.6  # severity from which a query shows its category clearly
#: Candidates are AP as often as published: 1,101 of 1,600.
_AP_CANDIDATES = 0.69
#: Numbers of the first patients of the published valid and test parts.
_FIRST_VALID, _FIRST_TEST = 64_541, 64_741
_STREAM = 111
_REPORT = 4  # its stream, after those of body, course, times and images
#: What counts as a lung opacity, and as a wide mediastinum, to who reads the image.
_PARENTS: Mapping[str, frozenset[str]] = {
    "Lung Opacity": frozenset(
        {"Lung Opacity", "Pneumonia", "Consolidation", "Atelectasis", "Edema", "Lung Lesion"}
    ),
    "Enlarged Cardiomediastinum": frozenset({"Cardiomegaly"}),
}

Labels = dict[str, float | None]


@dataclass(frozen=True)
class Sizes:
    """Patients by part (one study each in valid and test), images of 8x200 by category."""

    train: int
    valid: int
    test: int
    candidates: int
    queries: int


def sizes(settings: HospitalSettings) -> Sizes:
    """Follow the size of the hospital up to the published sizes: 200 / 10 of 8x200, 200 / 500."""

    def share(divisor: int, least: int, most: int) -> int:
        return min(max(settings.patients // divisor, least), most)

    candidates = share(29, 2, 200)
    return Sizes(
        train=share(8, 6, 60_000),
        valid=share(12, 6, 200),
        test=share(60, 2, 500),
        candidates=candidates,
        queries=min(max(candidates // 2, 1), 10),
    )


@dataclass(frozen=True)
class Order:
    """An image drawn to order: candidate or query of a category."""

    part: str
    category: str


@dataclass(frozen=True)
class Member:
    """A patient of the copy: number, part, and the orders that the studies are drawn for."""

    number: int
    part: str
    orders: tuple[Order, ...] = ()

    @property
    def name(self) -> str:
        """The folder."""
        return f"patient{self.number:05d}"


def members(settings: HospitalSettings) -> list[Member]:
    """All patients by number: train, those drawn to order, valid, test."""
    size = sizes(settings)
    orders: list[tuple[Order, ...]] = []
    for place, category in enumerate(CATEGORIES):
        candidate, query = Order("candidate", category), Order("query", category)
        both = 1 if place < _BOTH else 0
        orders += [(candidate, query)] * both
        orders += [(candidate,)] * (size.candidates - both) + [(query,)] * (size.queries - both)
    first = size.train + 1
    return [
        *(Member(number, "train") for number in range(1, first)),
        *(Member(first + place, "train", order) for place, order in enumerate(orders)),
        *(Member(_FIRST_VALID + place, "valid") for place in range(size.valid)),
        *(Member(_FIRST_TEST + place, "test") for place in range(size.test)),
    ]


def make_chexpert_patient(settings: HospitalSettings, member: Member) -> Patient:
    """Draw a patient, who depends on the seed, the number and the orders alone."""
    settings = settings.model_copy(update=_SHARES)
    body, course, clock, camera = (_rng(settings, member, stream) for stream in range(4))
    if member.orders:
        chapters = [_ordered(course, order) for order in member.orders]
    else:
        length = int(course.choice([1, 2, 3, 4], p=_LENGTHS)) if member.part == "train" else 1
        chapters = sample_course(course, settings, length)
    studies = []
    times = sample_times(clock, settings, len(chapters))
    for number, (time, chapter) in enumerate(zip(times, chapters, strict=True)):
        images: tuple[Acquisition, ...]
        if member.orders:
            images = (_ordered_image(camera, settings, member.orders[number]),)
        else:
            images = sample_acquisitions(camera, settings, ("1", "2", "3"))
        own = tuple(
            _named(member, number, place, toned(image, camera))
            for place, image in enumerate(images)
        )
        studies.append(Study(member.number, number + 1, time, *chapter, own))
    return with_body(body, member.number, member.number, studies)


def labels_of(settings: HospitalSettings, member: Member, patient: Patient, number: int) -> Labels:
    """All 14 labels of a study: 1, 0, -1 and None as its report's words have it in train, true ones
    elsewhere; of a case drawn to order 1 and 0 alone."""
    study = patient.studies[number]
    if member.orders:
        return {name: float(name == member.orders[number].category) for name in OBSERVATIONS}
    if member.part == "train":
        rng = np.random.default_rng([settings.seed, member.number, _REPORT, _STREAM, number])
        said = write_report(patient, study, rng, settings).labels
        return {name: _state(said.get(name)) for name in OBSERVATIONS}
    return truth(study)


def truth(study: Study) -> Labels:
    """What radiologists see in a study's images: 1 or 0 of each observation."""
    there = {finding.name for finding in study.findings}
    seen = {
        name: float(bool(there & _PARENTS.get(name, frozenset({name})))) for name in OBSERVATIONS
    }
    return {**seen, "No Finding": float(not there - {"Support Devices"})}


def _state(value: int | None) -> float | None:
    return None if value is None else float(value)


def _rng(settings: HospitalSettings, member: Member, stream: int) -> np.random.Generator:
    return np.random.default_rng([settings.seed, member.number, stream, _STREAM])


def _ordered(rng: np.random.Generator, order: Order) -> Chapter:
    """A study with the category's finding and no other."""
    findings: tuple[Finding, ...] = ()
    if order.category != "No Finding":
        made = sample_finding(rng, order.category, 1)
        while order.part == "query" and made.severity < _CLEAR:
            made = sample_finding(rng, order.category, 1)
        findings = (made,)
    return Chapter(findings, {}, ())


def _ordered_image(
    rng: np.random.Generator, settings: HospitalSettings, order: Order
) -> Acquisition:
    """A frontal image; a query is not spoilt."""
    if order.part == "query":
        settings = settings.model_copy(update={"spoilt_share": 0.0})
    projection = "AP" if rng.random() < _AP_CANDIDATES else "PA"
    return sample_acquisition(rng, settings, "1", projection)


def _named(member: Member, study: int, place: int, image: Acquisition) -> Acquisition:
    """The image under the name of its file, without the ending."""
    side = "frontal" if image.frontal else "lateral"
    return replace(image, image_id=f"{member.name}/study{study + 1}/view{place + 1}_{side}")


def toned(image: Acquisition, rng: np.random.Generator) -> Acquisition:
    """The image with the tone of this hospital; what is spoilt about it stays."""
    drawn: dict[str, Any] = {
        name: round(float(rng.uniform(*getattr(LOOK, name))), 5)
        for name in ("gamma", "contrast", "exposure", "noise", "blur", "collimation")
    }
    if rng.random() >= LOOK.collimated_share:
        drawn["collimation"] = 0.0
    spoilt = {"overexposed": "exposure", "blurred": "blur"}.get(image.spoilt or "")
    drawn.pop(spoilt or "", None)
    grid = round(float(rng.uniform(0.008, 0.02)), 4) if rng.random() < LOOK.grid_share else 0.0
    return replace(image, **drawn, grid=grid, bits=8, monochrome1=False)
