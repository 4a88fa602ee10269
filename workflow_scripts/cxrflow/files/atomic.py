"""Atomic files and folders: written beside their place, flushed, then renamed."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cxrflow.errors import InputError
from cxrflow.files.outputs import require_no_link, require_own_folder, unfinished, write_mark
from cxrflow.files.reading import parse_json, require_regular, text_of

_UMASK = os.umask(0o077)  # it can only be read by setting it
os.umask(_UMASK)
WEIGHTS = "*.safetensors"  # written 0600 by their library, whatever the umask says


def _open_to_readers(file: Path) -> None:
    """Give a file the mode of any other new file."""
    file.chmod(0o666 & ~_UMASK)


CHECKSUMS = "SHA256SUMS"


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; on success fsync it and rename it to ``path``."""
    path = Path(path)
    require_no_link(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a file, or a name that is free")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = unfinished(path)
    try:
        with naming(path):
            yield temporary
            # Without it a crash of the machine could leave the new name on an empty file.
            with open(temporary, "rb") as handle:
                os.fsync(handle.fileno())
            if path.match(WEIGHTS):
                _open_to_readers(temporary)
            os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(path: str | Path, product: str, checksums: bool = False) -> Iterator[Path]:
    """Yield a temporary folder; on success it replaces ``path``.

    With ``checksums`` it holds ``SHA256SUMS``, which :func:`require_whole` reads.

    Raises:
        InputError: ``path`` holds anything but an earlier ``product``; it is left as it is.
    """
    path = Path(path)
    require_own_folder(path, product)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = unfinished(path)
    earlier = temporary.with_suffix(".earlier")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    try:
        with naming(path):
            yield temporary
            for file in temporary.rglob(WEIGHTS):
                _open_to_readers(file)
            if checksums:
                _write_checksums(temporary)
            write_mark(temporary, product)
            # Moved away in one piece, so that a kill leaves no half of it in its place.
            require_own_folder(path, product)
            with contextlib.suppress(FileNotFoundError):
                os.replace(path, earlier)
            os.replace(temporary, path)
            shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def naming(path: str | Path) -> Iterator[None]:
    """Add ``path`` to a system error without a file name, such as that of a full disk.

    Libraries in Rust and C++ raise errors of their own with the system's words for a full disk.
    """
    try:
        yield
    except OSError as error:
        if error.errno is not None and error.filename is None:
            error.filename = str(path)
        raise
    except InputError:
        raise
    except Exception as error:
        words = os.strerror(errno.ENOSPC)
        if words in str(error):
            raise OSError(errno.ENOSPC, words, str(path)) from None
        raise


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON with sorted keys, atomically."""
    with atomic_path(path) as temporary:
        text = json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text + "\n", encoding="utf-8")


def read_text(path: str | Path) -> str:
    """Read a text, UTF-8 or marked; an :class:`InputError` if the file is missing or is none."""
    try:
        text = text_of(require_regular(path).read_bytes())
        return text.replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        raise InputError(f"{path}: file not found") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason})") from None


def read_json(path: str | Path) -> Any:
    """Read JSON; raise an :class:`InputError` if the file is missing or broken."""
    try:
        return parse_json(require_regular(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: file not found") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None


def read_object(path: str | Path, fields: Sequence[str] = ()) -> dict[str, Any]:
    """Read a JSON object with these ``fields``; :class:`InputError` for other content."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found a {type(value).__name__}")
    for field in fields:
        if field not in value:
            raise InputError(f"{path}: field '{field}' is missing")
    return value


def is_synthetic(root: str | Path) -> bool:
    """True if the data set's ``MANIFEST.json`` says that it was drawn by a program."""
    manifest = Path(root, "MANIFEST.json")
    if not manifest.is_file():
        return False
    content = read_json(manifest)
    return isinstance(content, dict) and content.get("synthetic") is True


def fingerprint(value: Any) -> str:
    """Return a short hash of a JSON-like value; equal settings have equal hashes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def file_digest(path: str | Path) -> str:
    """Return the SHA-256 of a file in hexadecimal."""
    with open(require_regular(path), "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _write_checksums(folder: Path) -> None:
    """Write ``SHA256SUMS`` of all files of a folder, as ``sha256sum --check`` reads it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    lines = [f"{file_digest(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    (folder / CHECKSUMS).write_text("".join(lines), encoding="utf-8")


def require_whole(path: Path) -> None:
    """Compare a file with its line in the ``SHA256SUMS`` of its folder or the one above.

    Raises:
        InputError: it differs. A file that has no line is taken as it is.
    """
    for folder in (path.parent, path.parent.parent):
        sums = folder / CHECKSUMS
        if not sums.is_file():
            continue
        name = path.relative_to(folder).as_posix()
        lines = sums.read_text(encoding="utf-8", errors="replace").splitlines()
        expected = [line.split(maxsplit=1)[0] for line in lines if line.endswith(f"  {name}")]
        if expected and expected[0] != file_digest(path):
            raise InputError(
                f"{path}: damaged, its SHA-256 is not the one in {sums}; delete {folder} and make"
                " it again"
            )
        return
