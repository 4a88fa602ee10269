"""CheXpert labels of radiology reports: sections, sentences, labels, explanations, agreement."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cxr_labels.label_texts import label, label_rows

__version__ = "0.1.0"
__all__ = ["__version__", "label", "label_rows"]


if not TYPE_CHECKING:  # a checker of types would take any name for one of these

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
        from cxr_labels import label_texts

        return getattr(label_texts, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
