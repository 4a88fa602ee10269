"""Settings of the comparison of images with texts."""

from typing import Literal

#: How the prompts of a class become one embedding: the mean of their embeddings of length 1
#: ("normalised"), or of their projections ("raw").
PromptAverage = Literal["normalised", "raw"]
