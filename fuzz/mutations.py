"""Damage to bytes, of whatever they are: as disks, networks, converters and ill will do it."""

from collections.abc import Callable
from random import Random


def _flip(random: Random, content: bytearray) -> None:
    for _ in range(random.choice((1, 3, 30, 300))):
        content[random.randrange(len(content))] ^= 1 << random.randrange(8)


def _overwrite(random: Random, content: bytearray) -> None:
    start, length = _place(random, content)
    fill = random.choice((b"\0", b"\xff", b"\x80", random.randbytes(1)))
    content[start : start + length] = fill * min(length, len(content) - start)


def _remove(random: Random, content: bytearray) -> None:
    start, length = _place(random, content)
    del content[start : start + length]


def _insert(random: Random, content: bytearray) -> None:
    start, length = _place(random, content)
    content[start:start] = random.randbytes(length)


def _repeat(random: Random, content: bytearray) -> None:
    start, length = _place(random, content)
    content[start:start] = content[start : start + length] * random.choice((1, 2, 10))


def _cut(random: Random, content: bytearray) -> None:
    del content[random.randrange(len(content)) :]


def _begin_anew(random: Random, content: bytearray) -> None:
    """Damage near the start, where headers are."""
    head = min(len(content), 1500)
    for _ in range(random.choice((1, 2, 8))):
        content[random.randrange(head)] = random.choice((0, 1, 0x7F, 0x80, 0xFF))


def _number(random: Random, content: bytearray) -> None:
    """A length or size that is not plausible."""
    value = random.choice((0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF))
    start = random.randrange(min(len(content), 4000))
    content[start : start + 4] = value.to_bytes(4, random.choice(("little", "big")))


def _place(random: Random, content: bytearray) -> tuple[int, int]:
    length = random.choice((1, 2, 4, 16, 200, len(content) // 2))
    return random.randrange(len(content)), max(1, length)


_DAMAGE: tuple[Callable[[Random, bytearray], None], ...] = (
    *(_flip, _overwrite, _remove, _insert, _repeat, _cut, _begin_anew, _number),
)


def damaged(random: Random, content: bytes) -> bytes:
    """``content`` with one or a few damages."""
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        if changed:
            random.choice(_DAMAGE)(random, changed)
    return bytes(changed)
