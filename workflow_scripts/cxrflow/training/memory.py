"""Memory: how much a run took, and what to say when there is not enough."""

import contextlib
import resource
from collections.abc import Iterator, Sequence

import torch

from cxrflow.errors import PassingError

# How torch words it where the error has no type of its own: CPU, Windows, CUDA, cuBLAS.
WORDS = (
    "DefaultCPUAllocator",
    "not enough memory",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on the CPU (numpy's too) or on a GPU."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(word in str(error) for word in WORDS)


@contextlib.contextmanager
def explained(what: str, device: torch.device, remedies: Sequence[str]) -> Iterator[None]:
    """Turn running out of memory into a :class:`PassingError` that names what helps."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise PassingError(
            f"{what}: not enough memory on {device}; what helps: {', '.join(remedies)}"
        ) from None


def peak_memory_mb(device: torch.device) -> int:
    """Most memory in use so far, in MiB: of the GPU, or of this process on a CPU."""
    if device.type == "cuda":
        return round(torch.cuda.max_memory_allocated(device) / 2**20)
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
