"""The one resampler of the project: antialiased bilinear, Pillow's mode F.

It is what the authors' public image reader uses, on floats, so that nothing is rounded before the
end; it agrees with torch's antialiased bilinear interpolation to float rounding.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image


def resize(values: NDArray, height: int, width: int) -> NDArray[np.float32]:
    """Resample ``values`` [H, W] of any number type to float32 [height, width].

    Pixels are areas: the edges of the image stay its edges (half-pixel centres).
    """
    image = Image.fromarray(np.ascontiguousarray(values, dtype=np.float32))
    if (height, width) == values.shape:
        return np.asarray(image)
    return np.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
