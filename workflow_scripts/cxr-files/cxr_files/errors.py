"""Errors whose message is meant for a person.

``cxr_files.program.run`` prints them as one line and exits with 2, without a traceback.
Anything
else that is raised is a defect of ours and keeps its traceback.
"""

import re


class InputError(Exception):
    """Something the user gave is wrong: the message names file, field, value and expectation."""


class PassingError(InputError):
    """An error that may pass: a full disk, too little memory, another process."""


class InterruptedRun(Exception):
    """The run was asked to stop (SIGTERM) and has saved its state; exit code 75, run it again."""


# An object as Python shows it: its address or its file's name differ each time.
OBJECT = re.compile(r"<(?:\w+\.)*(\w+)(?: object at 0x[0-9a-fA-F]+| name=[^<>]*)>")


def one_line(error: BaseException) -> str:
    """Shorten another library's error to one line that any terminal can show, always the same."""
    said = " ".join(OBJECT.sub(r"\1", str(error)).split())[:200] or type(error).__name__
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in said)
