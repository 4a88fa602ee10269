"""Findings, and how they come, change and go between the studies of one patient.

A finding is one of the CheXpert observations that can be drawn, with side, zone and severity. At
most two pathologies and one device stand in a study. Names are drawn independently of each other
(only places already taken are refused), and devices independently of pathologies, so that no
finding announces another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cxrflow.phantom.settings import HospitalSettings

ZONES = ("upper", "middle", "lower")
CHANGES = ("new", "improved", "stable", "worsened")
DEVICES = (
    "endotracheal tube",
    "central venous catheter",
    "pacemaker",
    "chest tube",
    "nasogastric tube",
    "sternal wires",
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
#: (resolves, improves, stays, worsens) from one study to the next.
_ACUTE = (0.28, 0.24, 0.24, 0.24)
_DYNAMICS: Mapping[str, tuple[float, float, float, float]] = {
    "Cardiomegaly": (0.12, 0.18, 0.45, 0.25),
    "Lung Lesion": (0.06, 0.10, 0.48, 0.36),
    "Fracture": (0.10, 0.00, 0.90, 0.00),
    "Support Devices": (0.35, 0.00, 0.65, 0.00),
}
#: Below this a change is not called a change; severities stay inside these bounds.
LEAST_SEVERITY, GREATEST_SEVERITY, LEAST_CHANGE = 0.2, 1.0, 0.15
#: Chance of a new pathology in a later study, by how many are still there.
_ONSET_LATER = (0.42, 0.18)


@dataclass(frozen=True)
class Finding:
    """One finding in one study.

    ``name``: CheXpert observation. ``side``: left, right, both or none, the patient's own.
    ``zone``: upper, middle, lower (of the lung), apex, base, hilum, heart or empty.
    ``severity``: (0, 1], mild < 0.4 <= moderate < 0.7 <= severe. ``kind``: a device's kind,
    ``acute`` or ``healing`` of a fracture, ``nodule`` or ``mass`` of a lesion, else empty.
    ``key``: the same number for the same finding over the patient's whole course.
    """

    name: str
    side: str
    zone: str
    severity: float
    kind: str
    key: int

    @property
    def grade(self) -> str:
        """The word for the severity: mild, moderate or severe."""
        return "mild" if self.severity < 0.4 else "moderate" if self.severity < 0.7 else "severe"


@dataclass(frozen=True)
class Chapter:
    """What one study holds; ``changes`` is empty in a first study, which has no prior."""

    findings: tuple[Finding, ...]
    changes: Mapping[int, str]
    resolved: tuple[Finding, ...]


def lesion_kind(severity: float) -> str:
    """A lesion is a nodule while small, a mass from moderate severity on."""
    return "nodule" if severity < 0.5 else "mass"


def sample_finding(rng: np.random.Generator, name: str, key: int) -> Finding:
    """Draw side, zone, severity and kind of a new finding called ``name``."""
    severity = round(float(rng.uniform(0.25, 0.95)), 3)
    side = str(rng.choice(["left", "right"]))
    zone, kind = str(rng.choice(ZONES)), ""
    both = rng.random()
    if name == "Cardiomegaly":
        side, zone = "none", "heart"
    elif name == "Edema":
        side, zone = "both", "hilum"
    elif name == "Pneumothorax":
        zone = "apex"
    elif name in ("Pleural Effusion", "Atelectasis"):
        zone, side = "base", "both" if both < 0.2 else side
    elif name in ("Pneumonia", "Lung Opacity"):
        side = "both" if both < 0.1 else side
    elif name == "Lung Lesion":
        kind = lesion_kind(severity)
    elif name == "Fracture":
        kind = str(rng.choice(["acute", "healing"]))
    elif name == "Support Devices":
        kind, zone, severity = str(rng.choice(DEVICES)), "", 0.5
        if kind in ("endotracheal tube", "nasogastric tube", "sternal wires"):
            side = "none"
    return Finding(name, side, zone, severity, kind, key)


def places(finding: Finding) -> set[tuple[str, str]]:
    """The (side, zone) places that a finding fills so that another would not be told apart."""
    if finding.name in ("Cardiomegaly", "Edema", "Pneumothorax", "Support Devices", "Fracture"):
        return set()
    sides = ("left", "right") if finding.side == "both" else (finding.side,)
    zone = "lower" if finding.zone == "base" else finding.zone
    return {(side, zone) for side in sides}


def _new_pathology(
    rng: np.random.Generator, present: Sequence[Finding], key: int, names: Mapping[str, float]
) -> Finding:
    weights = np.array(list(names.values()))
    taken = set().union(*(places(finding) for finding in present))
    while True:
        name = str(rng.choice(list(names), p=weights / weights.sum()))
        made = sample_finding(rng, name, key)
        if name not in {finding.name for finding in present} and not places(made) & taken:
            return made


def first_findings(
    rng: np.random.Generator,
    count: int,
    names: Mapping[str, float] = ONSET,
    present: Sequence[Finding] = (),
    first_key: int = 1,
) -> list[Finding]:
    """Draw ``count`` new pathologies with different names and places, also from ``present``."""
    made = list(present)
    for number in range(count):
        made.append(_new_pathology(rng, made, first_key + number, names))
    return made[len(present) :]


def _follow(rng: np.random.Generator, finding: Finding) -> tuple[Finding | None, str]:
    """The finding at the next study and its change; ``None`` when it has resolved."""
    outcome = int(rng.choice(4, p=_DYNAMICS.get(finding.name, _ACUTE)))
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
    rng: np.random.Generator, settings: HospitalSettings, studies: int
) -> list[Chapter]:
    """Draw the findings of ``studies`` studies in order of time."""
    none, two = settings.no_pathology_share, settings.two_pathologies_share
    drawn = rng.random()
    pathologies = first_findings(rng, 0 if drawn < none else 2 if drawn > 1 - two else 1)
    key = len(pathologies) + 1
    devices: list[Finding] = []
    if rng.random() < settings.device_share:
        devices, key = [sample_finding(rng, "Support Devices", key)], key + 1
    chapters = [Chapter((*pathologies, *devices), {}, ())]
    while len(chapters) < studies:
        changes: dict[int, str] = {}
        resolved: list[Finding] = []
        kept: list[Finding] = []
        for finding in chapters[-1].findings:
            followed, change = _follow(rng, finding)
            if followed is None:
                resolved.append(finding)
            else:
                kept.append(followed)
                changes[finding.key] = change
        pathologies = [finding for finding in kept if finding.name != "Support Devices"]
        devices = [finding for finding in kept if finding.name == "Support Devices"]
        gone = {finding.name for finding in resolved}
        names = {name: share for name, share in ONSET.items() if name not in gone}
        if len(pathologies) < 2 and rng.random() < _ONSET_LATER[len(pathologies)]:
            made = first_findings(rng, 1, names, pathologies, key)
            pathologies, key = pathologies + made, key + 1
            changes[made[0].key] = "new"
        # A device that was taken out is not replaced at once, so the share of devices is kept.
        returns = not devices and "Support Devices" not in gone
        if returns and rng.random() < settings.device_share / 2:
            devices = [sample_finding(rng, "Support Devices", key)]
            changes[key], key = "new", key + 1
        chapters.append(Chapter((*pathologies, *devices), changes, tuple(resolved)))
    return chapters
