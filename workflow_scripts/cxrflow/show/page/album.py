"""The pictures of a page: WebP inside it, as many as there is room for."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from cxr_files.errors import InputError, one_line

ROOM = 1_500_000  # bytes of pictures before base64, at most
QUALITY = 80


@dataclass
class Album:
    """Embeds pictures in the order of the calls until its room is used up."""

    room: int = ROOM

    def uri(self, path: Path) -> str | None:
        """Return a picture as a data URI; None if there is no room for it.

        Raises:
            InputError: the file is not a complete PNG.
        """
        from cxrflow.images.decode import open_file, open_picture
        from cxrflow.images.decoded import MAX_BYTES, DecodeError, check_size

        packed = io.BytesIO()
        try:
            with open_file(path) as file, open_picture(file) as picture:
                check_size(picture.height, picture.width, 4, MAX_BYTES)
                picture.convert("RGB").save(packed, "WEBP", quality=QUALITY, method=2)
        except FileNotFoundError:
            raise InputError(f"{path}: file not found, but examples.json lists it") from None
        except (DecodeError, OSError, SyntaxError, ValueError) as error:
            raise InputError(f"{path}: not a whole PNG file ({one_line(error)})") from None
        data = packed.getvalue()
        if len(data) > self.room:
            return None
        self.room -= len(data)
        return "data:image/webp;base64," + base64.b64encode(data).decode()
