"""Settings of the three pretraining programs; defaults are the BioViL paper's where it has them."""

from typing import Literal, Self

from pydantic import Field, model_validator

from cxrflow.command import Settings, SettingsT
from cxrflow.encoders.settings import ImageEncoderSettings, TextEncoderSettings, TextPooling
from cxrflow.images.settings import AugmentationSettings
from cxrflow.text.settings import MaskingSettings
from cxrflow.training.settings import TrainingSettings


class MaskedLanguageSettings(Settings):
    """The MLM term (section 2.1)."""

    weight: float = Field(1.0, ge=0)
    reduction: Literal["token", "sequence"] = Field(
        "token", description="see objectives/masked_language_modelling.py"
    )
    masking: MaskingSettings = MaskingSettings()
    forward: Literal["separate", "shared"] = Field(
        "separate",
        description="whether the contrastive term sees the intact text (separate) or the masked "
        "one of a single forward pass (shared); the paper does not say",
    )


class SectionMatchingSettings(Settings):
    """The RSM term (Eq. 1)."""

    weight: float = Field(0.0, ge=0)
    temperature: float = Field(0.5, gt=0)
    normalised: bool = True


class TextPretrainingSettings(Settings):
    """CXR-BERT, phases II (packed corpora) and III (report sections)."""

    encoder: TextEncoderSettings = Field(
        TextEncoderSettings(), description="sizes of a new encoder; a started one keeps its own"
    )
    training: TrainingSettings
    length: int = Field(512, ge=8, description="tokens of a packed row, or of the longest section")
    mlm: MaskedLanguageSettings = MaskedLanguageSettings()
    rsm: SectionMatchingSettings = SectionMatchingSettings()
    dropout: float = Field(0.1, ge=0, lt=1, description="25 % in phase III (section 2.1)")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="25 % in phase III")
    sentence_shuffling: bool = Field(True, description="within a section, anew in every epoch")

    @model_validator(mode="after")
    def _fits_its_phase(self) -> Self:
        """Section matching compares a whole batch; packed rows know neither of these options."""
        if self.rsm.weight > 0:
            return require_whole_batches(self, self.training)
        if self.mlm.weight != 1 or self.mlm.forward != "separate":
            raise ValueError(
                "mlm.weight and mlm.forward balance MLM with section matching; with rsm.weight 0 "
                "(phase II, or phase III without matching) leave them at 1 and separate"
            )
        return self


class StoredImagesSettings(Settings):
    """What the programs share that compare images of a pixel store within a batch."""

    training: TrainingSettings
    augmentation: AugmentationSettings
    ghost_batch: int | None = Field(
        None,
        ge=1,
        description="samples whose batch statistics are taken together; null = the whole batch. "
        "The papers' runs on several GPUs took them over what each GPU held",
    )
    max_dropped_share: float = Field(
        0.05,
        ge=0,
        le=1,
        description="rows whose image the pixel store lacks are left out and counted; above this "
        "share of a split the training ends",
    )

    @model_validator(mode="after")
    def _whole_batches(self) -> Self:
        if self.ghost_batch is not None and self.training.batch_size % self.ghost_batch:
            raise ValueError(
                f"ghost_batch is {self.ghost_batch}; training.batch_size "
                f"{self.training.batch_size} must be a multiple of it"
            )
        return require_whole_batches(self, self.training)


class ImagePretrainingSettings(StoredImagesSettings):
    """SimCLR on the images (Appendix E.2, second column of Table E.1)."""

    encoder: ImageEncoderSettings = ImageEncoderSettings()
    temperature: float = Field(0.1, gt=0)
    head_hidden: int = Field(2048, ge=1)
    head_output: int = Field(128, ge=1)


class GlobalAlignmentSettings(Settings):
    """The global term (Eq. 2)."""

    weight: float = Field(0.5, ge=0)
    temperature: float = Field(0.5, gt=0)
    image_to_text: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of the direction from image to text: ConVIRT's lambda (its Eq. 4). At "
        "equal shares the term is the plain sum of both directions, BioViL's Eq. 2; it is twice "
        "ConVIRT's loss, which weight 0.5 therefore makes exact",
    )


class LocalAlignmentSettings(Settings):
    """GLoRIA's local term (objectives/local_alignment.py); the defaults are its published code."""

    weight: float = Field(0.0, ge=0, description="of the sum of both directions; 0 is BioViL")
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


class JointPretrainingSettings(StoredImagesSettings):
    """BioViL's joint training (section 2.2, first column of Table E.1)."""

    encoder: ImageEncoderSettings = Field(
        ImageEncoderSettings(),
        description="sizes of a new image encoder; a started one keeps its own",
    )
    length: int = Field(512, ge=8, description="tokens of the longest text")
    text: Literal["impression", "sentence"] = Field(
        "impression",
        description="what an image is paired with: its IMPRESSION (BioViL section 2.2), or one "
        "sentence of its report, drawn anew in every epoch (ConVIRT section 3.3, GLoRIA's code)",
    )
    sentence_sections: tuple[Literal["findings", "impression"], ...] = Field(
        ("findings", "impression"),
        min_length=1,
        description="sections that a sentence is drawn from, all sentences being equally likely "
        "(ConVIRT Appendix A keeps these two)",
    )
    text_pooling: TextPooling = Field(
        "cls",
        description="what of the last layer is projected: [CLS] (BioViL), the maximum (ConVIRT "
        "section 3.3) or the mean over all tokens, [CLS] and [SEP] included; kept in the text "
        "half's config.json",
    )
    frozen_layers: int = Field(
        0,
        ge=0,
        description="first layers of the text encoder that are not trained, and with any of them "
        "its embeddings, which the token head of MLM shares (ConVIRT section 3.3: 6)",
    )
    alignment: GlobalAlignmentSettings = GlobalAlignmentSettings()
    local_alignment: LocalAlignmentSettings = LocalAlignmentSettings()
    mlm: MaskedLanguageSettings = MaskedLanguageSettings()
    dropout: float = Field(0.25, ge=0, lt=1, description="text encoder, section 2.2")
    attention_dropout: float = Field(0.25, ge=0, lt=1)
    sentence_shuffling: bool = Field(True, description="of an IMPRESSION, anew in every epoch")
    shuffled_pairs: bool = Field(
        False, description="control: every training image gets another study's text"
    )

    @model_validator(mode="after")
    def _sections_once(self) -> Self:
        if len(set(self.sentence_sections)) < len(self.sentence_sections):
            raise ValueError(
                f"sentence_sections is {list(self.sentence_sections)}; expected each section once"
            )
        return self

    @property
    def required_section(self) -> Literal["findings", "impression"]:
        """The section without which a report is left out: IMPRESSION wherever it is read."""
        drawn = self.text == "sentence"
        return "findings" if drawn and "impression" not in self.sentence_sections else "impression"


def require_whole_batches(settings: SettingsT, training: TrainingSettings) -> SettingsT:
    """A contrastive objective compares all samples of a batch: it cannot be split into parts."""
    if training.accumulate != 1:
        raise ValueError(f"training.accumulate is {training.accumulate}; contrastive terms need 1")
    return settings
