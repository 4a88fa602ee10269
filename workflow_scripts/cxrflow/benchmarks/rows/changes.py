"""Baselines of change between two images: what is known without an encoder (not in the paper).

``nothing`` gives every pair the classes' shares of the training labels, and answers the most
frequent one; ``random`` draws probabilities. The others are plain features of the pixels in an
encoder's place, learnt from by the head of the task, as long and at the same rate: the current
image alone at 8 x 8 pixels (``current``), both images and their difference so (``thumbnail``),
both histograms and their difference (``intensity``), and ``shuffled``, the thumbnails with the
training labels of other pairs. ``<name>_optimum``: the same at the optimum of logistic regression,
whatever head the task has.

Where a decoder is prompted nothing is learnt. ``nothing`` answers "stable". ``brightness`` says
that what has become denser has got worse, by the difference of the images' means in root
mean squares over the pairs; between -:data:`EVEN` and :data:`EVEN` it is stable. What is new or
resolved comes right after what is worse or better.

``second_reader`` is a ceiling that real data have as well: the radiologist who read a part of the
pairs without knowing the label (MS-CXR-T). Published is whether both agree, not what the second one
said instead; so the other classes are alike, which no recall depends on, and the pairs that were
read once do not count.

Shapes: B pairs, N pairs of a finding, F features, C classes.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import torch
from scipy.special import softmax
from torch import Tensor, nn

from cxr_files.drops import Drop
from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import PRIOR
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import Predictions
from cxrflow.benchmarks.rows.pictures import OPTIMUM, intensities, thumbnails
from cxrflow.benchmarks.rows.row import Row
from cxrflow.benchmarks.rows.truth import ORACLE
from cxrflow.benchmarks.temporal.head_training import PairSplits
from cxrflow.benchmarks.temporal.image_pairs import ImagePairs
from cxrflow.benchmarks.temporal.scores import AGREEMENT, READ_TWICE, STABLE
from cxrflow.benchmarks.temporal.settings import Probe, TemporalClassificationSettings
from cxrflow.benchmarks.temporal.temporal_classification import Heads, PairScores
from cxrflow.benchmarks.temporal.temporal_prompting import PromptedScores
from cxrflow.benchmarks.temporal.temporal_zero_shot import truths
from cxrflow.data.readers.common_tables import FURTHER_DIRECTIONS
from cxrflow.encoders.image_encoder import Frames, ImageEncoder
from cxrflow.metrics.intervals import Floats

SECOND_READER = "second_reader"
THUMBNAIL = 8
# How rows without features read two images.
_READ = {
    "nothing": "as nothing is read",
    "random": "as nothing is read",
    ORACLE: "as is known of it",
    SECOND_READER: "as a second radiologist read them",
}
_SURE = 5.0  # logit of what is known
EVEN = 0.43  # a third of a normal distribution lies below -0.43, a third above 0.43


class Changes(Row):
    """Classifies pairs by heads on plain features, or by no feature."""

    lost: Sequence[Mapping[str, Any]] = ()  # pairs that are left out, by reason

    def scores(self, inputs: ModelInputs, settings: TemporalClassificationSettings) -> PairScores:
        """What scores the pairs of each finding."""
        name = self.name
        if name in _READ:
            return PairScores(inputs.pixels, partial(self._of_tests, inputs), _READ[name])
        plain = name.removesuffix(OPTIMUM)
        learning = settings
        if plain != name:
            learning = settings.model_copy(update={"learning": Probe()})
        elif plain == "current" and isinstance(settings.learning, Probe):  # d would show the prior
            alone = settings.learning.model_copy(update={"features": "current"})
            learning = settings.model_copy(update={"learning": alone})
        if plain == "shuffled":
            plain, inputs.cohort = "thumbnail", _with_labels_of_others(inputs, settings)
        image = cast(ImageEncoder, PlainImages(plain))
        self.state = tempfile.TemporaryDirectory()  # as long as the row
        heads = Heads(inputs, learning, image, inputs.pixels, Path(self.state.name), name)
        return PairScores(inputs.pixels, heads.scores, "plain features of both")

    def _of_tests(
        self, inputs: ModelInputs, finding: str, splits: PairSplits, seed: int
    ) -> Mapping[str, Floats]:
        answers: dict[str, Callable[[ModelInputs, str, ImagePairs], Floats]] = {
            "nothing": partial(_frequent, train=splits.train),
            "random": partial(_drawn, seed=seed),
            ORACLE: _true,
            SECOND_READER: _second_reader,
        }
        answer = answers[self.name]
        return {name: answer(inputs, finding, pairs) for name, pairs in splits.test.items()}

    def restrict(self, inputs: ModelInputs) -> None:
        """Leave out tested pairs without a second reading."""
        if self.name != SECOND_READER:
            return
        table = inputs.cohort.table
        tested_N = table["split"] == self.settings.split
        quality_N = table.get("quality", pd.Series(None, table.index, dtype="object"))
        once_N = tested_N & ~quality_N.isin(READ_TWICE)
        if once_N.sum() == tested_N.sum():
            raise InputError(
                f"{inputs.source}: column 'quality' says of no tested pair that a second "
                f"radiologist has read it; expected {' or '.join(READ_TWICE)} of some"
            )
        inputs.cohort = replace(inputs.cohort, table=table[~once_N].reset_index(drop=True))
        self.lost = [Drop.of("read by one radiologist", table["sample_id"][once_N]).as_json()]

    def completed(self, predictions: Predictions) -> Predictions:
        dropped = [*predictions.data["dropped"], *self.lost]
        data = {**predictions.data, "dropped": dropped}
        return super().completed(replace(predictions, data=data))


class PromptedChanges(Row):
    """Classifies pairs without a prompt."""

    def scores(self, inputs: ModelInputs, settings: Any) -> PromptedScores:
        """What scores the pairs of each finding."""
        of_pairs = {
            "nothing": _stable, "random": _drawn, "brightness": _by_brightness, ORACLE: _true,
        }[self.name]  # fmt: skip
        is_given = getattr(inputs.options, "training", None) is not None  # as to models
        protocol = {"prior_image": True, "prior_report": is_given, "prompt": {}}
        return PromptedScores(partial(of_pairs, inputs), protocol)


class PlainFeatures(NamedTuple):
    """Features of B pairs, under the names that an encoder's have."""

    pooled: Tensor
    projected_global: Tensor


class PlainImages(nn.Module):
    """Plain features of two images [B, F], or of one, in the place of an encoder that compares two.

    There is nothing to train, and no projector, so its trunk is the whole of it.
    """

    takes_prior = True
    projector = None

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        blank = torch.zeros(1, 1, THUMBNAIL, THUMBNAIL)
        self.features = self(Frames(blank, blank)).pooled.shape[1]

    @property
    def encoder(self) -> "PlainImages":
        """The trunk."""
        return self

    def forward(self, frames: Frames[Tensor]) -> PlainFeatures:
        """Return the current image's features and, but for ``current``, its prior's and d.

        Without a prior they are the image's alone.
        """
        features_BF = self.describe(frames.current)
        if frames.prior is not None and self.name != "current":
            prior = self.describe(frames.prior)
            features_BF = torch.cat([features_BF, prior, features_BF - prior], dim=1)
        return PlainFeatures(features_BF, features_BF)

    def describe(self, images: Tensor) -> Tensor:
        """Return the features [B, F] of images [B, 1, H, W] in [0, 1]."""
        grey = (images[:, 0].clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()
        plain = intensities(grey) if self.name == "intensity" else thumbnails(grey, THUMBNAIL)
        return torch.from_numpy(plain).float().to(images.device)


def _with_labels_of_others(inputs: ModelInputs, settings: TemporalClassificationSettings) -> Any:
    """Return the cohort, each finding's labels to learn from in another order."""
    table, draw = inputs.cohort.table.copy(), np.random.default_rng(0)
    learnt = table["split"].isin([settings.train_split, settings.validation_split])
    for _, rows in table[learnt].groupby("finding").groups.items():
        table.loc[rows, "label"] = draw.permutation(table.loc[rows, "label"].to_numpy())
    return replace(inputs.cohort, table=table)


def _frequent(inputs: ModelInputs, finding: str, pairs: ImagePairs, train: ImagePairs) -> Floats:
    shares_C = np.bincount(train.labels, minlength=len(inputs.cohort.classes)) / len(train)
    return np.tile(shares_C, (len(pairs), 1))


def _drawn(inputs: ModelInputs, finding: str, pairs: ImagePairs, seed: int = 0) -> Floats:
    draw = np.random.default_rng([seed, *finding.encode()])
    return draw.dirichlet(np.ones(len(inputs.cohort.classes)), len(pairs))


def _stable(inputs: ModelInputs, finding: str, pairs: ImagePairs) -> Floats:
    answers = np.array([name == STABLE for name in inputs.cohort.classes], dtype=np.float64)
    return np.tile((answers + 1) / (answers + 1).sum(), (len(pairs), 1))


def _known(inputs: ModelInputs, pairs: ImagePairs, column: str) -> Any:
    """What a column [N] says of a finding in a prior and an image; of two patients nothing."""
    place = ["image_id", PRIOR, "finding"]
    answers = inputs.cohort.table.drop_duplicates(place).set_index(place)[column]
    return answers.reindex(pd.MultiIndex.from_frame(pairs.table[place]))


def _true(inputs: ModelInputs, finding: str, pairs: ImagePairs) -> Floats:
    answers_NC = truths(_known(inputs, pairs, "label"), inputs.cohort.classes)
    return np.asarray(softmax(_SURE * answers_NC, axis=1))


def _second_reader(inputs: ModelInputs, finding: str, pairs: ImagePairs) -> Floats:
    label_N1, quality_N1 = (
        _known(inputs, pairs, c).to_numpy()[:, None] for c in ("label", "quality")
    )
    is_label_NC = label_N1 == np.array(inputs.cohort.classes)
    answers_NC = np.where(quality_N1 == AGREEMENT, is_label_NC, ~is_label_NC)
    return np.asarray(softmax(_SURE * answers_NC, axis=1))


def _by_brightness(inputs: ModelInputs, finding: str, pairs: ImagePairs) -> Floats:
    current_N, prior_N = (
        inputs.pixels.read(rows).mean((1, 2)) for rows in (pairs.current, pairs.prior)
    )
    gain_N = current_N - prior_N
    gain_N /= max(float(np.sqrt(np.mean(gain_N**2))), 1e-12)
    logits = {"improving": -gain_N, STABLE: np.full(len(gain_N), EVEN), "worsening": gain_N}
    logits |= {name: logits[way] - EVEN for name, way in FURTHER_DIRECTIONS.items()}
    return softmax(np.stack([logits[name] for name in inputs.cohort.classes], axis=1), axis=1)
