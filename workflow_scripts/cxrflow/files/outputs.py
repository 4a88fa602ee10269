"""Where a program may write: it replaces what an earlier run of it wrote, and nothing else.

A folder that a program writes holds a hidden file, ``.cxrflow``, that says what the folder is. A
folder with files but without that mark is somebody else's and is left alone. So are inputs, the
folders that hold them, links, the working folder and the home folder.
"""

import glob
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from cxrflow.errors import InputError

log = logging.getLogger("cxrflow")

MARK = ".cxrflow"
UNFINISHED = (
    ".partial",
    ".earlier",
)  # ends of the names of what is not whole, and what it replaces
WEEK = 7 * 24 * 3600  # seconds
NOTE = "written by cxrflow; a later run may replace this folder"


def write_mark(folder: Path, product: str) -> None:
    """Say in ``folder`` what it is."""
    mark = folder / MARK
    try:
        mark.write_text(f"{product}: {NOTE}\n", encoding="utf-8")
    except OSError as error:
        error.filename = error.filename or str(mark)  # a full disk does not say where it is
        raise


def read_mark(folder: Path) -> str | None:
    """What a folder is; None without a mark, or with one that a kill left unfinished."""
    mark = folder / MARK
    text = mark.read_text(encoding="utf-8", errors="replace") if mark.is_file() else ""
    return text.partition(":")[0] if text.endswith(f"{NOTE}\n") else None


def empty_folder(folder: Path) -> None:
    """Delete everything in a folder but its mark, so that a kill is harmless."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        elif entry.name != MARK:
            entry.unlink()


def remove_folder(folder: Path) -> None:
    """Delete a folder, if it is there, its mark last."""
    if folder.is_dir():
        empty_folder(folder)
        shutil.rmtree(folder)


def claim_folder(folder: Path, product: str) -> None:
    """Make and mark a folder that is filled bit by bit, unless it is somebody else's.

    Raises:
        InputError: as :func:`require_own_folder`.
    """
    require_own_folder(folder, product)
    folder.mkdir(parents=True, exist_ok=True)
    if read_mark(folder) is None:
        write_mark(folder, product)


def unfinished(path: Path) -> Path:
    """Where this process writes what takes the place of ``path`` when it is whole."""
    return path.with_name(f".{path.name}.{os.uname().nodename}.{os.getpid()}{UNFINISHED[0]}")


def remove_unfinished(path: Path) -> None:
    """Delete what killed runs left beside ``path`` on the way to it.

    Of a process that lives nothing is deleted; what another machine has left, of whose processes
    nothing is known here, only when it is a week old.
    """
    for entry in path.parent.glob(f".{glob.escape(path.name)}.*"):
        if entry.suffix in UNFINISHED and not entry.is_symlink() and not _lives(entry):
            log.info("%s: left by a run that was killed, deleted", entry)
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _lives(entry: Path) -> bool:
    """Whether the process that writes it may still be at work."""
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
    """What is to be said of a folder whose content other users of the machine may read."""
    if not folder.is_dir() or not folder.stat().st_mode & 0o077:
        return None
    return (
        f"{folder}: holds reports and images of patients, and other users of this machine may read "
        f"it; `chmod 700 {folder}` ends that"
    )


def require_own_folder(folder: Path, product: str | None = None) -> None:
    """Refuse a folder that may not be replaced by ``product``; None: by any product.

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
    """Refuse a symbolic link, which would be replaced in place of what it points to."""
    if path.is_symlink():
        raise InputError(f"{path}: is a link; expected the name of the file or folder itself")


def require_writable(path: Path) -> None:
    """Refuse, before any work, a file that cannot be written; its folder is made.

    Raises:
        InputError: naming the file and what the system says.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from None


def require_own(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse an output that is one of the ``others``, holds one, or is somebody else's folder.

    Raises:
        InputError: naming both.
    """
    require_no_link(path)
    if path.is_dir():
        require_own_folder(path)
    place = path.resolve()
    for source in inputs:
        if source.resolve().is_relative_to(place):
            relation = "is" if source.resolve() == place else "holds"
            raise InputError(
                f"{path}: {relation} {source}, which another option names; expected another place"
            )
