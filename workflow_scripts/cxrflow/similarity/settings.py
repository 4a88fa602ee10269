"""Settings of the comparison of images with texts."""

from typing import ClassVar, Literal

from cxr_files.settings import Settings
from cxrflow.kinds import is_outside

#: How the prompts of a class become one embedding: the mean of their embeddings of length 1
#: ("normalised"), or of their projections ("raw").
PromptAverage = Literal["normalised", "raw"]


class SimilaritySettings(Settings):
    """Sizes of a similarity, and what else its constructor needs."""

    outside: ClassVar[bool] = True  # of ``module:Class`` too


def module_of(kind: str) -> str:
    """The module of a kind's code, below the package; or ``module:Class``."""
    return kind if is_outside(kind) else f"similarity.{kind}"
