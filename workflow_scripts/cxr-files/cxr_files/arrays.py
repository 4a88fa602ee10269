"""NumPy files as inputs, with errors of one line that name the file."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxr_files.atomic import require_unchanged
from cxr_files.errors import InputError, one_line
from cxr_files.reading import require_regular

NUMBERS = "biuf"  # kinds of NumPy types: truth values, whole and real numbers


def read_array(path: Path, dimensions: int) -> NDArray[Any]:
    """Read a ``.npy`` file of finite numbers with so many dimensions.

    Raises:
        InputError: the file is absent or damaged (:func:`.read_table`), or holds something else.
    """
    require_unchanged(path)
    try:
        with open(require_regular(path), "rb") as file:
            values = np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError:
        raise InputError(f"{path}: file not found") from None
    except Exception as error:  # what NumPy raises of a damaged header has no common base
        raise InputError(f"{path}: not a NumPy file ({one_line(error)})") from None
    if values.dtype.kind not in NUMBERS or values.ndim != dimensions:
        raise InputError(
            f"{path}: holds {values.dtype} of shape {list(values.shape)}; expected numbers of "
            f"{dimensions} dimensions"
        )
    if not np.isfinite(values).all():
        raise InputError(f"{path}: holds numbers that are not finite")
    return values
