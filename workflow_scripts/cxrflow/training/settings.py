"""Settings of the training engine, shared by every program."""

from typing import Literal

from pydantic import Field, model_validator

from cxrflow.command import Settings


class OptimiserSettings(Settings):
    """AdamW, with LARS on top where a recipe asks for it (BioViL Appendix E.2)."""

    name: Literal["adamw", "adam"] = "adamw"
    learning_rate: float = Field(2e-5, gt=0)
    weight_decay: float = Field(0.01, ge=0, description="not on biases and normalisation")
    betas: tuple[float, float] = (0.9, 0.999)
    epsilon: float = Field(1e-8, gt=0)
    lars: bool = Field(False, description="layer-wise scaling of the gradients before Adam")
    lars_trust: float = Field(0.001, gt=0)


class ScheduleSettings(Settings):
    """Linear warm-up, then the named decay to zero at the last step."""

    decay: Literal["linear", "cosine", "constant"] = "linear"
    warmup: float = Field(0.03, ge=0, le=1, description="share of all steps")


class StoppingSettings(Settings):
    """Which weights are kept, and when to stop before the last step."""

    keep: Literal["last", "best"] = Field("last", description="best = lowest validation loss")
    patience: int | None = Field(
        None, ge=1, description="validations without improvement before stopping; null = never"
    )


class TrainingSettings(Settings):
    """One training run. Either ``epochs`` or ``steps`` sets its length."""

    batch_size: int = Field(256, ge=1)
    epochs: int | None = Field(None, ge=1)
    steps: int | None = Field(None, ge=1)
    optimiser: OptimiserSettings = OptimiserSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    stopping: StoppingSettings = StoppingSettings()
    gradient_clip: float | None = Field(None, gt=0, description="largest gradient norm")
    accumulate: int = Field(1, ge=1, description="parts a batch is computed in, to save memory")
    precision: Literal["auto", "bf16", "fp32"] = Field(
        "auto", description="auto = bf16 on a GPU and on CPUs that multiply bf16, else fp32"
    )
    device: str = Field("auto", description="auto = the GPU when there is one")
    compile: bool = Field(
        False,
        description="torch.compile for text layers and image trunk; the same training up to "
        "rounding. Needs a C++ compiler, on a GPU Triton; does not pay on a CPU",
    )
    deterministic: bool = Field(
        False,
        description="on a GPU, only kernels that give the same bits every time, so that a resumed "
        "run is exact there too; slower. On a CPU runs are exact anyway",
    )
    save_minutes: float = Field(10, gt=0, description="how often the state is saved")
    log_steps: int = Field(50, ge=1, description="steps between lines of metrics.jsonl")
    validations: int = Field(
        20, ge=1, description="validations over the whole run, at most one an epoch"
    )

    @model_validator(mode="after")
    def _one_length(self) -> "TrainingSettings":
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("set exactly one of epochs and steps")
        return self
