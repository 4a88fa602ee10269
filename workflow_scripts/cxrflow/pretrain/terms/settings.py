"""Settings of the terms, and which terms each program has.

Defaults are the papers' own. The order of the lists below is that in which terms are computed and
added up, whatever the order in a recipe.
"""

from dataclasses import replace
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from cxr_files.settings import Before
from cxrflow.pretrain.terms.base_settings import NOTHING, Needs, Part, Terms, TermSettings
from cxrflow.pretrain.terms.cutmix_settings import CutmixSettings
from cxrflow.pretrain.terms.mgca_settings import PrototypesSettings, TokenAlignmentSettings
from cxrflow.text.settings import MaskingSettings

WHOLE: Final = frozenset[Part]({"whole"})
LOCAL: Final = frozenset[Part]({"words"})
POOLED: Final = frozenset[Part]({"pooled"})
MODEL_SIMILARITY = "the model compares images with texts by this term afterwards, not by the cosine"


class MaskedLanguageSettings(TermSettings):
    """MLM (BioViL section 2.1)."""

    title = "Masked language modelling"

    reduction: Literal["token", "sequence"] = Field("token", description="see objectives/biovil.py")
    masking: MaskingSettings = MaskingSettings()
    forward: Literal["separate", "shared"] = Field(
        "separate",
        description="whether the other terms see the intact text (separate) or the masked one of "
        "a single forward pass (shared); BioViL does not say",
    )

    @property
    def needs(self) -> Needs:
        return Needs(masking=self.masking, shared=self.forward == "shared", parts=NOTHING)


class SectionMatchingSettings(TermSettings):
    """RSM (BioViL Eq. 1)."""

    title = "Radiology section matching"

    temperature: float = Field(0.5, gt=0)
    normalised: bool = True
    pair: Literal["findings_impression", "findings_findings"] = Field(
        "findings_impression",
        description="what is matched: the two sections, or the masked FINDINGS with itself under "
        "another mask, sentence order and dropout, for reports of another structure (section 2.1)",
    )

    @property
    def needs(self) -> Needs:
        return Needs(texts=("findings", "impression"), parts=WHOLE)


class SimclrSettings(TermSettings):
    """SimCLR's NT-Xent between two views (BioViL section 2.2); the head is not kept."""

    title = "SimCLR (NT-Xent)"

    temperature: float = Field(0.1, gt=0)
    hidden: int = Field(2048, ge=1, description="width of the head's inner layer")
    output: int = Field(128, ge=1, description="width of the space in which views are compared")

    @property
    def needs(self) -> Needs:
        return Needs(images=2, parts=POOLED)


class PlainSimclrSettings(SimclrSettings):
    """The same with a head without batch normalisation (ConVIRT Appendix E)."""

    title = "SimCLR (NT-Xent), plain head"


class MomentumContrastSettings(TermSettings):
    """MoCo v2 (Chen et al. 2020; ConVIRT Appendix E); neither head nor queue is kept."""

    title = "Momentum contrast"

    temperature: float = Field(0.07, gt=0)
    momentum: float = Field(0.999, ge=0, lt=1, description="of the key encoder (He et al., Eq. 2)")
    queue: int = Field(4096, ge=1, description="keys of earlier batches that are kept")
    hidden: int = Field(2048, ge=1, description="width of the head's inner layer")
    output: int = Field(128, ge=1, description="width of the space in which views are compared")

    @property
    def needs(self) -> Needs:
        return Needs(images=1, parts=POOLED)


class GlobalAlignmentSettings(TermSettings):
    """The global term (BioViL Eq. 2)."""

    title = "Global alignment"

    weight: float = Field(0.5, gt=0)
    temperature: float = Field(0.5, gt=0)
    image_to_text: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of the direction from image to text: ConVIRT's lambda (its Eq. 4). At "
        "equal shares the term is the plain sum of both directions, BioViL's Eq. 2; it is twice "
        "ConVIRT's loss, which weight 0.5 therefore makes exact",
    )

    @property
    def needs(self) -> Needs:
        return Needs(images=1, texts=("intact",), parts=WHOLE | POOLED)


class LocalAlignmentSettings(TermSettings):
    """GLoRIA's local term (objectives/local_alignment.py); the defaults are its published code."""

    title = "Local alignment"

    temp1: float = Field(4.0, gt=0, description="sharpens a word's attention to patches")
    temp2: float = Field(5.0, gt=0, description="of a word's score, inside the sum over words")
    temp3: float = Field(10.0, gt=0, description="of the similarity of image and text")
    word_softmax: bool = Field(
        True,
        description="softmax over the words of a text before the one over patches: GLoRIA's "
        "published code; the low-data study's Eq. 2 has only the second",
    )
    match: Literal["cosine", "dot"] = Field(
        "cosine", description="of a word with what it attends to; dot: the low-data study, Eq. 3"
    )
    aggregation: Literal["sum", "mean"] = Field(
        "sum", description="of scores over words, exponentiated; mean does not favour long texts"
    )
    layers: int = Field(4, ge=1, description="last layers of BERT whose states are summed to words")
    normalised: bool = Field(
        False,
        description="words and patches of length 1 before they are compared (low-data study); "
        "false: as the projections give them, as in GLoRIA's published code. With the softmax over "
        "words, similarities in [-1, 1] leave attention nearly even: every word would see the mean "
        "of all patches",
    )
    cls_is_word: bool = Field(False, description="[CLS] counts as a word: GLoRIA's published code")
    model_similarity: Annotated[bool, Before(False)] = Field(False, description=MODEL_SIMILARITY)

    @property
    def needs(self) -> Needs:
        return Needs(images=1, texts=("intact",), layers=self.layers, parts=LOCAL)

    @property
    def similarity(self) -> str | None:
        return "local" if self.model_similarity else None


class MirroredPairsSettings(TermSettings):
    """Sides: an image with its text, or both mirrored (ours; docs/archive/trials.md)."""

    title = "Sides, by mirrored pairs"

    temperature: float = Field(0.1, gt=0)

    @property
    def needs(self) -> Needs:
        return Needs(images=1, texts=("intact",), parts=WHOLE | POOLED)


class PairMatchingSettings(TermSettings):
    """Contrastive-Binary-Loss (ConVIRT section 4.3)."""

    title = "Real and fake pairs"

    hidden: int | None = Field(
        None, ge=1, description="width inside the classifier, not stated; null: the joint space's"
    )
    model_similarity: Annotated[bool, Before(False)] = Field(
        False, description=f"{MODEL_SIMILARITY}. The paper scores it by the cosine"
    )

    @property
    def needs(self) -> Needs:
        """Of images the mean of projected patches."""
        return Needs(images=1, texts=("intact", "other"), parts=frozenset({"whole", "patches"}))

    @property
    def similarity(self) -> str | None:
        return "perceptron" if self.model_similarity else None


class TextTerms(Terms):
    """Of the text program."""

    section_matching: SectionMatchingSettings | None = None
    mlm: MaskedLanguageSettings | None = None

    @model_validator(mode="after")
    def _mlm_alone_is_not_balanced(self) -> Self:
        alone = self.mlm if self.section_matching is None else None
        if alone and (alone.weight != 1 or alone.forward != "separate"):
            raise ValueError(
                "mlm.weight and mlm.forward balance MLM with section_matching; without it leave "
                "them at 1 and separate"
            )
        return self

    @model_validator(mode="after")
    def _findings_are_matched_masked(self) -> Self:
        twice = self.section_matching and self.section_matching.pair == "findings_findings"
        if twice and (self.mlm is None or self.mlm.forward != "shared"):
            raise ValueError(
                "section_matching.pair is findings_findings, which matches masked texts; expected "
                "mlm.forward: shared"
            )
        return self


class ImageTerms(Terms):
    """Of the image program."""

    simclr: SimclrSettings | None = None
    plain_simclr: PlainSimclrSettings | None = None
    momentum_contrast: MomentumContrastSettings | None = None


class PairTerms(Terms):
    """Losses of images and texts, by their patches and words too."""

    global_alignment: GlobalAlignmentSettings | None = None
    local_alignment: LocalAlignmentSettings | None = None


class MultiViewSettings(TermSettings):
    """Multi-view supervision (DeCLIP; low-data study, Appendix C): L_MVS of Eq. 5."""

    title = "Further views"

    base: PairTerms = Field(
        PairTerms(global_alignment=GlobalAlignmentSettings()),
        description="the losses of an image's second view, or of an augmented text, or of both; "
        "the mean of the three counts",
    )

    @property
    def needs(self) -> Needs:
        return replace(self.base.needs, images=2, texts=("intact", "augmented"))

    @model_validator(mode="after")
    def _base_is_no_similarity(self) -> Self:
        if self.base.similarity is not None:
            raise ValueError(
                "base.local_alignment.model_similarity is true; expected false, as the model keeps "
                "the similarity of a term of its own"
            )
        return self


class NeighbourSettings(TermSettings):
    """Nearest-neighbour supervision (DeCLIP; low-data study, Appendix C): L_NN of Eq. 5."""

    title = "Nearest-neighbour texts"

    base: PairTerms = Field(
        PairTerms(global_alignment=GlobalAlignmentSettings()),
        description="the loss, of each view of an image with its text's neighbour; the mean counts",
    )
    queue: int = Field(
        65536,
        ge=0,
        description="texts that are kept, at most as many as are trained on; 0: no neighbours. Not "
        "stated, DeCLIP's code",
    )
    start: Literal["empty", "full", "random"] = Field(
        "empty",
        description="empty: neighbours are of the texts so far. full: there are none before the "
        "queue is full, the strict reading of 'once the queue is populated' (section 2); the "
        "validation loss rises then. random: unit vectors stand in for texts at first (DeCLIP's "
        "code)",
    )
    shared: Literal["negatives", "masked"] = Field(
        "negatives",
        description="texts of a batch with the same neighbour: negatives of each other, as any "
        "(not stated), or left out",
    )
    text: Annotated[Literal["queue", "reencode"], Before("queue")] = Field(
        "queue",
        description="the neighbour's text: its projection in the queue, or, ours, the text encoded "
        "anew, so that it is as new as the images and has a gradient",
    )

    @property
    def needs(self) -> Needs:
        """Nothing, before there are neighbours."""
        if not self.queue:
            return Needs(parts=NOTHING)
        return replace(self.base.needs, images=2, texts=("intact",), sometimes=True)

    @model_validator(mode="after")
    def _random_vectors_have_no_text(self) -> Self:
        if self.text == "reencode" and self.start == "random":
            raise ValueError("start is random: its vectors are no texts; expected text: queue")
        if self.base.local_alignment is not None and self.text == "queue":
            raise ValueError(
                "base has local_alignment, but the queue has no words; expected text: reencode"
            )
        if self.base.similarity is not None:
            raise ValueError("base.local_alignment.model_similarity is true; expected false")
        return self


class JointTerms(Terms):
    """Of the joint program."""

    global_alignment: GlobalAlignmentSettings | None = None
    local_alignment: LocalAlignmentSettings | None = None
    mlm: MaskedLanguageSettings | None = None
    mirrored_pairs: MirroredPairsSettings | None = None
    simclr: SimclrSettings | None = None
    multi_view: MultiViewSettings | None = None
    neighbours: NeighbourSettings | None = None
    cutmix: CutmixSettings | None = None

    @model_validator(mode="after")
    def _false_texts_are_no_more_intact(self) -> Self:
        """Texts that an image does not belong with are never masked: [MASK] would tell the true."""
        term_settings = self.named()
        false_text_terms = [
            name for name in ("mirrored_pairs", "pair_matching") if name in term_settings
        ]
        if false_text_terms and self.mlm is not None and self.mlm.forward == "shared":
            raise ValueError(
                f"mlm.forward is shared with {false_text_terms[0]}, whose false texts are not "
                "masked as the true ones would be; expected mlm.forward: separate"
            )
        return self


class ImageReportTerms(JointTerms):
    """Of the image_reports program, which has the joint program's, too."""

    token_alignment: TokenAlignmentSettings | None = None
    prototypes: PrototypesSettings | None = None


class StudyTerms(JointTerms):
    """Of the studies program, which has the joint program's, too."""

    pair_matching: PairMatchingSettings | None = None
