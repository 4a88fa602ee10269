"""cxrflow: from raw chest radiographs and reports to the models and tables of five papers."""

__version__ = "0.1.0"


def load(path, device="cpu"):
    """Load a model folder (``results/models/<model>/seed<k>``).

    Returns a :class:`cxrflow.encoders.model.Model` with ``encode_image``, ``encode_text`` and
    ``similarity_map``. Imported on first use, so that light stages do not pay for torch.
    """
    from cxrflow.encoders.model import Model

    return Model.load(path, device)
