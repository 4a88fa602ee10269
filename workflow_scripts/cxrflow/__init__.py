"""cxrflow: from raw chest radiographs and reports to the models and tables of papers.

    label(texts)         CheXpert's 14 observations of each text, as a table
    metrics              CNR, mIoU, AUROC, retrieval, reports, agreement, bootstrap intervals
    load(folder)         a trained or published model: encode, compare, ground, draft
    losses               the losses of five papers as functions of tensors
    PixelStore(folder)   the images of a data set, decoded once
    InputError           what all of them raise where something that you gave is wrong

``load``, ``losses`` and ``PixelStore`` need the extra ``models`` (docs/library.md). ``help`` of
each has an example. What people type: ``cxrflow --help``.

The public functions are those of ``__all__`` here, in :mod:`cxrflow.metrics` and in
:mod:`cxrflow.losses`. Each is imported when it is first used, so that nothing pays for torch but
what computes with it. The rest of the package may change without notice.
"""

from typing import TYPE_CHECKING

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


if not TYPE_CHECKING:  # which would take any name for one of these

    def __getattr__(name: str) -> object:
        from cxrflow.programs.public_names import public_name

        return public_name(__name__, name)


def __dir__() -> list[str]:
    from cxrflow.programs.public_names import names_of

    return names_of(__name__)
