"""System calls by which a program changes files, seen before Linux makes them, and answered for it.

A forked program asks for a filter (seccomp's user notification), and this process answers each of
its calls: let it be made, refuse it, make a part of it, or end the program there. So Arrow,
safetensors and Pillow meet a full disk as Python does. Patches of ``open`` and ``os.write`` in a
``sitecustomize`` would be passed by: these libraries, and Python's own files, do not call them. It
takes no root, no small file system and no compiler; Linux on x86-64 alone.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import re
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_WRITE, _PWRITE, _WRITEV = 1, 18, 20
# By number on x86-64, which argument is an open file; of those that name a path, the folder that it
# starts from (None: the working folder) and the path.
_TO_FILES = {
    **{_WRITE: "write", _PWRITE: "pwrite64", _WRITEV: "writev", 296: "pwritev"},
    **{74: "fsync", 75: "fdatasync", 77: "ftruncate", 285: "fallocate"},
}
_TO_PATHS: dict[int, tuple[str, int | None, int]] = {
    **{2: ("open", None, 0), 257: ("openat", 0, 1), 85: ("creat", None, 0)},
    **{83: ("mkdir", None, 0), 258: ("mkdirat", 0, 1), 84: ("rmdir", None, 0)},
    **{87: ("unlink", None, 0), 263: ("unlinkat", 0, 1)},
    **{82: ("rename", None, 1), 264: ("renameat", 2, 3), 316: ("renameat2", 2, 3)},
}
_COPIES = {40: ("sendfile", 0), 326: ("copy_file_range", 2)}  # which argument is written to
#: Calls that need room on the disk.
GROWING = {*_TO_FILES.values(), "sendfile", "copy_file_range", "mkdir", "mkdirat", "creat", "open"}
GROWING |= {"openat"}
#: Calls that move bytes to the disk.
MOVING = {*_TO_FILES.values(), "sendfile", "copy_file_range"} - {"ftruncate", "fallocate"}

_AT_CWD = -100
_SECCOMP, _SET_FILTER, _NEW_LISTENER = 317, 1, 8
_PIDFD_GETFD = 438
_NO_NEW_PRIVILEGES, _DIES_WITH_PARENT = 38, 1
_ALLOW, _ASK = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_PAGE = 4096


class Call(NamedTuple):
    """A call that would change a file: its name, the file, and which of them it is, from 1."""

    name: str
    path: str
    number: int


class Refuse(NamedTuple):
    """The answer of a machine that refuses: an ``errno``."""

    number: int


class Kill(NamedTuple):
    """The program and its processes end before the call, by SIGKILL."""


class Shorten(NamedTuple):
    """Of a write of several bytes the first half is written."""


Answer = Refuse | Kill | Shorten | None
Decide = Callable[[Call], Answer]


class Ended(NamedTuple):
    """How a program ended: its exit code, below 0 a signal; what it said; the calls it made."""

    code: int
    words: str
    calls: int


def unavailable() -> str | None:
    """Why calls cannot be answered on this machine, or None."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "needs Linux on x86-64"
    actions = Path("/proc/sys/kernel/seccomp/actions_avail")
    if not actions.is_file() or "user_notif" not in actions.read_text():
        return "this kernel has no seccomp user notification"
    return None


def ran(main: Callable[[], int], below: Path, decide: Decide | None, seconds: float) -> Ended:
    """Fork, call ``main`` in the child and answer its calls that change files ``below`` a folder.

    Without ``decide`` nothing is answered or counted.

    Raises:
        TimeoutError: it still runs after ``seconds``.
    """
    child, words, listener = begun(main, decide is not None)
    supervisor = None if listener is None else _Supervisor(child, listener, below, decide)
    return ended(child, words, supervisor, seconds)


def begun(main: Callable[[], int], filtered: bool) -> tuple[int, int, int | None]:
    """Fork ``main`` as a session of its own: its number, a pipe of its words, what it asks by."""
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)  # it would wait for answers
            os.setsid()
            for number in (1, 2):
                os.dup2(writing, number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number in (reading, writing):
                os.close(number)
            ours.close()
            if filtered:
                asking = _ask_before()
                socket.send_fds(theirs, [b"."], [asking])
                os.close(asking)
            theirs.close()
            code = main()
        finally:
            os._exit(code)
    os.close(writing)
    theirs.close()
    listener = socket.recv_fds(ours, 1, 1)[1][0] if filtered else None
    ours.close()
    return child, reading, listener


def ended(child: int, words: int, supervisor: "_Supervisor | None", seconds: float) -> Ended:
    said, end = b"", time.monotonic() + seconds
    over = os.pidfd_open(child)
    waits = select.poll()
    for number in (over, words):
        waits.register(number, select.POLLIN)
    if supervisor is not None:
        waits.register(supervisor.listener, select.POLLIN)
    try:
        while True:
            events = dict(waits.poll(1000))
            if supervisor is not None and events.get(supervisor.listener, 0) & select.POLLIN:
                supervisor.answer()
            if events.get(words, 0):
                piece = os.read(words, 1 << 16)
                said += piece
                if not piece:
                    waits.unregister(words)
            if over in events:
                break
            if time.monotonic() > end:
                raise TimeoutError(f"still ran after {seconds:.0f} s: {said.decode()[-2000:]}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # and the workers that it has left
        _, status = os.waitpid(child, 0)
        os.set_blocking(words, False)
        with contextlib.suppress(BlockingIOError):
            while piece := os.read(words, 1 << 16):
                said += piece
        for number in (over, words, *([supervisor.listener] if supervisor else [])):
            os.close(number)
    calls = supervisor.number if supervisor else 0
    return Ended(os.waitstatus_to_exitcode(status), said.decode("utf-8", "replace"), calls)


def _ask_before() -> int:
    """Have Linux ask before this process, and what it starts, makes one of the calls."""
    library = ctypes.CDLL(None, use_errno=True)
    numbers = sorted({*_TO_FILES, *_TO_PATHS, *_COPIES})
    steps = [struct.pack("HBBI", _LOAD, 0, 0, 0)]
    for place, number in enumerate(numbers):
        steps.append(struct.pack("HBBI", _EQUAL, len(numbers) - place, 0, number))
    steps += [struct.pack("HBBI", _RETURN, 0, 0, verdict) for verdict in (_ALLOW, _ASK)]
    code = ctypes.create_string_buffer(b"".join(steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    listener = library.syscall(_SECCOMP, _SET_FILTER, _NEW_LISTENER, program)
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


class _Supervisor:
    """Answers the calls of one program."""

    def __init__(self, child: int, listener: int, below: Path, decide: Decide | None) -> None:
        self.child, self.listener, self.below = child, listener, f"{below.resolve()}/"
        self.decide, self.number = decide, 0

    def answer(self) -> None:
        """Take a call and answer it."""
        asked = bytearray(80)
        try:
            fcntl.ioctl(self.listener, _RECEIVE, asked, True)
        except OSError:  # the process has ended meanwhile
            return
        mark, thread, _, number, _, _, *arguments = struct.unpack("QIIiIQ6Q", asked)
        value, refusal, flags = 0, 0, _CONTINUE
        name, path = self._change(thread, number, arguments)
        if path.startswith(self.below) and self.decide is not None:
            self.number += 1
            match self.decide(Call(name, path.removeprefix(self.below), self.number)):
                case Kill():
                    os.killpg(self.child, signal.SIGKILL)
                    return
                case Refuse(refused):
                    refusal, flags = -refused, 0
                case Shorten():
                    written = _half(thread, number, arguments)
                    if written is not None:
                        value, flags = written, 0
        try:
            fcntl.ioctl(self.listener, _SEND, struct.pack("QqiI", mark, value, refusal, flags))
        except OSError as error:
            if error.errno != errno.ENOENT:  # interrupted meanwhile
                raise

    def _change(self, thread: int, number: int, arguments: list[int]) -> tuple[str, str]:
        """The name of a call and the file that it changes; no file where it changes none."""
        place = f"/proc/{thread}"
        try:
            if number in _TO_FILES:
                return _TO_FILES[number], os.readlink(f"{place}/fd/{arguments[0]}")
            if number in _COPIES:
                name, at = _COPIES[number]
                return name, os.readlink(f"{place}/fd/{arguments[at]}")
            name, at_folder, at_path = _TO_PATHS[number]
            if name in ("open", "openat"):
                how = arguments[at_path + 1]
                if not how & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
                    return name, ""
            folder = _AT_CWD if at_folder is None else _signed(arguments[at_folder])
            start = os.readlink(f"{place}/cwd" if folder == _AT_CWD else f"{place}/fd/{folder}")
            path = os.fsdecode(_text(thread, arguments[at_path]))
            return name, os.path.normpath(os.path.join(start, path))
        except OSError:
            return "", ""


def _signed(argument: int) -> int:
    return ctypes.c_int32(argument & 0xFFFFFFFF).value


def _memory(thread: int, address: int, count: int) -> bytes:
    with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(count)


def _text(thread: int, address: int) -> bytes:
    """A text that ends with NUL, page by page."""
    content = b""
    while b"\0" not in content:
        content += _memory(thread, address, _PAGE - address % _PAGE)
        address += _PAGE - address % _PAGE
    return content.partition(b"\0")[0]


def _half(thread: int, number: int, arguments: list[int]) -> int | None:
    """Write the first half of what a call would write, at its place; how many bytes that were."""
    file, address, count = arguments[:3]
    if number == _WRITEV:
        address, count = struct.unpack("QQ", _memory(thread, address, 16))
    if number not in (_WRITE, _PWRITE, _WRITEV) or count < 2:
        return None
    piece = _memory(thread, address, count // 2)
    match = re.search(r"^Tgid:\s+(\d+)", Path(f"/proc/{thread}/status").read_text(), re.MULTILINE)
    assert match is not None
    owner = os.pidfd_open(int(match[1]))
    try:
        same = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, owner, int(file), 0)
        if same < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        try:
            if number == _PWRITE:
                return os.pwrite(same, piece, arguments[3])
            return os.write(same, piece)
        finally:
            os.close(same)
    finally:
        os.close(owner)
