"""The pictures of a page: WebP inside it, as many as there is room for."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cxr_files.errors import InputError, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

ROOM = 1_500_000  # bytes of pictures before base64, at most
QUALITY = 80
WHITE = 255
INK = 118  # grey that is read on white and on black
LETTER = 24  # pixels; what is higher is no letter


@dataclass
class Album:
    """Embeds pictures in the order of the calls until its room is used up."""

    room: int = ROOM

    def uri(self, path: Path, sheet: bool = False) -> str | None:
        """Return a picture as a data URI; None if there is no room for it.

        ``sheet``: of radiographs on white paper, which the page's own takes the place of.

        Raises:
            InputError: the file is not a complete PNG.
        """
        from cxrflow.images.decode import open_file, open_picture
        from cxrflow.images.decoded import MAX_BYTES, DecodeError, check_size

        packed = io.BytesIO()
        try:
            with open_file(path) as file, open_picture(file) as picture:
                check_size(picture.height, picture.width, 4, MAX_BYTES)
                rgb = picture.convert("RGB")
                shown_picture = without_paper(rgb) if sheet else rgb
                shown_picture.save(packed, "WEBP", quality=QUALITY, method=2)
        except FileNotFoundError:
            raise InputError(f"{path}: file not found, but examples.json lists it") from None
        except (DecodeError, OSError, SyntaxError, ValueError) as error:
            raise InputError(f"{path}: not a whole PNG file ({one_line(error)})") from None
        data = packed.getvalue()
        if len(data) > self.room:
            return None
        self.room -= len(data)
        return "data:image/webp;base64," + base64.b64encode(data).decode()


def without_paper(picture: "Image") -> "Image":
    """A sheet whose white paper is clear and whose letters are grey; radiographs stay as they are.

    It is cut along white rows and columns; the pieces that are higher than letters are pictures.
    """
    import numpy as np
    from PIL import Image

    values = np.asarray(picture)
    darkest = values.min(axis=2)
    opaque = np.zeros(darkest.shape, dtype=bool)
    for top, bottom, left, right in _pieces(darkest < WHITE, 0, 0):
        opaque[top:bottom, left:right] = bottom - top > LETTER
    cover = np.where(opaque, WHITE, WHITE - darkest).astype(np.uint8)
    colour = np.where(opaque[..., None], values, np.uint8(INK))
    clear = Image.fromarray(np.dstack([colour, cover]))
    box = clear.getchannel("A").getbbox()
    return clear.crop(box) if box else clear


def _pieces(ink: "NDArray[np.bool_]", top: int, left: int) -> "Iterator[tuple[int, int, int, int]]":
    """Parts of a picture between its white rows and columns: top, bottom, left, right of each."""
    import numpy as np

    for axis in (0, 1):
        runs = _runs(np.asarray(ink.any(axis=1 - axis)))
        if len(runs) != 1 or runs[0] != (0, ink.shape[axis]):
            for start, end in runs:
                piece = ink[start:end] if axis == 0 else ink[:, start:end]
                places = (top + start, left) if axis == 0 else (top, left + start)
                yield from _pieces(piece, *places)
            return
    yield top, top + ink.shape[0], left, left + ink.shape[1]


def _runs(filled: "NDArray[np.bool_]") -> list[tuple[int, int]]:
    """Where a line is filled: start and end of each run."""
    import numpy as np

    edges = np.flatnonzero(np.diff(np.concatenate([[False], filled, [False]])))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2], strict=True)]
