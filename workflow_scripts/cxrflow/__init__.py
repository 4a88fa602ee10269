"""cxrflow: from raw chest radiographs and reports to the models and tables of five papers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from cxrflow.model import Model

__version__ = "0.1.0"


def load(path: "str | Path", device: "str | torch.device" = "cpu") -> "Model":
    """Load a model folder (``results/models/<model>/seed<k>``).

    Returns a :class:`cxrflow.model.Model` with ``encode_image``, ``encode_text`` and
    ``similarity_map``. Imported on first use, so that light stages do not pay for torch.
    """
    from cxrflow.model import Model

    return Model.load(path, device)
