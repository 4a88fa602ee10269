"""Settings of MGCA's terms of words, patches and prototypes (Wang et al. 2022)."""

from pydantic import Field

from cxrflow.pretrain.terms.base_settings import Needs, TermSettings


class TokenAlignmentSettings(TermSettings):
    """Token-wise alignment (MGCA, CTA; objectives/token_alignment.py). Eq. 7 of MedCutMix."""

    title = "Token alignment"

    temperature: float = Field(0.1, gt=0, description="of MGCA's published code")
    sep_is_word: bool = Field(False, description="[SEP] counts as a word: MGCA's published code")
    unit_context: bool = Field(
        True,
        description="what a patch saw of the words is of length 1, as what a word saw is; false: "
        "MGCA's published code for transformers",
    )

    @property
    def needs(self) -> Needs:
        """Two layers: the states that enter the last one."""
        return Needs(images=1, texts=("intact",), layers=2, parts=frozenset({"words"}))


class PrototypesSettings(TermSettings):
    """Prototype-level alignment (MGCA, CPA; objectives/prototypes.py). Eq. 7 of MedCutMix.

    The values are those of MGCA's published code.
    """

    title = "Prototypes"

    number: int = Field(500, ge=2, description="of prototypes")
    temperature: float = Field(0.2, gt=0, description="of predictions")
    epsilon: float = Field(0.05, gt=0, description="temperature of codes")
    iterations: int = Field(3, ge=1, description="of Sinkhorn's algorithm")
    rest_epochs: int = Field(
        1, ge=0, description="first epochs in which prototypes are not trained"
    )
    code_batch: int | None = Field(
        None,
        ge=2,
        description="samples whose codes are made together; null: the whole batch, of all "
        "processes. MGCA's code: those of a GPU",
    )

    @property
    def needs(self) -> Needs:
        return Needs(images=1, texts=("intact",), parts=frozenset({"whole", "pooled"}))
