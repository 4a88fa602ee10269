"""What of the data a page may show: radiographs, and text or ids out of reports.

The configuration decides (``privacy:``): ``auto`` shows them only where the product that is read
records that its data are synthetic; ``false`` never, ``true`` always. Nothing is inferred from the
configuration's own word on a data set, which may not be what a product was made from.
"""

from dataclasses import dataclass
from typing import Literal

Choice = Literal["auto"] | bool


@dataclass(frozen=True)
class Privacy:
    """``privacy:`` of the configuration."""

    show_images: Choice
    show_text: Choice

    def images(self, synthetic: bool) -> bool:
        """Whether radiographs of such data may be shown."""
        return synthetic if self.show_images == "auto" else self.show_images

    def text(self, synthetic: bool) -> bool:
        """Whether report text and ids of such data may be shown."""
        return synthetic if self.show_text == "auto" else self.show_text
