"""Loading a model for use elsewhere: ``cxrflow.load``."""

from pathlib import Path

import torch

from cxrflow.models.model import Model


def load(
    path: str | Path, device: str | torch.device = "cpu", image: str | Path | None = None
) -> Model:
    """Load a model folder (``results/models/<paper>/<model>/seed<k>``), or published weights.

    Published are a CXR-BERT folder, with BioViL's image weights in it or given as ``image``, a
    ClinicalBERT or PubMedBERT folder, or BioViL's image weights alone (docs/weights.md).
    Returns a :class:`cxrflow.models.model.Model` with ``encode_image``, ``encode_text`` and
    ``similarity_map``.

    Raises:
        InputError: nothing that can be loaded is there, or no such device.

    With a model that `make demo` leaves, and a radiograph::

        model = cxrflow.load("results/models/biovil/biovil/seed0")
        model.similarities("x.dcm", ["Left pleural effusion", "No effusion"])  # [1, 2]

    What is not there is said:

    >>> import cxrflow
    >>> cxrflow.load("results/models/biovil/biovil/seed7")
    Traceback (most recent call last):
    cxr_files.errors.InputError: results/models/biovil/biovil/seed7: model folder not found
    """
    return Model.load(path, device, image)
