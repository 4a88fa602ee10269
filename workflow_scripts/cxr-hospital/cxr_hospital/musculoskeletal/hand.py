"""Hand, wrist and finger: digits that point up, the thumb at the left of the image."""

from dataclasses import replace
from typing import Any

import numpy as np

from cxr_hospital.musculoskeletal.skeleton import (
    Build,
    Joint,
    Point,
    Skeleton,
    Tube,
    as_point,
    oval,
    tube,
    tubes,
    zoomed,
)

DIGITS = ("first", "second", "third", "fourth", "fifth")
#: Base and head of each metacarpal, then the lengths of its phalanges.
RAYS: tuple[tuple[Point, Point, tuple[float, ...]], ...] = (
    ((-0.34, 0.46, 0.10), (-0.60, 0.16, 0.20), (0.27, 0.20)),
    ((-0.17, 0.38, 0.06), (-0.29, -0.12, 0.12), (0.34, 0.21, 0.15)),
    ((-0.02, 0.37, 0.02), (-0.05, -0.17, 0.03), (0.38, 0.25, 0.16)),
    ((0.11, 0.39, -0.02), (0.18, -0.11, -0.06), (0.35, 0.24, 0.16)),
    ((0.22, 0.43, -0.06), (0.37, 0.00, -0.15), (0.27, 0.16, 0.14)),
)
CARPALS = (
    ("scaphoid", (-0.22, 0.645, 0.03), (0.085, 0.105), 25.0),
    ("lunate", (-0.03, 0.69, 0.0), (0.085, 0.080), 0.0),
    ("triquetrum", (0.14, 0.67, -0.02), (0.075, 0.080), -20.0),
    ("pisiform", (0.20, 0.65, 0.10), (0.045, 0.050), 0.0),
    ("trapezium", (-0.29, 0.525, 0.06), (0.075, 0.065), 30.0),
    ("trapezoid", (-0.155, 0.495, 0.02), (0.058, 0.060), 0.0),
    ("capitate", (-0.01, 0.515, 0.0), (0.072, 0.110), 0.0),
    ("hamate", (0.145, 0.520, -0.02), (0.080, 0.085), 15.0),
)
_PHALANGES = ("proximal", "middle", "distal")
_ROWS = ("metacarpophalangeal", "proximal interphalangeal", "distal interphalangeal")


def phalanx(digit: int, number: int) -> str:
    """The name of a bone of a digit (0: the thumb)."""
    kinds = _PHALANGES if digit else ("proximal", "distal")
    return f"{kinds[number]} phalanx of the {DIGITS[digit]} digit"


def _ray(digit: int, build: Build) -> tuple[list[Tube], list[Joint]]:
    """A metacarpal and its phalanges, spread from the middle finger."""
    base, head, lengths = RAYS[digit]
    middle = RAYS[2][1]
    spread = 1 + (build.spread - 1) * 0.5
    head = (middle[0] + (head[0] - middle[0]) * spread, head[1], head[2])
    names = [f"{DIGITS[digit]} metacarpal", *(phalanx(digit, n) for n in range(len(lengths)))]
    thick = (0.060 if digit else 0.066) * build.width
    bones = [
        tube(names[0], base, head, (1.15 * thick, 1.08 * thick), 0.66 * thick, bears=(*names[1:],))
    ]
    joints = []
    step = np.array(head) - np.array(base)
    direction = step / np.linalg.norm(step)
    at = np.array(head)
    for number, length in enumerate(lengths):
        turn = np.deg2rad(build.bend * (1 if digit > 2 else -1) * 0.6)
        x, y, z = direction
        direction = np.array(
            [x * np.cos(turn) - y * np.sin(turn), x * np.sin(turn) + y * np.cos(turn), z]
        )
        thin = thick * (0.96, 0.80, 0.62)[number if digit else number + (number > 0)]
        start = at + direction * 0.036
        end = start + direction * length
        last = number == len(lengths) - 1
        rows = _ROWS if digit else ("metacarpophalangeal", "interphalangeal")
        of = f"{rows[number]} joint of the {DIGITS[digit]} digit"
        place = as_point(at + direction * 0.018), as_point(direction)
        joints.append(Joint(of, *place, thin * 1.1, tuple(names[number + 1 :])))
        ends = (1.08 * thin, (0.62 if last else 0.92) * thin)
        waist = (0.42 if last else 0.62) * thin
        name, *borne = names[number + 1 :]
        bones.append(tube(name, as_point(start), as_point(end), ends, waist, bears=tuple(borne)))
        at = end
    return bones, joints


def _around(bones: list[Tube], extra: float, flesh: float) -> list[Tube]:
    """Flesh around bones, over their joints: of the same names, so that they move together."""
    sleeves = []
    for bone in bones:
        middle = (bone.line[0] + bone.line[-1]) / 2
        line = middle + (bone.line - middle) * (1 + 1.3 * extra / bone.length)
        thick = (1.0 - 0.5 * np.abs(2 * bone.along - 1) ** 8) * (bone.half.max() + extra * flesh)
        sleeves.append(replace(bone, line=line, half=thick, depth=0.95))
    return sleeves


def hand(build: Build, lateral: bool) -> Skeleton:
    """Fingers up, the ends of radius and ulna below."""
    w = build.width
    bones = tubes(
        {
            "radius": ((-0.13, 1.75, 0.0), (-0.12, 0.795, 0.0), (0.10, 0.185 * w), 0.095 * w),
            "ulna": ((0.16, 1.75, -0.03), (0.165, 0.825, -0.05), (0.075, 0.095 * w), 0.068 * w),
        },
        {
            "radius": {"flare": 0.33, "round_ends": 0.3},
            "ulna": {"flare": 0.22, "round_ends": 0.5},
        },
    )
    carpals = [oval(name, at, (rx * w, ry), tilt) for name, at, (rx, ry), tilt in CARPALS]
    joints = []
    digits: list[Tube] = []
    for digit in range(5):
        ray, ray_joints = _ray(digit, build)
        digits += ray
        joints += ray_joints
    distal = (*(bone.name for bone in (*carpals, *digits)), "palm")
    radiocarpal = Joint(
        "radiocarpal joint", (-0.08, 0.755, 0.0), (0.0, -1.0, 0.0), 0.20, distal, (0.75, -0.45)
    )
    thumb = ("first metacarpal", *(phalanx(0, n) for n in range(2)))
    carpometacarpal = Joint(
        "first carpometacarpal joint", (-0.33, 0.475, 0.09), (-0.65, -0.75, 0.0), 0.085, thumb
    )
    palm = tubes(
        {
            "palm": ((-0.02, 0.80, 0.0), (0.0, -0.14, 0.0), (0.27, 0.44), 0.36),
            "forearm": ((0.02, 1.9, 0.0), (0.0, 0.70, 0.0), (0.36, 0.30), 0.33),
        },
        {
            "palm": {"depth": 0.4, "round_ends": 0.2},
            "forearm": {"depth": 0.75, "round_ends": 0.1},
        },
    )
    flesh = (*palm, *_around(digits, 0.055, build.flesh))
    all_joints = (radiocarpal, carpometacarpal, *joints)
    skeleton = Skeleton((*bones, *carpals, *digits), flesh, all_joints)
    return zoomed(skeleton, 1.1, (-0.06, 0.0))


def wrist(build: Build, lateral: bool) -> Skeleton:
    """The hand's carpus, nearer."""
    return zoomed(hand(replace(build, spread=1.0), lateral), 1.7, (0.07, 0.78))


def finger(build: Build, lateral: bool) -> Skeleton:
    """One digit, nearer, with the head of its metacarpal; bent when seen from the side."""
    w = build.width
    bend = np.deg2rad(build.bend + (14 if lateral else 0))
    names = ("metacarpal", "proximal phalanx", "middle phalanx", "distal phalanx")
    at, direction = np.array([0.0, 0.98, 0.0]), np.array([0.0, -1.0, 0.0])
    bones = [
        tube(names[0], (0.0, 2.1, 0.0), as_point(at), (0.15, 0.205 * w), 0.14 * w, bears=names[1:])
    ]
    joints = []
    # The bend is in depth (z), which the turn of a lateral film brings onto x.
    for number, (length, thick) in enumerate(((0.90, 0.190), (0.55, 0.160), (0.40, 0.128))):
        share = (0.5, 1.0, 0.8)[number] * bend
        y, z = direction[1], direction[2]
        direction = np.array(
            [0.0, y * np.cos(share) + z * np.sin(share), z * np.cos(share) - y * np.sin(share)]
        )
        place = as_point(at + direction * 0.03), as_point(direction)
        moves = names[number + 1 :]
        joints.append(Joint(f"{_ROWS[number]} joint", *place, thick * w * 1.05, moves))
        start = at + direction * 0.06
        at = start + direction * length
        last = number == 2
        ends = (1.1 * thick * w, (0.68 if last else 0.92) * thick * w)
        waist = (0.45 if last else 0.66) * thick * w
        name, *borne = moves
        shape: dict[str, Any] = {"cortex": 0.035, "bears": tuple(borne)}
        bones.append(tube(name, as_point(start), as_point(at), ends, waist, **shape))
    base = ((0.0, 2.2, 0.0), (0.0, 0.72, 0.0), (0.6, 0.40), 0.5)
    flesh = [*_around(bones[1:], 0.13, build.flesh), tube("base", *base, depth=0.8, round_ends=0.3)]
    return Skeleton(tuple(bones), tuple(flesh), tuple(joints[1:]))
