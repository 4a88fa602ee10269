"""Linear probes on RSNA: a linear layer on frozen image features, from shares of the labels.

BioViL sections 2.2 ("Few-shot Tasks") and 4.4, Tables 6 and A.2: weights for each class and a bias
on the image's embedding in the joint space; the weights start as the class prompts' embeddings and
the bias at 0, so that an untrained head is the zero-shot classifier. A model without a text half
(SimCLR) has neither: its probes take the trunk's pooled features and start at 0.

All shares and seeds are trained together on features computed once. A metric is the mean over the
seeds, its spread over them stands beside it (``<metric>_sd``), both with an interval over the test
images. As everywhere on RSNA, thresholds are where F1 on the test images is greatest.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

import cxrflow
from cxrflow.benchmarks.classification.labelled_images import (
    COLUMNS,
    SHOWN,
    class_embeddings,
    classification_parser,
    features_of,
    labelled_images,
)
from cxrflow.benchmarks.classification.linear_heads import ProbeRun, train_heads
from cxrflow.benchmarks.classification.settings import LinearProbeSettings
from cxrflow.benchmarks.features import Features, read_features
from cxrflow.benchmarks.inputs import Cohort, choose_split, read_cohort
from cxrflow.benchmarks.result import Result, model_name
from cxrflow.command import read_settings, run
from cxrflow.errors import InputError
from cxrflow.files import read_object
from cxrflow.metrics.classification import binary_metrics
from cxrflow.metrics.intervals import Estimate, Floats, Statistic, bootstrap, clusters_of
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

METRICS = ("auroc", "accuracy", "sensitivity", "specificity", "f1")


def percent(fraction: float) -> str:
    """How a share of the labels is called in metric names: 0.1 is ``10``."""
    return f"{100 * fraction:g}"


def share_rows(labels_N: NDArray[np.int64], fraction: float, seed: int) -> NDArray[np.int64]:
    """Rows of a share of the training images, drawn from each class alike, at least one of each.

    The shares of one seed hold each other: 1 % of the labels are among its 10 %.
    """
    chosen = []
    for label in np.unique(labels_N):
        own = np.flatnonzero(labels_N == label)
        count = max(1, round(fraction * len(own)))
        chosen.append(own[np.random.default_rng([seed, label]).permutation(len(own))[:count]])
    return np.sort(np.concatenate(chosen))


def start_weights(
    start: str, features: int, seed: int, classes_CP: NDArray[np.float64] | None
) -> Tensor:
    """Weights [F, 2] of a head before training."""
    if start == "prompts":
        assert classes_CP is not None  # settled by `settled`
        return torch.from_numpy(classes_CP.T.copy()).float()
    if start == "random":
        # The range of torch's own linear layer.
        drawn = np.random.default_rng(seed).uniform(-1, 1, (features, 2)) / np.sqrt(features)
        return torch.from_numpy(drawn).float()
    return torch.zeros(features, 2)


def settled(settings: LinearProbeSettings, has_text: bool) -> dict[str, str]:
    """Which features and which start ``auto`` stands for; InputError for prompts without text."""
    features, start = settings.features, settings.start
    if features == "auto":
        features = "projected" if has_text else "pooled"
    if start == "auto":
        start = "prompts" if has_text and features == "projected" else "zeros"
    if start == "prompts" and not has_text:
        raise InputError("settings: key 'start' is 'prompts', but the model has no text half")
    return {"features": features, "start": start}


def probe_scores(
    train_NF: Tensor,
    labels_N: NDArray[np.int64],
    test_MF: Tensor,
    start: str,
    classes_CP: NDArray[np.float64] | None,
    settings: LinearProbeSettings,
) -> tuple[dict[str, NDArray[np.float64]], dict[str, int]]:
    """Probabilities [seeds, M] of the positive class by share, and the labels each share has."""
    device = choose_device(settings.device)
    runs = [
        ProbeRun(
            share_rows(labels_N, fraction, seed),
            seed,
            start_weights(start, train_NF.shape[1], seed, classes_CP),
            torch.zeros(2),
            settings.learning_rate,
        )
        for fraction in settings.fractions
        for seed in settings.probe_seeds
    ]
    heads = train_heads(
        train_NF.to(device),
        torch.tensor(labels_N),
        runs,
        epochs=settings.epochs,
        batch_size=settings.batch_size,
        weight_decay=settings.weight_decay,
        standardise=settings.standardise,
    )
    scores_KM = heads.logits(test_MF.to(device)).double().softmax(2)[..., 1].cpu().numpy()
    seeds = len(settings.probe_seeds)
    names = [percent(fraction) for fraction in settings.fractions]
    sizes = {name: len(runs[number * seeds].rows) for number, name in enumerate(names)}
    return dict(zip(names, scores_KM.reshape(len(names), seeds, -1), strict=True)), sizes


def score_column(share: str, seed: int) -> str:
    """The column of predictions.parquet that holds a probe's scores."""
    return f"score_{share}_seed{seed}"


def statistics(predictions: pd.DataFrame, settings: LinearProbeSettings) -> Statistic:
    """``<metric>/<per cent>`` and ``<metric>_sd/<per cent>``: mean and spread over the seeds."""
    labels = predictions["label"].to_numpy()
    shares = [percent(fraction) for fraction in settings.fractions]
    scores = {
        share: [predictions[score_column(share, seed)] for seed in settings.probe_seeds]
        for share in shares
    }

    def metrics(counts: Floats) -> dict[str, Floats]:
        found = {}
        for share, scores_SM in scores.items():
            by_seed = [binary_metrics(labels, one, counts) for one in scores_SM]
            for name in METRICS:
                values = np.stack([one[name] for one in by_seed])
                found[f"{name}/{share}"] = values.mean(axis=0)
                found[f"{name}_sd/{share}"] = values.std(axis=0, ddof=1)
        return found

    return metrics


def summarise(predictions: pd.DataFrame, settings: LinearProbeSettings) -> dict[str, Estimate]:
    """The metrics of :func:`statistics` with their intervals over the test images."""
    labels = predictions["label"].to_numpy()
    behind = dict.fromkeys(METRICS, len(labels)) | {
        "sensitivity": int((labels == 1).sum()),
        "specificity": int((labels == 0).sum()),
    }
    sizes = {
        f"{name}{spread}/{share}": count
        for name, count in behind.items()
        for share in map(percent, settings.fractions)
        for spread in ("", "_sd")
    }
    chosen = settings.intervals
    clusters = clusters_of(predictions["subject_id"], chosen.unit)
    metrics = statistics(predictions, settings)
    return bootstrap(metrics, clusters, sizes, **chosen.resampling())


def evaluate(
    model: Any | None,
    cohort: Cohort,
    folder: Path,
    features: Features,
    settings: LinearProbeSettings,
) -> Result:
    """Probe ``features`` on the labelled images of ``cohort``.

    ``model`` embeds the prompts; None for a model without a text half. ``folder`` is the cohort's,
    named in errors.
    """
    choices = settled(settings, has_text=model is not None)
    source = folder / "samples.parquet"
    parts, dropped = [], []
    for split in (settings.train_split, settings.split):
        part, lost = labelled_images(choose_split(cohort.table, split, source), features)
        parts.append(part)
        dropped += [{**one, "split": split} for one in lost]
    train, test = parts
    start = choices["start"]
    classes_CP = class_embeddings(model, settings) if start == "prompts" else None
    scores, labelled = probe_scores(
        features_of(train, features, choices["features"]),
        train["label"].to_numpy(),
        features_of(test, features, choices["features"]),
        start,
        classes_CP,
        settings,
    )
    columns = {
        score_column(share, seed): one
        for share, scores_SM in scores.items()
        for seed, one in zip(settings.probe_seeds, scores_SM, strict=True)
    }
    protocol = {
        **settings.model_dump(mode="json", exclude={"device"}),
        **choices,
        "optimiser": "AdamW, constant rate; no augmentation, since the features are fixed",
        "geometry": features.geometry,
        "threshold_rule": "best F1 on the evaluated images, for each seed",
    }
    data = {
        **cohort.data,
        "fingerprint": features.data_fingerprint(cohort),
        "samples": len(test),
        "positives": int(test["label"].sum()),
        "train_samples": len(train),
        "train_positives": int(train["label"].sum()),
        "labelled": labelled,
        "dropped": dropped,
    }
    predictions = test[list(SHOWN)].assign(**columns)
    metrics = summarise(predictions, settings)
    return Result("linear_probe", data, protocol, metrics, predictions)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the program."""
    options = classification_parser(__doc__).parse_args(argv)
    settings = read_settings(options.settings, LinearProbeSettings)
    cohort = read_cohort(options.cohort, "samples.parquet", (*COLUMNS, "split"))
    features = read_features(options.features, options.model)
    has_text = (options.model / "config.json").is_file()
    model = cxrflow.load(options.model, choose_device(settings.device)) if has_text else None
    result = evaluate(model, cohort, options.cohort, features, settings)
    record = options.model / "run.json"
    name = model_name(options.model, read_object(record) if record.is_file() else {})
    result.write(options.output, name, options.seed, options.task)
    for share, count in result.data["labelled"].items():
        value, spread = (result.metrics[f"{n}/{share}"].value for n in ("auroc", "auroc_sd"))
        log.info("%s %% of the labels (%d): AUROC %.3f ± %.3f", share, count, value, spread)


if __name__ == "__main__":
    run(main)
