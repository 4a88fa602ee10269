"""The bases of the settings of terms, and of the lists of them that programs have."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated, ClassVar, Final, Literal, Self, get_args

from pydantic import Field, model_validator

from cxr_files.errors import InputError
from cxr_files.settings import Settings
from cxrflow.kinds import Kind, OneKind
from cxrflow.text.settings import MaskingSettings

Part = Literal["whole", "patches", "words", "pooled"]
NOTHING: Final = frozenset[Part]()


@dataclass(frozen=True)
class Needs:
    """What a term reads.

    Attributes:
        images: augmented views of each image that go through the image encoder, from the first.
        texts: names of the text passes (docs/joint_training.md), such as ``intact``.
        layers: last layers of the text encoder whose states it reads of these texts.
        masking: how words are masked that it predicts; None: it predicts none.
        shared: the other terms see the masked texts, in one pass.
        stage: of the image trunk, after which it reads features; None: it reads none.
        parts: of the encoders: the projections of whole images and texts (whole) or of patches
            (patches), those of patches and words by a local loss (words; BioViL Appendix A.3), the
            trunk's pooled features, projected or not (pooled). What no term reads is frozen.
        labels: those of the cohort's pairs, which must have them.
        true_boxes: of findings, which the synthetic hospital alone knows: a control.
        sometimes: in some steps it reads nothing.
    """

    images: int = 0
    texts: tuple[str, ...] = ()
    layers: int = 1
    masking: MaskingSettings | None = None
    shared: bool = False
    stage: int | None = None
    parts: frozenset[Part] = frozenset({"whole", "patches", "pooled"})
    labels: bool = False
    true_boxes: bool = False
    sometimes: bool = False

    @property
    def projects(self) -> bool:
        """True if it trains the projection of the text encoder."""
        return bool(self.texts) and bool(self.parts - {"pooled"})

    @classmethod
    def of_all(cls, terms: Iterable["Needs"]) -> "Needs":
        """The needs of several terms together."""
        needs = list(terms)
        stages = {term.stage for term in needs if term.stage is not None}
        if len(stages) > 1:
            raise InputError(f"terms read features after stages {sorted(stages)}; expected one")
        return cls(
            max((term.images for term in needs), default=0),
            tuple(dict.fromkeys(name for term in needs for name in term.texts)),
            max((term.layers for term in needs if term.texts), default=0),
            next((term.masking for term in needs if term.masking), None),
            any(term.shared for term in needs),
            next(iter(stages), None),
            frozenset(part for term in needs for part in term.parts),
            any(term.labels for term in needs),
            any(term.true_boxes for term in needs),
            all(term.sometimes for term in needs),
        )


class TermSettings(Settings):
    """The settings that every term has, and what its class says of the models that it trains.

    ``title``: what the page calls it. ``validates``: it has a value in validation.
    """

    title: ClassVar[str]
    validates: ClassVar[bool] = True

    weight: float = Field(1.0, gt=0, description="of this term in the sum")

    def place(self, name: str) -> tuple[str, str]:
        """The module below ``pretrain/terms`` of a term, and its class, in small letters."""
        return name, name

    @property
    def needs(self) -> Needs:
        """What it reads; nothing but the rows of the batch."""
        return Needs()

    @property
    def similarity(self) -> str | None:
        """The kind of :mod:`cxrflow.similarity` that the model keeps from this term, if any.

        Of a term outside of the package ``module:Class``, where that is in another module.
        """
        return None


class OutsideTermSettings(TermSettings, Kind):
    """Settings of a term outside of the package, whose ``kind`` is ``module:Class``."""

    room: ClassVar[str] = "pretrain.terms"
    outside: ClassVar[bool] = True
    base = "cxrflow.pretrain.objective:Term"


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
    def needs(self) -> Needs:
        """What they read together."""
        return Needs.of_all(term.needs for term in self.named().values())

    @property
    def modules(self) -> list[str]:
        """Their modules below ``pretrain/terms``, and of the terms applied to further pairs."""
        inner = [lists for term in self.named().values() for _, lists in term]
        nested = [name for terms in inner if isinstance(terms, Terms) for name in terms.modules]
        module_names = [term.place(name)[0] for name, term in self.named().items()]
        return list(dict.fromkeys([*module_names, *nested]))

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
