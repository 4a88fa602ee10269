"""Forearm, elbow, humerus and shoulder: an arm that hangs, the chest at the left of the image."""

import numpy as np

from cxrflow.phantom.musculoskeletal.hand import CARPALS, DIGITS, RAYS
from cxrflow.phantom.musculoskeletal.skeleton import (
    Build,
    Joint,
    Skeleton,
    as_point,
    oval,
    tube,
    zoomed,
)


def forearm(build: Build, lateral: bool) -> Skeleton:
    """Both bones in full, the elbow above and the wrist below."""
    w = build.width
    bones = [
        tube(
            "humerus",
            (0.0, -1.9, 0.0),
            (0.0, -1.03, 0.0),
            (0.12, 0.25 * w),
            0.115 * w,
            flare=0.35,
            round_ends=0.4,
            depth=0.6,
        ),
        tube(
            "radius",
            (-0.13, -0.97, 0.06),
            (-0.14, 0.84, 0.06),
            (0.085 * w, 0.15 * w),
            0.070 * w,
            bow=0.10,
            flare=0.13,
            cortex=0.03,
            round_ends=0.4,
        ),
        tube(
            "ulna",
            (0.07, -1.12, -0.06),
            (0.17, 0.80, -0.05),
            (0.13 * w, 0.075 * w),
            0.066 * w,
            bow=-0.03,
            flare=0.17,
            cortex=0.03,
            round_ends=0.5,
        ),
    ]
    carpus = []
    for name, (x, y, z), (rx, ry), tilt in CARPALS:
        carpus.append(
            oval(
                name,
                (0.72 * x, 0.93 + 0.72 * (0.74 - y), 0.72 * z),
                (0.72 * rx * w, 0.72 * ry),
                -tilt,
            )
        )
    for digit in range(1, 5):
        (x, y, z), (hx, hy, hz), _ = RAYS[digit]
        start, end = (
            (0.72 * x, 0.93 + 0.72 * (0.74 - y), 0.72 * z),
            (0.72 * hx, 0.93 + 0.72 * (0.74 - hy), 0.72 * hz),
        )
        carpus.append(
            tube(f"{DIGITS[digit]} metacarpal", start, end, (0.05 * w, 0.047 * w), 0.03 * w)
        )
    moves = ("radius", "ulna", *(bone.name for bone in carpus), "flesh", "hand")
    elbow = Joint("elbow joint", (0.0, -1.0, 0.0), (0.0, 1.0, 0.0), 0.22, moves, (1.1, -0.6))
    flesh = [
        tube("upper arm", (0.0, -2.0, 0.0), (0.0, -0.85, 0.0), (0.36, 0.34), 0.36),
        tube(
            "flesh",
            (0.0, -1.0, 0.0),
            (0.02, 0.95, 0.0),
            (0.36, 0.20),
            0.30 * build.flesh**0.5,
            depth=0.85,
            flare=0.7,
            round_ends=0.2,
        ),
        tube("hand", (0.02, 0.80, 0.0), (0.02, 1.9, 0.0), (0.23, 0.34), 0.30, depth=0.45),
    ]
    whole = Skeleton((*bones, *carpus), tuple(flesh), (elbow,))
    return zoomed(whole, 0.86, (0.0, 0.0))


def elbow(build: Build, lateral: bool) -> Skeleton:
    """Straight from the front, bent at a right angle from the side."""
    w = build.width
    humerus = ("humerus", (0.0, -1.9, 0.0), (0.0, -0.10, 0.0))
    arm = tube(
        "upper arm",
        (0.0, -2.0, 0.0),
        (0.0, -0.05, 0.0),
        (0.44, 0.42),
        0.40 * build.flesh**0.5,
        depth=0.85,
    )
    moves = ("radius", "ulna", "flesh")
    if lateral:
        bend = np.deg2rad(6 + build.bend)
        far = np.array([0.0, np.sin(bend), -np.cos(bend)])  # the turn brings -z to the left
        side = np.array([0.0, np.cos(bend), np.sin(bend)])
        start = np.array([0.0, 0.02, 0.0])
        bones = [
            tube(*humerus, (0.15, 0.20 * w), 0.155 * w, flare=0.2, cortex=0.05, round_ends=0.9),
            tube(
                "radius",
                as_point(start + far * 0.25 - side * 0.05),
                as_point(start + far * 2.2 - side * 0.02),
                (0.135 * w, 0.1),
                0.085 * w,
                flare=0.1,
                cortex=0.04,
                round_ends=0.35,
            ),
            tube(
                "ulna",
                as_point(start - far * 0.30 - side * 0.02),
                as_point(start + far * 2.2 + side * 0.30),
                (0.17 * w, 0.1),
                0.105 * w,
                flare=0.25,
                cortex=0.045,
                round_ends=0.8,
            ),
        ]
        flesh = [
            arm,
            tube(
                "flesh",
                as_point(start - far * 0.40 + side * 0.1),
                as_point(start + far * 2.3 + side * 0.12),
                (0.40, 0.32),
                0.36,
                round_ends=0.7,
            ),
        ]
        joint = Joint(
            "elbow joint", as_point(start + side * 0.02), as_point(far), 0.20, moves, (1.3, -1.2)
        )
        return Skeleton(tuple(bones), tuple(flesh), (joint,))
    bones = [
        tube(*humerus, (0.15, 0.42 * w), 0.165 * w, flare=0.17, cortex=0.05, round_ends=0.35),
        tube(
            "radius",
            (-0.22, -0.045, 0.05),
            (-0.24, 1.9, 0.05),
            (0.145 * w, 0.1),
            0.090 * w,
            flare=0.07,
            cortex=0.04,
            round_ends=0.35,
        ),
        tube(
            "ulna",
            (0.10, -0.34, -0.05),
            (0.17, 1.9, -0.05),
            (0.19 * w, 0.1),
            0.105 * w,
            flare=0.22,
            cortex=0.045,
            round_ends=0.7,
        ),
    ]
    joint = Joint("elbow joint", (-0.02, -0.07, 0.0), (0.0, 1.0, 0.0), 0.36, moves, (1.15, -0.5))
    flesh = [
        arm,
        tube(
            "flesh",
            (0.0, -0.30, 0.0),
            (-0.02, 2.0, 0.0),
            (0.54, 0.44),
            0.50 * build.flesh**0.5,
            depth=0.8,
        ),
    ]
    return Skeleton(tuple(bones), tuple(flesh), (joint,), ((0.0, -0.36, 0.12, 0.09, 0.6),))


def humerus(build: Build, lateral: bool) -> Skeleton:
    """The whole bone, the shoulder above and the elbow below."""
    w = build.width
    bones = [
        tube(
            "humerus",
            (0.06, -1.04, 0.0),
            (0.04, 1.04, 0.0),
            (0.175 * w, 0.27 * w),
            0.112 * w,
            flare=0.13,
            cortex=0.045,
            round_ends=0.6,
            bears=(),
        ),
        oval("humeral head", (-0.05, -0.95, 0.0), (0.205 * w, 0.205)),
        tube(
            "scapula",
            (-0.42, -1.05, -0.05),
            (-0.62, 0.05, -0.05),
            (0.20, 0.06),
            0.25,
            depth=0.5,
            cortex=0.02,
            flare=0.5,
            flat=True,
        ),
        tube("acromion", (-0.42, -1.30, -0.1), (0.10, -1.33, -0.1), (0.06, 0.08), 0.06),
        tube("clavicle", (-1.5, -1.38, 0.1), (-0.05, -1.40, 0.0), (0.07, 0.08), 0.06, bow=0.06),
        tube(
            "radius",
            (-0.10, 1.12, 0.05),
            (-0.12, 2.2, 0.05),
            (0.10 * w, 0.07),
            0.065 * w,
            flare=0.1,
        ),
        tube(
            "ulna", (0.12, 0.94, -0.04), (0.12, 2.2, -0.04), (0.12 * w, 0.07), 0.075 * w, flare=0.25
        ),
    ]
    moves = ("humerus", "humeral head", "radius", "ulna", "flesh")
    joint = Joint(
        "glenohumeral joint", (-0.275, -0.95, 0.0), (1.0, 0.0, 0.0), 0.19, moves, (0.95, -1.15)
    )
    flesh = [
        tube(
            "flesh",
            (0.02, -1.25, 0.0),
            (0.02, 2.2, 0.0),
            (0.40, 0.30),
            0.36 * build.flesh**0.5,
            depth=0.95,
            round_ends=0.6,
        ),
        tube("chest", (-1.2, -1.75, 0.0), (-1.35, 2.2, 0.0), (0.85, 0.75), 0.80, round_ends=0.2),
        tube("shoulder", (-1.6, -1.3, 0.0), (0.05, -1.22, 0.0), (0.5, 0.32), 0.40),
    ]
    return Skeleton(tuple(bones), tuple(flesh), (joint,))


def shoulder(build: Build, lateral: bool) -> Skeleton:
    """The joint with scapula, clavicle and upper ribs; the other views turn the arm a little."""
    w = build.width
    turn = np.deg2rad(14 + 2 * build.bend)
    far = (0.30 + 1.7 * np.sin(turn), -0.10 + 1.7 * np.cos(turn), 0.0)
    bones = [
        tube(
            "humerus",
            (0.33, -0.34, 0.0),
            far,
            (0.25 * w, 0.17),
            0.165 * w,
            flare=0.22,
            cortex=0.055,
            round_ends=0.5,
        ),
        oval("humeral head", (0.20, -0.20, 0.0), (0.285 * w, 0.295)),
        tube(
            "scapula",
            (-0.48, -0.48, 0.0),
            (-0.72, 1.15, 0.0),
            (0.36, 0.07),
            0.34,
            cortex=0.02,
            flare=0.9,
            round_ends=0.15,
            flat=True,
        ),
        oval("glenoid", (-0.155, -0.10, 0.0), (0.075, 0.25), -8.0, cortex=0.03),
        oval("coracoid process", (-0.20, -0.42, 0.0), (0.12, 0.075), 20.0),
        tube(
            "acromion",
            (-0.35, -0.56, 0.0),
            (0.34, -0.66, 0.0),
            (0.06, 0.11),
            0.075,
            bow=0.02,
            cortex=0.03,
        ),
        tube(
            "clavicle",
            (-1.7, -0.66, 0.0),
            (0.02, -0.74, 0.0),
            (0.10, 0.095),
            0.075 * w,
            bow=0.08,
            cortex=0.035,
            flare=0.14,
            round_ends=0.4,
        ),
    ]
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
    flesh = [
        tube("chest", (-1.25, -0.9, 0.0), (-1.0, 2.2, 0.0), (0.55, 0.75), 0.70, round_ends=0.3),
        tube(
            "shoulder", (-1.9, -0.75, 0.0), (0.35, -0.40, 0.0), (0.30, 0.42), 0.36, round_ends=0.8
        ),
        tube(
            "arm",
            (0.28, -0.42, 0.0),
            (far[0], far[1] + 0.4, 0.0),
            (0.46, 0.40),
            0.44 * build.flesh**0.5,
        ),
    ]
    lung = ((-1.25, 0.75, 0.52, 0.95, 0.45),)
    return Skeleton((*bones, *ribs), tuple(flesh), (joint, outer), lung)
