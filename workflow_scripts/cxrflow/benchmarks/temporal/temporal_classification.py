"""Temporal image classification: has a finding improved, is it stable, has it got worse?

BioViL-T section 4.2, Appendix F.3, Table 2 and the probe of Table 7. Trained on labels from reports
(Chest ImaGenome's silver labels), scored on radiologists' labels (MS-CXR-T), finding by finding: by
a linear probe on frozen features, by a linear head that starts at three prompts and gets few
pairs, or by fine-tuning the encoder under a multilayer head. Control: the same head with another
patient's prior. :mod:`cxrflow.benchmarks.temporal.scores` says what is scored.

Shapes: N pairs, F features, C classes.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from cxr_files.atomic import file_digest, remove_damaged
from cxr_files.errors import InputError
from cxrflow.benchmarks.features import weights_file
from cxrflow.benchmarks.heads.logistic_regression import solve
from cxrflow.benchmarks.heads.shares import share_rows
from cxrflow.benchmarks.inputs import PRIOR, Inputs, Pixels, drop_rows
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions, slug
from cxrflow.benchmarks.temporal.head_training import (
    HeadTrainingProgram,
    PairSplits,
    linear_head,
    multilayer_head,
)
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs, encode_all
from cxrflow.benchmarks.temporal.scores import (
    OTHER_PRIOR,
    OWN_PRIOR,
    columns_of_run,
    draw,
    in_order,
    seeds_of,
    statistic,
)
from cxrflow.benchmarks.temporal.settings import (
    FewShot,
    FineTuning,
    Probe,
    TemporalClassificationSettings,
    TemporalSettings,
)
from cxrflow.data.readers.common_tables import DIRECTIONS
from cxrflow.encoders.image_encoder import ImageEncoder
from cxrflow.images.alignments import Alignments, RegisteredPriors
from cxrflow.images.store import PixelStore
from cxrflow.metrics.intervals import Floats
from cxrflow.training.precision import choose_device

log = logging.getLogger("cxrflow")

PAIR_COLUMNS = COLUMNS = ("sample_id", "subject_id", "image_id", PRIOR, "finding", "label", "split")

# Of a finding, its pairs and a seed: the class probabilities [N, C] of each set of test pairs.
Scorer = Callable[[str, PairSplits, int], Mapping[str, Floats]]


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


def usable(
    inputs: Inputs, pixels: Pixels, findings: Sequence[str], splits: Sequence[str]
) -> tuple[dict[str, pd.DataFrame], list[dict[str, Any]]]:
    """The same as :func:`in_store`; InputError where a finding may have other directions."""
    if inputs.cohort.classes != DIRECTIONS:
        raise InputError(
            f"{inputs.source}: its directions are {', '.join(inputs.cohort.classes)}; expected a "
            "cohort of `directions: three`"
        )
    return in_store(inputs, pixels, findings, splits)


def in_store(
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


class PairScores(NamedTuple):
    """What scores pairs of images: in which pixels, how, and how a pair is read."""

    pixels: Pixels
    scorer: Scorer
    two_images: str


def scores(inputs: ModelInputs, settings: TemporalClassificationSettings) -> PairScores:
    """By heads on a model, whose runs of training write state and scores to ``--state``."""
    image, pixels = inputs.image, inputs.pixels
    if settings.registered:
        alignments = Alignments(inputs.options.registration)
        pixels = cast(Pixels, RegisteredPriors(PixelStore(inputs.options.pixels), alignments))
    digest = file_digest(weights_file(inputs.options.model))[:16]
    heads = Heads(inputs, settings, image, pixels, inputs.options.state, digest)
    two_images = "one encoder of both" if image.takes_prior else "features side by side"
    return PairScores(pixels, heads.scores, two_images)


def predict(inputs: ModelInputs, settings: TemporalClassificationSettings) -> Predictions:
    """Train and score each finding."""
    pixels, scorer, two_images = inputs.ask(scores, settings)
    cohort, seeds = inputs.cohort, seeds_of(settings)
    names = (settings.train_split, settings.validation_split, settings.split)
    samples, dropped = usable(inputs, pixels, settings.findings, names)
    tables, left_out, trained = [], {}, {}
    for finding in settings.findings:
        columns: dict[str, Any] = {}
        test = None
        for seed in seeds:
            splits = splits_of(samples, finding, pixels, cohort.classes, settings, seed)
            if isinstance(splits, str):
                log.warning("%s is left out: %s", finding, splits)
                left_out[finding] = splits
                break
            test, trained[finding] = splits.test[OWN_PRIOR], len(splits.train)
            of_tests = scorer(finding, splits, seed)
            columns |= columns_of_run(of_tests, test.labels, cohort.classes, seed)
        if test is not None:
            tables.append(test.table.assign(**columns))
    data = {"train_pairs": trained, "left_out": left_out, "dropped": dropped}
    found = predictions_of(inputs, pixels, tables, settings, data, {"two_images": two_images})
    return replace(found, draw=lambda metrics: draw(found.table, seeds))


def predictions_of(
    inputs: Inputs,
    pixels: Pixels,
    tables: Sequence[pd.DataFrame],
    settings: TemporalSettings,
    data: Mapping[str, Any],
    protocol: Mapping[str, Any],
) -> Predictions:
    """The predictions of all findings, a table each; InputError if none is left."""
    if not tables:
        raise InputError(f"{inputs.source}: no finding is left: {data['left_out']}")
    predictions = in_order(pd.concat(tables, ignore_index=True), settings)
    return Predictions(
        predictions,
        statistic(predictions, settings),
        {"pictures": pixels.fingerprint, "pairs": len(predictions), **data},
        {"geometry": str(pixels.geometry), "score": "mean of the classes' recalls", **protocol},
    )


class Heads:
    """Trains a head for each finding and seed, with or without the encoder under it.

    ``digest``: of what encodes the images, for the identity of a training that is resumed.
    """

    def __init__(
        self,
        inputs: ModelInputs,
        settings: TemporalClassificationSettings,
        image: ImageEncoder,
        pixels: Pixels,
        state: Path,
        digest: str,
    ) -> None:
        self.inputs, self.settings, self.image, self.pixels = inputs, settings, image, pixels
        self.state, self.digest = state, digest
        self.weights = {name: value.clone() for name, value in image.state_dict().items()}

    def scores(self, finding: str, splits: PairSplits, seed: int) -> Mapping[str, Floats]:
        """Return the probabilities [N, C] of each set of test pairs."""
        self.image.load_state_dict(self.weights)  # fine-tuning of the run before has changed them
        self.image.eval()
        learning = self.settings.learning
        if isinstance(learning, Probe):
            return self.probe_scores(splits, learning)
        return self.trained_scores(finding, splits, learning, seed)

    def probe_scores(self, splits: PairSplits, probe: Probe) -> Mapping[str, Floats]:
        """Return those of a linear layer on frozen features, at its optimum."""
        settings, classes = self.settings, len(self.inputs.cohort.classes)

        def features(pairs: ImagePairs) -> Tensor:
            size, device = settings.batch_size, choose_device(settings.device)
            return encode_all(
                self.image, self.pixels, pairs, size, device, False, probe.features
            ).double()

        train_NF = features(splits.train).float()
        targets = torch.from_numpy(np.eye(classes)[splits.train.labels])
        start = torch.zeros(train_NF.shape[1] + 1, classes)
        rows = torch.arange(len(splits.train))
        head_GC = solve(train_NF, targets, rows, start, True, probe.solver)[0].double()
        return {
            name: (features(pairs) @ head_GC[:-1] + head_GC[-1]).softmax(1).numpy()
            for name, pairs in splits.test.items()
        }

    def trained_scores(
        self, finding: str, splits: PairSplits, learning: FineTuning | FewShot, seed: int
    ) -> Mapping[str, Floats]:
        """Return those of a run of training; one that is finished is only read."""
        from cxrflow.training.engine import Engine  # and TensorBoard

        classes = self.inputs.cohort.classes
        torch.manual_seed(seed)
        head = head_of(self.inputs, self.image, finding, classes, learning)
        program = HeadTrainingProgram(
            *(self.image, head, splits, self.pixels, len(classes), learning, seed),
            self.inputs.device,
        )
        identity = {
            "model": f"{slug(finding)}, seed {seed}",
            "program": "head_training",
            "seed": seed,
            "settings": self.settings.model_dump(mode="json"),
            "data": {"pairs": self.inputs.cohort.fingerprint(self.pixels), "image": self.digest},
        }
        folder = self.state / f"{slug(finding)}{seed}"
        memory_advice = ("a smaller batch_size of `learning.training`",)
        remove_damaged(folder / "scores")
        engine = Engine(program, learning.training, seed, identity, memory_advice)
        engine.run(folder / "state", folder / "scores")
        return {name: np.load(folder / f"scores/{name}.npy") for name in splits.test}


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
    if inputs.row is not None:  # which reads no prompts
        return linear_head(torch.zeros(len(classes), image.encoder.features))
    model = inputs.text_model
    if model is None or not (image.takes_prior and model.similarity.whole.is_linear):
        raise InputError(
            "settings: key 'learning.name' is 'few_shot', whose head starts at embeddings of text; "
            "expected a model of two images with a text encoder, which compares them by the cosine"
        )
    prompts = [learning.prompts[name].replace("{}", finding) for name in classes]  # type: ignore[index]
    return linear_head(model.encode_text(prompts).float().cpu())
