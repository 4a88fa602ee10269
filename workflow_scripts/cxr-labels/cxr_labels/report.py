"""A report as it was published, and the text of a file of one."""

from dataclasses import dataclass
from pathlib import Path

from cxr_files.archives import TooLarge, read_file
from cxr_files.reading import text_of

MOST_NUL = 0.05  # share of characters; a text may hold a few, which count as blanks


@dataclass(frozen=True, slots=True)
class RawReport:
    """A published report: ``text``, or ``sections`` by name, or a ``failure``."""

    study_id: str
    subject_id: str | None
    text: str | None = None
    sections: dict[str, str] | None = None
    failure: str | None = None


def decode(content: bytes) -> tuple[str | None, str | None]:
    """Text and no failure, or no text and the failure."""
    try:
        text = text_of(content)
    except UnicodeDecodeError:
        return None, "not UTF-8 text"
    if text.count("\x00") > MOST_NUL * len(text):
        return None, "not text (NUL bytes)"
    return (text, None) if text.strip() else (None, "empty file")


def read_text_file(path: Path) -> tuple[str | None, str | None]:
    """Text of a file and no failure, or no text and the failure."""
    try:
        return decode(read_file(path))
    except TooLarge as error:
        return None, str(error)
    except OSError:
        return None, "file cannot be read"
