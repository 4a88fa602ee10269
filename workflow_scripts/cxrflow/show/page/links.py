"""Where a page leads to outside of itself: the papers, the documentation, the repository."""

import os
from pathlib import Path
from typing import NamedTuple

#: Where a paper of ours can be read; one of the user's has no place here.
PAPERS = {
    "biovil": "https://arxiv.org/abs/2204.09817",
    "biovil_t": "https://arxiv.org/abs/2301.04558",
    "convirt": "https://arxiv.org/abs/2010.00747",
    "low_data": "https://arxiv.org/abs/2303.17644",
    "medcutmix": "https://doi.org/10.1109/icassp55912.2026.11462043",
}
CHECKOUT = Path(__file__).resolve().parents[4]


class Link(NamedTuple):
    """A file of the checkout, and where it lies from a page; empty where that cannot be said."""

    name: str
    href: str


def checkout_links(page: Path) -> list[Link]:
    """The repository's front page and its documentation, as seen from a page.

    A page outside of the checkout names them alone: a path to it would tell the machine's folders.
    """
    return [Link(name, _from(page, name)) for name in ("README.md", "docs/index.md")]


def _from(page: Path, name: str) -> str:
    place = page.resolve().parent
    if not place.is_relative_to(CHECKOUT) or not (CHECKOUT / name).is_file():
        return ""
    return Path(os.path.relpath(CHECKOUT / name, place)).as_posix()
