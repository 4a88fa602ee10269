"""``run.json`` of a model folder: what its training has recorded."""

from pathlib import Path
from types import NoneType
from typing import Any

from cxr_files.atomic import read_object, require_fields, require_whole

#: Types of the fields that are read, where they are there.
FIELDS = {"data": dict | NoneType, "settings": dict | NoneType, "permuted_pairs": dict | NoneType}

#: The name in ``data`` of published weights, whose training data no record names.
UNNAMED_DATA = "published weights"


def read_run(folder: Path) -> dict[str, Any]:
    """Read the record of a model folder; of one that has none nothing is known.

    Raises:
        InputError: it is damaged, or missing though the folder's checksums list it.
    """
    path = folder / "run.json"
    require_whole(path)
    if not path.is_file():
        return {}
    record = read_object(path)
    kinds = {name: kind for name, kind in FIELDS.items() if name in record}
    require_fields(record, kinds, str(path))
    return record
