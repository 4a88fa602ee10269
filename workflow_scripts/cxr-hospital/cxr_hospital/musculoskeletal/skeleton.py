"""Bones as tubes in space, how they move, and how they fall onto a film.

Coordinates: x to the right of the image, y downwards, z towards the tube; 1 is half the image's
shorter side. A tube has a centre line and a half width along it; a carpal bone is a short one. N
points along a line.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # [N, 3] in space, [N, 2] on the film
Point = tuple[float, float, float]
_U = np.linspace(0, 1, 26)
_S = (1 - np.cos(np.pi * _U)) / 2  # dense where ends are rounded


@dataclass(frozen=True)
class Tube:
    """A bone, or flesh around some.

    ``line`` [N, 3], ``half`` [N] widths from the line to the edge, ``along`` [N] in [0, 1]: share
    of the bone's length, also in pieces of it. ``cortex``: thickness of the dense rim. ``depth``:
    half width along z over that along x. ``bears``: names of the bones that move with it. ``cut``:
    offset along the line between the two corners of either end, where it is broken. ``flat``: a
    thin bone that attenuates less, as the shoulder blade.
    """

    name: str
    line: Points
    half: NDArray[np.float64]
    along: NDArray[np.float64]
    cortex: float = 0.02
    depth: float = 1.0
    bears: tuple[str, ...] = ()
    cut: tuple[float, float] = (0.0, 0.0)
    flat: bool = False

    @property
    def waist(self) -> float:
        """Half width where the bone is thinnest, its ends left out."""
        return float(
            self.half[(self.along > 0.2) & (self.along < 0.8)].min(initial=self.half.max())
        )

    @property
    def length(self) -> float:
        """From end to end."""
        return float(np.linalg.norm(self.line[-1] - self.line[0]))

    def at(self, share: float) -> tuple[Points, Points, float]:
        """Point [3], unit tangent [3] and half width at a share of the length."""
        point = np.array([np.interp(share, self.along, self.line[:, axis]) for axis in range(3)])
        number = int(np.clip(np.searchsorted(self.along, share), 1, len(self.along) - 1))
        tangent = self.line[number] - self.line[number - 1]
        half = float(np.interp(share, self.along, self.half))
        return point, tangent / max(float(np.linalg.norm(tangent)), 1e-9), half

    def moved(self, origin: Points, degrees: float, shift: Points) -> "Tube":
        """Turned in the plane of the film about a point [3], then shifted by [3]."""
        angle = np.deg2rad(degrees)
        turn = np.eye(3)
        turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        return replace(self, line=(self.line - origin) @ turn.T + origin + shift)

    def outlines(self, turned: float, *insets: float) -> list[Points]:
        """Closed outlines [2N, 2] on a film, after a turn about the y axis by degrees.

        One for each inset: cortices taken off, 0 for the whole bone, about 1 for its marrow.
        """
        angle = np.deg2rad(turned)
        line = self.line
        flat = np.empty((len(line), 2))
        flat[:, 0] = line[:, 0] * np.cos(angle) + line[:, 2] * np.sin(angle)
        flat[:, 1] = line[:, 1]
        projected = self.half * np.hypot(np.cos(angle), self.depth * np.sin(angle))
        steps = np.empty_like(flat)
        steps[1:-1] = flat[2:] - flat[:-2]
        steps[0], steps[-1] = flat[1] - flat[0], flat[-1] - flat[-2]
        steps /= np.maximum(np.sqrt((steps * steps).sum(axis=1, keepdims=True)), 1e-9)
        normal = steps[:, ::-1] * (-1.0, 1.0)
        closed: list[Points] = []
        for inset in insets:
            within = slice(1, -1) if inset else slice(None)
            half = projected
            if inset:
                thick = 0.4 + 0.6 * np.exp(-(((self.along - 0.5) / 0.3) ** 2))
                half = np.maximum(half - inset * self.cortex * thick, 0)
            offset = normal * half[:, None]
            left_edge, right_edge = (flat + offset)[within], (flat - offset)[within]
            for end, skew in ((0, self.cut[0]), (-1, self.cut[1])):
                left_edge[end] += steps[end] * skew / 2
                right_edge[end] -= steps[end] * skew / 2
            closed.append(np.concatenate([left_edge, right_edge[::-1]]))
        return closed


@dataclass(frozen=True)
class Joint:
    """A joint of two bones.

    ``point`` in the gap, ``along`` a unit vector towards the bones that move, named in ``moves``;
    ``half``: half width of the joint; ``out``: their shift when dislocated, in half widths.
    """

    name: str
    point: Point
    along: Point
    half: float
    moves: tuple[str, ...]
    out: tuple[float, float] = (1.5, -0.7)


@dataclass(frozen=True)
class Skeleton:
    """All that one film shows: bones, flesh, joints.

    ``dark``: air and hollows: x, y, both radii, share of the density that is missing.
    """

    bones: tuple[Tube, ...]
    flesh: tuple[Tube, ...]
    joints: tuple[Joint, ...]
    dark: tuple[tuple[float, float, float, float, float], ...] = ()

    def bone(self, name: str) -> Tube:
        """The bone of that name."""
        return next(bone for bone in self.bones if bone.name == name)

    def joint(self, name: str) -> Joint:
        """The joint of that name."""
        return next(joint for joint in self.joints if joint.name == name)

    def moving(
        self, names: Collection[str], origin: Points, degrees: float, shift: Points
    ) -> "Skeleton":
        """The skeleton with the bones and flesh of these names moved (:meth:`Tube.moved`)."""

        def each(tubes: Sequence[Tube]) -> tuple[Tube, ...]:
            return tuple(t.moved(origin, degrees, shift) if t.name in names else t for t in tubes)

        return replace(self, bones=each(self.bones), flesh=each(self.flesh))

    def replacing(self, name: str, *pieces: Tube) -> "Skeleton":
        """The skeleton with one bone replaced by pieces."""
        bones = tuple(piece for b in self.bones for piece in (pieces if b.name == name else (b,)))
        return replace(self, bones=bones)


def tube(
    name: str,
    start: Point,
    end: Point,
    ends: tuple[float, float],
    middle: float | None = None,
    *,
    bow: float = 0.0,
    cortex: float = 0.02,
    depth: float = 1.0,
    flare: float = 0.2,
    bears: tuple[str, ...] = (),
    round_ends: float = 0.6,
    flat: bool = False,
) -> Tube:
    """A long bone between two points: half widths at its ends and in the middle.

    ``flare``: share of the length over which an end narrows; ``bow``: how far the middle lies off.
    """
    first, last = np.array(start), np.array(end)
    length = max(float(np.linalg.norm(last - first)), 1e-6)
    waist = min(ends) if middle is None else middle
    half = waist + (ends[0] - waist) * np.exp(-((_S / flare) ** 2))
    half += (ends[1] - waist) * np.exp(-(((1 - _S) / flare) ** 2))
    for width, from_end in ((ends[0], _S), (ends[1], 1 - _S)):
        cap = min(0.5, round_ends * width / length)
        half = half * np.sqrt(1 - np.clip(1 - from_end / cap, 0, 1) ** 2)
    across = np.array([-(last - first)[1], (last - first)[0], 0.0]) / length
    line = first + (last - first) * _S[:, None] + across * (bow * np.sin(np.pi * _S))[:, None]
    return Tube(name, line, half, _S, cortex, depth, bears, flat=flat)


def tubes(
    places: Mapping[str, tuple[Point, Point, tuple[float, float], float]],
    shapes: Mapping[str, Mapping[str, Any]],
) -> list[Tube]:
    """Long bones by name: start, end, half widths at the ends and in the middle; further shape."""
    return [tube(name, *place, **shapes.get(name, {})) for name, place in places.items()]


def oval(
    name: str, centre: Point, radii: tuple[float, float], tilt: float = 0.0, cortex: float = 0.022
) -> Tube:
    """A short bone: an oval of half axes across and along, turned by degrees."""
    angle = np.deg2rad(tilt)
    axis = np.array([-np.sin(angle), np.cos(angle), 0.0]) * radii[1]
    middle = np.array(centre)
    line = middle + axis * (2 * _S - 1)[:, None]
    half = radii[0] * np.sqrt(np.clip(1 - (2 * _S - 1) ** 2, 0, 1))
    return Tube(name, line, half, _S, cortex)


def zoomed(skeleton: Skeleton, times: float, centre: tuple[float, float]) -> Skeleton:
    """The skeleton enlarged about a point of the film."""
    middle = np.array([*centre, 0.0])

    def near(bone: Tube) -> Tube:
        line = (bone.line - middle) * times
        return replace(bone, line=line, half=bone.half * times, cortex=bone.cortex * times)

    joints = tuple(
        replace(j, point=as_point((np.array(j.point) - middle) * times), half=j.half * times)
        for j in skeleton.joints
    )
    return Skeleton(tuple(map(near, skeleton.bones)), tuple(map(near, skeleton.flesh)), joints)


def as_point(point: np.ndarray) -> Point:
    """Convert an array [3] to plain numbers."""
    return float(point[0]), float(point[1]), float(point[2])


@dataclass(frozen=True)
class Build:
    """One person's arm; each about 1, but for ``bend``.

    ``width`` of bones, ``spread`` of the fingers, ``bend`` of joints in degrees, ``flesh`` around
    bones, thickness of the ``cortex``.
    """

    width: float
    spread: float
    bend: float
    flesh: float
    cortex: float


def sample_build(rng: np.random.Generator) -> Build:
    """Draw a person's arm."""
    width, spread, flesh, cortex = rng.normal(1, (0.07, 0.18, 0.2, 0.14)).clip(0.7, 1.3)
    return Build(float(width), float(spread), float(rng.normal(0, 3)), float(flesh), float(cortex))
