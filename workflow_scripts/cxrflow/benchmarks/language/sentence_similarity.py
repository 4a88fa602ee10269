"""Similarity of related sentences in the joint space: RadNLI's entailments and contradictions.

BioViL section 4.2, Table 4: "Syn. sim." is the mean cosine of the sentences of an entailment,
"Cont. gap" how far the mean of the contradictions lies below it. AUROC does not depend on the scale
of the cosines. Nothing is trained.
"""

import logging
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import cxrflow
from cxrflow.benchmarks.inputs import Cohort, read_cohort
from cxrflow.benchmarks.language.sentence_pair_rows import COLUMNS, pair_clusters, pair_numbers
from cxrflow.benchmarks.language.settings import SentenceSimilaritySettings
from cxrflow.benchmarks.result import Result, estimates
from cxrflow.errors import InputError
from cxrflow.metrics.classification import auroc
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, weighted_mean
from cxrflow.pretrain.registry import TERMS, TRAINING_PROGRAMS
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")


def pair_cosines(
    samples: pd.DataFrame, encode: Callable[[list[str]], Tensor], batch_size: int
) -> Floats:
    """Return the cosine [N] of premise and hypothesis; ``encode``: L2-normalised [B, P]."""
    premises, hypotheses = samples["premise"].tolist(), samples["hypothesis"].tolist()
    # Each text once; sorted by length, so that batches have little padding.
    distinct = sorted({*premises, *hypotheses}, key=lambda text: (len(text), text))
    starts = range(0, len(distinct), batch_size)
    batches = [encode(distinct[start : start + batch_size]).cpu().double() for start in starts]
    embedded = dict(zip(distinct, torch.cat(batches).numpy(), strict=True))
    return np.array([embedded[a] @ embedded[b] for a, b in zip(premises, hypotheses, strict=True)])


def statistics(predictions: pd.DataFrame, settings: SentenceSimilaritySettings) -> Statistic:
    """Mean cosine by relation, the gap, and AUROC of entailment against contradiction."""
    cosine, label = predictions["cosine"].to_numpy(), predictions["label"].to_numpy()
    entailed, opposed = label == "entailment", label == "contradiction"
    decided = entailed | opposed

    def metrics(counts: Floats) -> dict[str, Floats]:
        similar = weighted_mean(counts, cosine, entailed)
        contradictory = weighted_mean(counts, cosine, opposed)
        return {
            "syn_sim": similar,
            "contradiction_sim": contradictory,
            "cont_gap": similar - contradictory,
            "neutral_sim": weighted_mean(counts, cosine, label == "neutral"),
            "auroc": auroc(entailed[decided].astype(int), cosine[decided], counts[:, decided]),
        }

    return metrics


def summarise(
    predictions: pd.DataFrame, settings: SentenceSimilaritySettings
) -> dict[str, Estimate]:
    of = predictions["label"].value_counts()
    decided = int(of["entailment"] + of["contradiction"])
    sizes = {
        "syn_sim": int(of["entailment"]),
        "contradiction_sim": int(of["contradiction"]),
        "cont_gap": decided,
        "neutral_sim": int(of.get("neutral", 0)),
        "auroc": decided,
    }
    statistic = statistics(predictions, settings)
    return estimates(statistic, predictions, sizes, settings.intervals, pair_clusters)


def projection_is_trained(run_record: dict[str, Any]) -> bool | None:
    """True if a term trained the projection, or published weights have a joint space.

    None where ``run.json`` does not say. Masked language modelling alone (phase II) leaves the
    projection as it was drawn.
    """
    terms = (run_record.get("settings") or {}).get("terms")
    if terms is not None:
        return any(TERMS[name].projects for name in terms if name in TERMS)
    program = TRAINING_PROGRAMS.get(run_record.get("program", ""))
    return True if program is not None and "joint" in program.offers else None


def evaluate(model: Any, cohort: Cohort, settings: SentenceSimilaritySettings) -> Result:
    """Compare the two sentences of every pair of ``cohort``."""
    if model.text_encoder is None:
        raise InputError("the model has no text half")
    samples = cohort.table
    missing = {"entailment", "contradiction"} - set(samples["label"])
    if missing:
        raise InputError(f"samples.parquet: no row has the label {sorted(missing)[0]}")
    predictions = samples[["sample_id", "label"]].assign(
        pair=pair_numbers(samples),
        cosine=pair_cosines(samples, model.encode_text, settings.batch_size),
    )
    protocol = {
        **settings.model_dump(mode="json", exclude={"batch_size", "device"}),
        "embedding": f"projected last layer, pooling {model.text_encoder.pooling}, of length 1",
        "projection_trained": projection_is_trained(model.run),
        "interval_unit": "two sentences, in both directions",
    }
    metrics = summarise(predictions, settings)
    data = {**cohort.data, "pairs": samples["label"].value_counts().sort_index().to_dict()}
    return Result("sentence_similarity", data, protocol, metrics, predictions)


def score(options: Namespace, settings: SentenceSimilaritySettings) -> Result:
    cohort = read_cohort(options.cohort, "samples.parquet", COLUMNS, settings.split)
    model = cxrflow.load(options.model, choose_device(settings.device))
    result = evaluate(model, cohort, settings)
    metrics = result.metrics
    log.info(
        "entailments %.3f, gap to contradictions %.3f, AUROC %.3f, %d pairs",
        *(metrics[name].value for name in ("syn_sim", "cont_gap", "auroc")),
        metrics["auroc"].n,
    )
    return result
