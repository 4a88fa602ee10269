"""Errors whose message is meant for a person.

``cxrflow.programs.program.run`` prints them as one line and exits with 2, without a traceback.
Anything
else that is raised is a defect of ours and keeps its traceback.
"""


class InputError(Exception):
    """Something the user gave is wrong: the message names file, field, value and expectation."""


class PassingError(InputError):
    """An error that may pass: a full disk, too little memory, another process."""


class InterruptedRun(Exception):
    """The run was asked to stop (SIGTERM) and has saved its state; exit code 75, run it again."""


def one_line(error: BaseException) -> str:
    """Shorten another library's error to one line that any terminal can show."""
    said = " ".join(str(error).split())[:200] or type(error).__name__
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in said)
