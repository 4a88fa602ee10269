"""Metrics and their intervals: pure functions of arrays.

The names in ``__all__`` are public, and each is imported when it is first used (docs/library.md).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cxr_labels.agreement import class_scores, cohens_kappa, confusions, state_codes
    from cxrflow.metrics.cider import Cider
    from cxrflow.metrics.classification import auroc, binary_metrics
    from cxrflow.metrics.crossed import over_trainings
    from cxrflow.metrics.intervals import Estimate, bootstrap, clusters_of, holm
    from cxrflow.metrics.maps import cnr, dice, miou
    from cxrflow.metrics.multiclass import accuracy, class_f1, recalls
    from cxrflow.metrics.report_text import bleu, bleu_counts, rouge_l
    from cxrflow.metrics.retrieval import cosines, ranks

__all__ = [
    "Cider",
    "Estimate",
    "accuracy",
    "auroc",
    "binary_metrics",
    "bleu",
    "bleu_counts",
    "bootstrap",
    "class_f1",
    "class_scores",
    "clusters_of",
    "cnr",
    "cohens_kappa",
    "confusions",
    "cosines",
    "dice",
    "holm",
    "miou",
    "over_trainings",
    "ranks",
    "recalls",
    "rouge_l",
    "state_codes",
]


if not TYPE_CHECKING:  # which would take any name for one of these

    def __getattr__(name: str) -> object:
        from cxrflow.programs.public_names import public_name

        return public_name(__name__, name)


def __dir__() -> list[str]:
    from cxrflow.programs.public_names import names_of

    return names_of(__name__)
