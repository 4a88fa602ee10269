"""What brings a library that is not installed: an extra of one of our packages."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distributions
from typing import Final

#: Names of libraries in lists of requirements, where they are imported by another one.
DISTRIBUTIONS: Final = {
    **{"PIL": "pillow", "gdcm": "python-gdcm", "sklearn": "scikit-learn"},
    "markupsafe": "jinja2",  # which brings it
}
REQUIREMENT: Final = re.compile(r"""([\w.-]+)[^;]*; *extra *== *['"]([\w-]+)['"]$""")
OURS: Final = "cxr-files"  # what all our packages require


def lacking(error: ImportError) -> str | None:
    """Name the library that an import lacked and the extra that brings it; None if none does."""
    library = (error.name or "").partition(".")[0]
    brought = DISTRIBUTIONS.get(library, library).lower()
    # The package that is built on the others first.
    packages = sorted(distributions(), key=lambda found: len(found.requires or ()), reverse=True)
    for package in packages:
        name = package.metadata["Name"]
        requirements = package.requires or []
        if not any(requirement.startswith(OURS) for requirement in requirements):
            continue
        for match in map(REQUIREMENT.match, requirements):
            if match is not None and match[1].lower() == brought != name:
                return (
                    f"{library} is not installed; the extra '{match[2]}' of "
                    f"{name} brings it: pip install '.[{match[2]}]' in its folder of a checkout"
                )
    return None


@contextmanager
def naming_extras() -> Iterator[None]:
    """Let an import that lacks a library fail with the name of the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        line = lacking(error)
        if line is None:
            raise
        raise ModuleNotFoundError(line, name=error.name) from None
