"""The supervised program: N images and the class of each, one of C, or labels of C findings.

ConVIRT's image encoders start from a trunk that was trained so on ImageNet (Appendix A).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from cxrflow.errors import InputError
from cxrflow.files.atomic import read_object
from cxrflow.files.drops import EXAMPLES
from cxrflow.files.parquet import read_table
from cxrflow.pretrain.inputs import Pairs
from cxrflow.pretrain.objective import Batch, Run
from cxrflow.pretrain.resident_images import SplitImages
from cxrflow.pretrain.settings import SupervisedSettings
from cxrflow.pretrain.terms.settings import FindingsSettings
from cxrflow.pretrain.two_views import TwoViews, TwoViewsProgram


class Samples(Pairs):
    """``samples.parquet`` of a classification cohort."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        columns = ("subject_id", "sample_id", "image_id", "labels", "split")
        # What is left out is named as in a table of pairs.
        self.frame = read_table(self.path, columns).rename(columns={"sample_id": "study_id"})
        flow = self.path.with_name("flow.json")
        self.flow = read_object(flow, ("dataset", "cohort", "synthetic", "classes"))
        self.classes = list(self.flow["classes"])
        self.dropped = []

    def class_of(self, rows: pd.DataFrame) -> Tensor:
        """The number of each row's class, int64 [rows].

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
        return torch.from_numpy((labels == 1).argmax(axis=1))

    def labels_of(self, rows: pd.DataFrame, settings: FindingsSettings) -> Tensor:
        """Labels [rows, C] of the findings asked for: 1, 0, or NaN for one that does not count.

        Raises:
            InputError: a finding is not the cohort's.
        """
        strange = {*settings.classes, *settings.uncertain} - set(self.classes)
        if strange:
            raise InputError(
                f"{self.path}: terms.findings names '{min(strange)}'; the cohort has "
                f"{', '.join(self.classes)}"
            )
        every = pd.DataFrame(np.stack(rows["labels"].to_list()), columns=self.classes)
        labels = every[settings.classes]
        if settings.unknown == "zero":
            labels = labels.fillna(0)
        counts_as = {"zero": 0.0, "one": 1.0}
        for name in settings.classes:
            value = counts_as.get(settings.uncertain.get(name, ""), np.nan)
            labels = labels.assign(**{name: labels[name].mask(labels[name] == -1, value)})
        return torch.from_numpy(labels.to_numpy("float32"))


class ClassViews(TwoViews):
    """A view of each image, and its class."""

    def __init__(self, program: "SupervisedProgram", split: str, batch: Batch) -> None:
        super().__init__(program, program.images[split], batch)
        labels = program.labels[split][torch.from_numpy(batch.own)]
        self.labels = labels.to(program.run.device)  # [N], int64, or of findings [N, C]


class SupervisedProgram(TwoViewsProgram):
    """Trains the trunk on the classes of a cohort's images."""

    def __init__(
        self,
        settings: SupervisedSettings,
        run: Run,
        ids: Sequence[str],
        images: Mapping[str, SplitImages],
        labels: Mapping[str, Tensor],
        classes: int,
        start: nn.Module | None = None,
    ) -> None:
        self.labels, self.classes = labels, classes
        super().__init__(settings, run, ids, images["train"], images["validate"], start)

    def views(self, split: str, batch: Batch) -> ClassViews:
        """Augmented in validation, too, where a view is always the same."""
        return ClassViews(self, split, batch)
