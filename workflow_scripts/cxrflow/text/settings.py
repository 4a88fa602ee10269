"""Settings of the text stages: corpora, vocabulary, token files, masking.

Values the BioViL paper gives are its own (section 2.1, Appendix E.1); the rest says so.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from cxr_files.settings import Before, Settings
from cxrflow.kinds import Kind, Reads


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


Rate = Annotated[float, Field(ge=0, le=1)]


WORDNET_PARTS = ("noun", "verb", "adj", "adv")  # parts of speech, in the names of its files


class EasyAugmentationSettings(Kind):
    """Easy data augmentation (Wei and Zou 2019), as the low-data study uses it (Appendix C).

    Of W words, max(1, int(rate W)) are replaced, inserted or swapped. A rate of 0 switches an
    operation off.
    """

    room: ClassVar[str] = "text"
    kind: Annotated[Literal["eda"], Reads("eda", "cxrflow/text/report_words.yaml")] = "eda"

    synonyms: Rate = Field(0.1, description="words that a synonym replaces, as a share of W")
    insertions: Rate = Field(0.1, description="synonyms inserted at a random place, as a share")
    swaps: Rate = Field(0.1, description="pairs of words that change places, as a share of W")
    deletion: Rate = Field(0.1, description="probability with which each word is deleted")
    operations: Literal["single", "all", "variants"] = Field(
        "single",
        description="of a view: one operation, drawn anew; all four, one after another; or one of "
        "the texts that the published code returns: up to nine variants by one operation each, "
        "and the cleaned text. The study does not say",
    )
    protect: tuple[Literal["negation", "side", "number"], ...] = Field(
        (),
        description="ours: words that no operation touches (text/report_words.yaml); numbers, "
        "which the published cleaning drops, stay",
    )
    as_coded: Annotated[bool, Before(False)] = Field(
        False,
        description="as the published code: a synonym may be replaced in its turn, an insertion "
        "gives up after nine words without synonyms; false: words are replaced once, ten are tried",
    )
    wordnet: str | None = Field(
        None,
        description="folder of WordNet's files (index.noun, data.noun, noun.exc ...), whose "
        "synonyms are used as the published code does; null: the list in text/report_words.yaml",
    )
