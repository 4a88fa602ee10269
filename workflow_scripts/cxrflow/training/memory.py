"""Memory: how much a run took, and what to say when there is not enough."""

import contextlib
import ctypes
import resource
from collections.abc import Iterator, Sequence

import torch

from cxr_files.errors import PassingError

# How torch words it where the error has no type of its own: CPU, Windows, CUDA, cuBLAS.
WORDS = (
    "DefaultCPUAllocator",
    "not enough memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4


def keep_freed_memory() -> None:
    """Let this process keep freed memory for its next step, where the C library is glibc.

    A step frees what it made. Tensors of more than 32 MiB would go back to the system each time and
    come again page by page, zeroed: a fifth of the time of the demonstration's SimCLR.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, -1)


def left_by_steps(device: torch.device) -> int:
    """Bytes of a GPU that no step so far has needed, but for a tenth of all that it has.

    That is for later steps: longer texts, terms that begin in a later epoch, and pieces between
    what is allocated. What torch keeps of freed memory it gives up before it fails.
    """
    free, total = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.max_memory_allocated(device)
    return max(0, free + unused - total // 10)


@contextlib.contextmanager
def explained(content: str, device: torch.device, memory_advice: Sequence[str]) -> Iterator[None]:
    """Turn running out of memory into a :class:`PassingError` that names what helps."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        has_type = isinstance(error, MemoryError | torch.OutOfMemoryError)
        if not has_type and not any(word in str(error) for word in WORDS):
            raise
        raise PassingError(
            f"{content}: not enough memory on {device}; what helps: {', '.join(memory_advice)}"
        ) from None


def peak_memory_mb(device: torch.device) -> int:
    """Most memory in use so far, in MiB: of the GPU, or of this process on a CPU."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
