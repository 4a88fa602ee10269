"""Settings of linear heads on frozen features."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Settings
from cxrflow.benchmarks.settings import PromptSettings, Seeds
from cxrflow.data.cohorts.settings import Split


class ConvergedSolver(Settings):
    """The minimum of the loss with an L2 penalty: logistic regression to a tolerance."""

    inverse_penalty: float = Field(
        default=1.0,
        gt=0,
        description="C of sum of losses + |weights - start|^2 / 2C; scikit-learn's default",
    )
    standardise: bool = Field(
        default=True,
        description="features, over a share's rows, so that the penalty is the same for every "
        "model's",
    )
    tolerance: float = Field(
        default=1e-6, gt=0, description="of the mean loss's gradient, greatest absolute value"
    )
    max_iterations: int = Field(default=10_000, ge=1)


class ProbeSettings(PromptSettings):
    """Linear heads on frozen features, from shares of the training images."""

    split: Split = Field(default="test", description="rows that are scored")
    train_split: Split = Field(default="train", description="rows of which the shares are taken")
    probe_seeds: Seeds = Field(
        default=[0, 1, 2, 3, 4],
        description="of a share's rows; values are means over them",
    )
    start: Literal["auto", "prompts", "zeros"] = Field(
        default="auto",
        description="where heads start, and what the penalty draws them to; prompts: the class "
        "embeddings, bias 0 (section 2.2); auto: prompts where the model has a text encoder, else "
        "zeros",
    )
    solver: ConvergedSolver = ConvergedSolver()

    @model_validator(mode="after")
    def _parts_differ(self) -> Self:
        if self.split == self.train_split:
            raise ValueError(f"split: '{self.split}' is also the train_split")
        return self
