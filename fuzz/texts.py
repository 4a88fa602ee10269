"""Changes of texts, tables and archives that know what they are: a value, a column, a member."""

import gzip
import io
import re
import tarfile
import zipfile
from functools import cache
from random import Random

from fuzz.mutations import damaged

VALUES = (
    *(b"", b" ", b"nan", b"inf", b"-inf", b"1e400", b"-1", b"0", b"1.5", b"true", b"null", b"[]"),
    *(b"9" * 5000, b"-" + b"9" * 30, b"=cmd|' /C calc'!A0", b"../../etc/passwd", b"/etc/passwd"),
    *(b"a\0b", b"x" * 200_000, b"\xff\xfe", "é\u2028".encode(), b"2100-13-45", b"'", b'"', b"\n"),
    *(b"train", b"p10000001", b"\xed\xa0\x80", b"{}", b"1" * 400),
)
ENCODINGS = ("utf-16", "utf-32", "latin-1", "utf-8-sig", "cp1252")


def changed(random: Random, name: str, content: bytes) -> bytes:
    """A file's content with one change, of its bytes or of what they mean."""
    if random.random() < 0.03:
        return random.choice((b"", b"\0" * 4096, b"\n" * 1000, b"[" * 100_000, bomb(b"")))
    kind = _kind(name)
    if kind is None or random.random() < 0.3:
        return damaged(random, content)
    if kind == "gz":
        inner = gzip.decompress(content)
        if random.random() < 0.08:
            return bomb(inner)
        return gzip.compress(changed(random, name.removesuffix(".gz"), inner), 1)
    if kind in ("zip", "tgz"):
        return (_zip if kind == "zip" else _tar)(random, content)
    return random.choice((_value, _value, _value, _columns, _lines, _encoding))(random, content)


def _kind(name: str) -> str | None:
    for ending in ("gz", "zip", "tgz", "csv", "tsv", "txt", "json", "jsonl", "xml"):
        if name.endswith(f".{ending}"):
            return ending
    return None


@cache
def bomb(begin: bytes) -> bytes:
    """A gzip file of 2 MB that unpacks to 2 GB, after something sound."""
    block = gzip.compress(b"\n" * 2**24, 1)
    return gzip.compress(begin) + block * 128


def _value(random: Random, content: bytes) -> bytes:
    """Another value in one place or in several."""
    words = list(re.finditer(rb"[^,\t\n\"<>{}\[\]:]+", content[: 2**20]))
    new = random.choice(VALUES)
    for word in sorted(
        random.sample(words, min(len(words), random.choice((1, 1, 5)))),
        key=lambda word: -word.start(),
    ):
        content = content[: word.start()] + new + content[word.end() :]
    return content


def _columns(random: Random, content: bytes) -> bytes:
    """A column renamed, repeated, swapped or gone from the header."""
    header, line, rest = content.partition(b"\n")
    mark = b"\t" if b"\t" in header else b","
    names = header.split(mark)
    at = random.randrange(len(names))
    change = random.choice(("rename", "repeat", "drop", "swap", "all"))
    if change == "rename":
        names[at] = random.choice(VALUES)
    elif change == "repeat":
        names[at] = random.choice(names)
    elif change == "drop":
        del names[at]
    elif change == "swap":
        random.shuffle(names)
    else:
        names = [b"x"] * len(names)
    return mark.join(names) + line + rest


def _lines(random: Random, content: bytes) -> bytes:
    """Rows that are short, long, twice, gone or in another order; other ends of lines."""
    lines = content.split(b"\n")
    at = random.randrange(len(lines))
    change = random.randrange(8)
    if change == 0:
        lines[at] = lines[at].rpartition(b",")[0]
    elif change == 1:
        lines[at] += b',more,"and more'
    elif change == 2:
        lines[at:at] = [lines[at]] * random.choice((1, 50))
    elif change == 3:
        del lines[at : at + random.choice((1, len(lines)))]
    elif change == 4:
        random.shuffle(lines)
    elif change == 5:
        lines[at:at] = lines[:at]
    elif change == 6:
        return content.replace(b"\n", random.choice((b"\r", b"\r\n", b"\n\n", b"")))
    else:
        lines[at] = b""
    return b"\n".join(lines)


def _encoding(random: Random, content: bytes) -> bytes:
    """Other bytes for the same text, or a declaration that is not true."""
    if content.startswith(b"<") and random.random() < 0.5:
        named = random.choice((b"x-none", b"utf-7", b"utf-16", b"shift_jis", b"ascii"))
        entity = b"<!DOCTYPE a [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]>"
        start = b"<?xml version='1.0' encoding='%s'?>" % named + random.choice((b"", entity))
        return start + content[content.find(b"?>") + 2 :] if b"?>" in content else start + content
    text = content.decode("utf-8", "replace") + "é"
    return text.encode(random.choice(ENCODINGS), "replace")


def _zip(random: Random, content: bytes) -> bytes:
    """A member changed, twice, elsewhere, as a link, or far too long."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, inner in _members(random, members):
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            if inner is None:
                info.external_attr = 0o120777 << 16
            archive.writestr(info, b"/etc/passwd" if inner is None else inner)
    return stream.getvalue()


def _tar(random: Random, content: bytes) -> bytes:
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [(one.name, archive.extractfile(one).read()) for one in archive if one.isreg()]  # type: ignore[union-attr]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, inner in _members(random, members):
            info = tarfile.TarInfo(name)
            info.size = len(inner or b"")
            if inner is None:
                info.type, info.linkname = random.choice((b"1", b"2", b"3", b"6")), "../../x"
            archive.addfile(info, io.BytesIO(inner or b""))
    return stream.getvalue()


def _members(random: Random, members: list[tuple[str, bytes]]) -> list[tuple[str, bytes | None]]:
    made: list[tuple[str, bytes | None]] = [*members]
    at = random.randrange(len(made))
    name, inner = members[at]
    change = random.randrange(6)
    if change == 0:
        made[at] = name, changed(random, name, inner)
    elif change == 1:
        made.append((name, inner[: len(inner) // 2]))
    elif change == 2:
        made[at] = random.choice(("../../x/", "/", "a\\", "")) + name, inner
    elif change == 3:
        made[at] = name, None
    elif change == 4:
        made[at] = name, b"\n" * 2**26
    else:
        made += [(f"{n}{name}", b" " * 2**24) for n in range(60)]
    return made
