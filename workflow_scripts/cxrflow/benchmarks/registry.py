"""The benchmarks there are: one entry each, which says all that others must know of it.

Light: the configuration reads it in every job. What computes is named, not imported.
"""

import importlib
from typing import Any

from cxrflow.benchmarks.benchmark import Benchmark, rows
from cxrflow.benchmarks.checkpoints.settings import CheckpointSeriesSettings
from cxrflow.benchmarks.classification.probe_settings import (
    FineTunedClassificationSettings,
    FoldProbeSettings,
    LinearClassificationSettings,
    LinearProbeSettings,
)
from cxrflow.benchmarks.classification.settings import (
    ZeroShotClassificationSettings,
    ZeroShotFindingsSettings,
)
from cxrflow.benchmarks.data import settings as data_settings
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.grounding import settings as grounding_settings
from cxrflow.benchmarks.language import settings as language_settings
from cxrflow.benchmarks.outside import Benchmarks
from cxrflow.benchmarks.retrieval import settings as retrieval_settings
from cxrflow.benchmarks.temporal import settings as temporal_settings


def imported(name: Any) -> Any:
    """Import a module below ``cxrflow.benchmarks``, or of ``module:name`` the function or class.

    What an entry of a class outside of the package has in such a name's place is returned as it is.
    """
    if not isinstance(name, str):
        return name
    module, _, function = name.partition(":")
    program = importlib.import_module(f"cxrflow.benchmarks.{module}")
    return getattr(program, function) if function else program


EXTERNAL = "rows.external:ExternalFile"  # the row of a file that was made elsewhere

PLAIN = ("intensity", "thumbnail", "random")  # features of pixels in an encoder's place
PAIRS = ("current", "thumbnail", "intensity")  # of two images, or of the current one alone
CHANGES = ("nothing", "random", "shuffled", *PAIRS, *map("{}_optimum".format, PAIRS))
TRANSFER = ("nothing", *PLAIN, *map("{}_optimum".format, PLAIN))

JOINT, IMAGE, TEXT, REPORT, DECODER = (
    frozenset({name}) for name in ("joint", "image", "text", "report", "decoder")
)
FRAMES, GUIDED, CHECKPOINTS, RUN = (
    frozenset({name}) for name in ("frames", "guided", "checkpoints", "run")
)
WORD_RULES = (
    *("nothing", "random", "negation", "change_words"),
    *("words", "tfidf", "overlap", "length"),
)
BENCHMARKS = Benchmarks()
BENCHMARKS |= {
    "phrase_grounding": Benchmark(
        "grounding.phrase_grounding",
        grounding_settings.PhraseGroundingSettings,
        "grounding",
        needs=JOINT,
        compares=True,
        reads="pixels",
        reports=True,
        own=("grid", "rescale"),  # Appendix A.3 rescales the maps of models with a local loss
        shows={"figures": "images", "figure_phrases": "text"},
        **rows(
            *("centre", "mean_box", "finding_box", "place_box"),
            oracle="answers",
            detector="labels",
            second_reader="second_readings",
        ),
        baselines="rows.boxes:Phrases",
        external=True,
    ),
    "zero_shot_classification": Benchmark(
        "classification.zero_shot_classification",
        ZeroShotClassificationSettings,
        "classification",
        needs=JOINT,
        compares=True,
        reads="features",
        own=("score",),
        **rows("nothing", "brightness", "thumbnail", oracle="answers"),
        baselines="rows.pictures:Prompted",
        external=True,
    ),
    "zero_shot_findings": Benchmark(
        "classification.zero_shot_findings",
        ZeroShotFindingsSettings,
        "pairs",
        needs=JOINT,
        compares=True,
        reads="pixels",
        statistic="classification.zero_shot_classification",
        own=("reference", "score"),
        **rows("nothing", "brightness", "thumbnail", states="states"),
        baselines="rows.pictures:Prompted",
        external=True,
    ),
    "linear_probe": Benchmark(
        "classification.linear_probe",
        LinearProbeSettings,
        "classification",
        needs=IMAGE,
        reads="features",
        split=True,
        statistic="classification.scores",
        own=("features", "start", "solution"),
        **rows("nothing", *PLAIN, oracle="answers"),
        baselines="rows.pictures:Pictures",
        external=True,
    ),
    "fold_probe": Benchmark(
        "classification.fold_probe",
        FoldProbeSettings,
        "pairs",
        needs=IMAGE,
        reads="pixels",
        own=("features", "reference", "solution"),
        **rows("nothing", *PLAIN, states="states"),
        baselines="rows.pictures:Pictures",
        external=True,
    ),
    "linear_classification": Benchmark(
        "classification.linear_classification",
        LinearClassificationSettings,
        "classification",
        needs=IMAGE,
        reads="pixels",
        split=True,
        statistic="classification.scores",
        resumes=True,
        **rows(*TRANSFER, oracle="answers"),
        baselines="rows.pictures:Transferred",
        external=True,
    ),
    "fine_tuned_classification": Benchmark(
        "classification.fine_tuned_classification",
        FineTunedClassificationSettings,
        "classification",
        needs=IMAGE,
        reads="pixels",
        split=True,
        statistic="classification.scores",
        resumes=True,
        **rows(*TRANSFER, oracle="answers"),
        baselines="rows.pictures:Transferred",
    ),
    "segmentation": Benchmark(
        "grounding.segmentation",
        grounding_settings.SegmentationSettings,
        "classification",
        needs=IMAGE,
        compares=True,
        reads="pixels",
        split=True,
        statistic="grounding.segmentation_scores",
        clusters="grounding.segmentation_scores:image_clusters",
        own=("features", "grid", "start", "solution"),
        **rows("mean_box", "brightness", oracle="answers", detector="labels"),
        baselines="rows.boxes:Segments",
    ),
    "mixed_pairs": Benchmark(
        "grounding.mixed_pairs",
        grounding_settings.MixedPairsSettings,
        "pairs",
        needs=JOINT,
        reads="pixels",
        own=("grid",),
        of_training=True,
        truth="findings",
        no_rows="it counts what mixed samples hold; `box_share` stands beside `attention_in_box`",
    ),
    "image_retrieval": Benchmark(
        "retrieval.image_retrieval",
        retrieval_settings.ImageRetrievalSettings,
        "retrieval",
        needs=IMAGE,
        reads="features",
        statistic="retrieval.precision",
        **rows("nothing", *PLAIN, oracle="answers"),
        baselines="rows.pictures:Pictures",
        external=True,
    ),
    "text_retrieval": Benchmark(
        "retrieval.text_retrieval",
        retrieval_settings.TextRetrievalSettings,
        "retrieval",
        needs=JOINT,
        compares=True,
        reads="features",
        statistic="retrieval.precision",
        **rows("nothing", oracle="answers"),
        baselines="rows.pictures:Pictures",
    ),
    "pair_retrieval": Benchmark(
        "retrieval.pair_retrieval",
        retrieval_settings.PairRetrievalSettings,
        "pairs",
        needs=JOINT,
        compares=True,
        reads="pixels",
        **rows("nothing", "frequent", "length", "thumbnail", states="states"),
        baselines="rows.pairs:RankedPairs",
    ),
    "retrieval_auroc": Benchmark(
        "retrieval.retrieval_auroc",
        retrieval_settings.RetrievalAurocSettings,
        "pairs",
        needs=JOINT,
        compares=True,
        reads="pixels",
        **rows("nothing", "thumbnail", "length", states="states", labels="labels"),
        baselines="rows.pairs:AllPairs",
    ),
    "temporal_classification": Benchmark(
        "temporal.temporal_classification",
        temporal_settings.TemporalClassificationSettings,
        "progression",
        needs=IMAGE,
        reads="pixels",
        split=True,
        statistic="temporal.scores",
        own=("two_images",),
        resumes=True,
        **rows(*CHANGES, oracle="answers", second_reader="second_readings"),
        baselines="rows.changes:Changes",
    ),
    "registration_error": Benchmark(
        "temporal.registration_error",
        temporal_settings.RegistrationErrorSettings,
        "progression",
        reads="registration",
        truth="needed",
    ),
    "temporal_prompting": Benchmark(
        "temporal.temporal_prompting",
        temporal_settings.TemporalPromptingSettings,
        "progression",
        needs=DECODER,
        reads="pixels",
        reports=True,
        statistic="temporal.scores",
        own=("prior_image", "prompt"),
        **rows("nothing", "random", "brightness", oracle="answers"),
        baselines="rows.changes:PromptedChanges",
    ),
    "temporal_zero_shot": Benchmark(
        "temporal.temporal_zero_shot",
        temporal_settings.TemporalZeroShotSettings,
        "progression",
        needs=JOINT,
        compares=True,
        reads="pixels",
        own=("prior_image",),
        **rows("nothing", "random", "brightness", oracle="answers"),
        baselines="rows.changes:PromptedChanges",
    ),
    "attention_rollout": Benchmark(
        "temporal.attention_rollout",
        temporal_settings.AttentionRolloutSettings,
        "grounding",
        needs=FRAMES,
        reads="pixels",
        truth="used",
        shows={"figures": "images"},
        no_rows="`uniform` and `other_patch` of the same attention stand beside `in_box`",
    ),
    "prior_influence": Benchmark(
        "temporal.prior_influence",
        temporal_settings.PriorInfluenceSettings,
        "pairs",
        needs=GUIDED,
        reads="pixels",
        key=("sample_id", "token"),
        no_rows="it is a gain over another patient's prior, which has no right size",
    ),
    "mask_prediction": Benchmark(
        "language.mask_prediction",
        language_settings.MaskPredictionSettings,
        "pairs",
        needs=TEXT,
        key=("study_id", "section"),
        clusters="language.mask_prediction:clusters",
        **rows("random", "most_frequent", "neighbours", oracle="labels"),
        baselines="rows.texts:Words",
    ),
    "natural_language_inference": Benchmark(
        "language.natural_language_inference",
        language_settings.NaturalLanguageInferenceSettings,
        "nli",
        needs=TEXT,
        training="nli",
        clusters="language.sentence_pair_rows:pair_clusters",
        own=("max_length", "input", "head", "optimiser"),
        **rows(*WORD_RULES, "hypothesis", supervised="labels"),
        baselines="rows.sentences:Inference",
    ),
    "sentence_similarity": Benchmark(
        "language.sentence_similarity",
        language_settings.SentenceSimilaritySettings,
        "nli",
        needs=TEXT,
        clusters="language.sentence_pair_rows:pair_clusters",
        own=("projection_trained", "embedding"),
        **rows(*WORD_RULES, supervised="labels"),
        baselines="rows.sentences:Sentences",
    ),
    "report_generation": Benchmark(
        "generation.report_generation",
        ReportGenerationSettings,
        "pairs",
        needs=REPORT,
        compares=True,
        reads="pixels",
        statistic="generation.report_scores",
        own=("writes", "prompt"),
        **rows("most_frequent", "typical", "random", "prior_report", states="states"),
        baselines="rows.texts:Reports",
        external=True,
    ),
    "paraphrase_detection": Benchmark(
        "language.paraphrase_detection",
        language_settings.ParaphraseDetectionSettings,
        "nli",
        needs=TEXT,
        clusters="language.sentence_pair_rows:pair_clusters",
        own=("embedding",),  # F.6: of each model the one it was trained for
        **rows(*WORD_RULES, supervised="labels"),
        baselines="rows.sentences:Sentences",
    ),
    "checkpoint_series": Benchmark(
        "checkpoints.checkpoint_series",
        CheckpointSeriesSettings,
        None,
        needs=CHECKPOINTS,
        reads="pixels",
        of_task=True,
        no_rows="a correlation, which is claimed against 0; the rows are those of its task",
    ),
    "vocabulary": Benchmark(
        "language.vocabulary",
        language_settings.VocabularyComparisonSettings,
        "pairs",
        reads="vocabularies",
    ),
    "ms_cxr_statistics": Benchmark(
        "data.ms_cxr_statistics",
        data_settings.MsCxrStatisticsSettings,
        "grounding",
        reads="datasets",
        demographics=True,
    ),
    "course_statistics": Benchmark(
        "data.course_statistics",
        data_settings.CourseStatisticsSettings,
        "progression",
        reads="datasets",
    ),
    "progression_statistics": Benchmark(
        "data.row_statistics:ProgressionRows", data_settings.RowStatisticsSettings, "progression"
    ),
    "sentence_pair_statistics": Benchmark(
        "data.row_statistics:SentencePairRows", data_settings.RowStatisticsSettings, "nli"
    ),
    "metric_agreement": Benchmark(
        "data.metric_agreement",
        data_settings.MetricAgreementSettings,
        "nli",
        clusters="language.sentence_pair_rows:pair_clusters",
    ),
    "pair_statistics": Benchmark(
        "data.row_statistics:PairRows", data_settings.RowStatisticsSettings, "pairs"
    ),
    "training_time": Benchmark(
        "data.training_time",
        data_settings.TrainingTimeSettings,
        "pairs",
        needs=RUN,
        statistic=None,
        of_training=True,
        no_rows="hours of a training, no score",
    ),
    "curation_statistics": Benchmark(
        "data.curation_statistics",
        data_settings.CurationStatisticsSettings,
        None,
        reads="curation",
        truth="used",
    ),
}
