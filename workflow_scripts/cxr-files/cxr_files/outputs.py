"""Checks of output paths: a program replaces its own earlier output and nothing else.

Each folder that a program writes has a hidden file, ``.cxrflow``, with the name of the product. A
folder with files but without this mark belongs to the user and is never replaced. The same is true
of inputs and the folders around them, links, the working folder and the home folder.
"""

import contextlib
import glob
import logging
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from cxr_files.errors import InputError, PassingError

log = logging.getLogger("cxrflow")

MARK = ".cxrflow"
UNFINISHED = (".partial", ".earlier")  # suffixes: being written; about to be replaced
WEEK = 7 * 24 * 3600  # seconds
PNG_HEADER = 33  # bytes: the signature and the chunk IHDR
SOFTWARE = b"Software\0cxrflow"
NOTE = "written by cxrflow; a later run may replace this folder"


def write_mark(folder: Path, product: str) -> None:
    """Write the mark that says what ``folder`` is."""
    mark = folder / MARK
    try:
        mark.write_text(f"{product}: {NOTE}\n", encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(mark)  # a full disk does not say where it is
        raise


def read_mark(folder: Path) -> str | None:
    """Return the product in the mark of a folder.

    None without a mark, or with one that a killed run left incomplete.
    """
    mark = folder / MARK
    text = mark.read_text(encoding="utf-8", errors="replace") if mark.is_file() else ""
    end = f": {NOTE}\n"
    return text.removesuffix(end) if text.endswith(end) else None


def empty_folder(folder: Path) -> None:
    """Delete everything in a folder but its mark, so that a kill in between is harmless."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARK:
            entry.unlink()


def remove_folder(folder: Path) -> None:
    """Delete a folder if it exists, its mark last."""
    if folder.is_dir():
        empty_folder(folder)
        shutil.rmtree(folder)


def claim_folder(folder: Path, product: str) -> None:
    """Make and mark a folder that is filled step by step.

    Raises:
        InputError: as :func:`require_own_folder`.
    """
    require_own_folder(folder, product)
    folder.mkdir(parents=True, exist_ok=True)
    if read_mark(folder) is None:
        write_mark(folder, product)


@contextlib.contextmanager
def held_folder(folder: Path, product: str) -> Iterator[None]:
    """Claim a folder, hold it, and delete files that a killed holder has not finished.

    The system lets go of the mark when the process ends.

    Raises:
        PassingError: another process fills it.
        InputError: as :func:`require_own_folder`.
    """
    import fcntl  # of Unix, where no browser and no Windows has it

    claim_folder(folder, product)
    with open(folder / MARK, "a") as mark:  # some file systems lock no file that is only read
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PassingError(
                f"{folder}: another process writes this {product}; wait for it or end it"
            ) from None
        for left_over in folder.glob(f".*{UNFINISHED[0]}"):  # by whoever held it before
            left_over.unlink()
        yield


def unfinished(path: Path) -> Path:
    """Return the path under which this process writes the future ``path``."""
    return path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}{UNFINISHED[0]}")


def remove_unfinished(path: Path) -> None:
    """Delete what killed runs have left of ``path``, and of files that it names without its ending.

    Files of live processes stay. Files of other machines, whose processes cannot be seen, are
    deleted when they are a week old.

    """
    for entry in path.parent.glob(f".{glob.escape(path.stem)}.*"):
        if entry.suffix in UNFINISHED and not entry.is_symlink() and not _lives(entry):
            log.info("%s: left by a run that was killed, deleted", entry)
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _lives(entry: Path) -> bool:
    """True if the process that writes the entry may still be running."""
    writer, _, number = entry.stem.rpartition(".")
    if not number.isdecimal():
        return True  # no name of ours
    if not writer.endswith(f".{os.uname().nodename}"):
        try:
            return time.time() - entry.stat().st_mtime < WEEK
        except OSError:
            return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True


def open_to_others(folder: Path) -> str | None:
    """Return a warning if other users of the machine may read the folder."""
    if not folder.is_dir() or not folder.stat().st_mode & 0o077:
        return None
    return (
        f"{folder}: holds reports and images of patients, and other users of this machine may read "
        f"it; `chmod 700 {folder}` ends that"
    )


def require_own_folder(folder: Path, product: str | None = None) -> None:
    """Raise InputError unless the folder may be replaced by ``product`` (None: by any).

    Raises:
        InputError: it is a link, a file, the working folder, the home folder or one around them;
            or it holds files and is not marked as ``product``.
    """
    require_no_link(folder)
    place = folder.resolve()
    home = Path(os.path.expanduser("~")).resolve()
    for protected, name in ((Path.cwd(), "working folder"), (home, "home folder")):
        if protected.is_relative_to(place):
            relation = "is" if protected == place else "is around"
            raise InputError(f"{folder}: {relation} the {name}; expected a folder of its own")
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InputError(f"{folder}: is a file; expected a folder, or a name that is free")
    kind = read_mark(folder)
    if kind is not None and kind != (product or kind):
        raise InputError(
            f"{folder}: holds another product ({kind}), not an earlier {product}; name another "
            "folder, or delete this one yourself"
        )
    # A workflow makes the folders of its outputs before a program runs.
    if kind is None and any(p.name != MARK and not p.is_dir() for p in folder.rglob("*")):
        raise InputError(
            f"{folder}: holds files that no earlier run wrote (there is no {MARK}); name another "
            "folder, or delete this one yourself"
        )


def require_no_link(path: Path) -> None:
    """Refuse a symbolic link: the link would be replaced, not its target."""
    if path.is_symlink():
        raise InputError(f"{path}: is a link; expected the name of the file or folder itself")


def require_writable(path: Path) -> None:
    """Make the folder of a file; raise InputError if the file cannot be written.

    Raises:
        InputError: naming the file and what the system says.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def marked_png(png: bytes) -> bytes:
    """A PNG with a text that says which program wrote it, behind its header."""
    chunk = b"tEXt" + SOFTWARE
    text = len(SOFTWARE).to_bytes(4) + chunk + zlib.crc32(chunk).to_bytes(4)
    return png[:PNG_HEADER] + text + png[PNG_HEADER:]


def require_own_picture(path: Path) -> None:
    """Raise InputError unless a PNG that is there was written by an earlier run."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        start = file.read(PNG_HEADER + 12 + len(SOFTWARE))
    if not start[PNG_HEADER:].startswith(marked_png(b"")[:-4]):
        raise InputError(
            f"{path}: is a picture that no earlier run wrote; name another file, or delete this "
            "one yourself"
        )


def require_own(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that is one of the ``inputs``, contains one, or is not a program's.

    Raises:
        InputError: naming both.
    """
    require_no_link(path)
    if path.is_dir():
        require_own_folder(path)
    elif path.suffix.lower() == ".png":
        require_own_picture(path)
    place = path.resolve()
    for source in inputs:
        if source.resolve().is_relative_to(place):
            relation = "is" if source.resolve() == place else "holds"
            raise InputError(
                f"{path}: {relation} {source}, which another option names; expected another place"
            )
