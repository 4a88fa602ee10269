"""The benchmarks there are: the data and the models each one takes, and its settings."""

from pydantic import Field

from cxrflow.benchmarks.classification.settings import (
    LinearProbeSettings,
    SegmentationSettings,
    ZeroShotClassificationSettings,
)
from cxrflow.benchmarks.data.settings import LabelAgreementProtocol, MsCxrStatisticsSettings
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.language.settings import (
    MaskPredictionSettings,
    NaturalLanguageInferenceSettings,
    SentenceSimilaritySettings,
    VocabularyComparisonSettings,
)
from cxrflow.benchmarks.settings import FeatureSettings, PairedTestProtocol
from cxrflow.command import Settings

# The role whose cohort each benchmark is computed on.
BENCHMARK_ROLES = {
    "phrase_grounding": "grounding",
    "zero_shot_classification": "classification",
    "linear_probe": "classification",
    "segmentation": "classification",
    "mask_prediction": "reports",
    "natural_language_inference": "inference",
    "sentence_similarity": "inference",
    "vocabulary": "reports",
    "ms_cxr_statistics": "grounding",
}

# The programs whose models each benchmark takes.
BENCHMARK_PROGRAMS = {
    "phrase_grounding": ("joint",),
    "zero_shot_classification": ("joint",),
    "linear_probe": ("image", "joint"),
    "segmentation": ("image", "joint"),
    "mask_prediction": ("text", "joint"),
    "natural_language_inference": ("text", "joint"),
    "sentence_similarity": ("text", "joint"),
}

# Benchmarks whose rows a table can test against each other: those of benchmarks/paired_tests.py.
PAIRED_BENCHMARKS = (
    "phrase_grounding",
    "zero_shot_classification",
    "linear_probe",
    "segmentation",
    "natural_language_inference",
    "sentence_similarity",
    "mask_prediction",
)


class Comparison(Settings):
    """Given labels to compare the labels of a data set's reports with."""

    dataset: str = Field(description="data set of reports")
    reference: str = Field(
        pattern=r"^[A-Za-z0-9_-]+$",
        description="its name; without a file: chexpert, negbio or radiologist, tables of the "
        "mimic_cxr_jpg data set, or terms, the index terms of an open_i one",
    )
    file: str | None = Field(
        None, description="CSV or Parquet, a row a study, the observations as columns"
    )
    id_column: str = Field("study_id", description="column of the file that names the study")
    positives_only: bool = Field(
        False, description="the file states what is there and nothing else: 0 is not 'absent'"
    )


class LabelAgreement(LabelAgreementProtocol):
    """How report labels are compared, and with which."""

    comparisons: list[Comparison] | None = Field(
        None, description="null: with what comes with this run's reports; an empty list: none"
    )


class Benchmarks(Settings):
    """The protocol of each benchmark, and how the image features are computed."""

    phrase_grounding: PhraseGroundingSettings = PhraseGroundingSettings()
    zero_shot_classification: ZeroShotClassificationSettings = ZeroShotClassificationSettings()
    linear_probe: LinearProbeSettings = LinearProbeSettings()
    segmentation: SegmentationSettings = SegmentationSettings()
    mask_prediction: MaskPredictionSettings = MaskPredictionSettings()
    natural_language_inference: NaturalLanguageInferenceSettings = (
        NaturalLanguageInferenceSettings()
    )
    sentence_similarity: SentenceSimilaritySettings = SentenceSimilaritySettings()
    vocabulary: VocabularyComparisonSettings = VocabularyComparisonSettings()
    label_agreement: LabelAgreement = LabelAgreement()
    features: FeatureSettings = FeatureSettings()
    ms_cxr_statistics: MsCxrStatisticsSettings = MsCxrStatisticsSettings()
    paired_tests: PairedTestProtocol = PairedTestProtocol()
