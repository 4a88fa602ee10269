"""Inputs of the training programs: paired cohorts, tokenizers, and fingerprints of both."""

import logging
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import nn

from cxr_files.atomic import file_digest, fingerprint, read_object
from cxr_files.drops import EXAMPLES, Drop, Tally
from cxr_files.errors import InputError
from cxr_files.ids import in_brackets
from cxr_files.parquet import read_table
from cxrflow.data.cohorts.settings import ALL, TrainingShare
from cxrflow.text.sentences import has_text, sentences_of
from cxrflow.text.tokenizer import VocabularyInfo, rewrite_tokenizer
from cxrflow.training.batch_norm import convert
from cxrflow.training.processes import Processes
from cxrflow.training.samples import SampleTable

if TYPE_CHECKING:
    from cxrflow.images.store import PixelStore

log = logging.getLogger("cxrflow")

TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json")
PRIOR = "prior_image_id"
# Multiples of it lie in [0, 1) as far from each other as any number of them can.
GOLDEN = (5**0.5 - 1) / 2
COLUMNS = ("subject_id", "study_id", "image_id", "findings", "impression", "split")


class Run(NamedTuple):
    """This process's part in a training."""

    seed: int
    device: torch.device
    processes: Processes


#: Fields of a cohort's ``flow.json`` that every training reads.
FLOW = {"dataset": str, "cohort": str, "synthetic": bool}  # may have `layout`


class Pairs:
    """``pairs.parquet`` of a cohort, by split, with what is known about its data set.

    ``dropped`` lists what :meth:`split` left out, with study ids as examples. Of the training rows
    those of its ``share`` are read.
    """

    def __init__(self, path: str | Path, share: TrainingShare = ALL) -> None:
        self.path, self.share = Path(path), share
        self.frame = read_table(self.path, COLUMNS)
        flow = self.path.with_name("flow.json")
        self.flow = read_object(flow, FLOW)
        self.dropped: list[Drop] = []
        self._check()

    def _check(self) -> None:
        """Each study (or image) once, each patient in one split: an edited table must not leak."""
        key = "image_id" if self.flow.get("settings", {}).get("unit") == "image" else "study_id"
        twice = self.frame.loc[self.frame[key].duplicated(), key].unique()
        if len(twice):
            raise InputError(
                f"{self.path}: {len(twice)} value(s) of {key} stand in several rows "
                f"({', '.join(map(str, twice[:EXAMPLES]))}); expected each once"
            )
        splits = self.frame.groupby("subject_id")["split"].nunique()
        leaking = splits.index[splits > 1]
        if len(leaking):
            raise InputError(
                f"{self.path}: {len(leaking)} patient(s) stand in two splits "
                f"({', '.join(map(str, leaking[:EXAMPLES]))}); expected each in one"
            )

    def split(
        self,
        name: str,
        sections: Sequence[str] = (),
        store: "PixelStore | None" = None,
        max_dropped_share: float = 0.0,
        priors: bool = False,
    ) -> pd.DataFrame:
        """Rows of a split with text in each of ``sections`` and, if given, pixels in ``store``.

        What is left out is counted in ``dropped``, with ``priors`` those too that are not in the
        store: their studies stay, without them.

        Raises:
            InputError: no row is left, or the store lacks more than ``max_dropped_share`` of the
                images.
        """
        frame, before = self.frame[self.frame["split"] == name], len(self.dropped)
        if name == "train" and self.share.share < 1:
            if "share" not in frame:
                raise InputError(
                    f"{self.path}: column 'share' is missing; settings key 'training_share' "
                    f"({self.share.share:g}) expects a cohort with `share_unit`"
                )
            reason = f"beyond the training share of {self.share.share:g}"
            turned = (frame["share"].to_numpy() + self.share.subset * GOLDEN) % 1
            frame = self._keep(frame, turned < self.share.share, name, reason)
        for section in sections:
            has_section = [has_text(sentences) for sentences in sentences_of(frame, section)]
            frame = self._keep(
                frame, np.array(has_section, dtype=bool), name, f"no text in {section}"
            )
        if store is not None:
            frame = self._keep(frame, frame["image_id"].notna().to_numpy(), name, "no image")
            stored = store.holds(frame["image_id"])
            lost = Drop.of("image is not in it", frame["image_id"][~stored], failed=True)
            tally = Tally(f"pixel store, {name}", "images", int(stored.sum()), [lost])
            tally.require_few(store.path, max_dropped_share, "max_dropped_share")
            frame = self._keep(frame, stored, name, "image is not in the pixel store")
            if priors:
                stored = frame[PRIOR].isna().to_numpy() | store.holds(frame[PRIOR])
                self._keep(frame, stored, name, "prior is not in the pixel store, its study stays")
        if frame.empty:
            left_out = ", ".join(f"{drop.reason} ({drop.count})" for drop in self.dropped[before:])
            raise InputError(
                f"{self.path}: no row of split '{name}'"
                + (f" is left; left out: {left_out}" if left_out else "")
            )
        if name == "train" and self.share.share < 1 and len(frame) < self.share.fewest:
            raise InputError(
                f"{self.path}: settings key 'training_share' is {self.share.share:g}, which leaves "
                f"{len(frame)} training rows; expected at least a batch of {self.share.fewest}"
            )
        return frame.reset_index(drop=True)

    def reported(
        self, name: str, sections: Sequence[str], store: "PixelStore", max_dropped_share: float
    ) -> pd.DataFrame:
        """Rows of a split with pixels in ``store`` and text in at least one of ``sections``.

        Raises:
            InputError: as :meth:`split`.
        """
        frame = self.split(name, (), store, max_dropped_share)
        reports = zip(*(sentences_of(frame, section) for section in sections), strict=True)
        has_report = np.array([any(map(has_text, report)) for report in reports], dtype=bool)
        return self.keep_reports(frame, has_report, name, f"no text in {' or '.join(sections)}")

    def keep_reports(
        self, frame: pd.DataFrame, keep: NDArray[np.bool_], split: str, reason: str
    ) -> pd.DataFrame:
        """Rows of ``frame`` that ``keep`` is true of; an :class:`InputError` if it is of none."""
        frame = self._keep(frame, keep, split, reason)
        if frame.empty:
            raise InputError(f"{self.path}: split '{split}': every report has {reason}")
        return frame.reset_index(drop=True)

    def samples(
        self,
        frame: pd.DataFrame,
        key: str = "study_id",
        with_prior: NDArray[np.bool_] | None = None,
    ) -> SampleTable:
        """Return the rows of a split as samples whose ids are in the column ``key``."""
        groups = frame.get("group_id", frame["study_id"]).fillna(frame["study_id"]).to_numpy("str")
        labels = np.stack(frame["labels"].to_list()) if "labels" in frame else None
        classes = tuple(self.flow.get("classes", ()))
        # A study of nobody known (Open-I) is a patient of its own.
        patients = frame["subject_id"].fillna(frame["study_id"]).to_numpy("str")
        return SampleTable(frame[key].tolist(), with_prior, groups, labels, classes, patients)

    def _keep(
        self, frame: pd.DataFrame, keep: NDArray[np.bool_], split: str, reason: str
    ) -> pd.DataFrame:
        drop = Drop.of(reason, frame["study_id"][~keep], part=split)
        if drop.count:
            self.dropped.append(drop)
            ids = in_brackets(drop.examples)
            log.warning("%s: %d rows left out: %s%s", split, drop.count, reason, ids)
        return frame[keep]

    def describe(self) -> dict[str, Any]:
        """The entries of ``run.json`` on the data."""
        return {
            "name": self.flow["dataset"],
            "layout": self.flow.get("layout"),
            "cohort": self.flow["cohort"],
            "synthetic": bool(self.flow["synthetic"]),
            "fingerprint": file_digest(self.path)[:16],
            "dropped": [drop.counted() for drop in self.dropped],
        }


def images_record(
    pairs: Pairs, store: "PixelStore", samples: Mapping[str, SampleTable]
) -> dict[str, Any]:
    """The entries of ``run.json`` on pairs, their pixels, and the samples of both splits."""
    return {
        **pairs.describe(),
        "geometry": str(store.geometry),
        "pixels": file_digest(store.path / "store.json")[:16],
        "train_samples": len(samples["train"]),
        "validation_samples": len(samples["validate"]),
    }


def copy_tokenizer(source: Path, target: Path) -> None:
    """Put the vocabulary beside the weights, so that the folder stands alone."""
    if all((source / name).is_file() for name in TOKENIZER_FILES):
        for name in TOKENIZER_FILES:
            shutil.copy(source / name, target / name)
        return
    # Released folders may have vocab.txt alone; the other files say what was read from it.
    rewrite_tokenizer(source, target)


def require_same_vocabulary(model: Path, vocabulary: VocabularyInfo, source: Path) -> None:
    """A run continues with the word pieces its model knows: the same ids must mean the same."""
    model_vocabulary = VocabularyInfo.from_folder(model)
    if model_vocabulary.fingerprint != vocabulary.fingerprint:
        raise InputError(
            f"{model}: was trained with another vocabulary ({model_vocabulary.size} pieces, "
            f"fingerprint {model_vocabulary.fingerprint}) than {source} ({vocabulary.size} pieces, "
            f"fingerprint {vocabulary.fingerprint}); expected the same"
        )


def model_fingerprint(folder: str | Path | None) -> str | None:
    """Digest of the weights a run starts from, of both encoders where the model has them."""
    if folder is None:
        return None
    files = [Path(folder) / name for name in ("model.safetensors", "image/model.safetensors")]
    digests = [file_digest(path) for path in files if path.is_file()]
    if not digests:
        raise InputError(f"{folder}: holds no model.safetensors")
    return digests[0][:16] if len(digests) == 1 else fingerprint(digests)


def require_whole_ghosts(batch_size: int, ghost_batch: int | None, processes: Processes) -> None:
    """Each process's share of a batch must be whole ghost batches."""
    if ghost_batch is not None and batch_size % (ghost_batch * processes.world):
        raise InputError(
            f"settings: key 'ghost_batch' is {ghost_batch} and training.batch_size {batch_size}; "
            f"with {processes.world} processes expected a batch_size that is a multiple of "
            f"{ghost_batch * processes.world}"
        )


def move(
    module: nn.Module, device: torch.device, processes: Processes, ghost_batch: int | None = None
) -> None:
    """Take a module to the device it trains on.

    Convolution weights are stored channels-last, which the CPU and GPU kernels prefer. Batch
    normalisation takes its statistics over all processes, or over each ``ghost_batch`` of samples.
    """
    if processes.world > 1 or ghost_batch is not None:
        convert(module, ghost_batch)
    module.to(device)
    module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # not in the stubs
