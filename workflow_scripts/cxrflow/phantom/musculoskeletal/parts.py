"""The seven parts of the arm that MURA holds, and what draws each up for one person."""

from collections.abc import Callable, Mapping

from cxrflow.phantom.musculoskeletal import arm, hand
from cxrflow.phantom.musculoskeletal.skeleton import Build, Skeleton

#: By part: of a build, and of whether the film is a lateral one.
BUILDERS: Mapping[str, Callable[[Build, bool], Skeleton]] = {
    "elbow": arm.elbow,
    "finger": hand.finger,
    "forearm": arm.forearm,
    "hand": hand.hand,
    "humerus": arm.humerus,
    "shoulder": arm.shoulder,
    "wrist": hand.wrist,
}
PARTS = tuple(BUILDERS)
