"""CheXpert labels of radiology reports: sections, sentences, labels, explanations, agreement."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cxr_labels.label_texts import label

__version__ = "0.1.0"
__all__ = ["__version__", "label"]


def __getattr__(name: str) -> Any:
    if name != "label":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from cxr_labels.label_texts import label

    return label
