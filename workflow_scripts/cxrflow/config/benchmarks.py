"""The benchmarks there are: the data and the models each one takes, and its settings."""

from cxrflow.benchmarks.settings import (
    FeatureSettings,
    LinearProbeSettings,
    MaskPredictionSettings,
    PhraseGroundingSettings,
    VocabularyComparisonSettings,
    ZeroShotClassificationSettings,
)
from cxrflow.command import Settings

# The role whose cohort each benchmark is computed on.
BENCHMARK_ROLES = {
    "phrase_grounding": "grounding",
    "zero_shot_classification": "classification",
    "linear_probe": "classification",
    "mask_prediction": "reports",
    "vocabulary": "reports",
}

# The programs whose models each benchmark takes.
BENCHMARK_PROGRAMS = {
    "phrase_grounding": ("joint",),
    "zero_shot_classification": ("joint",),
    "linear_probe": ("image", "joint"),
    "mask_prediction": ("text", "joint"),
}


class Benchmarks(Settings):
    """The protocol of each benchmark, and how the image features are computed."""

    phrase_grounding: PhraseGroundingSettings = PhraseGroundingSettings()
    zero_shot_classification: ZeroShotClassificationSettings = ZeroShotClassificationSettings()
    linear_probe: LinearProbeSettings = LinearProbeSettings()
    mask_prediction: MaskPredictionSettings = MaskPredictionSettings()
    vocabulary: VocabularyComparisonSettings = VocabularyComparisonSettings()
    features: FeatureSettings = FeatureSettings()
