"""Devices by their names, as people give them."""

import torch

from cxr_files.errors import InputError


def named_device(name: str | torch.device) -> torch.device:
    """Return the device of a name: ``cpu``, ``cuda``, ``cuda:<n>``.

    Raises:
        InputError: torch knows no such device, or this machine has none.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"'device' is {str(name)!r}; expected cpu, cuda or cuda:<n>") from None
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if count == 0:
            raise InputError(f"'device' is {str(name)!r}, but torch sees no GPU; expected cpu")
        if device.index is not None and device.index >= count:
            raise InputError(
                f"'device' is {str(name)!r}, but torch sees {count} GPUs; expected a number below "
                f"{count}"
            )
    return device
