"""The terms that objectives are composed of, a module each, found by name (docs/joint_training.md).

The term ``local_alignment`` is the class ``LocalAlignment`` of ``terms/local_alignment.py``, its
settings and its line in a program's list are in ``terms/settings.py``. Nothing imports a term but
by the name that a model's settings give: the code of other terms is no part of what made a model.
"""

from importlib import import_module
from typing import Any


def term_class(name: str, settings: Any) -> Any:
    """The class of a term, as its settings place it."""
    module, kind = settings.place(name)
    return getattr(import_module(f"{__name__}.{module}"), kind.title().replace("_", ""))
