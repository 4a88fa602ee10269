"""Errors whose message is meant for a person.

``cxrflow.command.run`` prints them as one line and exits with 2, without a traceback. Anything
else that is raised is a defect of ours and keeps its traceback.
"""


class InputError(Exception):
    """Something the user gave is wrong: the message names file, field, value and expectation."""


class PassingError(InputError):
    """What another attempt may find otherwise: a full disk, too little memory, another process."""


class InterruptedRun(Exception):
    """The run was asked to stop (SIGTERM) and has saved its state; exit code 75, run it again."""
