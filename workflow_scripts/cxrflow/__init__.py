"""cxrflow: from raw chest radiographs and reports to the models and tables of papers.

The public functions are those of ``__all__`` here, in :mod:`cxrflow.metrics` and in
:mod:`cxrflow.losses` (docs/library.md). Each is imported when it is first used, so that nothing
pays for torch but what computes with it. The rest of the package may change without notice.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cxr_files.errors import InputError
    from cxr_labels.label_texts import label
    from cxrflow import losses, metrics
    from cxrflow.images.store import PixelStore
    from cxrflow.models.loading import load

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "PixelStore",
    "__version__",
    "label",
    "load",
    "losses",
    "metrics",
]


def __getattr__(name: str) -> Any:
    from cxrflow.programs.public_names import public_name

    return public_name(__name__, name)
