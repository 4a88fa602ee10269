"""Settings of the training engine, shared by every program."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from cxr_files.settings import Settings

Share = Annotated[float, Field(ge=0, lt=1)]


class OptimiserSettings(Settings):
    """AdamW, Adam or SGD, with LARS on top where a recipe asks for it (BioViL Appendix E.2)."""

    name: Literal["adamw", "adam", "sgd"] = "adamw"
    learning_rate: float = Field(2e-5, gt=0)
    weight_decay: float = Field(
        0.01, ge=0, description="not on biases and normalisation; adamw's is decoupled"
    )
    betas: tuple[Share, Share] = (0.9, 0.999)
    epsilon: float = Field(1e-8, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1, description="of sgd, without Nesterov's")
    lars: bool = Field(False, description="layer-wise scaling of the gradients before Adam")
    lars_trust: float = Field(0.001, gt=0)


class ScheduleSettings(Settings):
    """Linear warm-up, then what ``decay`` says.

    linear and cosine: to zero at the last step. plateau: times ``factor`` after every ``patience``
    validations in a row in which the monitored value (``stopping``) has not got better. multistep:
    times ``factor`` at each of ``milestones``. noam: with the root of the step's number; the rate
    at the end of the warm-up is ``learning_rate`` (width^-0.5 warmup^-0.5 in Vaswani et al. 2017).
    """

    decay: Literal["linear", "cosine", "constant", "plateau", "multistep", "noam"] = "linear"
    warmup: float = Field(0.03, ge=0, le=1, description="share of all steps")
    warmup_steps: int | None = Field(None, ge=0, description="steps, instead of a share of them")
    factor: float = Field(0.1, gt=0, lt=1, description="plateau, multistep")
    patience: int = Field(10, ge=1, description="plateau: validations")
    milestones: tuple[Share, ...] = Field((), description="multistep: shares of all steps")

    @model_validator(mode="after")
    def _milestones(self) -> "ScheduleSettings":
        if bool(self.milestones) != (self.decay == "multistep"):
            raise ValueError("set milestones with decay 'multistep', and only with it")
        return self


class StoppingSettings(Settings):
    """Which weights are kept, and when to stop before the last step."""

    keep: Literal["last", "best"] = Field("last", description="best = of the monitored value")
    patience: int | None = Field(
        None, ge=1, description="validations without improvement before stopping; null = never"
    )
    monitor: str = Field("loss", description="which of the values that a validation gives counts")
    mode: Literal["min", "max"] = Field("min", description="whether less or more of it is better")


class SamplerSettings(Settings):
    """Which samples stand together in a batch (training/sampler.py)."""

    name: Literal["uniform", "of_kinds"] = Field(
        "uniform", description="of_kinds = shares wholly of pairs or of singles (BioViL-T, E.2)"
    )
    shares: int | None = Field(
        None, ge=1, description="of_kinds: shares of a batch; null = one a process"
    )


class TrainingSettings(Settings):
    """One training run. Either ``epochs`` or ``steps`` sets its length."""

    batch_size: int = Field(256, ge=1)
    epochs: int | None = Field(None, ge=1)
    steps: int | None = Field(None, ge=1)
    sampler: SamplerSettings = SamplerSettings()
    optimiser: OptimiserSettings = OptimiserSettings()
    schedule: ScheduleSettings = ScheduleSettings()
    stopping: StoppingSettings = StoppingSettings()
    gradient_clip: float | None = Field(None, gt=0, description="largest gradient norm")
    gradient_limit: float | None = Field(
        None, gt=0, description="largest element of a gradient; larger ones are cut to it"
    )
    accumulate: int = Field(1, ge=1, description="parts a batch is computed in, to save memory")
    precision: Literal["auto", "bf16", "fp32"] = Field(
        "auto", description="auto = bf16 on a GPU that multiplies it, else fp32"
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
        20,
        ge=1,
        description="most validations over the whole run: every so many whole epochs, and at the "
        "end. Where it does not divide the epochs there are fewer, little more than half at worst",
    )
    validate_steps: int | None = Field(
        None, ge=1, description="steps between validations, instead of a number of them"
    )
    validation_batches: int | None = Field(
        None, ge=1, description="so many batches of the validation split, drawn once; null = all"
    )
    checkpoint_validations: int | None = Field(
        None,
        ge=1,
        description="after every so many validations the model is kept too, in checkpoints/<step>",
    )

    @model_validator(mode="after")
    def _one_length(self) -> "TrainingSettings":
        if (self.epochs is None) == (self.steps is None):
            raise ValueError("set exactly one of epochs and steps")
        return self
