"""All programs, by the names under which ``cxrflow`` starts them."""

from typing import Final

from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.programs.fixed import AFTER_TRAINING, BEFORE_TRAINING, COMMANDS

STAGES: Final = {
    **BEFORE_TRAINING,
    **{
        f"pretrain_{name}": f"pretrain.{name}"
        for name, program in TRAINING_PROGRAMS.items()
        if program.learns
    },
    **AFTER_TRAINING,
}
PROGRAMS: Final = COMMANDS | STAGES
