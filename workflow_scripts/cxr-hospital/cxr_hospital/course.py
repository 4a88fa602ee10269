"""Findings, and how they come, change and go between the studies of one patient.

A finding is one of the CheXpert observations that can be drawn, with side, zone, place within the
zone, size and severity. A study has at most three pathologies and one device. Names are drawn
independently of each other (only occupied places are refused), and devices independently of
pathologies, so that no finding predicts another. Often a second pathology is the first one's twin:
the same observation on the other side at another degree. To ground a phrase about one of the twins,
a model must read its side and degree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cxr_hospital.settings import FurtherFinding, HospitalSettings

ZONES = ("upper", "middle", "lower")
DEVICES = (
    *("endotracheal tube", "central venous catheter", "pacemaker", "chest tube"),
    *("nasogastric tube", "sternal wires"),
)
#: How often a new pathology is each of these; rarer where it seldom resolves, so that over all
#: studies the eight MS-CXR classes come out nearly even, with pneumonia first.
ONSET: Mapping[str, float] = {
    "Pneumonia": 0.175,
    "Pleural Effusion": 0.125,
    "Pneumothorax": 0.125,
    "Consolidation": 0.115,
    "Atelectasis": 0.115,
    "Lung Opacity": 0.115,
    "Edema": 0.105,
    "Cardiomegaly": 0.085,
    "Lung Lesion": 0.045,
    "Fracture": 0.040,
}
PATHOLOGIES = tuple(ONSET)
FINDINGS = (*PATHOLOGIES, "Support Devices")
#: The same where prevalence is a long tail, set so that over all studies the shares are about
#: MIMIC-CXR's, from a fifth of them to a hundredth.
ONSET_LONG_TAIL: Mapping[str, float] = {
    "Pleural Effusion": 0.217,
    "Lung Opacity": 0.188,
    "Atelectasis": 0.179,
    "Cardiomegaly": 0.136,
    "Edema": 0.097,
    "Pneumonia": 0.062,
    "Consolidation": 0.040,
    "Pneumothorax": 0.034,
    "Lung Lesion": 0.018,
    "Enlarged Cardiomediastinum": 0.017,
    "Fracture": 0.010,
    "Pleural Other": 0.004,
}
#: (resolves, improves, stays, worsens) from one study to the next.
_ACUTE = (0.28, 0.24, 0.24, 0.24)
_DYNAMICS: Mapping[str, tuple[float, float, float, float]] = {
    "Cardiomegaly": (0.12, 0.18, 0.45, 0.25),
    "Lung Lesion": (0.06, 0.10, 0.48, 0.36),
    "Fracture": (0.10, 0.00, 0.90, 0.00),
    "Support Devices": (0.35, 0.00, 0.65, 0.00),
    "Enlarged Cardiomediastinum": (0.15, 0.15, 0.50, 0.20),
    **dict.fromkeys(("Pleural Other", "Emphysema", "Fibrosis"), (0.0, 0.0, 0.8, 0.2)),
    "Hernia": (0.0, 0.0, 1.0, 0.0),
}
#: The same for the five findings and the patients of MS-CXR-T: about the shares of improving,
#: stable and worsening of BioViL-T Table C.1. New findings are worsening, resolved ones improving.
PROGRESSING: Mapping[str, tuple[float, float, float, float]] = {
    "Consolidation": (0.06, 0.10, 0.40, 0.44),
    "Edema": (0.14, 0.20, 0.23, 0.43),
    "Pleural Effusion": (0.08, 0.13, 0.47, 0.32),
    "Pneumonia": (0.04, 0.06, 0.23, 0.67),
    "Pneumothorax": (0.07, 0.10, 0.53, 0.30),
}
#: Onset in these patients: mostly one of the five, more often where Table C.1 has more.
ONSET_FOLLOWED: Mapping[str, float] = {
    "Consolidation": 0.15,
    "Edema": 0.18,
    "Pleural Effusion": 0.24,
    "Pneumonia": 0.16,
    "Pneumothorax": 0.15,
    "Atelectasis": 0.05,
    "Lung Opacity": 0.04,
    "Cardiomegaly": 0.03,
}
#: Bounds of all severities, and the least difference that reports call a change.
LEAST_SEVERITY, GREATEST_SEVERITY, LEAST_CHANGE = 0.2, 1.0, 0.15
#: Chance of a new pathology in a later study, by how many are still there.
_ONSET_LATER = (0.42, 0.24, 0.08)
MOST_PATHOLOGIES = len(_ONSET_LATER)
_FIRST_FURTHER = 101  # key of the first further finding; no course has so many others
#: Zones that a new finding takes, with their shares; the rest take the lung's three evenly.
_LUNG = dict.fromkeys(ZONES, 1 / 3)
_ZONES: Mapping[str, Mapping[str, float]] = {
    "Atelectasis": {"base": 0.5, "upper": 0.2, "middle": 0.3},
    "Cardiomegaly": {"heart": 1.0},
    "Edema": {"hilum": 0.4, "upper": 0.2, "lower": 0.4},
    "Emphysema": {"": 1.0},
    "Enlarged Cardiomediastinum": {"mediastinum": 1.0},
    "Fibrosis": {"upper": 0.3, "lower": 0.7},
    "Hernia": {"hiatus": 1.0},
    "Pleural Other": {"apex": 0.5, "lateral": 0.5},
    "Pleural Effusion": {"base": 0.75, "lateral": 0.25},
    "Pneumothorax": {"apex": 0.6, "base": 0.2, "lateral": 0.2},
}
#: How often a new finding is on both sides.
_BOTH = {
    "Edema": 0.4,
    "Pleural Effusion": 0.15,
    "Atelectasis": 0.15,
    "Pneumonia": 0.1,
    "Lung Opacity": 0.1,
    "Emphysema": 1.0,
    "Fibrosis": 0.7,
    "Pleural Other": 0.3,
}
#: Findings without a side, and those that cover nothing which a second finding could be taken for.
_MIDLINE = ("Cardiomegaly", "Enlarged Cardiomediastinum", "Hernia")
_BESIDE_OTHERS = (*_MIDLINE, "Support Devices", "Fracture", "Emphysema")
#: MS-CXR's eight classes: only these findings get phrases.
GROUNDED = (
    *("Atelectasis", "Cardiomegaly", "Consolidation", "Edema", "Lung Opacity"),
    *("Pleural Effusion", "Pneumonia", "Pneumothorax"),
)
#: Findings that can stand on both sides of a chest at degrees of their own, and how often a second
#: pathology is such a twin of the first. Degrees of twins differ at least by ``_TWIN_DEGREES``.
_TWINS = frozenset(GROUNDED) - {"Cardiomegaly"}
_TWIN_SHARE, _TWIN_DEGREES = 0.4, 0.3
_TWINS_IN_LONG_TAIL = 0.1  # so that a study has more observations, as in MIMIC-CXR


class Graded:
    """A state with a severity in (0, 1]: mild below 0.4, severe from 0.7."""

    severity: float

    @property
    def grade(self) -> str:
        """The word for the severity: mild, moderate or severe."""
        return "mild" if self.severity < 0.4 else "moderate" if self.severity < 0.7 else "severe"


@dataclass(frozen=True)
class Finding(Graded):
    """One finding in one study.

    ``name``: CheXpert observation. ``side``: left, right, both or none, the patient's own.
    ``zone``: upper, middle, lower (of the lung), apex, base, lateral, hilum, heart or empty.
    ``kind``: a device's kind, ``acute`` or ``healing`` of a fracture, ``nodule`` or ``mass`` of a
    lesion, else empty.
    ``key``: the same number for the same finding over the patient's whole course. ``across``,
    ``along``: position in its zone, away from the midline and downwards, in half extents of the
    zone. ``size``: factor on its extent in the zone, besides that of severity.
    """

    name: str
    side: str
    zone: str
    severity: float
    kind: str
    key: int
    across: float = 0.0
    along: float = 0.0
    size: float = 1.0


class Chapter(NamedTuple):
    """Content of one study; ``changes`` is empty in a first study, which has no prior."""

    findings: tuple[Finding, ...]
    changes: Mapping[int, str]
    resolved: tuple[Finding, ...]


def lesion_kind(severity: float) -> str:
    """A lesion is a nodule below severity 0.5, a mass from there on."""
    return "nodule" if severity < 0.5 else "mass"


def sample_finding(rng: np.random.Generator, name: str, key: int) -> Finding:
    """Draw side, zone, place, size, severity and kind of a new finding called ``name``."""
    severity = round(float(rng.uniform(0.25, 0.95)), 3)
    zones = _ZONES.get(name, _LUNG)
    zone = str(rng.choice(list(zones), p=list(zones.values())))
    side = str(rng.choice(["left", "right"]))
    if rng.random() < _BOTH.get(name, 0.0):
        side = "both"
    kind = ""
    if name in _MIDLINE:
        side = "none"
    elif name == "Lung Lesion":
        kind = lesion_kind(severity)
    elif name == "Fracture":
        kind = str(rng.choice(["acute", "healing"]))
    elif name == "Support Devices":
        kind, zone, severity = str(rng.choice(DEVICES)), "", 0.5
        if kind in ("endotracheal tube", "nasogastric tube", "sternal wires"):
            side = "none"
    across, along = (round(float(rng.uniform(-0.6, 0.6)), 3) for _ in range(2))
    size = round(float(rng.uniform(0.7, 1.2)), 3)
    return Finding(name, side, zone, severity, kind, key, across, along, size)


def sample_twin(rng: np.random.Generator, finding: Finding, key: int) -> Finding | None:
    """The same observation on the other side at another degree; None if it cannot have a twin."""
    if finding.name not in _TWINS or finding.side == "both":
        return None
    while True:
        twin = sample_finding(rng, finding.name, key)
        if twin.side != "both" and abs(twin.severity - finding.severity) >= _TWIN_DEGREES:
            return replace(twin, side="left" if finding.side == "right" else "right")


def places(finding: Finding) -> set[tuple[str, str]]:
    """The (side, zone) places of a finding, in which a second one could not be distinguished."""
    if finding.name in _BESIDE_OTHERS:
        return set()
    sides = ("left", "right") if finding.side == "both" else (finding.side,)
    zone = {"base": "lower", "hilum": "middle"}.get(finding.zone, finding.zone)
    return {(side, zone) for side in sides}


def _new_pathology(
    rng: np.random.Generator,
    present: Sequence[Finding],
    key: int,
    names: Mapping[str, float],
    twins: float,
) -> Finding:
    weights = np.array(list(names.values()))
    occupied = set().union(*(places(finding) for finding in present))
    present_names = {finding.name for finding in present}
    if len(present) == 1 and present[0].name in names and rng.random() < twins:
        twin = sample_twin(rng, present[0], key)
        if twin is not None:
            return twin
    while True:
        name = str(rng.choice(list(names), p=weights / weights.sum()))
        finding = sample_finding(rng, name, key)
        if name not in present_names and not places(finding) & occupied:
            return finding


def first_findings(
    rng: np.random.Generator,
    count: int,
    names: Mapping[str, float] = ONSET,
    present: Sequence[Finding] = (),
    first_key: int = 1,
    twins: float = _TWIN_SHARE,
) -> list[Finding]:
    """Draw ``count`` new pathologies with places of their own, also beside ``present``.

    ``twins``: how often the second one is the twin of the first.
    """
    findings = list(present)
    for number in range(count):
        findings.append(_new_pathology(rng, findings, first_key + number, names, twins))
    return findings[len(present) :]


def _follow(
    rng: np.random.Generator, finding: Finding, followed: bool
) -> tuple[Finding | None, str]:
    """The finding at the next study and its change; ``None`` when it has resolved."""
    usual = _DYNAMICS.get(finding.name, _ACUTE)
    outcome = int(rng.choice(4, p=PROGRESSING.get(finding.name, usual) if followed else usual))
    severity = finding.severity
    if outcome == 1:
        severity = max(LEAST_SEVERITY, severity * float(rng.uniform(0.4, 0.65)))
    elif outcome == 3:
        severity = min(GREATEST_SEVERITY, severity + float(rng.uniform(0.2, 0.4)))
    if outcome == 0:
        return None, "resolved"
    if outcome == 2 or abs(severity - finding.severity) < LEAST_CHANGE:
        return finding, "stable"
    severity = round(severity, 3)
    kind = lesion_kind(severity) if finding.name == "Lung Lesion" else finding.kind
    change = "improved" if outcome == 1 else "worsened"
    return replace(finding, severity=severity, kind=kind), change


def sample_course(
    rng: np.random.Generator, settings: HospitalSettings, studies: int, *, followed: bool = False
) -> list[Chapter]:
    """Draw the findings of ``studies`` studies in order of time; ``followed``: of MS-CXR-T."""
    long_tail = settings.prevalence == "long_tail" and not followed
    onset = ONSET_LONG_TAIL if long_tail else ONSET_FOLLOWED if followed else ONSET
    twins = _TWINS_IN_LONG_TAIL if long_tail else _TWIN_SHARE
    (aside,) = rng.spawn(1)  # leaves the draws of ``rng`` as they are
    none, several = settings.no_pathology_share, settings.several_pathologies_share
    draw, third = rng.random(), rng.random() < 0.3
    count = 0 if draw < none else 1 if draw < 1 - several else 3 if third else 2
    pathologies = first_findings(rng, count, onset, twins=twins)
    key = len(pathologies) + 1
    devices: list[Finding] = []
    if rng.random() < settings.device_share:
        devices, key = [sample_finding(rng, "Support Devices", key)], key + 1
    chapters = [Chapter((*pathologies, *devices), {}, ())]
    while len(chapters) < studies:
        changes: dict[int, str] = {}
        resolved: list[Finding] = []
        remaining: list[Finding] = []
        for finding in chapters[-1].findings:
            later, change = _follow(rng, finding, followed)
            if later is None:
                resolved.append(finding)
            else:
                remaining.append(later)
                changes[finding.key] = change
        pathologies = [finding for finding in remaining if finding.name != "Support Devices"]
        devices = [finding for finding in remaining if finding.name == "Support Devices"]
        gone = {finding.name for finding in resolved}
        names = {name: share for name, share in onset.items() if name not in gone}
        most = len(pathologies) == MOST_PATHOLOGIES
        if not most and rng.random() < _ONSET_LATER[len(pathologies)]:
            new = first_findings(rng, 1, names, pathologies, key, twins)
            pathologies, key = pathologies + new, key + 1
            changes[new[0].key] = "new"
        # Removals and new devices keep the share of devices about constant.
        returns = not devices and "Support Devices" not in gone
        if returns and rng.random() < settings.device_share / 2:
            devices = [sample_finding(rng, "Support Devices", key)]
            changes[key], key = "new", key + 1
        chapters.append(Chapter((*pathologies, *devices), changes, tuple(resolved)))
    return _with_further(aside, settings.further_findings or {}, chapters)


def _with_further(
    rng: np.random.Generator, shares: Mapping[FurtherFinding, float], chapters: list[Chapter]
) -> list[Chapter]:
    """Add each further finding to a share of the patients, from one of their studies on.

    A patient whose other findings leave no place for it goes without it.
    """
    courses = [list(chapter.findings) for chapter in chapters]
    changes = [dict(chapter.changes) for chapter in chapters]
    resolved = [list(chapter.resolved) for chapter in chapters]
    occupied = set().union(*(places(f) for chapter in chapters for f in chapter.findings))
    names = {finding.name for chapter in chapters for finding in chapter.findings}
    for key, (name, share) in enumerate(shares.items(), _FIRST_FURTHER):
        drawn, start = rng.random() < share, int(rng.integers(len(chapters)))
        finding: Finding | None = sample_finding(rng, name, key)
        if not drawn or finding is None or name in names or places(finding) & occupied:
            continue
        occupied |= places(finding)
        for number in range(start, len(chapters)):
            if number > start and finding is not None:
                later, change = _follow(rng, finding, followed=False)
                if later is None:
                    resolved[number].append(finding)
                else:
                    changes[number][key] = change
                finding = later
            elif finding is not None and number > 0:
                changes[number][key] = "new"
            if finding is not None:
                courses[number].append(finding)
    return [
        Chapter(tuple(findings), change, tuple(gone))
        for findings, change, gone in zip(courses, changes, resolved, strict=True)
    ]
