"""Settings of the text stages: corpora, vocabulary, token files, masking.

Values the BioViL paper gives are its own (section 2.1, Appendix E.1); the rest says so.
"""

from typing import Literal

from pydantic import Field, field_validator

from cxrflow.settings import Settings


class CorpusSettings(Settings):
    """How PubMed and MIMIC-III become documents; the paper states no filter, so there is none."""

    max_failed_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="share of unreadable PubMed files, or of malformed MIMIC-III rows, that is "
        "reported and skipped; above it the stage fails",
    )


class VocabularySettings(Settings):
    """WordPiece vocabulary (section 2.1, phase I: "custom WordPiece vocabulary of 30k tokens")."""

    size: int = Field(
        default=30522,
        ge=10,
        le=65535,
        description="entries with the special tokens (Table 3: 30,522); fewer if the text ends",
    )
    min_frequency: int = Field(
        default=2, ge=1, description="of a pair of pieces to be merged; not in the paper"
    )
    lowercase: bool = Field(default=True, description="uncased, accents stripped (Table 1)")
    limit_alphabet: int = Field(
        default=1000, ge=1, description="most frequent characters kept; not in the paper"
    )


class TokensSettings(Settings):
    """Token files; the result does not depend on it."""

    documents_per_batch: int = Field(default=2048, ge=1, description="documents encoded at once")


class MaskingSettings(Settings):
    """Dynamic whole-word masking (section 2.1; 15 %: section 4.2; 80/10/10: BERT)."""

    rate: float = Field(default=0.15, gt=0, lt=1, description="share of words (or tokens) chosen")
    mask_share: float = Field(default=0.8, ge=0, le=1, description="chosen pieces → [MASK]")
    random_share: float = Field(default=0.1, ge=0, le=1, description="chosen pieces → any piece")
    unit: Literal["word", "token"] = Field(
        default="word", description="what is chosen as a whole; word: BERT's ## rule"
    )

    @field_validator("random_share")
    @classmethod
    def _shares_fit(cls, value: float, info: object) -> float:
        values = getattr(info, "data", {})
        if value + values.get("mask_share", 0.0) > 1 + 1e-9:
            raise ValueError("mask_share and random_share must not exceed 1 together")
        return value
