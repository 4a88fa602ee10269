"""The root of a folder of results: one digest of everything that tables are made of."""

from hashlib import sha256
from pathlib import Path

from cxr_files.atomic import CHECKSUMS, file_digest

#: Folders of results that are filled step by step, and of which no table is made.
PASSING = ("state", "phantom", "logs", "timings")


def checksum_lists(root: Path) -> list[Path]:
    """The ``SHA256SUMS`` of all products, sorted."""
    folders = (
        folder for folder in root.iterdir() if folder.is_dir() and folder.name not in PASSING
    )
    lists = [path for folder in folders for path in folder.rglob(CHECKSUMS)]
    return sorted([*lists, *root.glob(CHECKSUMS)])


def root_of(root: Path) -> str:
    """One SHA-256 over the ``SHA256SUMS`` of all products, and over the tables."""
    tables = (path for path in root.glob("tables/**/*") if path.is_file())
    files = sorted({*checksum_lists(root), *tables})
    lines = (f"{file_digest(file)}  {file.relative_to(root).as_posix()}\n" for file in files)
    return sha256("".join(lines).encode()).hexdigest()
