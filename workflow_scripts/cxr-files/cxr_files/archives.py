"""Files of archives and compressed files, read within bounds.

The bounds are needed because 2 MB can unpack to more than a disk holds. Only plain files are read;
links in archives are not followed. Two files of one name are damage, since either may be meant.
"""

import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, NamedTuple

from cxr_files.errors import InputError, one_line
from cxr_files.reading import require_regular

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LARGEST_MEMBER = 2**24  # bytes; the longest report has some thousand, a scene graph 200,000
LARGEST_ARCHIVE = 2**29  # of all members of an archive that is held in memory
GZIP = b"\x1f\x8b"  # what gzipped files begin with
TWICE = "two files of this name in the archive"
TOO_LARGE = f"longer than {LARGEST_MEMBER >> 20} MB"

#: What Python's readers of damaged archives raise.
DAMAGE = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, ValueError, OverflowError, RuntimeError, KeyError, IndexError),
)


class ArchiveFile(NamedTuple):
    """A file of an archive: its name without folders, and its content or why it has none."""

    name: str
    content: bytes
    failure: str | None = None


class TooLarge(ValueError):
    """A compressed file unpacks to more than its limit."""


class Bounded(io.RawIOBase):
    """A stream that raises :class:`TooLarge` after ``limit`` bytes."""

    def __init__(self, stream: IO[bytes] | gzip.GzipFile, limit: int) -> None:
        self._stream, self._limit, self._left = stream, limit, limit

    def readable(self) -> bool:
        """Return True, as of any input stream."""
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        """Read into ``buffer`` as a file does."""
        view = memoryview(buffer)
        content = self._stream.read(min(len(view), self._left + 1))
        self._left -= len(content)
        if self._left < 0:
            raise TooLarge(f"unpacks to more than {self._limit >> 20} MB")
        view[: len(content)] = content
        return len(content)

    def renew(self) -> None:
        """Restart the count, when the bytes read so far are no longer in memory."""
        self._left = self._limit


def unpacked(path: Path, smallest: int = 2**26) -> IO[bytes]:
    """Open a file that may be gzipped; text never compresses more than 50 times."""
    require_regular(path)
    if path.suffix.lower() != ".gz":
        plain = open(path, "rb")  # noqa: SIM115 - the caller closes it
        if plain.peek(2)[:2] != GZIP:
            return plain
        plain.close()  # it was unpacked by name alone, or renamed
    limit = max(smallest, 50 * path.stat().st_size)
    return io.BufferedReader(Bounded(gzip.open(path), limit))


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip archive; InputError if it is damaged."""
    try:
        return zipfile.ZipFile(path)
    except (*DAMAGE, NotImplementedError) as error:
        raise InputError(f"{path}: not a whole zip archive ({one_line(error)})") from None


def names_of(archive: zipfile.ZipFile) -> tuple[list[str], frozenset[str]]:
    """Return the sorted names of a zip's files, and those that occur twice."""
    counts = Counter(archive.namelist())
    return sorted(counts), frozenset(name for name, count in counts.items() if count > 1)


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read a file of a zip.

    Raises one of :data:`DAMAGE` if it cannot be read, KeyError if it is not there.
    """
    # Texts are packed 3 to 30 times. What headers say of unpacked sizes may be wrong.
    limit = min(LARGEST_MEMBER, max(2**18, 100 * archive.getinfo(name).compress_size))
    with archive.open(name) as stream:
        content = stream.read(limit + 1)
    if len(content) > limit:
        raise TooLarge(TOO_LARGE if limit == LARGEST_MEMBER else "unpacks to 100 times its size")
    return content


def read_file(path: Path) -> bytes:
    """Read a file of the size of a report; :class:`TooLarge` if it is larger."""
    with open(require_regular(path), "rb") as stream:
        content = stream.read(LARGEST_MEMBER + 1)
    if len(content) > LARGEST_MEMBER:
        raise TooLarge(TOO_LARGE)
    return content


def tar_files(path: Path, suffix: str) -> list[ArchiveFile]:
    """Read the files of a tar archive, gzipped or plain, whose names end in ``suffix``.

    Raises:
        InputError: cut off, not such an archive, or more than :data:`LARGEST_ARCHIVE`.
    """
    members: dict[str, ArchiveFile] = {}
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == GZIP
            raw.seek(0)
            stream = Bounded(gzip.GzipFile(fileobj=raw) if packed else raw, LARGEST_ARCHIVE)
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                for member in tar:
                    name = PurePosixPath(member.name).name
                    if not member.name.endswith(suffix) or member.isdir():
                        continue
                    twice = name in members
                    members[name] = ArchiveFile(name, b"", TWICE) if twice else _member(tar, member)
    except DAMAGE as error:
        raise InputError(f"{path}: cut off or not a tar archive ({one_line(error)})") from None
    return list(members.values())


def _member(tar: tarfile.TarFile, member: tarfile.TarInfo) -> ArchiveFile:
    name = PurePosixPath(member.name).name
    if not member.isreg():
        return ArchiveFile(name, b"", "a link or device in the archive, not a file")
    stream = tar.extractfile(member)
    content = stream.read(LARGEST_MEMBER + 1) if stream is not None else b""
    fits = len(content) <= LARGEST_MEMBER
    return ArchiveFile(name, content) if fits else ArchiveFile(name, b"", TOO_LARGE)
