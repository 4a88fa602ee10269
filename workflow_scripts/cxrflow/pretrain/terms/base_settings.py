"""The bases of the settings of terms, and of the lists of them that programs have."""

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated, ClassVar, Self, get_args

from pydantic import Field, model_validator

from cxr_files.settings import Settings
from cxrflow.kinds import Kind, OneKind


class TermSettings(Settings):
    """The settings that every term has, and what its class says of the models that it trains.

    ``title``: what the page calls it. ``projects``: it trains the projection of the text encoder.
    ``matches_words``: it compares words with patches; a local loss (BioViL Appendix A.3).
    ``reads_labels``: of the cohort's pairs, which must have them. ``reads_wholes``: the projections
    of whole images and texts. ``reads_tokens``: those of words or patches, as what matches them
    does. ``pools``: the trunk's pooled features, projected or not. ``skips``: in some steps it
    reads nothing. ``validates``: it has a value in validation. What no term reads is frozen.
    """

    title: ClassVar[str]
    projects: ClassVar[bool] = False
    matches_words: ClassVar[bool] = False
    reads_labels: ClassVar[bool] = False
    reads_wholes: ClassVar[bool] = True
    reads_tokens: ClassVar[bool] = False
    pools: ClassVar[bool] = True
    skips: ClassVar[bool] = False
    validates: ClassVar[bool] = True

    weight: float = Field(1.0, gt=0, description="of this term in the sum")

    def place(self, name: str) -> tuple[str, str]:
        """The module below ``pretrain/terms`` of a term, and its class, in small letters."""
        return name, name

    @property
    def similarity(self) -> str | None:
        """The kind of :mod:`cxrflow.similarity` that the model keeps from this term, if any.

        Of a term outside of the package ``module:Class``, where that is in another module.
        """
        return None

    @property
    def applied(self) -> Sequence["TermSettings"]:
        """The terms that it applies to further pairs, its ``base``; or it itself."""
        base = getattr(self, "base", None)
        return [*base.named().values()] if isinstance(base, Terms) else [self]


class OutsideTermSettings(TermSettings, Kind):
    """Settings of a term outside of the package, whose ``kind`` is ``module:Class``.

    It may read all, or in some steps nothing: only its code knows.
    """

    room: ClassVar[str] = "pretrain.terms"
    outside: ClassVar[bool] = True
    reads_tokens = True
    skips = True

    @property
    def applied(self) -> Sequence[TermSettings]:
        return [self, *super().applied]


class Terms(Settings, extra="allow"):
    """The terms of an objective, by name; a term that is not named, or is null, is left out.

    Terms outside of the package may have any name that none of ours has, and come last.
    """

    __pydantic_extra__: dict[str, Annotated[OutsideTermSettings, OneKind()]]

    @classmethod
    def classes(cls) -> dict[str, type[TermSettings]]:
        """The settings class of each term that may be named."""
        return {name: get_args(term.annotation)[0] for name, term in cls.model_fields.items()}

    def named(self) -> dict[str, TermSettings]:
        """The terms that are named."""
        return {name: term for name, term in self if term is not None}

    @property
    def modules(self) -> list[str]:
        """Their modules below ``pretrain/terms``, and of the terms applied to further pairs."""
        inner = [lists for term in self.named().values() for _, lists in term]
        nested = [name for terms in inner if isinstance(terms, Terms) for name in terms.modules]
        own = [term.place(name)[0] for name, term in self.named().items()]
        return list(dict.fromkeys([*own, *nested]))

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.named():
            raise ValueError(f"names no term; expected one of {', '.join(type(self).model_fields)}")
        return self

    @model_validator(mode="after")
    def _outside_terms_are_found_by_name(self) -> Self:
        """Programs import a term as ``terms/<name>.py``: a module that stands there for it."""
        for name, term in (self.__pydantic_extra__ or {}).items():
            module = f"{__package__}.{name}"
            stands = hasattr(sys.modules.get(module), "stands_for")
            is_name = name.isidentifier() and name == name.lower()
            if not (stands or (is_name and find_spec(module) is None)):
                raise ValueError(
                    f"{name}: expected another name for {term.kind}, in small letters, that no "
                    "term of the package has"
                )
            stand_in = ModuleType(module)
            names = {"stands_for": term.kind, name.title().replace("_", ""): term.code("Term")}
            vars(stand_in).update(names)
            sys.modules[module] = stand_in
        return self

    @property
    def similarity(self) -> str | None:
        """The kind of :mod:`cxrflow.similarity` that the model keeps; None: the cosine."""
        return next((term.similarity for term in self.named().values() if term.similarity), None)

    @model_validator(mode="after")
    def _one_similarity(self) -> Self:
        names = [name for name, term in self.named().items() if term.similarity]
        if len(names) > 1:
            raise ValueError(
                f"{' and '.join(names)} are both to be kept as the model's similarity; expected "
                "at most one"
            )
        return self
