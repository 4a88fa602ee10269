"""A program's options from keywords, as a person would type them; how a command ends."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any


def options(**values: Any) -> list[str]:
    """``--some-name value`` of each keyword: settings as JSON, a list word by word.

    None leaves an option out; True gives its name alone.
    """
    words: list[str] = []
    for name, value in values.items():
        if value is not None:
            words.append(f"--{name.replace('_', '-')}")
        if isinstance(value, dict):
            words.append(json.dumps(value))
        elif isinstance(value, list | tuple):
            words += map(str, value)
        elif value is not None and value is not True:
            words.append(str(value))
    return words


def run_to_end(command: str | Sequence[object], **more: Any) -> subprocess.CompletedProcess[str]:
    """Exit code and output of a command."""
    words = command if isinstance(command, str) else list(map(str, command))
    return subprocess.run(words, capture_output=True, text=True, check=False, **more)
