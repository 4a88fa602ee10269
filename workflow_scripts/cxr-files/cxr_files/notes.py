"""Notes on a data set's files, in whose brackets examples may stand: ``(e.g. a.png, b.png)``.

Examples are ids of real patients or names of their files, which are not for every reader.
"""

import re

_EXAMPLES = re.compile(r"\s*\(e\.g\.[^)]*\)")


def without_examples(note: str) -> str:
    """Return a note without its examples."""
    return _EXAMPLES.sub("", note)
