"""Atomic files and folders: written beside their place, flushed, then renamed."""

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, get_args

from cxr_files.errors import InputError
from cxr_files.outputs import (
    MARK,
    UNFINISHED,
    marked_png,
    remove_folder,
    require_no_link,
    require_own_folder,
    unfinished,
    write_mark,
)
from cxr_files.reading import parse_json, require_regular, text_of
from cxr_files.weights import stand_in

log = logging.getLogger("cxrflow")

_UMASK = os.umask(0o077)  # it can only be read by setting it
os.umask(_UMASK)
# What a disk refuses: no room, over quota, too large, read-only, broken.
REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)
WEIGHTS = "*.safetensors"  # written 0600 by their library, whatever the umask says


def _open_to_readers(file: Path) -> None:
    """Give a file the mode of any other new file."""
    file.chmod(0o666 & ~_UMASK)


CHECKSUMS = "SHA256SUMS"
SEAL = "digest"  # field of a JSON object that stands alone
TYPES: dict[type, str] = {
    **{str: "text", int: "whole number", float: "number", bool: "true or false"},
    **{list: "list", dict: "object", NoneType: "null"},
}  # as JSON calls them


@contextlib.contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path; on success fsync it and rename it to ``path``."""
    path = Path(path)
    require_no_link(path)
    if path.is_dir():
        raise InputError(f"{path}: is a folder; expected a file, or a name that is free")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is a pipe or device; expected a file, or a name that is free")
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
def atomic_folder(path: str | Path, product: str) -> Iterator[Path]:
    """Yield a temporary folder; on success it replaces ``path``.

    It holds ``SHA256SUMS``, which whoever reads a file of it compares (:func:`require_unchanged`).

    Raises:
        InputError: ``path`` holds anything but an earlier ``product``; it is left as it is.
    """
    path = Path(path)
    # It would be left by a kill: its name is not that of an output.
    assert path.suffix not in UNFINISHED, f"{path}: replaces a folder that is itself unfinished"
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
            write_checksums(temporary)
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

    Libraries in Rust and C++ raise errors of their own with the system's words for what it refuses.
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
        for number in REFUSED:
            if os.strerror(number) in str(error):
                raise OSError(number, os.strerror(number), str(path)) from None
        raise


def write_png(path: str | Path, png: bytes) -> None:
    """Write a picture that a later run may replace (:func:`.require_own_picture`), atomically."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(marked_png(png))


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


def read_json(path: str | Path, strict: bool = False) -> Any:
    """Read JSON; raise an :class:`InputError` if the file is missing or broken.

    ``strict``: as :func:`.parse_json`.
    """
    try:
        require_unchanged(Path(path))
        return parse_json(require_regular(path).read_text(encoding="utf-8"), strict)
    except FileNotFoundError:
        raise InputError(f"{path}: file not found") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {stand_in(path) or f'not valid JSON ({error})'}") from None


def read_object(
    path: str | Path, fields: Sequence[str] | Mapping[str, type | UnionType] = ()
) -> dict[str, Any]:
    """Read a JSON object with these ``fields``; :class:`InputError` for other content.

    Of a mapping the values say which types the fields have.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a JSON object, found a {type(value).__name__}")
    require_fields(value, fields, str(path))
    return value


def require_fields(
    value: Mapping[str, Any], fields: Sequence[str] | Mapping[str, type | UnionType], source: str
) -> None:
    """Raise InputError if a JSON object lacks one of ``fields`` or one has another type."""
    for field in fields:
        if field not in value:
            raise InputError(f"{source}: field '{field}' is missing")
    if not isinstance(fields, Mapping):
        return
    for field, kind in fields.items():
        item = value[field]
        # To Python, true and false are whole numbers.
        kinds = get_args(kind) or (kind,)
        if not isinstance(item, kinds) or (isinstance(item, bool) and bool not in kinds):
            names = " or ".join(TYPES[each] for each in kinds)
            raise InputError(f"{source}: field '{field}' is {item!r:.40}; expected {names}")


def write_sealed(path: str | Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object that stands alone, without a folder's ``SHA256SUMS``, with its digest."""
    write_json(path, {**value, SEAL: fingerprint(value)})


def read_sealed(path: str | Path, fields: Sequence[str] = ()) -> dict[str, Any]:
    """Read what :func:`write_sealed` wrote; :class:`InputError` if it is another by now."""
    value = read_object(path, (*fields, SEAL))
    if value.pop(SEAL) != fingerprint(value):
        raise InputError(
            f"{path}: damaged, field '{SEAL}' is not that of its content; make it again"
        )
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


def write_checksums(folder: Path, digests: Mapping[str, str] | None = None) -> None:
    """Write ``SHA256SUMS`` of a folder's files but hidden ones, as ``sha256sum --check`` reads it.

    ``digests``: by the files' paths in the folder, where they are known.
    """
    if digests is None:
        files = (path for path in folder.rglob("*") if path.is_file())
        named = ((path, path.relative_to(folder).as_posix()) for path in files)
        digests = {
            name: file_digest(path)
            for path, name in named
            if name != CHECKSUMS and not path.name.startswith(".")
        }
    lines = [f"{digests[name]}  {name}\n" for name in sorted(digests)]
    with atomic_path(folder / CHECKSUMS) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")


def _listed(path: Path) -> tuple[Path, dict[str, str]]:
    """The folder whose ``SHA256SUMS`` lists a file, its own or the one above, and all digests."""
    for folder in (path.parent, path.parent.parent):
        if (folder / CHECKSUMS).is_file():
            digests = read_checksums(folder)
            return folder, digests if path.relative_to(folder).as_posix() in digests else {}
    return path.parent, {}


def require_unchanged(path: Path) -> None:
    """Compare a file with its line in ``SHA256SUMS``; every reader of a product calls it.

    Raises:
        InputError: the file differs. One that has no line is taken as it is.
    """
    folder, digests = _listed(path)
    if digests and path.is_file():
        _require_digest(folder, path.relative_to(folder).as_posix(), digests)


def _require_digest(folder: Path, name: str, digests: Mapping[str, str]) -> None:
    file = folder / name
    if not _has_digest(file, digests[name]):
        raise InputError(
            f"{file}: {'damaged' if file.exists() else 'missing'}, its SHA-256 is not the one in "
            f"{folder / CHECKSUMS}; make {folder} again, or delete that list if the change is yours"
        )


def require_whole(path: Path) -> None:
    """Compare a file with its line in the ``SHA256SUMS`` of its folder or the one above.

    The list's smaller files, all but weights, are compared with it: two swapped lines of a
    tokenizer or another epsilon of a normalisation change every embedding.

    Raises:
        InputError: a file differs, or ``path`` is listed but absent. A file that has no line is
            taken as it is.
    """
    folder, digests = _listed(path)
    if not digests:
        return
    name = path.relative_to(folder).as_posix()
    texts = (text for text in digests if text != name and not Path(text).match(WEIGHTS))
    for file in (name, *(text for text in texts if (folder / text).is_file())):
        _require_digest(folder, file, digests)


def remove_damaged(folder: Path) -> None:
    """Delete a folder, with a warning, unless its files are those of its ``SHA256SUMS``."""
    if not folder.is_dir():
        return
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    digests = read_checksums(folder) if CHECKSUMS in files else {}
    if files - {CHECKSUMS, MARK} != digests.keys() or not all(
        _has_digest(folder / name, digest) for name, digest in digests.items()
    ):
        log.warning("%s is damaged; it is deleted and computed again", folder)
        remove_folder(folder)


def read_checksums(folder: Path) -> dict[str, str]:
    """Digests by the paths of files below the folder."""
    text = (folder / CHECKSUMS).read_text(encoding="utf-8", errors="replace")
    lines = (line.partition("  ") for line in text.splitlines())
    return {name: digest for digest, _, name in lines if name}


def _has_digest(file: Path, digest: str) -> bool:
    return file.is_file() and file_digest(file) == digest
