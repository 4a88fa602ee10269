"""The pictures of a page: WebP inside it, as many as there is room for."""

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from cxrflow.errors import InputError

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
        from PIL import Image

        packed = io.BytesIO()
        try:
            with Image.open(path, formats=["PNG"]) as picture:
                picture.convert("RGB").save(packed, "WEBP", quality=QUALITY, method=2)
        except FileNotFoundError:
            raise InputError(f"{path}: file not found, but examples.json lists it") from None
        except (OSError, SyntaxError, ValueError) as error:
            raise InputError(f"{path}: not a whole PNG file ({error})") from None
        data = packed.getvalue()
        if len(data) > self.room:
            return None
        self.room -= len(data)
        return "data:image/webp;base64," + base64.b64encode(data).decode()
