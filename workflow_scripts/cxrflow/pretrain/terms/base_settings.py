"""The bases of the settings of terms, and of the lists of them that programs have."""

from typing import ClassVar, Self, get_args

from pydantic import Field, model_validator

from cxrflow.settings import Settings


class TermSettings(Settings):
    """The settings that every term has, and what its class says of the models that it trains.

    ``title``: what the page calls it. ``projects``: it trains the projection of the text encoder.
    ``matches_words``: it compares words with patches; a local loss (BioViL Appendix A.3).
    """

    title: ClassVar[str]
    projects: ClassVar[bool] = False
    matches_words: ClassVar[bool] = False

    weight: float = Field(1.0, gt=0, description="of this term in the sum")

    @property
    def similarity(self) -> str | None:
        """The kind of :mod:`cxrflow.similarity` that the model keeps from this term, if any."""
        return None


class Terms(Settings):
    """The terms of an objective, by name; a term that is not named, or is null, is left out."""

    @classmethod
    def classes(cls) -> dict[str, type[TermSettings]]:
        """The settings class of each term that may be named."""
        return {name: get_args(term.annotation)[0] for name, term in cls.model_fields.items()}

    def named(self) -> dict[str, TermSettings]:
        """The terms that are named."""
        return {name: term for name, term in self if term is not None}

    @property
    def names(self) -> list[str]:
        """Their names, and those of the terms that they apply to further pairs."""
        inner = [lists for term in self.named().values() for _, lists in term]
        nested = [name for terms in inner if isinstance(terms, Terms) for name in terms.names]
        return list(dict.fromkeys([*self.named(), *nested]))

    @model_validator(mode="after")
    def _at_least_one(self) -> Self:
        if not self.named():
            raise ValueError(f"names no term; expected one of {', '.join(type(self).model_fields)}")
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
