"""Forearm, elbow, humerus and shoulder: an arm that hangs, the chest at the left of the image."""

import numpy as np

from cxr_hospital.musculoskeletal.hand import CARPALS, DIGITS, RAYS
from cxr_hospital.musculoskeletal.skeleton import (
    Build,
    Joint,
    Point,
    Skeleton,
    as_point,
    oval,
    tube,
    tubes,
    zoomed,
)


def _below(point: Point) -> Point:
    """Map a point of the upright hand to a smaller hand that hangs from the forearm."""
    x, y, z = point
    return 0.72 * x, 0.93 + 0.72 * (0.74 - y), 0.72 * z


def forearm(build: Build, lateral: bool) -> Skeleton:
    """Both bones in full, the elbow above and the wrist below."""
    w = build.width
    bones = tubes(
        {
            "humerus": ((0.0, -1.9, 0.0), (0.0, -1.03, 0.0), (0.12, 0.25 * w), 0.115 * w),
            "radius": ((-0.13, -0.97, 0.06), (-0.14, 0.84, 0.06), (0.085 * w, 0.15 * w), 0.070 * w),
            "ulna": ((0.07, -1.12, -0.06), (0.17, 0.80, -0.05), (0.13 * w, 0.075 * w), 0.066 * w),
        },
        {
            "humerus": {"flare": 0.35, "round_ends": 0.4, "depth": 0.6},
            "radius": {"bow": 0.10, "flare": 0.13, "cortex": 0.03, "round_ends": 0.4},
            "ulna": {"bow": -0.03, "flare": 0.17, "cortex": 0.03, "round_ends": 0.5},
        },
    )
    carpus = [
        oval(name, _below(centre), (0.72 * rx * w, 0.72 * ry), -tilt)
        for name, centre, (rx, ry), tilt in CARPALS
    ]
    for digit, (base, head, _) in zip(DIGITS[1:], RAYS[1:], strict=True):
        ends = (0.05 * w, 0.047 * w)
        carpus.append(tube(f"{digit} metacarpal", _below(base), _below(head), ends, 0.03 * w))
    moves = ("radius", "ulna", *(bone.name for bone in carpus), "flesh", "hand")
    elbow = Joint("elbow joint", (0.0, -1.0, 0.0), (0.0, 1.0, 0.0), 0.22, moves, (1.1, -0.6))
    thick = 0.30 * build.flesh**0.5
    flesh = tubes(
        {
            "upper arm": ((0.0, -2.0, 0.0), (0.0, -0.85, 0.0), (0.36, 0.34), 0.36),
            "flesh": ((0.0, -1.0, 0.0), (0.02, 0.95, 0.0), (0.36, 0.20), thick),
            "hand": ((0.02, 0.80, 0.0), (0.02, 1.9, 0.0), (0.23, 0.34), 0.30),
        },
        {"flesh": {"depth": 0.85, "flare": 0.7, "round_ends": 0.2}, "hand": {"depth": 0.45}},
    )
    return zoomed(Skeleton((*bones, *carpus), tuple(flesh), (elbow,)), 0.86, (0.0, 0.0))


def elbow(build: Build, lateral: bool) -> Skeleton:
    """Straight from the front, bent at a right angle from the side."""
    w, thick = build.width, build.flesh**0.5
    humerus = ("humerus", (0.0, -1.9, 0.0), (0.0, -0.10, 0.0))
    above = ((0.0, -2.0, 0.0), (0.0, -0.05, 0.0), (0.44, 0.42), 0.40 * thick)
    arm = tube("upper arm", *above, depth=0.85)
    moves = ("radius", "ulna", "flesh")
    if lateral:
        bend = np.deg2rad(6 + build.bend)
        far = np.array([0.0, np.sin(bend), -np.cos(bend)])  # the turn brings -z to the left
        side = np.array([0.0, np.cos(bend), np.sin(bend)])
        start = np.array([0.0, 0.02, 0.0])

        def at(along: float, across: float) -> Point:
            return as_point(start + far * along + side * across)

        upper = tube(*humerus, (0.15, 0.20 * w), 0.155 * w, flare=0.2, cortex=0.05, round_ends=0.9)
        bones = tubes(
            {
                "radius": (at(0.25, -0.05), at(2.2, -0.02), (0.135 * w, 0.1), 0.085 * w),
                "ulna": (at(-0.30, -0.02), at(2.2, 0.30), (0.17 * w, 0.1), 0.105 * w),
            },
            {
                "radius": {"flare": 0.1, "cortex": 0.04, "round_ends": 0.35},
                "ulna": {"flare": 0.25, "cortex": 0.045, "round_ends": 0.8},
            },
        )
        flesh = tube("flesh", at(-0.40, 0.1), at(2.3, 0.12), (0.40, 0.32), 0.36, round_ends=0.7)
        joint = Joint("elbow joint", at(0.0, 0.02), as_point(far), 0.20, moves, (1.3, -1.2))
        return Skeleton((upper, *bones), (arm, flesh), (joint,))
    upper = tube(*humerus, (0.15, 0.42 * w), 0.165 * w, flare=0.17, cortex=0.05, round_ends=0.35)
    bones = tubes(
        {
            "radius": ((-0.22, -0.045, 0.05), (-0.24, 1.9, 0.05), (0.145 * w, 0.1), 0.090 * w),
            "ulna": ((0.10, -0.34, -0.05), (0.17, 1.9, -0.05), (0.19 * w, 0.1), 0.105 * w),
        },
        {
            "radius": {"flare": 0.07, "cortex": 0.04, "round_ends": 0.35},
            "ulna": {"flare": 0.22, "cortex": 0.045, "round_ends": 0.7},
        },
    )
    joint = Joint("elbow joint", (-0.02, -0.07, 0.0), (0.0, 1.0, 0.0), 0.36, moves, (1.15, -0.5))
    below = ((0.0, -0.30, 0.0), (-0.02, 2.0, 0.0), (0.54, 0.44), 0.50 * thick)
    flesh = tube("flesh", *below, depth=0.8)
    return Skeleton((upper, *bones), (arm, flesh), (joint,), ((0.0, -0.36, 0.12, 0.09, 0.6),))


def humerus(build: Build, lateral: bool) -> Skeleton:
    """The whole bone, the shoulder above and the elbow below."""
    w = build.width
    head = oval("humeral head", (-0.05, -0.95, 0.0), (0.205 * w, 0.205))
    shaft, *adjacent = tubes(
        {
            "humerus": ((0.06, -1.04, 0.0), (0.04, 1.04, 0.0), (0.175 * w, 0.27 * w), 0.112 * w),
            "scapula": ((-0.42, -1.05, -0.05), (-0.62, 0.05, -0.05), (0.20, 0.06), 0.25),
            "acromion": ((-0.42, -1.30, -0.1), (0.10, -1.33, -0.1), (0.06, 0.08), 0.06),
            "clavicle": ((-1.5, -1.38, 0.1), (-0.05, -1.40, 0.0), (0.07, 0.08), 0.06),
            "radius": ((-0.10, 1.12, 0.05), (-0.12, 2.2, 0.05), (0.10 * w, 0.07), 0.065 * w),
            "ulna": ((0.12, 0.94, -0.04), (0.12, 2.2, -0.04), (0.12 * w, 0.07), 0.075 * w),
        },
        {
            "humerus": {"flare": 0.13, "cortex": 0.045},
            "scapula": {"depth": 0.5, "flare": 0.5, "flat": True},
            "clavicle": {"bow": 0.06},
            "radius": {"flare": 0.1},
            "ulna": {"flare": 0.25},
        },
    )
    moves = ("humerus", "humeral head", "radius", "ulna", "flesh")
    joint = Joint(
        "glenohumeral joint", (-0.275, -0.95, 0.0), (1.0, 0.0, 0.0), 0.19, moves, (0.95, -1.15)
    )
    thick = 0.36 * build.flesh**0.5
    flesh = tubes(
        {
            "flesh": ((0.02, -1.25, 0.0), (0.02, 2.2, 0.0), (0.40, 0.30), thick),
            "chest": ((-1.2, -1.75, 0.0), (-1.35, 2.2, 0.0), (0.85, 0.75), 0.80),
            "shoulder": ((-1.6, -1.3, 0.0), (0.05, -1.22, 0.0), (0.5, 0.32), 0.40),
        },
        {"flesh": {"depth": 0.95}, "chest": {"round_ends": 0.2}},
    )
    return Skeleton((shaft, head, *adjacent), tuple(flesh), (joint,))


def shoulder(build: Build, lateral: bool) -> Skeleton:
    """The joint with scapula, clavicle and upper ribs; the other views turn the arm a little."""
    w = build.width
    turn = np.deg2rad(14 + 2 * build.bend)
    far = (0.30 + 1.7 * np.sin(turn), -0.10 + 1.7 * np.cos(turn), 0.0)
    shaft, scapula, *adjacent = tubes(
        {
            "humerus": ((0.33, -0.34, 0.0), far, (0.25 * w, 0.17), 0.165 * w),
            "scapula": ((-0.48, -0.48, 0.0), (-0.72, 1.15, 0.0), (0.36, 0.07), 0.34),
            "acromion": ((-0.35, -0.56, 0.0), (0.34, -0.66, 0.0), (0.06, 0.11), 0.075),
            "clavicle": ((-1.7, -0.66, 0.0), (0.02, -0.74, 0.0), (0.10, 0.095), 0.075 * w),
        },
        {
            "humerus": {"flare": 0.22, "cortex": 0.055, "round_ends": 0.5},
            "scapula": {"flare": 0.9, "round_ends": 0.15, "flat": True},
            "acromion": {"bow": 0.02, "cortex": 0.03},
            "clavicle": {"bow": 0.08, "cortex": 0.035, "flare": 0.14, "round_ends": 0.4},
        },
    )
    head = oval("humeral head", (0.20, -0.20, 0.0), (0.285 * w, 0.295))
    glenoid = oval("glenoid", (-0.155, -0.10, 0.0), (0.075, 0.25), -8.0, cortex=0.03)
    coracoid = oval("coracoid process", (-0.20, -0.42, 0.0), (0.12, 0.075), 20.0)
    ribs = [
        tube(
            f"rib {n}",
            (-1.7, -0.38 + 0.31 * n, 0.0),
            (-0.70 - 0.015 * n, 0.22 + 0.31 * n, 0.0),
            (0.05, 0.045),
            0.045,
            bow=-0.12,
            cortex=0.012,
            flat=True,
        )
        for n in range(4)
    ]
    moves = ("humerus", "humeral head", "arm")
    joint = Joint(
        "glenohumeral joint", (-0.085, -0.14, 0.0), (1.0, 0.0, 0.0), 0.26, moves, (1.35, -1.25)
    )
    outer = Joint(
        "acromioclavicular joint", (0.06, -0.74, 0.0), (1.0, 0.0, 0.0), 0.095, (), (1.0, 0.0)
    )
    thick = 0.44 * build.flesh**0.5
    flesh = tubes(
        {
            "chest": ((-1.25, -0.9, 0.0), (-1.0, 2.2, 0.0), (0.55, 0.75), 0.70),
            "shoulder": ((-1.9, -0.75, 0.0), (0.35, -0.40, 0.0), (0.30, 0.42), 0.36),
            "arm": ((0.28, -0.42, 0.0), (far[0], far[1] + 0.4, 0.0), (0.46, 0.40), thick),
        },
        {"chest": {"round_ends": 0.3}, "shoulder": {"round_ends": 0.8}},
    )
    lung = ((-1.25, 0.75, 0.52, 0.95, 0.45),)
    bones = (shaft, head, scapula, glenoid, coracoid, *adjacent, *ribs)
    return Skeleton(bones, tuple(flesh), (joint, outer), lung)
