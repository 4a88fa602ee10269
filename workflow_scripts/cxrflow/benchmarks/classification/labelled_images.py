"""The inputs of classifications: labelled images, their features, prompts of the classes.

Shapes: N images, C classes, P dimensions of the joint space.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.classification.settings import ClassificationSettings, LabelSettings
from cxrflow.benchmarks.features import Features
from cxrflow.benchmarks.heads.shares import score_column
from cxrflow.benchmarks.inputs import Cohort, Inputs, drop_rows
from cxrflow.benchmarks.result import slug
from cxrflow.data.prompts import PROMPT_SETS, TURNED
from cxrflow.metrics.intervals import Floats
from cxrflow.similarity.settings import PromptAverage

SHOWN = ("sample_id", "subject_id", "group_id", "image_id", "subgroup")  # of predictions.parquet
LABELLED = (*SHOWN, "labels")
COUNTS_AS = {"ignore": np.nan, "zero": 0.0, "one": 1.0}


def class_columns(kind: str, classes: Sequence[str]) -> list[str]:
    """Columns of predictions.parquet: ``score`` of a single class, ``score/<class>`` of several."""
    return [kind] if len(classes) == 1 else [f"{kind}/{slug(name)}" for name in classes]


def score_columns(by_kind: Mapping[str, Floats], classes: Sequence[str]) -> dict[str, Floats]:
    """Return the columns of predictions.parquet of samples' scores [S, C] of each kind."""
    return {
        column: values_S
        for kind, scores_SC in by_kind.items()
        for column, values_S in zip(class_columns(kind, classes), scores_SC.T, strict=True)
    }


def with_columns(table: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a table with further columns, all put on at once: 193 classes give hundreds."""
    return pd.concat([table, pd.DataFrame(columns, index=table.index)], axis=1)


@dataclass(frozen=True)
class LabelledImages:
    """Images with labels and features.

    Attributes:
        table: a row an image, of the cohort: :data:`SHOWN` and what else it has.
        labels_NC: 1, 0 or NaN (does not count for the class); a single 1 in each row of exclusive
            classes.
        groups_N: number of the sample that an image belongs to, from 0 in the order of the table.
        dropped: what was left out.
    """

    classes: tuple[str, ...]
    table: pd.DataFrame
    labels_NC: Floats
    groups_N: NDArray[np.int64]
    dropped: list[dict[str, Any]]

    def of_samples(self, scores_NC: Floats) -> Floats:
        """Mean over the images of each sample [S, C]; itself where a sample is an image.

        The mean of equal scores is that score. Through rounding, that of a plain sum is not, and
        samples of one score would be ranked by how many images they have.
        """
        size = np.bincount(self.groups_N)
        if size.max() == 1:
            return scores_NC
        first_SC = scores_NC[np.unique(self.groups_N, return_index=True)[1]]
        total, differing_SC = np.zeros_like(first_SC, np.float64), np.zeros(first_SC.shape)
        np.add.at(total, self.groups_N, scores_NC)
        np.add.at(differing_SC, self.groups_N, scores_NC != first_SC[self.groups_N])
        return np.where(differing_SC > 0, total / size[:, None], first_SC)

    def run_columns(
        self, scores: Mapping[str, Iterable[Floats]], seeds: Sequence[int]
    ) -> dict[str, Floats]:
        """Columns of predictions.parquet of the scores [N, C] of each run, by share and seed."""
        by_run = {
            score_column(share, seed): self.of_samples(scores_NC)
            for share, of_runs in scores.items()
            for seed, scores_NC in zip(seeds, of_runs, strict=True)
        }
        return score_columns(by_run, self.classes)

    def samples(self) -> pd.DataFrame:
        """The samples with their labels, a sample's first image standing for it."""
        first = np.unique(self.groups_N, return_index=True)[1]
        labels = dict(
            zip(class_columns("label", self.classes), self.labels_NC[first].T, strict=True)
        )
        samples = self.table.iloc[first][list(SHOWN)].reset_index(drop=True)
        return with_columns(samples, labels)

    def counts(self) -> dict[str, Any]:
        """Return the numbers of samples and of positives, by class where there are several."""
        columns = class_columns("label", self.classes)
        samples = self.samples()
        positives = [int((samples[column] == 1).sum()) for column in columns]
        by_class = dict(zip(self.classes, positives, strict=True))
        return {
            "samples": len(samples),
            "positives": positives[0] if len(positives) == 1 else by_class,
        }


def labelled_images(
    table: pd.DataFrame,
    cohort: Cohort,
    features: Features,
    settings: LabelSettings,
) -> LabelledImages:
    """The images with features and a label, of classes of the cohort.

    Raises:
        InputError: a class is not the cohort's, no image is left, none of the classes has both
            labels, or the images of a group are labelled differently.
    """
    cohort_classes, without = cohort.classes, settings.without or ()
    remaining_classes = [name for name in cohort_classes if name not in without]
    classes = tuple(remaining_classes if settings.classes is None else settings.classes)
    uncertain = settings.uncertain if isinstance(settings.uncertain, dict) else {}
    names_by_key = {
        "classes": classes,
        "class_prompts": getattr(settings, "class_prompts", {}),
        "uncertain": uncertain,
        "without": without,
    }
    for key, names in names_by_key.items():
        # What no image has may be left out, if the data set knows it.
        listed = cohort.listed if key == "without" else ()
        strange = [name for name in names if name not in (*cohort_classes, *listed)]
        if strange:
            raise InputError(
                f"settings: key '{key}' names '{strange[0]}'; the cohort has "
                f"{', '.join(listed or cohort_classes)}"
            )
    if not classes:
        raise InputError("settings: key 'without' names all classes; expected fewer")
    if len(set(classes)) < len(classes):
        raise InputError(f"settings: key 'classes' is {', '.join(classes)}; expected each once")
    if settings.exclusive and len(classes) < 2:
        raise InputError("settings: key 'exclusive' is true; expected several classes")
    if set(table["labels"].str.len()) != {len(cohort_classes)}:
        raise InputError(
            "samples.parquet: column 'labels' has other numbers of values than flow.json has "
            f"classes ({len(cohort_classes)})"
        )
    labels = pd.DataFrame(np.stack(table["labels"].tolist()), columns=list(cohort_classes))
    labels_NC = _counted(labels[list(classes)], settings)
    tests = {
        "image is not in the pixel store": features.rows(table) < 0,
        "label is missing": np.isnan(labels_NC).all(axis=1),
    }
    if settings.exclusive:
        tests["not of exactly one class"] = (labels_NC == 1).sum(axis=1) != 1
    place = np.arange(len(table))
    samples, dropped = drop_rows(table.assign(place=place), tests)
    labels_NC = labels_NC[samples["place"]]
    if settings.exclusive:  # what is not known of the other classes follows
        labels_NC = (labels_NC == 1).astype(np.float64)
    if not (labels_NC == 1).any():
        raise InputError(
            f"samples.parquet: column 'labels' has no positive of {', '.join(classes)} among "
            f"{len(samples)} images; expected one of at least one class"
        )
    if not ((labels_NC == 1).any(axis=0) & (labels_NC == 0).any(axis=0)).any():
        raise InputError(f"samples.parquet: no class of {', '.join(classes)} has labels 0 and 1")
    groups_N = np.arange(len(samples))
    if settings.sample == "group":
        groups_N = pd.factorize(samples["group_id"].fillna(samples["sample_id"]))[0]
        _require_equal_labels(samples["group_id"], groups_N, labels_NC)
    return LabelledImages(classes, samples, labels_NC, groups_N, dropped)


def labelled_splits(
    inputs: Inputs, features: Features, settings: LabelSettings, splits: Sequence[str]
) -> tuple[list[LabelledImages], list[dict[str, Any]]]:
    """Return the labelled images of each split, and what was left out.

    The first split is learnt from: every image by itself, of whatever group.
    """

    def labelled(rows: pd.DataFrame, split: str) -> tuple[LabelledImages, list[dict[str, Any]]]:
        update = {"sample": "image"} if split == splits[0] else {}
        of_split = settings.model_copy(update=update)
        images = labelled_images(rows, inputs.cohort, features, of_split)
        return images, images.dropped

    return inputs.parts(splits, labelled)


def _counted(labels: pd.DataFrame, settings: LabelSettings) -> Floats:
    """Labels [N, C] as the settings count them: 1, 0, NaN."""
    uncertain = settings.uncertain
    counted = {}
    for name in labels:
        strange = labels[name][~labels[name].isin([1, 0, -1]) & labels[name].notna()]
        if len(strange):
            raise InputError(
                f"samples.parquet: label of {name} is {strange.iloc[0]:g}; expected 1, 0, -1 or "
                "none"
            )
        value = uncertain if isinstance(uncertain, str) else uncertain.get(str(name), "ignore")
        filled = labels[name].fillna(COUNTS_AS[settings.unknown])
        counted[name] = filled.mask(filled == -1, COUNTS_AS[value])
    return pd.DataFrame(counted).to_numpy("float64")


def _require_equal_labels(names: pd.Series, groups_N: NDArray[np.int64], labels_NC: Floats) -> None:
    first = np.unique(groups_N, return_index=True)[1][groups_N]
    same = (labels_NC == labels_NC[first]) | (np.isnan(labels_NC) & np.isnan(labels_NC[first]))
    if not same.all():
        name = names[~same.all(axis=1)].iloc[0]
        raise InputError(f"samples.parquet: images of group {name} have different labels")


def class_embedding(model: Any, prompts: Sequence[str], average: PromptAverage) -> Floats:
    """Embedding [P] of a class, at which a linear head starts."""
    weights_P = model.similarity.prompt_weights(model.encode_texts(list(prompts)), average)
    return np.asarray(weights_P.cpu().numpy())


def class_prompts(
    classes: Sequence[str],
    settings: ClassificationSettings,
    positive: Sequence[str] | None = None,
    negative: Sequence[str] | None = None,
) -> list[tuple[list[str], list[str]]]:
    """The prompts of each class's absence, and of its presence.

    ``positive``, ``negative``: in place of the settings' general prompts.

    Raises:
        InputError: the prompts of several classes do not name the class, or a class of absence is
            asked for like a finding.
    """
    general = (positive or settings.positive_prompts, negative or settings.negative_prompts)
    prompts = []
    published = PROMPT_SETS[settings.prompts] if settings.prompts and positive is None else None
    for name in classes:
        of_class = settings.class_prompts.get(name) if positive is None else None
        if published is not None and of_class is None:
            present, absent = map(list, published.of(name))
            prompts.append((absent, present))
            continue
        texts = general if of_class is None else (of_class.positive, of_class.negative)
        if of_class is None and len(classes) > 1 and not any("{}" in text for text in general[0]):
            raise InputError(
                f"settings: prompt '{general[0][0]}' does not say which class; expected {{}} in "
                f"it, or class_prompts for {name}"
            )
        by_name = of_class is None and positive is None and not settings.exclusive
        if by_name and name.lower() in TURNED:
            _require_own_prompts(name, texts[1])
        words = name.replace("_", " ").lower()
        present, absent = ([text.replace("{}", words) for text in side] for side in texts)
        prompts.append((absent, present))
    return prompts


def _require_own_prompts(name: str, negative: Sequence[str]) -> None:
    """Refuse to ask for the absence of a class that is itself an absence, such as No Finding."""
    for text in negative:
        if "{}" in text:
            raise InputError(
                f"settings: class '{name}' says that nothing is there, so that prompt "
                f"'{text.replace('{}', name.lower())}' turns it round; expected class_prompts for "
                "it, or a set such as `prompts: chexzero`"
            )
