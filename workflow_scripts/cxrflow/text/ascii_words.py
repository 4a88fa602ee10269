"""What BERT's normaliser and pre-tokeniser do to visible ASCII, for arrays of bytes."""

import numpy as np

from cxrflow.text.word_table import Bytes

_ALL = [chr(code) for code in range(128)] + [""] * 128
VISIBLE = np.array([c.isprintable() and c > " " for c in _ALL])  # by byte
LOWERED = np.array([ord(c.lower()) if c else code for code, c in enumerate(_ALL)], dtype=np.uint8)
_MARKS = np.array([c.isprintable() and c > " " and not c.isalnum() for c in _ALL])


def apart(text: Bytes) -> Bytes:
    """``text`` with a blank before and after every punctuation mark."""
    room = np.where(_MARKS[text], 3, 1)
    spread = np.full(int(room.sum()), ord(" "), dtype=np.uint8)
    spread[np.cumsum(room) - 1 - room // 2] = text
    return spread
