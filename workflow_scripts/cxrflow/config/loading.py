"""Reading, laying over and validating configuration files; errors that say where to look."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from cxrflow.command import overlay, problem, read_yaml
from cxrflow.config.schema import Config
from cxrflow.config.weights import weights_files
from cxrflow.errors import InputError

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def load_config(files: Sequence[str | Path], check_roots: bool = True) -> Config:
    """Read ``files``, lay each over those before it (as Snakemake does), validate the result."""
    merged: dict[str, Any] = {}
    for file in files:
        merged = overlay(merged, read_yaml(file))
    return make_config(merged, files, check_roots)


def make_config(
    values: Mapping[str, Any], files: Sequence[str | Path], check_roots: bool = True
) -> Config:
    """Validate merged ``values``; ``files`` are those they came from, named in errors.

    Raises:
        InputError: unknown key, wrong type, undefined environment variable, a name that refers to
            nothing, or (with ``check_roots``) a real data set in use whose folder, or another
            file or folder that a stage reads, is not there.
    """
    plain = _expand(values, (), files)
    try:
        config = Config.model_validate(plain)
    except ValidationError as error:
        raise InputError(_explain(error, files)) from None
    if check_roots:
        _check_roots(config, files)
        _check_files(config, files)
    return config


def _expand(value: Any, key: tuple[Any, ...], files: Sequence[str | Path]) -> Any:
    """Plain dicts and lists with every ``${NAME}`` in a string replaced from the environment."""
    if isinstance(value, Mapping):
        return {name: _expand(item, (*key, name), files) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_expand(item, (*key, index), files) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise InputError(
                f"{where(key, files)}: key '{_dotted(key)}' needs the environment variable "
                f"{name}, which is not set"
            )
        return os.environ[name]

    return VARIABLE.sub(replace, value)


def _dotted(key: Sequence[Any]) -> str:
    return ".".join(str(part) for part in key) or "(top level)"


def where(key: Sequence[Any], files: Sequence[str | Path]) -> str:
    """The last file that defines ``key``, or all of them when none does."""
    for file in reversed(files):
        value: Any = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
        if _defines(value, key):
            return str(file)
    return " + ".join(str(file) for file in files) or "configuration"


def _defines(value: Any, key: Sequence[Any]) -> bool:
    for part in key:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


def _explain(error: ValidationError, files: Sequence[str | Path]) -> str:
    lines = []
    for item in error.errors():
        # A validator of the whole configuration names its key itself, before a colon.
        message = item["msg"].removeprefix("Value error, ")
        key: tuple[Any, ...] = tuple(item["loc"])
        if item["type"] == "value_error" and not key:
            key, message = tuple(message.split(": ", 1)[0].split(".")), message.split(": ", 1)[1]
        file, name = where(key, files), _dotted(key)
        if item["type"] == "missing":
            file = where(key[:-1], files)
        lines.append(problem(item, file, name, message))
    return "\n".join(lines)


def _check_roots(config: Config, files: Sequence[str | Path]) -> None:
    for name in config.datasets_in_use():
        dataset = config.data.present[name]
        if dataset.root is None:
            continue
        key = ("datasets", name, "root")
        if not Path(dataset.root).is_dir():
            raise InputError(
                f"{where(key, files)}: key '{_dotted(key)}' is {dataset.root!r}: no such folder; "
                f"expected the {dataset.layout} data set there"
            )


def _check_files(config: Config, files: Sequence[str | Path]) -> None:
    reports = config.reports
    expected: list[tuple[tuple[str, ...], str | Path | None, str]] = [
        (("reports", "typo_list"), reports.typo_list, "file"),
        (("reports", "sections", "special_cases"), reports.sections.special_cases_file, "file"),
        (("reports", "entities", "stanza_folder"), reports.entities.stanza_folder, "folder"),
    ]
    if reports.splitter == "stanza":
        expected.append((("reports", "stanza_folder"), reports.stanza_folder, "folder"))
    for name in config.cohorts_in_use:
        split_file = config.known_cohorts[name].recipe.splits.file
        expected.append((("cohorts", name, "splits", "file"), split_file, "file"))
    for given in config.label_comparisons():
        folder = None if given.holder is None else config.data.present[given.holder].root
        if given.file and (given.holder is None or folder is not None):
            table = Path(folder or "", given.file)
            packed = Path(f"{table}.gz")
            table = packed if packed.is_file() else table
            expected.append((("label_agreement", "comparisons"), table, "file"))
    for name in config.weights:
        expected += weights_files(config, name)
    for key, path, kind in expected:
        if path is None:
            continue
        there = Path(path).is_dir() if kind == "folder" else Path(path).is_file()
        if not there:
            raise InputError(
                f"{where(key, files)}: key '{_dotted(key)}' is {str(path)!r}: no such {kind}"
            )
