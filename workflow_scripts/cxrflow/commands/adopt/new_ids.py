"""Names of studies and patients in the adopted folder: as they are, or a keyed hash.

The hash is HMAC-SHA256 (RFC 2104): without the key nobody can try out numbers until one fits, and
with it the same number gets the same name, so that a later export can be joined. Spellings that are
one number for the matching are one for the hash.
"""

import hashlib
import hmac
import re
from pathlib import Path

from cxr_files.errors import InputError
from cxrflow.commands.adopt.columns import compared

FEWEST_BYTES = 16  # of a key
DIGITS = 20  # of a hash, in hexadecimal: 80 bits
NO_NAME = re.compile(r"[^\w.-]+")
LONGEST = 120  # bytes of a name


def read_key(path: Path) -> bytes:
    """Read the key of the hash.

    Raises:
        InputError: there is none, or it is shorter than 16 bytes.
    """
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise InputError(
            f"--key-file {path}: cannot be read ({error.strerror}); `openssl rand -hex 32 > "
            f"{path}` makes one, which stays in the hospital"
        ) from None
    if len(key) < FEWEST_BYTES:
        raise InputError(
            f"--key-file {path}: {len(key)} bytes; expected {FEWEST_BYTES} or more, as from "
            "`openssl rand -hex 32`"
        )
    return key


class NewIds:
    """Gives each id its name.

    ``key``: of the hash; None keeps ids, made fit for a file's name.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    def patient(self, number: str) -> str:
        """Return the name of a patient."""
        return number if self._key is None else self._hash("patient", number)

    def study(self, name: str, patient: str, alone: bool) -> str:
        """Return the name of a study; ``alone``: no other patient has one that is called so."""
        full = name if alone else f"{name}-{patient}"
        if self._key is not None:
            return self._hash("study", full)
        # A name that any file system takes: 2019/1234 becomes 2019-1234.
        fit = NO_NAME.sub("-", full).lstrip(".").encode()[:LONGEST]
        return fit.decode(errors="ignore") or "unnamed"

    def _hash(self, kind: str, text: str) -> str:
        assert self._key is not None, "asked of ids that are kept"
        message = f"{kind}:{compared(text)}".encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()[:DIGITS]
