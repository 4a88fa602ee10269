"""Settings of the terms that learn from labels, and the lists of them."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cxrflow.pretrain.terms.base_settings import Needs, Terms, TermSettings
from cxrflow.pretrain.terms.settings import POOLED, ImageTerms


class ImageClassSettings(TermSettings):
    """Cross-entropy of an image's class; the classifier is not kept."""

    title = "Classification"

    @property
    def needs(self) -> Needs:
        return Needs(images=1, parts=POOLED)


class FindingsSettings(TermSettings):
    """Cross-entropy of each finding by itself; the classifier is not kept."""

    title = "Findings"

    classes: list[str] = Field(min_length=1, description="of the cohort")
    uncertain: dict[str, Literal["zero", "one"]] = Field(
        default={}, description="what -1 counts as, by class; without: it does not count"
    )
    unknown: Literal["ignore", "zero"] = Field(
        "ignore", description="what a label that is not given counts as"
    )
    dropout: float = Field(0.2, ge=0, lt=1, description="before the classifier (Appendix B)")

    @property
    def needs(self) -> Needs:
        return Needs(images=1, parts=POOLED, labels=True)


class EntailmentSettings(TermSettings):
    """Cross-entropy of how two sentences relate; the classifier is the encoder's projection."""

    title = "Entailment"

    dropout: float = Field(0.1, ge=0, lt=1, description="of [CLS], before the classifier")

    @property
    def needs(self) -> Needs:
        return Needs(texts=("pair",), parts=frozenset({"whole"}))


class SentencePairTerms(Terms):
    """Of the sentence_pairs program."""

    entailment: EntailmentSettings | None = None


class SupervisedTerms(ImageTerms):
    """Of the supervised program, which has the image program's, too."""

    classification: ImageClassSettings | None = None
    findings: FindingsSettings | None = None

    @model_validator(mode="after")
    def _labels_are_of_one_kind(self) -> Self:
        if self.classification is not None and self.findings is not None:
            raise ValueError("terms.classification and terms.findings: expected one of them")
        return self
