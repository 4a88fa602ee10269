"""Files that are not the weights they are taken for, named for what they are."""

import re
from pathlib import Path
from typing import Any

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


def no_plain_numbers(tensor: Any) -> str | None:
    """Return what a tensor of torch is if it does not hold its own numbers, each once, in memory.

    A few bytes can say that they are 10**12 numbers, or none at all.
    """
    if tensor.is_nested:
        return "nested"
    if tensor.is_quantized:
        return "quantised"
    if str(tensor.layout) != "torch.strided":
        return str(tensor.layout).removeprefix("torch.").removeprefix("_")
    if tensor.device.type != "cpu":
        return f"on the device {tensor.device.type}, without numbers"
    if tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        return f"{tensor.untyped_storage().nbytes()} bytes expanded to {tensor.numel()} numbers"
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
