"""How the names in a benchmark's metrics.json begin, so that a table's columns can be checked.

What follows the first ``/`` are classes, labels in per cent or prompts, which the data decide. A
metric may have its deviation over runs beside it, ``<metric>_sd``.
"""

from collections.abc import Mapping
from typing import get_args

from cxrflow.benchmarks.classification.settings import Metric

_CLASSIFICATION = (*get_args(Metric), "classes")
_PROMPTED = (
    *(*_CLASSIFICATION, "auroc_rare", "auroc_common", "rare_less_common", "delta"),
    "prompts_spread",
)
_TRANSFER = (*_CLASSIFICATION, "other_image")
_CHANGE = (
    *("macro_accuracy", "cross_entropy", "change_auroc", "direction_auroc", "other_prior"),
    *("change_auroc_other_prior", "direction_auroc_other_prior"),
)
_PRECISION = ("precision", "chance", "other_category")

#: By benchmark; what is not here has names that come from the data.
METRICS: Mapping[str, tuple[str, ...]] = {
    "phrase_grounding": (
        *("cnr", "cnr_micro", "signed_cnr", "signed_cnr_micro", "miou", "miou_micro"),
        "map_shift",
    ),
    "zero_shot_classification": _PROMPTED,
    "zero_shot_findings": _PROMPTED,
    "linear_probe": _CLASSIFICATION,
    "fold_probe": _CLASSIFICATION,
    "linear_classification": _TRANSFER,
    "fine_tuned_classification": _TRANSFER,
    "segmentation": ("dice", "iou", "cnr", "signed_cnr"),
    "mixed_pairs": (
        *("sentence_correct", "attention_in_box", "box_share", "source_region", "target_region"),
        "side_contradiction",
    ),
    "image_retrieval": _PRECISION,
    "text_retrieval": _PRECISION,
    "pair_retrieval": ("recall", "median_rank", "other_study"),
    "retrieval_auroc": ("auroc", "query_auroc", "recall", "other_study"),
    "temporal_classification": _CHANGE,
    "temporal_prompting": _CHANGE,
    "temporal_zero_shot": ("accuracy", "set_score", "macro_recall", "recall", "other_prior"),
    "registration_error": (
        *("corner", "corner_90", "mutual_information", "rotation", "scale", "worse"),
    ),
    "attention_rollout": (
        *("in_box", "current_in_box", "uniform", "same_place", "other_patch", "above_other_patch"),
        *("followed", "prior_share"),
    ),
    "prior_influence": ("delta_prior", "over_other", "tokens"),
    "mask_prediction": ("mask_accuracy", "most_frequent_accuracy", "margin"),
    "natural_language_inference": ("accuracy", "f1", "macro_f1", "majority"),
    "sentence_similarity": (*("auroc", "cont_gap", "syn_sim", "contradiction_sim", "neutral_sim"),),
    "paraphrase_detection": ("accuracy", "auroc", "majority"),
    "report_generation": (
        *("bleu_2", "bleu_4", "cider_d", "rouge_l", "rouge_l_coco", "label_f1_macro"),
        *("label_f1_weighted", "tem", "nem", "verbatim", "verbatim_reference"),
    ),
    "checkpoint_series": ("correlation",),
    "vocabulary": ("size", "words", "tokens", "pieces", "spelling", "increase", "unknown"),
    "ms_cxr_statistics": (
        *("pairs", "images", "subjects", "women", "women_percent", "without_demographics", "age"),
        *("tokens", "several_boxes", "several_phrases", "box_share", "box_share_median"),
    ),
    "course_statistics": ("subjects", "studies", "several_studies", "progression"),
    "progression_statistics": (
        *("pairs", "subjects", "improving", "stable", "worsening", "disagreement", "one_expert"),
        "multiple_experts",
    ),
    "metric_agreement": ("tau_significant", "tau_all"),
    "pair_statistics": ("pairs", "subjects"),
    "training_time": ("hours", "samples", "samples_per_second"),
    "curation_statistics": (
        *("studies", "decided", "rejected", "ranked", "mixed", "stands", "wrong"),
    ),
}
