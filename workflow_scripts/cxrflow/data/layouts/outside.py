"""The base of data sets whose layout and reader lie outside of the package (``module:Class``)."""

from collections.abc import Mapping
from typing import Any, ClassVar


class OutsideLayout:
    """A published data set: its description, and its readers as attributes of the class.

    ``description``: what the files beside this one say of a data set, but for its readers:
    ``tables(root, request)`` and, with the publisher's own split, ``published``, which give the
    common tables; ``reports``, a class of :class:`cxrflow.reports.texts.ReportReader`;
    ``documents``, as the readers of text corpora.
    """

    description: ClassVar[Mapping[str, Any]]
