"""Papers as data: ``papers/<paper>.yaml`` holds a paper's models, its tables and its figures.

A *model* is a recipe (settings with the paper's values, each with its section as a comment) and
what it is made from: an earlier model it starts from, a vocabulary, a role of the data. A *table*
is rows x columns with the published values, a *figure* columns of models and a rule that chooses
its examples. ``papers/scales/<scale>.yaml`` overlays sizes on the
recipes; it never changes a method.
"""

from functools import cache
from importlib import resources
from typing import Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, model_validator

from cxrflow.benchmarks.grounding.settings import GroundingFigureSettings
from cxrflow.benchmarks.settings import PairedComparison
from cxrflow.command import Settings, SettingsT, explain
from cxrflow.encoders.released.settings import PROGRAMS, Kind
from cxrflow.errors import InputError
from cxrflow.papers.tables import Headline, Ordering, Table, check_places

Program = Literal["text", "image", "joint"]


class Recipe(Settings):
    """One model of a paper."""

    program: Program = Field(description="which training program makes it: cxrflow.pretrain.*")
    start: str | None = Field(None, description="text program: model whose weights it goes on from")
    text: str | None = Field(None, description="joint program: the text model")
    image: str | None = Field(None, description="joint program: the image model")
    vocabulary: str | None = Field(None, description="text program: its tokenizer")
    corpora: list[Literal["pubmed", "mimic_iii", "reports"]] = Field(
        default_factory=list,
        description="text program: train on these, packed: data sets of the role `corpora` by "
        "their layout, and the reports",
    )
    pairs: str | None = Field(None, description="role of the cohort whose pairs it is trained on")
    grounding: str = Field(
        "grounding", description="role of the cohort whose phrases it grounds: images of its kind"
    )
    seeds: Literal["shared", "each"] = Field(
        "shared", description="one run for all seeds (the first one's), or one run a seed"
    )
    control: bool = Field(False, description="a control: made by the target `controls` only")
    settings: dict[str, Any] = Field(default_factory=dict, description="what differs from defaults")
    weights: Kind | None = Field(
        None, description="kind of published weights that can stand for it (docs/weights.md)"
    )

    @model_validator(mode="after")
    def _weights_do_what_the_program_does(self) -> Self:
        if self.weights is not None and PROGRAMS[self.weights] != self.program:
            raise ValueError(
                f"weights is '{self.weights}', which stands for a model of the program "
                f"{PROGRAMS[self.weights]}, but program is '{self.program}'"
            )
        return self

    @property
    def parents(self) -> dict[str, str]:
        """The models this one is made from, by the option of the program that takes them."""
        named = {"start": self.start, "text": self.text, "image": self.image}
        return {option: model for option, model in named.items() if model is not None}


class Paper(Settings, extra="allow"):
    """A paper's models, tables, the orders it claims in them, its headline, and figures."""

    models: dict[str, Recipe] = Field(default_factory=dict)
    tables: dict[str, Table] = Field(default_factory=dict)
    orderings: list[Ordering] = Field(default_factory=list)
    headline: list[Headline] = Field(default_factory=list)
    figures: dict[str, GroundingFigureSettings] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _places_are_there(self) -> Self:
        for claim in self.orderings:
            key = f"orderings: '{claim.claim}'"
            for place in claim.places():
                if isinstance(place, tuple):
                    check_places(key, self.tables, place[0], [place[1]], [place[2]])
        for part in self.headline:
            check_places("headline", self.tables, part.table, part.rows or [], part.columns or [])
        return self

    def comparisons(self, table: str) -> list[PairedComparison]:
        """The paired tests of a table: its own, and those that claims are judged by."""
        claims = [claim for claim in self.orderings if claim.paired and claim.table == table]
        return self.tables[table].comparisons(claims)


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
    return _read(Paper, f"{name}.yaml")


@cache
def load_scale(name: str) -> Scale:
    """Read ``papers/scales/<name>.yaml``."""
    return _read(Scale, f"scales/{name}.yaml")


def _names(folder: str) -> list[str]:
    files = resources.files(__name__).joinpath(folder).iterdir()
    return sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml"))


def _read(kind: type[SettingsT], file: str) -> SettingsT:
    text = resources.files(__name__).joinpath(file).read_text(encoding="utf-8")
    try:
        # libyaml is ten times faster; every job of the workflow reads these files.
        return kind.model_validate(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.YAMLError as error:
        raise InputError(f"papers/{file}: not valid YAML ({error})") from None
    except ValidationError as error:
        raise InputError(explain(error, f"papers/{file}")) from None
