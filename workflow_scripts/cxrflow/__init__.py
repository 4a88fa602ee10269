"""cxrflow: from raw chest radiographs and reports to the models and tables of papers."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from cxrflow.models.model import Model

__version__ = "0.1.0"


def load(
    path: "str | Path", device: "str | torch.device" = "cpu", image: "str | Path | None" = None
) -> "Model":
    """Load a model folder (``results/models/<paper>/<model>/seed<k>``), or published weights.

    Published are a CXR-BERT folder, with BioViL's image weights in it or given as ``image``, a
    ClinicalBERT or PubMedBERT folder, or BioViL's image weights alone (docs/weights.md).
    Returns a :class:`cxrflow.models.model.Model` with ``encode_image``, ``encode_text`` and
    ``similarity_map``. Imported on first use, so that light stages do not pay for torch.
    """
    from cxrflow.models.model import Model

    return Model.load(path, device, image)
