"""Giving freed memory back to the system between stages that need much of it."""

import ctypes


def return_memory() -> None:
    """Return what the C library keeps of freed arrays, where it can (glibc).

    It keeps gaps of up to 32 MB each for later use, in every thread's own region; after counting
    with several threads they come to as much as the counts themselves.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))
