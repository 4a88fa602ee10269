"""How metrics of reports agree with radiologists: Kendall's tau with the errors that they count.

ReXVal (Yu et al. 2023): of each pair of a report and a candidate the metrics of
:mod:`cxrflow.benchmarks.generation.report_scores`, and the mean number of errors.
``tau_significant/<metric>`` and ``tau_all/<metric>`` are tau-b of a metric with fewer errors, so
that 1 is the radiologists' order; their intervals draw studies. Label F1 and TEM of a pair in
which neither text has any are 1 (ours).

Shapes: N pairs.
"""

from typing import Any, cast

import numpy as np
import pandas as pd

from cxrflow.benchmarks.data.settings import MetricAgreementSettings
from cxrflow.benchmarks.generation.report_scores import Scorer
from cxrflow.benchmarks.inputs import Inputs
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.metrics.correlation import kendall_tau
from cxrflow.metrics.entity_match import set_counts
from cxrflow.metrics.intervals import Floats
from cxrflow.metrics.report_text import bleu

ERRORS = ("significant", "all")
METRICS = ("bleu_2", "bleu_4", "rouge_l", "label_f1", "tem")
COLUMNS = ("sample_id", "pair_id", "premise", "hypothesis", "split", *ERRORS)


def f1_of_pairs(counts_N3: Floats) -> Floats:
    """F1 [N] from what both texts have, the one and the other; 1 where neither has any."""
    common, first, second = counts_N3.T
    return np.where(first + second > 0, 2 * common / np.maximum(first + second, 1), 1.0)


def metrics_of_pairs(rows: pd.DataFrame, scorer: Scorer) -> pd.DataFrame:
    """Each metric of each pair."""
    columns = scorer.columns(rows["premise"].tolist(), rows["hypothesis"].tolist())
    present = [
        [[str(place) for place, label in enumerate(labels) if label == 1] for labels in side]
        for side in (scorer.labels(rows["premise"].tolist()), columns["labels"])
    ]
    counts, each = np.array(columns["bleu"]), np.eye(len(rows))
    return pd.DataFrame(
        {
            "bleu_2": bleu(counts, 2, each),
            "bleu_4": bleu(counts, 4, each),
            "rouge_l": columns["rouge_l"],
            "label_f1": f1_of_pairs(set_counts(*present)),
            "tem": f1_of_pairs(np.array(columns["tem"])),
        },
        index=rows.index,
    )


def statistic(predictions: pd.DataFrame) -> CountedStatistic:
    """Tau of each metric with each count of errors."""

    def metrics(counts: Floats) -> dict[str, Floats]:
        return {
            f"tau_{kind}/{metric}": kendall_tau(predictions[metric], -predictions[kind], counts)
            for kind in ERRORS
            for metric in METRICS
        }

    return CountedStatistic(metrics, lambda name: len(predictions))


def predict(inputs: Inputs, settings: MetricAgreementSettings) -> Predictions:
    """Score the pairs of the split."""
    rows, metric_settings = inputs.rows(settings.split), cast(Any, settings)
    scored = metrics_of_pairs(
        rows, Scorer(metric_settings, getattr(inputs.options, "stanza", None))
    )
    table = pd.concat([rows[["sample_id", *ERRORS]], scored], axis=1).assign(pair=rows["pair_id"])
    return Predictions(table, statistic(table), {"pairs": len(table)}, {"score": "Kendall's tau-b"})
