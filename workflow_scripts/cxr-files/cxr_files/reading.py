"""Inputs as people have them: regular files, text by its mark, JSON, and paths that lists name."""

import codecs
import errno
import json
import math
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Byte-order marks and the encodings they stand for. Spreadsheets save "Unicode text" as UTF-16.
#: UTF-32's first, since one of them begins with one of UTF-16.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
UTF8 = "utf-8-sig"

OUTSIDE = "path leads out of the data set's folder"


class OutsideError(ValueError):
    """A path of a list leads out of the folder of the list."""


def require_regular(path: str | Path) -> Path:
    """Return a path unless it is a pipe, a socket or a device, which would be waited for.

    Raises:
        OSError: it is one, or it cannot be looked at.
    """
    mode = Path(path).stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EPERM, "a pipe or device; expected a regular file", str(path))
    return Path(path)


def encoding_of(start: bytes) -> str:
    """Return the encoding that the first bytes of a text are marked with; without a mark UTF-8."""
    return next((name for mark, name in MARKS.items() if start.startswith(mark)), UTF8)


def text_of(content: bytes) -> str:
    """Decode a text by its mark; UnicodeDecodeError if it is not what the mark says."""
    return content.decode(encoding_of(content))


def dotted(key: Sequence[str | int]) -> str:
    """Return a key as errors show it."""
    return ".".join(map(str, key)) or "(top level)"


def unwritable(text: str) -> str | None:
    """Return what no path and no UTF-8 file can hold: NUL, half a surrogate pair."""
    if "\0" in text:
        return "a NUL character"
    return "half a surrogate pair" if any("\ud800" <= c <= "\udfff" for c in text) else None


def refuse_unwritable(value: Any, key: tuple[str, ...] = ()) -> None:
    """Raise ValueError with the key of a text that cannot be written."""
    if isinstance(value, str):
        defect = unwritable(value)
        if defect is not None:
            raise ValueError(f"key '{dotted(key)}' holds {defect}")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            refuse_unwritable(name, key)
            refuse_unwritable(item, (*key, str(name)))
    elif isinstance(value, list):
        for item in value:
            refuse_unwritable(item, key)


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; ValueError if a key stands twice, of which the last would count."""
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"key {max(names, key=names.count)!r} stands twice")
    return values


def _finite(text: str) -> float:
    """A number of JSON; ValueError for NaN, Infinity and what is too large for a float."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number


def _whole(text: str) -> int:
    _finite(text)
    return int(text)


def parse_json(text: str | bytes, strict: bool = False) -> Any:
    """Read JSON whose texts can be written again.

    Args:
        text: what is read.
        strict: it is a product of ours, which has every key once and finite numbers alone.

    Raises:
        ValueError: it is no JSON, or a text holds half a surrogate pair.
    """
    hooks: dict[str, Any] = {"parse_float": _finite, "parse_constant": _finite, "parse_int": _whole}
    value = json.loads(text, object_pairs_hook=_once, **hooks) if strict else json.loads(text)
    refuse_unwritable(value)
    return value


def below(root: Path, place: str) -> Path:
    """Return the path that a list gives by ``place``, below the folder of its data set.

    Every value of a file that becomes a path goes through here.

    Raises:
        OutsideError: it leads out of ``root``.
    """
    if leads_out(place):
        raise OutsideError(OUTSIDE)
    return root / place


def leads_out(place: str) -> bool:
    """True if a path in a list leads out of the folder of the list, or is too long."""
    names = place.replace("\\", "/").split("/")
    outside = place.startswith(("/", "\\")) or ".." in names or "\0" in place
    longest = max(len(name.encode("utf-8", "surrogatepass")) for name in names)
    return outside or len(place) > 1000 or longest > 255
