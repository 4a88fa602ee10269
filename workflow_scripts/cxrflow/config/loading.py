"""Reading, laying over and validating configuration files; errors that say where to look."""

import os
import re
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from cxr_files.errors import InputError
from cxr_files.reading import dotted, unwritable
from cxr_files.settings import overlay, problem
from cxr_files.yaml_file import read_yaml
from cxrflow.config.checks import check_all
from cxrflow.config.configuration import Config
from cxrflow.config.problems import Key, WrongKey, defines
from cxrflow.config.rehearsal import rehearsal_of
from cxrflow.config.schema import Values
from cxrflow.config.weights import weights_files
from cxrflow.data.layouts import LAYOUTS, Layout, layout
from cxrflow.text.settings import WORDNET_PARTS

VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
DEFAULT = Path("config.yaml")  # of a checkout
Files = Sequence[str | Path]


def add_files(arguments: ArgumentParser, typed: bool = True) -> None:
    """``--configfile``: what all programs of the configuration read it from.

    Where it may be ``typed``, ``--config`` too: values of the command line, as of Snakemake.
    """
    arguments.add_argument(
        "--configfile",
        type=Path,
        nargs="+",
        default=[DEFAULT],
        metavar="FILE",
        help="laid over config.yaml of this folder, if there is one, in their order",
    )

    if typed:
        arguments.add_argument(
            "--config",
            nargs="+",
            default=[],
            metavar="KEY=VALUE",
            help="values laid over the files: papers='[mine.yaml]'",
        )


def in_order(files: Sequence[Path]) -> list[Path]:
    """Put ``config.yaml`` of this folder before ``files``, as Snakemake does in a checkout."""
    resolved = {file.resolve() for file in files}
    first = [DEFAULT] if DEFAULT.is_file() and DEFAULT.resolve() not in resolved else []
    return [*first, *files]


def require_checkout(file: Path, otherwise: str = "") -> None:
    """Refuse a folder without ``file``, where no run of the workflow can be described."""
    if not file.exists():
        raise InputError(
            f"{Path.cwd()} has no {file}: this describes a run of the workflow; call it in a "
            f"checkout of cxrflow, the folder with Snakefile and config.yaml{otherwise}"
        )


def typed_values(texts: Sequence[str]) -> dict[str, Any]:
    """Read ``KEY=VALUE`` as it is typed after ``--config``; the value is YAML."""
    values: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        try:
            values[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            sign = ""
        if not sign:
            raise InputError(f"--config {text}: expected KEY=VALUE, as in papers='[mine.yaml]'")
    return values


def load_config(files: Files, check_roots: bool = True, typed: Sequence[str] = ()) -> Config:
    """Read ``files``, lay each over those before it (as Snakemake does), validate the result.

    ``typed``: ``KEY=VALUE`` of the command line, laid over the files.
    """
    if [Path(file) for file in files] == [DEFAULT]:
        require_checkout(DEFAULT, ", or name your configuration after --configfile")
    merged: dict[str, Any] = {}
    for file in files:
        merged = overlay(merged, read_yaml(file))
    values = typed_values(typed)
    return make_config(overlay(merged, values), files, check_roots, values)


def make_config(
    values: Mapping[str, Any],
    files: Files,
    check_roots: bool = True,
    typed: Mapping[str, Any] | None = None,
) -> Config:
    """Validate merged ``values``; ``files`` are those they came from, named in errors.

    ``typed``: those of ``values`` that stood after ``--config``.

    Raises:
        InputError: unknown key, wrong type, undefined environment variable, a name that refers to
            nothing, or (with ``check_roots``) a real data set in use whose folder, or another
            file or folder that a stage reads, is not there.
    """
    try:
        config = Config(Values.model_validate(_expand(values, ())))
        check_all(config)
        config = rehearsal_of(config)
        if check_roots:
            _check_roots(config)
            _check_files(config)
    except ValidationError as error:
        lines = [
            problem(item, _where(item["loc"], files, typed), item["loc"]) + _meant(item)
            for item in error.errors()
        ]
        raise InputError("\n".join(lines)) from None
    except WrongKey as error:
        file = str(error.file or _where(error.key, files, typed))
        if error.item is not None:
            line = problem(error.item, file, error.key)
        else:
            joint = " " if str(error).startswith(("is ", "has ", "holds ", "needs ")) else ": "
            line = f"{file}: key '{dotted(error.key)}'{joint}{error}"
        raise InputError(line) from None
    return config


def _expand(value: Any, key: Key) -> Any:
    """Plain dicts and lists with every ``${NAME}`` in a string replaced from the environment."""
    if isinstance(value, Mapping):
        return {name: _expand(item, (*key, name)) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_expand(item, (*key, index)) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value
    unprintable = unwritable(value)
    if unprintable is not None:
        raise WrongKey(key, f"holds {unprintable}")

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise WrongKey(key, f"needs the environment variable {name}, which is not set")
        return os.environ[name]

    return VARIABLE.sub(replace, value)


def _meant(item: ErrorDetails) -> str:
    """For an unknown key: the key beside it whose name is most alike; empty if none is."""
    if item["type"] != "extra_forbidden":
        return ""
    *above, name = item["loc"]
    cls: Any = Values
    for key in above:
        field = cls.model_fields.get(key)
        kinds = field and (get_args(field.annotation) or [field.annotation])
        cls = next(
            (k for k in kinds or () if isinstance(k, type) and issubclass(k, BaseModel)), None
        )
        if cls is None:
            return ""
    near = get_close_matches(str(name), cls.model_fields, 1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _where(key: Key, files: Files, typed: Mapping[str, Any] | None) -> str:
    """What defines ``key`` last, or the nearest key above it: a file or ``--config``, or all."""
    for end in range(len(key), 0, -1):
        if defines(typed, key[:end]):
            return "--config"
        for file in reversed(files):
            if defines(read_yaml(file), key[:end]):
                return str(file)
    return " + ".join(str(file) for file in files) or "configuration"


def _check_roots(config: Config) -> None:
    for name in config.datasets:
        root = config.data.present[name].root
        if root is not None and not Path(root).is_dir():
            raise WrongKey(
                ("datasets", name, "root"),
                f"is {root!r}: no such folder; expected the {config.data.layout(name).name} data "
                "set there",
            )
        layouts = [] if root is None else _held_instead(Path(root), config.data.layout(name))
        if layouts:
            raise WrongKey(
                ("datasets", name, "root"),
                f"is {root!r}, which has no list of {config.data.layout(name).name}, but those of "
                f"{' or '.join(layouts)}; expected `layout: {layouts[0]}` or another folder",
            )


def _held_instead(root: Path, expected: Layout) -> list[str]:
    """The layouts whose lists a folder holds, all of a part's, where it has none of its own."""
    if not expected.lists or expected.list_files(root, *expected.lists):
        return []
    described = (layout(name) for name in LAYOUTS if name != expected.name)
    return [
        candidate.name
        for candidate in described
        if any(
            len(candidate.list_files(root, use)) == len(names)
            for use, names in candidate.lists.items()
        )
    ]


def _check_files(config: Config) -> None:
    reports = config.values.reports
    expected: list[tuple[Key, str | Path | None, str]] = [
        (("reports", "typo_list"), reports.typo_list, "file"),
        (("reports", "entities", "stanza_folder"), reports.entities.stanza_folder, "folder"),
    ]
    if reports.splitter == "stanza":
        expected.append((("reports", "stanza_folder"), reports.stanza_folder, "folder"))
    for name in config.whole.cohorts:
        split_file = config.cohorts[name].recipe.splits.file
        expected.append((("cohorts", name, "splits", "file"), split_file, "file"))
    for name in config.tasks.available:
        for share, file in config.tasks[name].files.items():
            expected.append((("tasks", name, "lists", share), file, "file"))
    for name in config.whole.models:
        augmentation = getattr(config.models[name].settings, "text_augmentation", None)
        if augmentation is not None and augmentation.wordnet is not None:
            place = ("models", name, "settings", "text_augmentation", "wordnet")
            expected.append((place, augmentation.wordnet, "folder"))
            files = (
                f"{kind}.{part_of_speech}"
                for kind in ("index", "data")
                for part_of_speech in WORDNET_PARTS
            )
            expected += [(place, Path(augmentation.wordnet, file), "file") for file in files]
    for labels in config.label_comparisons():
        folder = None if labels.holder is None else config.data.present[labels.holder].root
        if labels.file and (labels.holder is None or folder is not None):
            table = Path(folder or "", labels.file)
            packed = Path(f"{table}.gz")
            table = packed if packed.is_file() else table
            if labels.holder is not None and not table.is_file():
                message = f"is {folder!r}: {labels.file} is not there; expected the labels that "
                message += "come with it (label_agreement compares them)"
                raise WrongKey(("datasets", labels.holder, "root"), message)
            expected.append((("label_agreement", "comparisons"), table, "file"))
    for name, weights in config.models.weights.items():
        stands_for = config.models[name].recipe.weights
        expected += weights_files(weights, name, stands_for) if stands_for else []
    for key, path, kind in expected:
        exists = path is None or (Path(path).is_dir() if kind == "folder" else Path(path).is_file())
        if not exists:
            raise WrongKey(key, f"is {str(path)!r}: no such {kind}")
