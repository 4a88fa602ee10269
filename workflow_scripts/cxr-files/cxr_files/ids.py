"""Whether logs and records may name studies, images and samples.

Errors name the file and the row that are at fault whatever is said here.
"""

import os
from collections.abc import Sequence
from typing import Final

#: ``hidden`` where they may not; the workflow says so by ``privacy.show_ids`` to its jobs.
IDS: Final = "CXRFLOW_IDS"
HIDDEN: Final = "hidden"


def ids_may_stand() -> bool:
    """True where logs and records may name ids."""
    return os.environ.get(IDS) != HIDDEN


def shown(ids: Sequence[str]) -> list[str]:
    """The ids where they may be named; else none."""
    return list(ids) if ids_may_stand() else []


def entry(field: str, name: str) -> dict[str, str]:
    """The field of a record that holds an id; none where ids may not be named."""
    return {field: each for each in shown([name])}  # noqa: B035 one or none


def in_brackets(ids: Sequence[str]) -> str:
    """The ids behind a blank, in brackets, where they may be named; else nothing."""
    names = ", ".join(shown(ids))
    return f" ({names})" if names else ""
