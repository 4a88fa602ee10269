"""YAML files of users, read strictly: errors name the file and the place."""

from pathlib import Path
from typing import Any

import yaml

from cxr_files.errors import InputError
from cxr_files.reading import refuse_unwritable, require_regular

MOST_NODES = 100_000  # of a YAML file with its aliases written out; the longest paper has 7,000


# libyaml is ten times faster; every job of the workflow reads a paper's tables.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Refuses a key that stands twice, of which PyYAML silently keeps the last, and aliases that
    stand inside what they name or multiply it."""

    def construct_document(self, node: yaml.Node) -> Any:
        _written_out(node, {})
        return super().construct_document(node)


def _written_out(node: yaml.Node, sizes: dict[int, int]) -> int:
    """Count the nodes below this one with aliases expanded; ``sizes`` caches counts."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    size = sizes.get(id(node))
    if size == 0:
        raise yaml.MarkedYAMLError(
            problem="an alias stands inside what it names", problem_mark=node.start_mark
        )
    if size is not None:
        return size
    sizes[id(node)] = 0
    size, keys = 1, set()
    for child in node.value:
        if isinstance(node, yaml.MappingNode):
            key, child = child
            name = str(key.value)
            if name in keys:
                raise yaml.MarkedYAMLError(
                    problem=f"key '{name}' stands twice", problem_mark=key.start_mark
                )
            keys.add(name)
        size += _written_out(child, sizes)
    if size > MOST_NODES:
        raise yaml.MarkedYAMLError(
            problem=f"aliases multiply to more than {MOST_NODES:,} entries",
            problem_mark=node.start_mark,
        )
    sizes[id(node)] = size
    return size


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read the keys and values of a YAML file; an empty file has none."""
    try:
        text = require_regular(path).read_text(encoding="utf-8")
        values = yaml.load(text, _Loader)
        refuse_unwritable(values)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error})") from None
    except yaml.YAMLError as error:
        place = " ".join(str(error).split())
        raise InputError(f"{path}: not valid YAML ({place})") from None
    except ValueError as error:  # a number of 5,000 digits, a thirteenth month
        raise InputError(f"{path}: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: nested too deeply") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise InputError(f"{path}: expected keys and values, found a {type(values).__name__}")
    return values
