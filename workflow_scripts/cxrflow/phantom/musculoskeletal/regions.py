"""The seven regions of the arm in MURA, and the builder of each one's skeleton."""

from collections.abc import Callable, Mapping

from cxrflow.phantom.musculoskeletal import arm, hand
from cxrflow.phantom.musculoskeletal.skeleton import Build, Skeleton

#: By region: a function of a person's build, and of whether the film is lateral.
BUILDERS: Mapping[str, Callable[[Build, bool], Skeleton]] = {
    "elbow": arm.elbow,
    "finger": hand.finger,
    "forearm": arm.forearm,
    "hand": hand.hand,
    "humerus": arm.humerus,
    "shoulder": arm.shoulder,
    "wrist": hand.wrist,
}
REGIONS = tuple(BUILDERS)
