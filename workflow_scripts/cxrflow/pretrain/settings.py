"""Settings of the pretraining programs; defaults are the BioViL paper's where it has them."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from cxr_files.settings import Before, Settings
from cxrflow.data.cohorts.settings import TrainingShare
from cxrflow.encoders.settings import (
    Captioning,
    ImageEncoderKind,
    MgcaHeadSettings,
    MultiImageSettings,
    ReportDecoderSettings,
    ResNetSettings,
    Sections,
    TextEncoderSettings,
    TextPooling,
)
from cxrflow.images.settings import AugmentationSettings
from cxrflow.pretrain.terms.base_settings import Terms
from cxrflow.pretrain.terms.label_settings import SentencePairTerms, SupervisedTerms
from cxrflow.pretrain.terms.settings import (
    ImageReportTerms,
    ImageTerms,
    JointTerms,
    StudyTerms,
    TextTerms,
)
from cxrflow.pretrain.terms.writing_settings import CaptionTerms, ReportTerms
from cxrflow.text.settings import EasyAugmentationSettings
from cxrflow.training.required_settings import (
    require_monitored,
    require_uneven_batches,
    require_whole_batches,
    require_with_priors,
)
from cxrflow.training.settings import TrainingSettings


class TextPretrainingSettings(Settings):
    """CXR-BERT, phases II (packed corpora) and III (report sections)."""

    encoder: TextEncoderSettings = Field(
        TextEncoderSettings(), description="sizes of a new encoder; a started one keeps its own"
    )
    training: TrainingSettings
    length: int = Field(512, ge=8, description="tokens of a packed row, or of the longest section")
    terms: TextTerms
    dropout: float = Field(0.1, ge=0, lt=1, description="25 % in phase III (section 2.1)")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="25 % in phase III")
    sentence_shuffling: bool = Field(True, description="within a section, anew in every epoch")

    @model_validator(mode="after")
    def _monitor_is_a_value_of_the_validation(self) -> Self:
        require_monitored(self.training, ["loss", *self.terms.named()])
        return self

    @model_validator(mode="after")
    def _matching_compares_whole_batches(self) -> Self:
        return require_whole_batches(self, self.training) if self.terms.section_matching else self


class SentencePairSettings(Settings):
    """A text encoder that says how two sentences relate (Miura et al. 2021)."""

    training: TrainingSettings
    length: int = Field(128, ge=8, description="tokens of a pair")
    terms: SentencePairTerms
    dropout: float = Field(0.1, ge=0, lt=1, description="in the encoder, attention included")

    @model_validator(mode="after")
    def _monitor_is_a_value_of_the_validation(self) -> Self:
        require_monitored(self.training, ["loss", *self.terms.named()])
        return require_whole_batches(self, self.training)


class StoredImagesSettings(Settings):
    """The settings that programs on images of a pixel store share, beside their ``terms``."""

    written: ClassVar[tuple[str, ...]] = ()  # values of the reports that a validation writes

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
    training_share: Annotated[float, Before(1.0)] = Field(
        1.0,
        gt=0,
        le=1,
        description="share of the training samples that are read, by their `share` (`share_unit`)",
    )
    training_subset: Annotated[Literal["shared", "each"], Before("shared")] = Field(
        "shared", description="of a share: the same samples for all seeds, or others for each"
    )

    @field_validator("training_subset")
    @classmethod
    def _all_samples_are_one_set(cls, subset: str, values: ValidationInfo) -> str:
        return subset if values.data.get("training_share", 1) < 1 else "shared"

    def share(self, seed: int) -> TrainingShare:
        """The part of the training rows that a training with this seed reads."""
        subset = seed if self.training_subset == "each" else 0
        return TrainingShare(self.training_share, self.training.batch_size, subset)

    @model_validator(mode="after")
    def _monitor_is_a_value_of_the_validation(self) -> Self:
        """Whether a task's score is one (``selection/...``), the recipe alone knows."""
        terms: Terms = vars(self)["terms"]
        written = self.written if getattr(self, "written_validation", 0) else ()
        validated = [name for name, term in terms.named().items() if term.validates]
        monitor = self.training.stopping.monitor
        why = ", but written_validation is 0" if monitor in self.written else ""
        if not monitor.startswith("selection/"):
            alternatives = ", or a value of the recipe's selection (selection/...)"
            require_monitored(self.training, ["loss", *validated, *written], why, alternatives)
        return self

    @model_validator(mode="after")
    def _whole_batches(self) -> Self:
        if self.ghost_batch is not None and self.training.batch_size % self.ghost_batch:
            raise ValueError(
                f"ghost_batch is {self.ghost_batch}; training.batch_size "
                f"{self.training.batch_size} must be a multiple of it"
            )
        return require_whole_batches(self, self.training)


class ImagePretrainingSettings(StoredImagesSettings):
    """Images alone (Appendix E.2, second column of Table E.1)."""

    encoder: ImageEncoderKind = ResNetSettings()
    terms: ImageTerms


class InitialSettings(Settings):
    """An image encoder before any training (ConVIRT section 4.3)."""

    encoder: ImageEncoderKind = ResNetSettings()


class SupervisedSettings(ImagePretrainingSettings):
    """Images and the class that each is of."""

    terms: SupervisedTerms


class JointPretrainingSettings(StoredImagesSettings):
    """BioViL's joint training (section 2.2, first column of Table E.1)."""

    encoder: ImageEncoderKind = Field(
        ResNetSettings(),
        description="sizes of the image encoder; a trunk that it starts from must have the same",
    )
    length: int = Field(512, ge=8, description="tokens of the longest text")
    text: Literal["impression", "sentence", "report"] = Field(
        "impression",
        description="what an image is paired with: its IMPRESSION (BioViL section 2.2), one "
        "sentence of its report, drawn anew in every epoch (ConVIRT section 3.3, GLoRIA's code), "
        "or the report, IMPRESSION before FINDINGS (MGCA)",
    )
    sentence_sections: Sections = Field(
        ("findings", "impression"),
        description="sections that a sentence is drawn from, all sentences being equally likely "
        "(ConVIRT Appendix A keeps these two)",
    )
    text_pooling: TextPooling = Field(
        "cls",
        description="what of the last layer is projected: [CLS] (BioViL), the maximum (ConVIRT "
        "section 3.3) or the mean over all tokens, [CLS] and [SEP] included; kept in the text "
        "encoder's config.json",
    )
    frozen_layers: int = Field(
        0,
        ge=0,
        description="first layers of the text encoder that are not trained, and with any of them "
        "its embeddings, which the token head of MLM shares (ConVIRT section 3.3: 6)",
    )
    text_augmentation: EasyAugmentationSettings | None = Field(
        None, description="of the text that terms read as `augmented` (docs/text.md)"
    )
    view_statistics: Annotated[Literal["shared", "separate"], Before("shared")] = Field(
        "shared",
        description="where terms read several views of an image: one pass through the image "
        "encoder, whose batch statistics are of all views, or a pass for each (DeCLIP's code)",
    )
    terms: JointTerms
    dropout: float = Field(0.25, ge=0, lt=1, description="text encoder, section 2.2")
    attention_dropout: float = Field(0.25, ge=0, lt=1)
    sentence_shuffling: bool = Field(True, description="of an IMPRESSION, anew in every epoch")
    shuffled_pairs: bool = Field(
        False, description="control: every training image gets another study's text"
    )

    @model_validator(mode="after")
    def _images_are_mixed_within_the_trunk(self) -> Self:
        cutmix, kind = self.terms.cutmix, self.encoder.projection_head.kind
        if cutmix is None:
            return self
        cutmix.check_trunk(self.encoder, self.encoder.depth)
        # MGCA's projections of patches and words are their own, and begin at random.
        trained = "words" in self.terms.needs.parts
        if cutmix.reads_regions and kind == "mgca" and not trained:
            raise ValueError(
                "terms.cutmix with encoder.projection_head.kind mgca, whose projections of patches "
                "and words no other term trains, so that regions would be random; expected "
                "terms.token_alignment or terms.local_alignment beside it"
            )
        return self

    @model_validator(mode="after")
    def _augmented_texts_are_made(self) -> Self:
        if self.terms.multi_view is not None and self.text_augmentation is None:
            raise ValueError(
                "terms.multi_view reads augmented texts, but text_augmentation is null; expected "
                "its settings ({} is easy data augmentation)"
            )
        return self

    @model_validator(mode="after")
    def _sides_are_kept(self) -> Self:
        flip = self.augmentation.flip_probability
        if self.terms.mirrored_pairs is not None and flip > 0:
            raise ValueError(
                f"augmentation.flip_probability is {flip:g} with terms.mirrored_pairs, which "
                "learns sides; expected 0"
            )
        return self


class TemporalPretrainingSettings(JointPretrainingSettings):
    """BioViL-T's joint training on images with their priors (its section 3)."""

    encoder: ImageEncoderKind = Field(
        MultiImageSettings(),
        description="sizes of the image encoder; its ResNet may start from another model's",
    )
    mlm_sections: Sections = Field(
        ("impression", "findings"),
        description="of the text whose masked words are predicted (section 4), in this order; a "
        "text that is too long loses its end",
    )
    mlm_token: bool = Field(
        True,
        description="a masked text begins with a token of its own, [MLM], not [CLS] (section 3.2)",
    )

    @model_validator(mode="after")
    def _frames_are_of_two_kinds(self) -> Self:
        mlm = self.terms.mlm
        if not self.encoder.takes_prior:
            raise ValueError(f"encoder.kind is {self.encoder.kind}; expected one of two images")
        require_uneven_batches(self.training, self.ghost_batch)
        forward = mlm.forward if mlm else "separate"
        require_with_priors("terms.mlm.forward", forward, "separate")
        if not set(self.terms.named()) - {"mlm"}:
            raise ValueError("terms names mlm alone; expected one that aligns images and texts")
        return self


class StudyPretrainingSettings(JointPretrainingSettings):
    """Joint training of which every epoch sees one image of each study (ConVIRT section 3.2).

    The projections of both encoders are new, of the kind and width that ``encoder`` says (section
    3.3); a text encoder brings none of its own.
    """

    terms: StudyTerms

    @model_validator(mode="after")
    def _pairs_are_matched_by_linear_projections(self) -> Self:
        kind = self.encoder.projection_head.kind
        if self.terms.pair_matching is not None and kind != "linear":
            raise ValueError(
                f"terms.pair_matching with encoder.projection_head.kind {kind}; expected linear, "
                "as it compares linear projections (ConVIRT section 4.3)"
            )
        if self.encoder.takes_prior:
            raise ValueError(f"encoder.kind is {self.encoder.kind}; expected one of single images")
        return self


class ImageReportSettings(JointPretrainingSettings):
    """MGCA's joint training on images and cleaned reports, which MedCutMix begins with.

    The projections of both encoders are new, of the kind and width that ``encoder`` says.
    """

    length: int = Field(112, ge=8, description="tokens of a report, in MGCA's published code")
    text: Literal["report"] = Field("report", description="IMPRESSION before FINDINGS")
    terms: ImageReportTerms
    text_layers: int | None = Field(
        None,
        ge=1,
        description="first layers of the text encoder, without those behind them; null: all. "
        "MGCA's code: 6",
    )
    single_position: bool = Field(
        False, description="every token stands at the first position: MGCA's published code"
    )
    segment_embedding: bool = Field(
        True, description="false: the text encoder goes without: MGCA's published code"
    )
    decay_all: bool = Field(
        False,
        description="weight decay on biases and normalisation, too: MGCA's published code",
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="text encoder; BERT's")
    attention_dropout: float = Field(0.1, ge=0, lt=1, description="likewise")
    sentence_shuffling: bool = Field(False, description="of a report, anew in every epoch")

    @model_validator(mode="after")
    def _padding_is_as_long_as_texts(self) -> Self:
        head = self.encoder.projection_head
        if self.encoder.takes_prior:
            raise ValueError(f"encoder.kind is {self.encoder.kind}; expected one of single images")
        if not isinstance(head, MgcaHeadSettings):
            return self
        if head.padded_words is not None and head.padded_words < self.length - 1:
            raise ValueError(
                f"encoder.projection_head.padded_words is {head.padded_words}; expected at least "
                f"{self.length - 1}, the tokens of a report of length {self.length} but [CLS]"
            )
        if head.padded_words is None and self.ghost_batch is not None:
            raise ValueError(
                f"ghost_batch is {self.ghost_batch} without encoder.projection_head.padded_words; "
                "expected null: texts have different numbers of words"
            )
        return self


class ReportTrainingSettings(StoredImagesSettings):
    """Writing reports of images (BioViL-T Appendix F.1); what it does not state is ours."""

    written = ("bleu_2", "bleu_4", "rouge_l")

    decoder: ReportDecoderSettings = ReportDecoderSettings()
    terms: ReportTerms
    dropout: float = Field(0.1, ge=0, lt=1, description="of the decoder; not stated, BERT's")
    attention_dropout: float = Field(0.1, ge=0, lt=1)
    image_rate: float = Field(
        1.0, ge=0, description="factor on the image encoder's learning rate; 0: left as it is"
    )
    written_validation: int = Field(
        256,
        ge=0,
        description="validation studies, drawn once, whose reports are written greedily at every "
        "validation, for its values bleu_2, bleu_4 and rouge_l; 0: none",
    )

    @model_validator(mode="after")
    def _trained_frames_are_of_two_kinds(self) -> Self:
        if self.decoder.prior_image and self.image_rate:
            require_uneven_batches(
                self.training, self.ghost_batch, " (or decoder.prior_image false)"
            )
        return self


class CaptionTrainingSettings(StoredImagesSettings):
    """Writing reports from the patches of an image's trunk (ConVIRT section 4.3)."""

    written = ("cider", "cider_d", "bleu_4", "rouge_l")

    encoder: ImageEncoderKind = Field(
        ResNetSettings(), description="sizes of the trunk, which may start from another's"
    )
    decoder: Captioning
    decoder_start: Annotated[Literal["new", "image"], Before("new")] = Field(
        "new", description="image: the captioner of the model that the trunk starts from"
    )
    terms: CaptionTerms
    image_rate: float = Field(1.0, gt=0, description="factor on the trunk's learning rate")
    written_validation: int = Field(
        256, ge=0, description="images, drawn once, whose reports a validation writes; 0: none"
    )

    @model_validator(mode="after")
    def _attention_is_soft(self) -> Self:
        if self.terms.doubly_stochastic and self.decoder.kind != "captioning_lstm":
            raise ValueError(
                f"terms.doubly_stochastic is set, but decoder.kind is {self.decoder.kind}; it is "
                "of captioning_lstm"
            )
        if self.terms.report_likelihood is None:
            raise ValueError("terms lacks report_likelihood, by which captions are learnt")
        return self
