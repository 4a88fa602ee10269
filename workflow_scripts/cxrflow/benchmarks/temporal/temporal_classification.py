"""Temporal image classification: has a finding improved, is it stable, has it got worse?

BioViL-T section 4.2, Appendix F.3, Table 2 and the probe of Table 7. Trained on labels from reports
(Chest ImaGenome's silver labels), scored on radiologists' labels (MS-CXR-T), finding by finding: by
a linear probe on frozen features, by a linear head that starts at three prompts and gets few
pairs, or by fine-tuning the encoder under a multilayer head. The score is macro-accuracy, the mean
of the three classes' recalls; chance is 1/3. Control: the same head with another patient's prior.
Appendix A.2, Figure A.1: the cross-entropy of pairs on which radiologists agree, and of those on
which they do not.

Shapes: N pairs, F features, C classes.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cxrflow.benchmarks.classification.linear_probe import share_rows
from cxrflow.benchmarks.classification.logistic_regression import solve
from cxrflow.benchmarks.features import weights_file
from cxrflow.benchmarks.figures.distributions import draw_distributions
from cxrflow.benchmarks.inputs import PRIOR, Inputs, Pixels, drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Figure, Predictions, slug
from cxrflow.benchmarks.temporal.head_training import (
    HeadTrainingProgram,
    PairSplits,
    linear_head,
    multilayer_head,
)
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs, encode_all
from cxrflow.benchmarks.temporal.settings import (
    FewShot,
    FineTuning,
    HeadTraining,
    Probe,
    TemporalClassificationSettings,
    TemporalSettings,
)
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.errors import InputError
from cxrflow.files.atomic import file_digest
from cxrflow.images.alignments import Alignments, RegisteredPriors
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats, weighted_mean
from cxrflow.metrics.multiclass import recalls
from cxrflow.training.engine import Engine
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

PAIR_COLUMNS = COLUMNS = ("sample_id", "subject_id", "image_id", PRIOR, "finding", "label", "split")
OWN_PRIOR, OTHER_PRIOR = "own_prior", "other_prior"
# MS-CXR-T's words for pairs that a second radiologist has read without knowing the first's label.
READ_TWICE = {"multiple_experts": "agreement", "disagreement": "disagreement"}
FIGURE = "agreement.png"


def answer_column(test: str, seed: int) -> str:
    """Return the column of predictions.parquet with the classes that a run answers."""
    return f"{test}_seed{seed}"


def loss_column(seed: int) -> str:
    """Return the column with the cross-entropies of a run, with the patient's own prior."""
    return f"cross_entropy_seed{seed}"


def seeds_of(settings: TemporalSettings) -> list[int]:
    """Return the seeds of the runs; prompting and a probe at its optimum are one run."""
    learning = getattr(settings, "learning", None)
    return learning.seeds if isinstance(learning, HeadTraining) else [0]


def splits_of(
    samples: Mapping[str, pd.DataFrame],
    finding: str,
    pixels: Pixels,
    classes: tuple[str, ...],
    settings: TemporalClassificationSettings,
    seed: int,
) -> PairSplits | str:
    """Return the pairs of one finding, or the reason why the finding is left out.

    Few-shot training has a share of the training pairs, drawn by ``seed``.
    """
    by_split = {
        split: ImagePairs.of(table[table["finding"] == finding], pixels, classes)
        for split, table in samples.items()
    }
    train, learning = by_split[settings.train_split], settings.learning
    if isinstance(learning, FewShot):
        train = train.rows(share_rows(train.labels, learning.share, seed))
    test = by_split[settings.split]
    for name, pairs in (("train", train), ("test", test)):
        if len(set(pairs.labels.tolist())) < len(classes):
            return f"not every class has a {name} pair"
    if not len(by_split[settings.validation_split]):
        return "no validation pair"
    tests = {OWN_PRIOR: test, OTHER_PRIOR: test.other_priors()}
    return PairSplits(train, by_split[settings.validation_split], tests)


def probe_scores(
    image: ImageEncoder,
    splits: PairSplits,
    pixels: Pixels,
    classes: int,
    settings: TemporalClassificationSettings,
) -> dict[str, Floats]:
    """Return probabilities [N, C] of the test pairs by a linear layer on frozen features."""
    learning, device = settings.learning, choose_device(settings.device)
    assert isinstance(learning, Probe)

    def features(pairs: ImagePairs) -> Tensor:
        return encode_all(image, pixels, pairs, settings.batch_size, device, projected=False)

    train_NF = features(splits.train)
    targets = torch.from_numpy(np.eye(classes)[splits.train.labels])
    start = torch.zeros(train_NF.shape[1] + 1, classes)
    rows = torch.arange(len(splits.train))
    head_GC, _ = solve(train_NF, targets, rows, start, True, learning.solver)
    return {
        name: (features(pairs).double() @ head_GC[:-1].double() + head_GC[-1].double())
        .softmax(1)
        .numpy()
        for name, pairs in splits.test.items()
    }


def statistic(predictions: pd.DataFrame, settings: TemporalSettings) -> CountedStatistic:
    """``macro_accuracy/<finding>``, its mean over findings, spread over runs, and the control.

    With losses in the predictions also ``cross_entropy/agreement`` and ``/disagreement``.
    """
    labels = predictions["label"].to_numpy()
    names = sorted(set(labels))
    seeds = seeds_of(settings)
    masks = {name: (predictions["finding"] == name).to_numpy() for name in settings.findings}
    rows_by_finding = {name: rows for name, rows in masks.items() if rows.any()}
    answers = {
        (test, seed): predictions[answer_column(test, seed)].to_numpy()
        for test in (OWN_PRIOR, OTHER_PRIOR)
        for seed in seeds
    }

    losses, quality = losses_of(predictions, seeds)
    read_twice = {name: (quality == name).to_numpy() for name in sorted({*quality.dropna()})}

    def metrics(counts: Floats) -> dict[str, Floats]:
        scores = {}
        for test, name in ((OWN_PRIOR, "macro_accuracy"), (OTHER_PRIOR, "other_prior")):
            means = []
            for finding, chosen in rows_by_finding.items():
                by_seed = np.stack(
                    [
                        recalls(
                            labels[chosen], answers[test, seed][chosen], names, counts[:, chosen]
                        ).mean(axis=-1)
                        for seed in seeds
                    ]
                )
                means.append(by_seed.mean(axis=0))
                scores[f"{name}/{slug(finding)}"] = means[-1]
                if test == OWN_PRIOR and len(seeds) > 1:
                    scores[f"{name}_sd/{slug(finding)}"] = by_seed.std(axis=0, ddof=1)
            scores[name] = np.mean(means, axis=0)
        for name, chosen in read_twice.items():
            scores[f"cross_entropy/{name}"] = weighted_mean(counts, losses, chosen)
        return scores

    sizes = {slug(name): rows for name, rows in rows_by_finding.items()} | read_twice

    def size(name: str) -> int:
        rows = sizes.get(name.partition("/")[2])
        return len(labels) if rows is None else int(rows.sum())

    return CountedStatistic(metrics, size)


def losses_of(predictions: pd.DataFrame, seeds: Sequence[int]) -> tuple[Floats, pd.Series]:
    """Return the mean loss of the runs [N], and if two radiologists agree (missing: read once)."""
    columns = [loss_column(seed) for seed in seeds]
    if not {*columns, "quality"} <= {*predictions}:
        return np.zeros(0), pd.Series(pd.NA, predictions.index, dtype="string")
    return predictions[columns].to_numpy().mean(axis=1), predictions["quality"].map(READ_TWICE)


def usable(
    inputs: Inputs, pixels: Pixels, findings: Sequence[str], splits: Sequence[str]
) -> tuple[dict[str, pd.DataFrame], list[dict[str, Any]]]:
    """Return the pairs of each split whose images are in the store, and the counts of the rest."""

    def of_split(table: pd.DataFrame, split: str) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
        tests = {
            "finding is not in the settings": ~table["finding"].isin(findings),
            "image is not in the pixel store": ~pixels.holds(table["image_id"]),
            "prior image is not in the pixel store": ~pixels.holds(table[PRIOR]),
        }
        return drop_rows(table, tests)

    samples, dropped = inputs.parts(splits, of_split)
    return dict(zip(splits, samples, strict=True)), dropped


def predict(inputs: ModelInputs, settings: TemporalClassificationSettings) -> Predictions:
    """Train and score each finding; runs of training write state and scores to ``--state``."""
    options, cohort, image, pixels = inputs.options, inputs.cohort, inputs.image, inputs.pixels
    if settings.registered:
        alignments = Alignments(options.registration)
        pixels = cast(Pixels, RegisteredPriors(PixelStore(options.pixels), alignments))
    names = (settings.train_split, settings.validation_split, settings.split)
    samples, dropped = usable(inputs, pixels, settings.findings, names)
    learning, device = settings.learning, inputs.device
    weights = {name: value.clone() for name, value in image.state_dict().items()}
    tables, left_out, trained = [], {}, {}
    for finding in settings.findings:
        columns: dict[str, Any] = {}
        test = None
        for seed in seeds_of(settings):
            splits = splits_of(samples, finding, pixels, cohort.classes, settings, seed)
            if isinstance(splits, str):
                log.warning("%s is left out: %s", finding, splits)
                left_out[finding] = splits
                break
            image.load_state_dict(weights)  # fine-tuning of the run before has changed them
            image.eval()
            test, trained[finding] = splits.test[OWN_PRIOR].table, len(splits.train)
            if isinstance(learning, Probe):
                scores = probe_scores(image, splits, pixels, len(cohort.classes), settings)
            else:
                torch.manual_seed(seed)
                head = head_of(inputs, image, finding, cohort.classes, learning)
                program = HeadTrainingProgram(
                    image, head, splits, pixels, len(cohort.classes), learning, seed, device
                )
                identity = {
                    "model": f"{slug(finding)}, seed {seed}",
                    "program": "head_training",
                    "seed": seed,
                    "settings": settings.model_dump(mode="json"),
                    "data": {
                        "pairs": cohort.fingerprint(pixels),
                        "image": file_digest(weights_file(options.model))[:16],
                    },
                }
                folder = options.state / f"{slug(finding)}{seed}"
                remedies = ("a smaller batch_size of `learning.training`",)
                engine = Engine(program, learning.training, seed, identity, remedies)
                engine.run(folder / "state", folder / "scores")  # a finished run is only read
                scores = {name: np.load(folder / f"scores/{name}.npy") for name in splits.test}
            for name, values in scores.items():
                answers = [cohort.classes[place] for place in values.argmax(1)]
                columns[answer_column(name, seed)] = answers
            true = scores[OWN_PRIOR][np.arange(len(test)), splits.test[OWN_PRIOR].labels]
            # A probability can underflow to 0, which has no logarithm.
            columns[loss_column(seed)] = -np.log(np.maximum(true, np.finfo(np.float32).tiny))
        if test is not None:
            tables.append(test.assign(**columns))
    if not tables:
        raise InputError(f"{inputs.source}: no finding is left: {left_out}")
    seeds, tests = seeds_of(settings), (OWN_PRIOR, OTHER_PRIOR)
    order = ["sample_id", "subject_id", "finding", "label", "quality"]
    order += [answer_column(test, seed) for test in tests for seed in seeds]
    order += [loss_column(seed) for seed in seeds]
    predictions = pd.concat(tables, ignore_index=True).reindex(columns=order)
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {
            "pictures": pixels.fingerprint,
            "pairs": len(predictions),
            "train_pairs": trained,
            "left_out": left_out,
            "dropped": dropped,
        },
        {
            "geometry": str(pixels.geometry),
            "two_images": "one encoder of both" if image.takes_prior else "features side by side",
            "score": "mean of the classes' recalls",
        },
        draw=lambda metrics: draw(predictions, seeds),
    )


def draw(predictions: pd.DataFrame, seeds: Sequence[int]) -> list[Figure]:
    """Draw Figure A.1: cross-entropies of pairs that two radiologists read, by true class."""
    losses, quality = losses_of(predictions, seeds)
    groups = {
        f"{label}, {answer} ({len(group)})": group.to_numpy()
        for (label, answer), group in pd.Series(losses).groupby([predictions["label"], quality])
    }
    if not groups:
        return []
    title = "Cross-entropy by what a second radiologist said"
    caption = (
        "Of pairs that a second radiologist has read without knowing the label: agreement or not "
        "with the first; boxes are quartiles, dots means, numbers of pairs in brackets."
    )
    picture = draw_distributions(groups, "cross-entropy of the label")
    return [Figure(FIGURE, picture, title, caption)]


def head_of(
    inputs: ModelInputs,
    image: ImageEncoder,
    finding: str,
    classes: tuple[str, ...],
    learning: FineTuning | FewShot,
) -> torch.nn.Module:
    """Return the head before training."""
    images = 1 if image.takes_prior else 2
    if isinstance(learning, FineTuning):
        return multilayer_head(images * image.encoder.features, learning.hidden, len(classes))
    model = inputs.text_model
    if model is None or not image.takes_prior:
        raise InputError(
            "settings: key 'learning.name' is 'few_shot', whose head starts at embeddings of text; "
            "expected a model of two images with a text half"
        )
    prompts = [learning.prompts[name].replace("{}", finding) for name in classes]  # type: ignore[index]
    return linear_head(model.encode_text(prompts).float().cpu())
