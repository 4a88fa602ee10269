"""Names belong to their paper: ``biovil`` in ``biovil.yaml`` is ``biovil/biovil`` everywhere else.

In a paper's YAML a plain name is the paper's own and ``other/name`` another paper's. Fields of the
type :data:`Name` hold names in full once the YAML is validated with ``context={"paper": name}``.
"""

from typing import Annotated

from pydantic import AfterValidator, StringConstraints, ValidationInfo

from cxr_files.settings import NAME

#: Where a paper's name would stand: what a benchmark scores without a model.
REFERENCE = "reference"


def full_name(name: str, paper: str) -> str:
    """A name as it stands outside of its paper's YAML: ``paper/name``."""
    return name if "/" in name else f"{paper}/{name}"


def paper_of(name: str) -> str:
    """The paper that a name in full belongs to."""
    return name.rpartition("/")[0]


def short_name(name: str) -> str:
    """The name within its own paper."""
    return name.rpartition("/")[2]


def reference_name(name: str) -> str:
    """A reference row of a benchmark, where other rows have a model."""
    return f"{REFERENCE}/{name}"


def is_reference(name: str | None) -> bool:
    """True for a row that has learnt nothing: it is no paper's model."""
    return name is not None and paper_of(name) == REFERENCE


def name_of_share(model: str, share: float) -> str:
    """The model that is trained on ``share`` per cent of the pairs of a model with shares."""
    return model if share == 100 else f"{model}_share{share:g}".replace(".", "_")


def anchor(name: str) -> str:
    """A name as a part of an HTML id."""
    return name.replace("/", "-")


def _in_full(name: str, info: ValidationInfo) -> str:
    return full_name(name, info.context["paper"]) if info.context else name


Name = Annotated[str, AfterValidator(_in_full)]
# Names are parts of paths, of patterns for them and of command lines.
ShortName = Annotated[str, StringConstraints(pattern=NAME, max_length=100)]
