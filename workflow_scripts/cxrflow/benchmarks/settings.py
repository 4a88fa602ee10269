"""Settings of the benchmarks: protocol choices as data, kept with every result.

Defaults are the paper's protocol where it states one, and the plainest choice where it does not;
docs/protocols.md says which is which, and what published inference code does instead.
"""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from cxrflow.command import Settings
from cxrflow.images.settings import PixelSettings
from cxrflow.text.settings import MaskingSettings

# How several prompts of one class become one embedding.
PromptAverage = Literal["normalised", "raw"]


class IntervalSettings(Settings):
    """Percentile bootstrap over the test samples; not in the papers."""

    replicates: int = Field(default=2000, ge=100, description="number of resamples")
    level: float = Field(default=0.95, gt=0, lt=1, description="share of resamples inside")
    unit: Literal["subject", "sample"] = Field(
        default="subject", description="what is drawn; a missing patient id stands for itself"
    )
    seed: int = Field(default=0, description="of the resamples; the same for every model and seed")


class BenchmarkSettings(Settings):
    """What every benchmark that runs a model has."""

    split: str | None = Field(default=None, description="rows of the cohort to use; null: all")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
    intervals: IntervalSettings = IntervalSettings()


class EncodingSettings(BenchmarkSettings):
    """What a benchmark has that runs an encoder over its samples."""

    batch_size: int = Field(default=32, ge=1, description="speed only; results do not depend on it")


class FeatureSettings(Settings):
    """Image features, computed once for every benchmark that starts from them."""

    batch_size: int = Field(default=32, ge=1, description="images encoded at once; speed only")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")


class PhraseGroundingSettings(EncodingSettings):
    """Phrase grounding on MS-CXR (BioViL sections 4.1 and 4.3; split null: all of MS-CXR)."""

    categories: list[str] = Field(
        default=[
            "Atelectasis",
            "Cardiomegaly",
            "Consolidation",
            "Lung Opacity",
            "Edema",
            "Pneumonia",
            "Pneumothorax",
            "Pleural Effusion",
        ],
        min_length=1,
        description="findings of the macro average, in the order of Table 5",
    )
    smoothing_sigma: float | None = Field(
        default=None,
        gt=0,
        description="Gaussian on the grid, in cells; null: none (paper); released code: 1.5",
    )
    strip_punctuation: bool = Field(
        default=False,
        description="leave out . ! ? at a phrase's end, as released code does; false: as annotated",
    )
    rescale: Literal["auto", "none", "minmax"] = Field(
        default="auto",
        description="minmax: each map to [-1, 1]; auto: for models trained with a local loss, none "
        "for others (Appendix A.3)",
    )
    upsample: Literal["nearest", "bilinear"] = Field(
        default="nearest", description="from the grid to pixels"
    )
    space: Literal["original", "stored"] = Field(
        default="original", description="pixels scored: the box image's, or the model's input"
    )
    outside: Literal["ignore", "missed"] = Field(
        default="ignore",
        description="box pixels outside the crop: NaN and left out, or not found (IoU only)",
    )
    thresholds: list[float] = Field(
        default=[0.1, 0.2, 0.3, 0.4, 0.5],
        min_length=1,
        description="of mIoU, on the similarity (section 4.1)",
    )
    size_limits: tuple[float, float] = Field(
        default=(0.05, 0.15),
        description="shares of the image between small, medium and large box unions, which are "
        "also scored apart (not in the paper)",
    )
    figures: int = Field(
        default=0,
        ge=0,
        description="example pictures to write; they show radiographs, as the papers' figures do, "
        "so 0 leaves those out too",
    )
    figure_phrases: bool = Field(
        default=False, description="print the phrase, which is report text, with each picture"
    )

    @field_validator("size_limits")
    @classmethod
    def _limits_rise(cls, limits: tuple[float, float]) -> tuple[float, float]:
        if not 0 < limits[0] < limits[1] < 1:
            raise ValueError("want two rising shares between 0 and 1")
        return limits


class FigureColumn(Settings):
    """A column of a figure: a model's maps, or the reason why there are none."""

    label: str
    model: str | None = Field(default=None, description="our model of this column")
    reason: str | None = Field(default=None, description="why ours are missing")

    @model_validator(mode="after")
    def _a_model_or_a_reason(self) -> "FigureColumn":
        if (self.model is None) == (self.reason is None):
            raise ValueError(f"column '{self.label}': want either a model or a reason")
        return self


class GroundingFigureSettings(Settings):
    """A figure of grounded phrases (BioViL Figures 3, A.1 and A.2).

    The papers choose their examples by hand; ours are chosen by the signed CNR of one model.
    """

    title: str
    by: str = Field(description="model whose signed CNR chooses the examples")
    rank: Literal["best", "median", "worst"]
    each_finding: bool = Field(description="one example a finding; false: over all findings")
    count: int = Field(ge=1, le=12, description="examples, at most")
    columns: list[FigureColumn] = Field(min_length=1)

    @model_validator(mode="after")
    def _chosen_by_a_column(self) -> "GroundingFigureSettings":
        models = [column.model for column in self.columns if column.model is not None]
        if self.by not in models or len(set(models)) < len(models):
            raise ValueError(f"by: '{self.by}' must be one of the columns' models, each once")
        return self


class OneImageSettings(Settings):
    """Phrases grounded in one image file (BioViL section 4.3, Figure 3)."""

    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:<n>")
    pixels: PixelSettings = Field(
        default=PixelSettings(),
        description="how grey values become 8 bits: as in the pixel store the model learnt from",
    )
    strip_punctuation: bool = Field(
        default=False, description="leave out . ! ? at a phrase's end, as released code does"
    )
    smoothing_sigma: float | None = Field(
        default=None,
        gt=0,
        description="Gaussian on the grid, in cells; null: none (paper); released code: 1.5",
    )
    upsample: Literal["nearest", "bilinear"] = Field(
        default="bilinear", description="from the grid to the pixels that are drawn"
    )


class PneumoniaSettings(BenchmarkSettings):
    """What the classifications on RSNA share (BioViL section 4.4): images and prompts."""

    split: str | None = Field(default="test", description="rows that are scored; null: all")
    positive_prompts: list[str] = Field(default=["Findings suggesting pneumonia"], min_length=1)
    negative_prompts: list[str] = Field(default=["No evidence of pneumonia"], min_length=1)
    prompt_average: PromptAverage = Field(
        default="normalised",
        description="several prompts of a class: mean of their unit embeddings, or raw: of the "
        "projections as they are (public inference code); made unit again either way",
    )


class PromptPair(Settings):
    """Another pair of prompts for the same two classes (BioViL Appendix A.1)."""

    name: str = Field(pattern=r"^[a-z0-9_]+$", description="as in the metrics auroc/<name> …")
    positive: list[str] = Field(min_length=1)
    negative: list[str] = Field(min_length=1)
    compared_with: str | None = Field(
        default=None,
        description="pair whose AUROC this one's is held against in delta/<name>: a name, or "
        "default for the main prompts",
    )


# Table A.1's pairs beside the default one; |ΔAUC| is printed for two of them, against the row
# before of the same model.
PAPER_PROMPT_PAIRS = [
    PromptPair(
        name="suggesting_acute",
        positive=["Findings suggesting pneumonia"],
        negative=["There is no evidence of acute pneumonia"],
    ),
    PromptPair(
        name="diagnosis_acute",
        positive=["Consistent with the diagnosis of pneumonia"],
        negative=["There is no evidence of acute pneumonia"],
        compared_with="default",
    ),
    PromptPair(
        name="consistent",
        positive=["Findings consistent with pneumonia"],
        negative=["No evidence of pneumonia"],
    ),
    PromptPair(
        name="consistent_none",
        positive=["Findings consistent with pneumonia"],
        negative=["There is no pneumonia"],
        compared_with="consistent",
    ),
]


class ZeroShotClassificationSettings(PneumoniaSettings):
    """Zero-shot pneumonia classification on RSNA (BioViL sections 2.2 and 4.4)."""

    temperature: float = Field(
        default=1.0,
        gt=0,
        description="divides the cosines before the softmax; moves scores, not their order",
    )
    prompt_pairs: list[PromptPair] = Field(
        default=PAPER_PROMPT_PAIRS,
        description="other pairs of prompts, scored beside the main ones (Table A.1)",
    )

    @field_validator("prompt_pairs")
    @classmethod
    def _pairs_have_names_of_their_own(cls, pairs: list[PromptPair]) -> list[PromptPair]:
        names = [pair.name for pair in pairs]
        # Metrics auroc/normal and auroc/not_normal are those against one kind of negatives.
        taken = sorted(
            n for n in set(names) if names.count(n) > 1 or n in ("default", "normal", "not_normal")
        )
        if taken:
            raise ValueError(f"{taken} cannot name a pair, or names two; want different names")
        for pair in pairs:
            if pair.compared_with not in (None, "default", *names):
                raise ValueError(
                    f"'{pair.name}' is compared with '{pair.compared_with}'; want default or one "
                    f"of {names}"
                )
        return pairs


class LinearProbeSettings(PneumoniaSettings):
    """Linear probes on RSNA (BioViL sections 2.2 and 4.4).

    The paper gives no optimiser, rate, batch or length; these are its successor's for the same head
    (BioViL-T, Appendix F.3, "few-shot").
    """

    split: str = Field(default="test", description="rows that are scored")
    train_split: str = Field(default="train", description="rows of which the shares are taken")
    fractions: list[float] = Field(
        default=[0.01, 0.1, 1.0], min_length=1, description="shares of the training labels"
    )
    probe_seeds: list[int] = Field(
        default=[0, 1, 2, 3, 4],
        min_length=2,
        description="of a share's rows and their order; values are means over them",
    )
    features: Literal["auto", "projected", "pooled"] = Field(
        default="auto",
        description="projected: joint space, length 1 (paper); pooled: the trunk's mean over the "
        "grid; auto: projected where the model has a text half, else pooled",
    )
    start: Literal["auto", "prompts", "zeros", "random"] = Field(
        default="auto",
        description="heads before training; prompts: the class embeddings, bias 0 (paper); "
        "random: uniform within 1/sqrt(features), bias 0; auto: prompts where the model has a "
        "text half, else zeros",
    )
    standardise: bool = Field(default=False, description="features, over a share's rows")
    epochs: int = Field(default=40, ge=1, description="passes over a share's rows")
    batch_size: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW; not on the bias")

    @field_validator("fractions")
    @classmethod
    def _shares(cls, fractions: list[float]) -> list[float]:
        if any(not 0 < share <= 1 for share in fractions) or len(set(fractions)) < len(fractions):
            raise ValueError("want different shares above 0 and up to 1")
        return fractions

    @field_validator("probe_seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("want different seeds from 0 on")
        return seeds

    @model_validator(mode="after")
    def _prompts_live_in_the_joint_space(self) -> "LinearProbeSettings":
        if self.start == "prompts" and self.features == "pooled":
            raise ValueError("start: prompts go with projected features")
        if self.split == self.train_split:
            raise ValueError(f"split: '{self.split}' is also the train_split")
        return self


class SegmentationSettings(PneumoniaSettings):
    """Segmentation of pneumonia on RSNA, by prompts and by linear probes (BioViL section 4.5).

    Samples are images with boxes. The paper gives no optimiser, rate, batch or length of its
    probes; these are those of the linear probes of whole images, but for the rate: few patches
    are annotated, and at 0.001 the probes of small shares end below the prompts they start from.
    """

    split: str = Field(default="test", description="rows that are scored")
    train_split: str = Field(default="train", description="rows of which the shares are taken")
    unit: Literal["image", "box"] = Field(
        default="image",
        description="a sample; image: with the union of its boxes; box: each box by itself, the "
        "image's others outside it (the paper's 6634 + 2907 are near RSNA's 9555 boxes, not its "
        "6012 images with boxes)",
    )
    dilate: tuple[bool, bool, bool] = Field(
        default=(False, False, True),
        description="trunk stages 2 to 4 whose stride becomes dilation here, beside those trained "
        "so: a finer grid of the same weights (section 2.2; the last stage makes H/16 of a "
        "ResNet-50 trained at H/32); all false: as trained",
    )
    encoder_batch_size: int = Field(default=32, ge=1, description="images encoded at once; speed")
    map: Literal["softmax", "positive"] = Field(
        default="softmax",
        description="zero-shot; softmax: over the cosines with both prompts (section 2.2); "
        "positive: the cosine with the positive prompt",
    )
    scale: Literal["minmax", "affine"] = Field(
        default="minmax",
        description="to [0, 1] before the threshold; minmax: each map by its own least and "
        "greatest value; affine: by the least and greatest that a score can have, which leaves "
        "the probes' probabilities as they are. CNR does not depend on it",
    )
    threshold: float = Field(default=0.6, ge=0, lt=1, description="IoU and Dice: above (4.5)")
    upsample: Literal["nearest", "bilinear"] = Field(
        default="nearest",
        description="from the grid to pixels; nearest is counted by cell, bilinear pixel by pixel",
    )
    space: Literal["original", "stored"] = Field(
        default="original", description="pixels scored: the box image's, or the model's input"
    )
    outside: Literal["ignore", "missed"] = Field(
        default="ignore",
        description="box pixels outside the crop: left out, or not found (IoU and Dice only)",
    )
    size_bounds: tuple[float, float] = Field(
        default=(0.08, 0.16),
        description="boxes' share of the image from which a sample is medium, and large",
    )
    fractions: list[float] = Field(
        default=[0.05, 1.0], min_length=1, description="shares of the training images (Table 7)"
    )
    probe_seeds: list[int] = Field(
        default=[0, 1, 2, 3, 4],
        min_length=2,
        description="of a share's images and their order; values are means over them",
    )
    start: Literal["auto", "prompts", "zeros"] = Field(
        default="auto",
        description="probes before training; prompts: the class embeddings, bias 0 (section 2.2); "
        "auto: prompts where the model has a text half, else zeros",
    )
    epochs: int = Field(default=40, ge=1, description="passes over a share's images")
    batch_size: int = Field(default=32, ge=1, description="images of an update, all their patches")
    learning_rate: float = Field(
        default=0.1, gt=0, description="for features whose mean length is one"
    )
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW; not on the bias")

    @field_validator("fractions")
    @classmethod
    def _shares(cls, fractions: list[float]) -> list[float]:
        return LinearProbeSettings._shares(fractions)

    @field_validator("probe_seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        return LinearProbeSettings._seeds_differ(seeds)

    @model_validator(mode="after")
    def _parts_fit(self) -> "SegmentationSettings":
        if self.split == self.train_split:
            raise ValueError(f"split: '{self.split}' is also the train_split")
        if not 0 < self.size_bounds[0] < self.size_bounds[1] < 1:
            raise ValueError("size_bounds: want two shares between 0 and 1, the smaller first")
        return self


class MaskPredictionSettings(EncodingSettings):
    """Masked-token prediction on validation reports (BioViL section 4.2, Table 3)."""

    split: str | None = Field(default="validate", description="rows to predict; null: all")
    baseline_split: str = Field(default="train", description="where the baseline counts tokens")
    sections: list[Literal["findings", "impression"]] = Field(
        default=["findings", "impression"],
        min_length=1,
        description="each present section is one sequence",
    )
    masking: MaskingSettings = MaskingSettings()
    max_length: int = Field(default=512, ge=8, le=512, description="tokens a sequence")
    mask_seed: int = Field(default=0, description="of the masks; the same for every model and seed")

    @model_validator(mode="after")
    def _sections_differ(self) -> "MaskPredictionSettings":
        if len(set(self.sections)) < len(self.sections):
            raise ValueError("sections: want each only once")
        return self


class NaturalLanguageInferenceSettings(BenchmarkSettings):
    """Fine-tuning on MedNLI, tested on RadNLI (BioViL section 4.2, Table 3).

    The paper gives the epochs, the number of runs and what is monitored. All else it does not say;
    these are the usual values of fine-tuning BERT (Devlin et al. 2019, Appendix A.3).
    """

    split: str = Field(default="test", description="RadNLI pairs that are scored")
    validation_split: str = Field(
        default="validate", description="RadNLI pairs whose accuracy chooses the epoch"
    )
    train_split: str = Field(default="train", description="MedNLI pairs that are trained on")
    run_seeds: list[int] = Field(
        default=[0, 1, 2, 3, 4],
        min_length=2,
        description="of head, order and dropout; values are means over the runs (paper: five)",
    )
    epochs: int = Field(default=20, ge=1, description="most passes over the training pairs")
    patience: int | None = Field(
        default=5,
        ge=1,
        description="epochs without a better validation accuracy before a run stops; null: none. "
        "The best epoch is tested in any case, the first of equals",
    )
    batch_size: int = Field(default=32, ge=1)
    learning_rate: float = Field(default=2e-5, gt=0)
    warmup: float = Field(
        default=0.1, ge=0, le=1, description="share of all steps; then linear decay to zero"
    )
    weight_decay: float = Field(default=0.01, ge=0, description="of AdamW; not on biases and norms")
    dropout: float = Field(
        default=0.1, ge=0, lt=1, description="in the encoder, attention included, and on [CLS]"
    )
    gradient_clip: float = Field(default=1.0, gt=0, description="largest gradient norm")
    max_length: int = Field(default=128, ge=8, le=512, description="tokens of a pair")

    @field_validator("run_seeds")
    @classmethod
    def _seeds_differ(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds) or min(seeds) < 0:
            raise ValueError("want different seeds from 0 on")
        return seeds

    @model_validator(mode="after")
    def _tested_on_other_pairs(self) -> "NaturalLanguageInferenceSettings":
        if self.split == self.validation_split:
            raise ValueError(f"split: '{self.split}' is also the validation_split")
        return self


class SentenceSimilaritySettings(EncodingSettings):
    """Cosines of RadNLI's sentence pairs (BioViL section 4.2, Table 4)."""

    split: str | None = Field(
        default="test", description="RadNLI pairs that are compared; null: all; the paper is silent"
    )


class VocabularyComparisonSettings(Settings):
    """Tokens per word and the words of Table 1 (BioViL sections 2.1 and 4.2, Tables 1 and 3)."""

    words: list[str] = Field(
        default=[
            "pneumonia",
            "opacity",
            "effusion",
            "pneumothorax",
            "atelectasis",
            "cardiomegaly",
            "bibasilar",
        ],
        min_length=1,
        description="Table 1",
    )
    section: Literal["findings", "impression"] = Field(
        default="findings", description="whose tokens are counted (Table 3)"
    )
    split: str | None = Field(default="validate", description="reports counted; null: all")
    intervals: IntervalSettings = IntervalSettings()


class MsCxrStatisticsSettings(Settings):
    """What MS-CXR holds (BioViL Appendix C, Table C.1)."""

    tokens: Literal["words_and_marks", "words"] = Field(
        default="words_and_marks",
        description="tokens of a phrase; the paper says only 'tokens (inc. full-stop)'. A hyphen "
        "inside a word does not cut it",
    )
    full_stop: Literal["always", "as_written"] = Field(
        default="always", description="whether a phrase without a full stop has its token too"
    )
    age: Literal["study", "anchor"] = Field(
        default="study",
        description="study: at the patient's first study of the row, anchor_age + (its year - "
        "anchor_year); anchor: anchor_age as it stands. The paper does not say",
    )
    max_failed_share: float = Field(
        default=0.01, ge=0, le=1, description="damaged rows of a table that are tolerated"
    )


class PairedTestProtocol(IntervalSettings):
    """Paired bootstrap between the rows of a table; not in the papers."""

    replicates: int = Field(
        default=5000,
        ge=100,
        description="number of resamples; the smallest p is 2 / (this + 1), and what is left of "
        "it after correction for many comparisons needs it to be small",
    )


class PairedComparison(Settings):
    """One metric of one model against one of another (or the same) model, same benchmark."""

    benchmark: str
    model: str
    metric: str = Field(description="name in metrics.json")
    reference_model: str
    reference_metric: str = Field(
        description="name in metrics.json; equal to metric for two models"
    )


class PairedTestSettings(PairedTestProtocol):
    """The protocol, and what is compared."""

    comparisons: list[PairedComparison] = Field(default_factory=list)


class LabelAgreementProtocol(Settings):
    """How our report labels are compared with given ones (Irvin et al. 2019, "Evaluation")."""

    uncertain: Literal["apart", "negative", "positive"] = Field(
        default="apart",
        description="what -1 counts as, on both sides: a class of its own, absent or present",
    )
    intervals: IntervalSettings = IntervalSettings()


class LabelAgreementSettings(LabelAgreementProtocol):
    """The protocol, and what kind of labels the given ones are."""

    layout: Literal["table", "open_i"] = Field(
        default="table",
        description="table: a CSV or Parquet file with a row a study and the observations as "
        "columns (1, 0, -1, blank); open_i: the human index terms of an Open-I folder",
    )
    id_column: str = Field(default="study_id", description="of a table: names the study")
    positives_only: bool = Field(
        default=False,
        description="a table that states what is there and nothing else: its 0, -1 and blank are "
        "not positive, so only positive is scored; index terms always are such a reference",
    )
