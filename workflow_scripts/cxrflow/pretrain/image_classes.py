"""Labelled images of the supervised program: the class of each, one of C, or C findings.

ConVIRT's image encoders start from a trunk that was trained so on ImageNet (Appendix A).
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from cxr_files.atomic import read_object
from cxr_files.drops import EXAMPLES
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.data.cohorts.settings import ALL, TrainingShare
from cxrflow.pretrain.inputs import FLOW, Pairs
from cxrflow.pretrain.terms.label_settings import FindingsSettings
from cxrflow.training.samples import SampleTable


class LabelledSamples(Pairs):
    """``samples.parquet`` of a classification cohort, or ``pairs.parquet`` with labels."""

    def __init__(self, path: str | Path, share: TrainingShare = ALL) -> None:
        self.path, self.share = Path(path), share
        sample = "study_id" if self.path.name == "pairs.parquet" else "sample_id"
        columns = ("subject_id", sample, "image_id", "labels", "split")
        # What is left out is named as in a table of pairs.
        self.frame = read_table(self.path, columns).rename(columns={sample: "study_id"})
        flow = self.path.with_name("flow.json")
        self.flow = read_object(flow, {**FLOW, "classes": list})
        self.classes = list(self.flow["classes"])
        self.dropped = []

    def labelled(self, rows: pd.DataFrame, findings: FindingsSettings | None) -> SampleTable:
        """The samples with what is trained on as labels: a class of each, or its ``findings``."""
        labels = self.class_of(rows) if findings is None else self.labels_of(rows, findings)
        return replace(self.samples(rows, "image_id"), labels=labels)

    def class_of(self, rows: pd.DataFrame) -> NDArray[np.int64]:
        """The number of each row's class, [N].

        Raises:
            InputError: a row is not of exactly one class.
        """
        labels = np.stack(rows["labels"].to_list())
        strange = rows["study_id"][(labels == 1).sum(axis=1) != 1]
        if len(strange):
            raise InputError(
                f"{self.path}: {len(strange)} of {len(rows)} samples are not of exactly one class "
                f"({', '.join(map(str, strange[:EXAMPLES]))}); expected one label of 1 a row"
            )
        return (labels == 1).argmax(axis=1)

    def labels_of(self, rows: pd.DataFrame, settings: FindingsSettings) -> NDArray[np.float32]:
        """Labels [N, C] of the findings asked for: 1, 0, or NaN for one that does not count.

        Raises:
            InputError: a finding is not the cohort's.
        """
        strange = {*settings.classes, *settings.uncertain} - set(self.classes)
        if strange:
            raise InputError(
                f"{self.path}: terms.findings names '{min(strange)}'; the cohort has "
                f"{', '.join(self.classes)}"
            )
        all_labels = pd.DataFrame(np.stack(rows["labels"].to_list()), columns=self.classes)
        labels = all_labels[settings.classes]
        if settings.unknown == "zero":
            labels = labels.fillna(0)
        counts_as = {"zero": 0.0, "one": 1.0}
        for name in settings.classes:
            value = counts_as.get(settings.uncertain.get(name, ""), np.nan)
            labels = labels.assign(**{name: labels[name].mask(labels[name] == -1, value)})
        return labels.to_numpy("float32")
