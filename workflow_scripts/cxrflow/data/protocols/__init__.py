"""Zero-shot protocols of data sets, a YAML file a layout: which images and classes are scored.

A protocol has the settings of a cohort and of the benchmark, and says whose they are. They stand
beside the layouts, not in them: how a data set is read does not depend on how it is scored.
"""

from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from cxr_files.errors import InputError
from cxr_files.settings import Settings, explain
from cxr_files.yaml_file import read_yaml

FOLDER = Path(__file__).parent
PROTOCOLS = tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


class Protocol(Settings):
    """The zero-shot protocol of a data set."""

    source: str = Field(description="whose split and classes these are")
    published: str = Field(description="how many samples its publication counts, in words")
    cohort: dict[str, Any] = Field({}, description="settings of the cohort (kind classification)")
    settings: dict[str, Any] = Field({}, description="settings of zero_shot_classification")


def protocol(layout: str) -> Protocol:
    """Return the protocol of a layout.

    Raises:

        InputError: it has none; the message lists the layouts that have one.
    """
    if layout not in PROTOCOLS:
        raise InputError(
            f"no zero-shot protocol of '{layout}'; expected one of {', '.join(PROTOCOLS)}"
        )
    path = FOLDER / f"{layout}.yaml"
    try:
        return Protocol.model_validate(read_yaml(path))
    except ValidationError as error:
        raise InputError(explain(error, str(path))) from None
