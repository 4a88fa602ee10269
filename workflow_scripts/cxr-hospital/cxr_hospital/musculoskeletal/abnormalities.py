"""Abnormalities of bones: place, severity, and their effect on a skeleton and a film.

A fracture splits a bone, a dislocation a joint; degeneration narrows a joint and grows spurs; a
lytic lesion is a hole in a bone; hardware is a plate with screws. Severity is extent: the distance
of the pieces, the size of the hole, the number of screws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cxr_hospital.course import Graded
from cxr_hospital.musculoskeletal.hand import DIGITS, phalanx
from cxr_hospital.musculoskeletal.skeleton import Points, Skeleton, Tube, as_point, oval, tube

KINDS = ("fracture", "hardware", "lytic lesion", "dislocation", "degeneration")


@dataclass(frozen=True)
class Site:
    """A place in a region, with its words: a bone between two shares of its length, or a joint."""

    of: str
    words: str
    low: float = 0.5
    high: float = 0.5


@dataclass(frozen=True)
class Abnormality(Graded):
    """One abnormality.

    ``kind``: one of :data:`KINDS`; ``at``: share of the bone's length; ``turned``: direction of
    displacement, degrees about the limb.
    """

    kind: str
    site: Site
    at: float
    severity: float
    turned: float

    @property
    def forward(self) -> bool:
        """True if pieces move to the positive side; the same on each film."""
        return round(self.severity * 1000) % 2 == 0


_DIGITS = DIGITS[1:]


def _digit_bones() -> tuple[Site, ...]:
    bones = [f"{digit} metacarpal" for digit in _DIGITS]
    shafts = [Site(bone, f"shaft of the {bone}", 0.4, 0.6) for bone in bones]
    necks = [Site(bone, f"neck of the {bone}", 0.78, 0.82) for bone in bones[2:]]
    phalanges = [phalanx(digit, 0) for digit in range(5)]
    return (*shafts, *necks, *(Site(name, name, 0.35, 0.65) for name in phalanges))


#: Sites of abnormalities of bones, by region.
BONES: Mapping[str, tuple[Site, ...]] = {
    "elbow": (
        Site("humerus", "distal humerus", 0.72, 0.78),
        Site("ulna", "proximal ulna", 0.26, 0.34),
        Site("radius", "neck of the radius", 0.10, 0.13),
    ),
    "finger": tuple(
        Site(f"{name} phalanx", f"{name} phalanx", 0.35, 0.65) for name in ("proximal", "middle")
    ),
    "forearm": (
        Site("radius", "shaft of the radius", 0.4, 0.6),
        Site("radius", "proximal shaft of the radius", 0.2, 0.3),
        Site("ulna", "shaft of the ulna", 0.4, 0.6),
        Site("ulna", "distal shaft of the ulna", 0.7, 0.78),
        Site("radius", "distal radius", 0.84, 0.88),
    ),
    "hand": _digit_bones(),
    "humerus": (
        Site("humerus", "shaft of the humerus", 0.4, 0.6),
        Site("humerus", "surgical neck of the humerus", 0.14, 0.18),
        Site("humerus", "distal humerus", 0.76, 0.82),
    ),
    "shoulder": (
        Site("humerus", "surgical neck of the humerus", 0.24, 0.3),
        Site("clavicle", "clavicle", 0.55, 0.68),
    ),
    "wrist": (
        Site("radius", "distal radius", 0.80, 0.84),
        Site("ulna", "distal ulna", 0.80, 0.86),
        Site("third metacarpal", "base of the third metacarpal", 0.30, 0.36),
    ),
}
_ROWS = ("proximal interphalangeal", "metacarpophalangeal")
#: Sites of abnormalities of joints, by region.
_JOINTS: Mapping[str, Sequence[str]] = {
    "elbow": ["elbow joint"],
    "finger": [f"{row} interphalangeal joint" for row in ("proximal", "distal")],
    "forearm": ["elbow joint"],
    "hand": [
        *(f"{row} joint of the {digit} digit" for row in _ROWS for digit in _DIGITS),
        "first carpometacarpal joint",
    ],
    "humerus": ["glenohumeral joint"],
    "shoulder": ["glenohumeral joint", "acromioclavicular joint"],
    "wrist": ["radiocarpal joint", "first carpometacarpal joint"],
}
JOINTS = {region: tuple(Site(name, name) for name in names) for region, names in _JOINTS.items()}


def sample_abnormality(rng: np.random.Generator, region: str, kind: str) -> Abnormality:
    """Draw an abnormality of one kind in a region."""
    in_joint = kind in ("dislocation", "degeneration")
    sites = (JOINTS if in_joint else BONES)[region]
    if kind == "dislocation" and region in ("wrist", "shoulder"):
        sites = sites[:1]
    site = sites[int(rng.integers(len(sites)))]
    at = round(float(rng.uniform(site.low, site.high)), 3)
    severity = round(float(rng.uniform(0.25, 1.0)), 3)
    return Abnormality(kind, site, at, severity, round(float(rng.uniform(-50, 50)), 1))


@dataclass
class Film:
    """A skeleton and everything on the film that is not bone.

    ``metal`` and dark ``gaps``: strokes, points [N, 3] and a half width. ``holes`` in bones, their
    ``bright`` ends, ``swollen`` flesh: tubes.
    """

    skeleton: Skeleton
    metal: list[tuple[Points, float]] = field(default_factory=list)
    gaps: list[tuple[Points, float]] = field(default_factory=list)
    holes: list[Tube] = field(default_factory=list)
    bright: list[Tube] = field(default_factory=list)
    swollen: list[Tube] = field(default_factory=list)


def _frame(bone: Tube, defect: Abnormality) -> tuple[Points, Points, Points, float]:
    """Point, tangent and a direction across [3] at the site, and the half width there.

    The half width is capped near the shaft's, to which plates and steps are in proportion.
    """
    point, tangent, half = bone.at(defect.at)
    half = min(half, 1.35 * bone.waist)
    angle = np.deg2rad(defect.turned)
    across = np.array([-tangent[1], tangent[0], 0.0])
    across /= max(float(np.linalg.norm(across)), 1e-9)
    out: Points = across * np.cos(angle) + np.array([0.0, 0.0, np.sin(angle)])
    return point, tangent, out * (1 if defect.forward else -1), half


def _fracture(film: Film, defect: Abnormality, rng: np.random.Generator) -> None:
    """Cut the bone into two displaced pieces with a dark gap between them."""
    bone = film.skeleton.bone(defect.site.of)
    point, tangent, across, half = _frame(bone, defect)
    keep = np.searchsorted(bone.along, defect.at)
    middle_half = np.interp(defect.at, bone.along, bone.half)

    def cut(line: Points, width: np.ndarray, along: np.ndarray, cuts: tuple[float, float]) -> Tube:
        return replace(bone, line=line, half=width, along=along, cut=cuts)

    slant = float(rng.uniform(-1.2, 1.2)) * half
    gap = tangent * half * (0.10 + 0.12 * defect.severity)
    near = cut(
        np.concatenate([bone.line[:keep], [point - gap]]),
        np.append(bone.half[:keep], middle_half),
        np.append(bone.along[:keep], defect.at),
        (0.0, slant),
    )
    far = cut(
        np.concatenate([[point + gap], bone.line[keep:]]),
        np.insert(bone.half[keep:], 0, middle_half),
        np.insert(bone.along[keep:], 0, defect.at),
        (slant, 0.0),
    )
    far = replace(far, name=f"{bone.name}, far part")
    # Muscles hold a long piece: it turns less.
    angle = (7 + 22 * defect.severity) * (1 if defect.forward else -1)
    angle *= min(1.0, 0.6 / (bone.length * (1 - defect.at)))
    shift = across * half * (0.30 + 0.9 * defect.severity) - tangent * half * 0.5 * defect.severity
    film.skeleton = film.skeleton.replacing(bone.name, near, far)
    moving = {far.name, *bone.bears}
    film.skeleton = film.skeleton.moving(moving, point, angle, shift)
    corners = np.stack([-across, 0.25 * across - 0.2 * tangent, across])[:, :] * half * 1.25
    film.gaps.append((point + corners + np.outer([-0.5, 0, 0.5], tangent) * slant, 0.13 * half))
    if defect.severity > 0.7:  # a fragment between both pieces
        piece = oval(
            "fragment", as_point(point + across * half * 1.3), (0.3 * half, 0.5 * half), 30.0
        )
        film.skeleton = replace(film.skeleton, bones=(*film.skeleton.bones, piece))
    film.swollen.append(oval("swelling", as_point(point), (half * 1.6 + 0.10, half * 1.6 + 0.16)))


def _hardware(film: Film, defect: Abnormality, rng: np.random.Generator) -> None:
    """A plate along the bone and screws through it."""
    bone = film.skeleton.bone(defect.site.of)
    _, _, across, half = _frame(bone, defect)
    screws = 4 + round(3 * defect.severity)
    reach = min(0.42, 0.20 + 0.2 * defect.severity) * (1.0 if bone.length < 1.3 else 0.8)
    low, high = max(0.04, defect.at - reach), min(0.96, defect.at + reach)
    shares = np.linspace(low, high, screws + 2)
    offset = across * half * 0.92
    line = np.stack([bone.at(float(share))[0] for share in shares]) + offset
    film.metal.append((line, 0.20 * half + 0.006))
    for share in shares[1:-1]:
        point, _, width = bone.at(float(share))
        through = across * max(width, half)
        film.metal.append(
            (np.stack([point + offset * 1.1, point - through * 0.95]), 0.085 * half + 0.009)
        )
        film.metal.append(
            (np.stack([point + offset * 0.9, point + offset * 1.25]), 0.17 * half + 0.008)
        )


def _lytic(film: Film, defect: Abnormality, rng: np.random.Generator) -> None:
    """A hole in the bone, which is blown up around it, with a thin rim."""
    bone = film.skeleton.bone(defect.site.of)
    near = np.exp(-(((bone.along - defect.at) * bone.length / (bone.at(defect.at)[2] * 2.0)) ** 2))
    wide = replace(bone, half=bone.half * (1 + (0.25 + 0.5 * defect.severity) * near))
    film.skeleton = film.skeleton.replacing(bone.name, wide)
    point, tangent, half = wide.at(defect.at)
    tilt = float(np.rad2deg(np.arctan2(-tangent[0], tangent[1])))
    radii = (half * 0.80, half * (0.9 + 0.6 * defect.severity))
    film.holes.append(oval("hole", as_point(point), radii, tilt))


def _dislocation(film: Film, defect: Abnormality, rng: np.random.Generator) -> None:
    """Move the bones beyond the joint beside the nearer one, which they overlap."""
    joint = film.skeleton.joint(defect.site.of)
    along = np.array(joint.along)
    across = np.array([-along[1], along[0], 0.0])
    across /= max(float(np.linalg.norm(across)), 1e-9)
    sign = 1 if joint.name.startswith("glenohumeral") or defect.forward else -1
    deep = 0.0 if sign == 1 and joint.name.startswith("glenohumeral") else 0.5 * defect.turned / 50
    far = 0.75 + 0.35 * defect.severity
    shift = (across * sign * joint.out[0] + along * joint.out[1]) * joint.half * far
    shift = shift + np.array([0.0, 0.0, deep * joint.half * joint.out[0]])
    angle = sign * (4 + 10 * defect.severity)
    film.skeleton = film.skeleton.moving(joint.moves, np.array(joint.point), angle, shift)
    film.swollen.append(oval("swelling", joint.point, (joint.half + 0.12, joint.half + 0.15)))


def _degeneration(film: Film, defect: Abnormality, rng: np.random.Generator) -> None:
    """Bone on bone, dense ends, spurs at the rims."""
    joint = film.skeleton.joint(defect.site.of)
    point, along = np.array(joint.point), np.array(joint.along)
    across = np.array([-along[1], along[0], 0.0])
    across /= max(float(np.linalg.norm(across)), 1e-9)
    film.skeleton = film.skeleton.moving(joint.moves, point, 0.0, -along * 0.10 * joint.half)
    size = joint.half * (0.45 + 0.55 * defect.severity)
    tilt = float(np.rad2deg(np.arctan2(-along[0], along[1])))
    for end in (-1, 1):
        centre = point + along * end * 0.22 * joint.half
        film.bright.append(
            oval("sclerosis", as_point(centre), (joint.half, joint.half * 0.24), tilt)
        )
        for side in (-1, 1):
            long = size * float(rng.uniform(0.75, 1.1))
            foot = centre + across * side * joint.half * 0.55 + along * end * 0.15 * joint.half
            tip = centre + across * side * (joint.half * 0.85 + long * 0.75) - along * end * 0.05
            ends = (0.30 * joint.half + 0.25 * long, 0.02 + 0.06 * long)
            spur = tube("spur", as_point(foot), as_point(tip), ends, flare=0.6)
            film.skeleton = replace(film.skeleton, bones=(*film.skeleton.bones, spur))


#: Each kind's change of a film.
APPLY = {
    "fracture": _fracture,
    "hardware": _hardware,
    "lytic lesion": _lytic,
    "dislocation": _dislocation,
    "degeneration": _degeneration,
}
