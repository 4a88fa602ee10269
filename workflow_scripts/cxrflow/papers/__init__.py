"""Papers as data: ``papers/<paper>.yaml`` holds a paper's models and its tables.

A *model* is a recipe (settings with the paper's values, each with its section as a comment) and
what it is made from: an earlier model it starts from, a vocabulary, a role of the data. A *table*
is rows x columns with the published values. ``papers/scales/<scale>.yaml`` overlays sizes on the
recipes; it never changes a method.
"""

from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError

from cxrflow.command import Settings, explain
from cxrflow.errors import InputError

Program = Literal["text", "image", "joint"]


class Recipe(Settings):
    """One model of a paper."""

    program: Program = Field(description="which training program makes it: cxrflow.pretrain.*")
    start: str | None = Field(None, description="text program: model whose weights it goes on from")
    text: str | None = Field(None, description="joint program: the text model")
    image: str | None = Field(None, description="joint program: the image model")
    vocabulary: str | None = Field(None, description="text program: tokenizer, a name of the config")
    corpora: bool = Field(False, description="text program: masked language modelling on the corpora")
    pairs: str | None = Field(None, description="role of the cohort whose pairs it is trained on")
    seeds: Literal["shared", "each"] = Field(
        "shared", description="one run for all seeds (the first one's), or one run a seed"
    )
    control: bool = Field(False, description="a control: made by the target `controls` only")
    settings: dict[str, Any] = Field(default_factory=dict, description="what differs from defaults")

    @property
    def parents(self) -> dict[str, str]:
        """The models this one is made from, by the option of the program that takes them."""
        named = {"start": self.start, "text": self.text, "image": self.image}
        return {option: model for option, model in named.items() if model is not None}


class Row(Settings):
    """A row of a table: a model of ours (or the reason why there is none), published values."""

    label: str
    model: str | None = None
    vocabulary: str | None = None
    reason: str | None = None
    published: dict[str, list[Any]] = Field(default_factory=dict)


class Table(Settings, extra="allow"):
    """What the workflow must know of a table; :mod:`cxrflow.report.tables` reads the rest."""

    title: str
    benchmark: str
    rows: list[Row]

    @property
    def models(self) -> list[str]:
        """Our models among the rows, each once, in the table's order."""
        return list(dict.fromkeys(row.model for row in self.rows if row.model is not None))


class Paper(Settings, extra="allow"):
    """A paper's models and tables."""

    models: dict[str, Recipe] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)


class Scale(Settings):
    """Sizes laid over recipes: first by program, then by model."""

    programs: dict[Program, dict[str, Any]] = Field(default_factory=dict)
    models: dict[str, dict[str, Any]] = Field(default_factory=dict)


def paper_names() -> list[str]:
    """The papers that can be named in ``papers:`` of the configuration."""
    return _names("")


def scale_names() -> list[str]:
    """The scales that can be named in ``scale:`` of the configuration."""
    return _names("scales")


@cache
def load_paper(name: str) -> Paper:
    """Read ``papers/<name>.yaml``."""
    return Paper.model_validate(_read(Paper, f"{name}.yaml"))


@cache
def load_scale(name: str) -> Scale:
    """Read ``papers/scales/<name>.yaml``."""
    return Scale.model_validate(_read(Scale, f"scales/{name}.yaml"))


def _names(folder: str) -> list[str]:
    files = resources.files(__name__).joinpath(folder).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def _read(kind: type[Settings], file: str) -> Any:
    text = resources.files(__name__).joinpath(file).read_text(encoding="utf-8")
    try:
        values = yaml.safe_load(text) or {}
        kind.model_validate(values)
    except yaml.YAMLError as error:
        raise InputError(f"papers/{file}: not valid YAML ({error})") from None
    except ValidationError as error:
        raise InputError(explain(error, f"papers/{file}")) from None
    return values
