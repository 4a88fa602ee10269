"""A folder of bone radiographs with reports, for a set like the one of ConVIRT's bone encoder.

ConVIRT (section 4.1) learns from 48,000 pairs of the Rhode Island Hospital system, which are not
public. A hospital puts its own into the folder of :mod:`cxrflow.data.readers.hospital`, with the
``body_part`` of each study.
"""

from pathlib import Path

from cxrflow.data.readers.common_tables import Request, Tables
from cxrflow.data.readers.hospital import read_folder


def read(root: Path, request: Request) -> Tables:
    """Read the list of studies and the names of the images."""
    return read_folder(root, request, {"body_part": "text"}, {})
