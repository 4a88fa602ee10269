"""Files that are not the weights they are taken for, named for what they are."""

import re
from pathlib import Path

LFS = b"version https://git-lfs.github.com/spec/"
PAGE = re.compile(rb"\s*(?:<!doctype html|<html|<\?xml)", re.IGNORECASE)
# What torch says of a pickle that would call something, without its advice to let it.
CALL = re.compile(r"GLOBAL (\S+)")


def stand_in(path: str | Path) -> str | None:
    """Return what lies in place of a file that was not fetched; None if nothing is known of it."""
    with open(path, "rb") as file:
        start = file.read(256)
    if start.startswith(LFS):
        size = re.search(rb"^size (\d{1,18})\s*$", start, re.MULTILINE)
        of = f" of a file of {int(size[1]):,} bytes" if size else ""
        return f"is a Git LFS pointer{of}, not the file; `git lfs pull` in its folder fetches it"
    if PAGE.match(start):
        return "is a web page, not the file; fetch it by its download link"
    return None


def unreadable(path: Path, error: Exception) -> str:
    """Return why ``torch.load`` does not read a file, in a line."""
    kind = stand_in(path)
    if kind is not None:
        return kind
    call = CALL.search(str(error))
    if call is not None:
        return f"holds more than tensors: reading it would run {call[1]}"
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    advice = "weights_only" in line
    return "cut off or not a file of weights" + ("" if advice else f" ({line})")
