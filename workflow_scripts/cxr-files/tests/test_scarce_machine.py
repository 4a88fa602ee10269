"""Too few files, too little memory: one line, whatever library says it."""

import errno
import os

import pytest

from cxr_files.atomic import naming
from cxr_files.program import refusal

TORCH = (
    "[enforce fail at alloc_cpu.cpp:124] err == 0. DefaultCPUAllocator: can't allocate memory: "
    "you tried to allocate 4096 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE), "a.dcm"), "a.dcm: Too many open files"),
        (OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)), "Cannot allocate memory"),
        (MemoryError(), "Cannot allocate memory"),
        (MemoryError("Unable to allocate 8 GiB"), "Cannot allocate memory (Unable to allocate 8"),
        (RuntimeError(TORCH), "Error code 12 (Cannot allocate memory)"),
        (ImportError("a.so: failed to map segment from shared object"), "a.so: failed to map"),
        (RuntimeError("can't start new thread"), "can't start new thread"),
        (ImportError("libx.so: cannot open shared object file: Too many open files"), "libx.so"),
    ],
)
def test_it_is_said_in_one_line(error, said):
    line = refusal(error)
    assert line is not None and said in line and "\n" not in line


def test_a_defect_is_none():
    assert refusal(RuntimeError("shapes differ")) is None
    assert refusal(KeyError("rows")) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EFBIG, errno.EIO, errno.EROFS])
def test_a_librarys_own_error_gets_the_file(number):
    words = f"I/O error: {os.strerror(number)} (os error {number})"
    with pytest.raises(OSError, match="model.safetensors") as error, naming("model.safetensors"):
        raise RuntimeError(words)
    assert error.value.errno == number
