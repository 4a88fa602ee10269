"""Similarity of related sentences in the joint space: RadNLI's entailments and contradictions.

BioViL section 4.2, Table 4: "Syn. sim." is the mean cosine of the sentences of an entailment,
"Cont. gap" how far the mean of the contradictions lies below it. AUROC does not depend on the scale
of the cosines. Nothing is trained.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.benchmarks.language.sentence_pair_rows import PAIR_COLUMNS, pair_numbers
from cxrflow.benchmarks.language.settings import SentenceSimilaritySettings
from cxrflow.benchmarks.result import CountedStatistic, Predictions, by_class
from cxrflow.metrics.classification import auroc
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.metrics.rare_classes import areas_of

# A reference row needs neither, and starts in a third of the time.
if TYPE_CHECKING:
    from torch import Tensor

    from cxrflow.benchmarks.model_inputs import ModelInputs

COLUMNS = PAIR_COLUMNS


def pair_cosines(
    samples: pd.DataFrame, encode: "Callable[[list[str]], Tensor]", batch_size: int
) -> Floats:
    """Return the cosine [N] of premise and hypothesis; ``encode``: L2-normalised [B, P]."""
    import torch

    premises, hypotheses = samples["premise"].tolist(), samples["hypothesis"].tolist()
    # Each text once; sorted by length, so that batches have little padding.
    distinct = sorted({*premises, *hypotheses}, key=lambda text: (len(text), text))
    starts = range(0, len(distinct), batch_size)
    batches = [encode(distinct[start : start + batch_size]).cpu().double() for start in starts]
    embedded = dict(zip(distinct, torch.cat(batches).numpy(), strict=True))
    return np.array([embedded[a] @ embedded[b] for a, b in zip(premises, hypotheses, strict=True)])


def statistic(predictions: pd.DataFrame, settings: SentenceSimilaritySettings) -> CountedStatistic:
    """Mean cosine by relation, the gap, and AUROC of entailment against contradiction."""
    cosine, label = predictions["cosine"].to_numpy(), predictions["label"].to_numpy()
    entailed, opposed = label == "entailment", label == "contradiction"
    decided = entailed | opposed

    rows = {"syn_sim": entailed, "contradiction_sim": opposed, "neutral_sim": label == "neutral"}

    def metrics(counts: Floats) -> dict[str, Floats]:
        scores = {name: weighted_mean(counts, cosine, chosen) for name, chosen in rows.items()}
        gap = scores["syn_sim"] - scores["contradiction_sim"]
        area = auroc(entailed[decided].astype(int), cosine[decided], counts[:, decided])
        return {**scores, "cont_gap": gap, "auroc": area}

    def size(name: str) -> int:
        return int(rows.get(name, decided).sum())

    labels = np.where(decided, entailed.astype(float), np.nan)
    counted = by_class(label)
    return CountedStatistic(metrics, size, areas_of({"": labels}), lambda name: counted)


def projection_is_trained(run_record: dict[str, Any]) -> bool | None:
    """True if a term trained the projection, or published weights have a joint space.

    None where ``run.json`` does not say. Masked language modelling alone (phase II) leaves the
    projection as it was drawn.
    """
    from cxrflow.pretrain.registry import TRAINING_PROGRAMS, recorded_needs

    terms = (run_record.get("settings") or {}).get("terms")
    if terms is not None:
        return recorded_needs(terms).projects
    program = TRAINING_PROGRAMS.get(run_record.get("program", ""))
    return True if program is not None and "joint" in program.offers else None


def scores(
    inputs: "ModelInputs", samples: pd.DataFrame, settings: SentenceSimilaritySettings
) -> Floats:
    """The cosines [N] of a model."""
    return pair_cosines(samples, inputs.model.encode_text, settings.batch_size)


def predict(inputs: "ModelInputs", settings: SentenceSimilaritySettings) -> Predictions:
    """Compare the two sentences of every pair of the cohort by their similarities."""
    protocol: dict[str, Any] = {}
    if inputs.row is None:
        model = inputs.model
        if model.text_encoder is None:
            raise InputError("the model has no text encoder")
        protocol = {
            "embedding": f"projected last layer, pooling {model.text_encoder.pooling}, of length 1",
            "projection_trained": projection_is_trained(model.run),
        }
    samples = inputs.rows(settings.split)
    missing = {"entailment", "contradiction"} - set(samples["label"])
    if missing:
        raise InputError(f"samples.parquet: no row has the label {sorted(missing)[0]}")
    predictions = samples[["sample_id", "label"]].assign(
        pair=pair_numbers(samples), cosine=inputs.ask(scores, samples, settings)
    )
    pairs = samples["label"].value_counts().sort_index().to_dict()
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {"pairs": pairs},
        {**protocol, "interval_unit": "two sentences, in both directions"},
    )
