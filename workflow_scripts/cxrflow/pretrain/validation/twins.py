"""The twins of a joint training: the same recipe, drawn again by other seeds and never trained.

What a recipe loads (an image encoder of SimCLR, CXR-BERT) twins load as well; what it draws
(projections, heads, an encoder without a start) each draws for itself. All are validated on the
pairs of the training. Their statistic is the rank of the true pair, on which no temperature bears
(:mod:`cxrflow.metrics.permuted_pairs`); the test is :func:`cxrflow.metrics.twins.twin_p`.

Models of shuffled pairs, which a recipe may name, are twins as well: they have what a training does
to a projection, and the best of several validations, without a pair that belongs together.

Untrained ones cost forward passes alone, of the trunks one for all of them where the trunks are
loaded. Their ranks are kept in a file, whose name follows from all that decides them, and not from
the seed of a training: its seeds have the same twins.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.modules.batchnorm import _BatchNorm

from cxr_files.atomic import fingerprint, read_object, write_json
from cxr_files.errors import InputError
from cxrflow.kinds import REHEARSAL
from cxrflow.metrics.permuted_pairs import RankSums
from cxrflow.metrics.twins import TWINS
from cxrflow.models.run_record import read_run
from cxrflow.pretrain.objective import Batch, TermsProgram
from cxrflow.pretrain.validation.permutation import QUESTIONS
from cxrflow.pretrain.validation.shared_trunks import SharedTrunks
from cxrflow.training.batch_norm import revert
from cxrflow.training.processes import Processes

log = logging.getLogger("cxrflow")

Ranks = dict[str, list[float]]  # by term, of each twin

#: Settings of a training that decide its validation.
_VALIDATING = ("batch_size", "validation_batches")
#: Entries of ``run.json`` on the data that do.
_VALIDATED = ("fingerprint", "pixels", "text", "image")


class Twins:
    """The ranks of a training's twins; measured when they are first asked for, all processes alike.

    ``draw``: makes the program from torch's random state. ``decides``: what the ranks follow from.
    ``folder``: keeps them; None: they are measured anew.
    """

    def __init__(
        self,
        draw: Callable[[], TermsProgram],
        decides: Mapping[str, Any],
        folder: Path | None,
        processes: Processes,
    ) -> None:
        self.draw, self.processes = draw, processes
        self.count = 1 if os.environ.get(REHEARSAL) else TWINS  # a rehearsal judges nothing
        self.path = folder and folder / f"{fingerprint({**decides, 'twins': self.count})}.json"
        self._ranks: Ranks | None = None

    def __call__(self) -> Ranks:
        """By term that pairs images and texts; a term that scores no pair untrained is left out."""
        if self._ranks is None:
            self._ranks = self.processes.collect(self.processes.first(self._kept))[0]
        if self._ranks is None:
            begun = time.monotonic()
            ranks = self._ranks = untrained_ranks(self.draw, self.processes, self.count)
            seconds = time.monotonic() - begun
            log.info("validated %d untrained starts in %.0f s", self.count, seconds)
            if self.path is not None and self.processes.is_first:
                write_json(self.path, ranks)
        return self._ranks

    def _kept(self) -> Ranks | None:
        if self.path is None or not self.path.is_file():
            return None
        ranks: Ranks = read_object(self.path)
        for name, values in ranks.items():
            is_complete = isinstance(values, list) and len(values) == self.count
            if not is_complete or not all(isinstance(x, float) and 0 <= x <= 1 for x in values):
                raise InputError(
                    f"{self.path}: field '{name}' is {values!r}; expected the ranks of "
                    f"{self.count} twins, from 0 to 1. Delete the file to have them measured again"
                )
        return ranks


def deciding(settings: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Of a training's record what decides its twins: no seed, no optimiser, no shuffled text."""
    model_settings = {k: v for k, v in settings.items() if k not in ("training", "shuffled_pairs")}
    return {
        "settings": {
            **model_settings,
            **{name: settings["training"].get(name) for name in _VALIDATING},
        },
        "data": {name: data[name] for name in _VALIDATED},
    }


def shuffled_ranks(
    folders: Sequence[Path], settings: Mapping[str, Any], data: Mapping[str, Any]
) -> Ranks:
    """The ranks of models that were trained on shuffled pairs, by term, by their run.json.

    ``settings``, ``data``: of the training whose twins they are.

    Raises:
        InputError: one is of true pairs, of other settings, or was validated on other pairs.
    """
    ranks: Ranks = {}
    for folder in folders:
        path, run = folder / "run.json", read_run(folder)
        twin_settings = {**settings, "shuffled_pairs": True}
        for name in sorted(twin_settings.keys() | run.get("settings", {}).keys()):
            if _compared(twin_settings, name) != _compared(run.get("settings", {}), name):
                raise InputError(
                    f"{path}: setting '{name}' is {run.get('settings', {}).get(name)!r}; expected "
                    f"{twin_settings.get(name)!r}: a twin differs in `shuffled_pairs` "
                    "alone, which it has"
                )
        for name in _VALIDATED:
            if run["data"].get(name) != data[name]:
                raise InputError(
                    f"{path}: field 'data.{name}' is {run['data'].get(name)!r}; expected "
                    f"{data[name]!r}, as of the training whose twin it is"
                )
        for name, term in run["permuted_pairs"]["terms"].items():
            if term["rank"] is not None:
                ranks.setdefault(name, []).append(term["rank"]["value"])
    return ranks


def _compared(settings: Mapping[str, Any], name: str) -> Any:
    """A setting, but of a training how often a checkpoint of it is kept."""
    value = settings.get(name)
    if name == "training" and isinstance(value, Mapping):
        return {key: each for key, each in value.items() if key != "checkpoint_validations"}
    return value


@torch.no_grad()
def untrained_ranks(
    draw: Callable[[], TermsProgram], processes: Processes, count: int = TWINS
) -> Ranks:
    """Draw the twins and validate them; torch's random state is left as it was."""
    with torch.random.fork_rng():
        programs = []
        for seed in range(count):
            torch.manual_seed(seed)
            programs.append(draw())
            if seed == 0:
                trunks = SharedTrunks(programs[0].modules)
            else:
                trunks.give(programs[-1].modules)
        sums_here = _validated(programs, trunks, processes)
    sums: dict[str, list[RankSums]] = {}
    for of_process in processes.collect(sums_here):
        for name, ranks in of_process.items():
            before = sums.get(name, [RankSums()] * count)
            sums[name] = [a + b for a, b in zip(before, ranks, strict=True)]
    means = {name: [each.mean for each in of_twins] for name, of_twins in sums.items()}
    return {n: [x for x in of_n if x is not None] for n, of_n in means.items() if None not in of_n}


def _validated(
    programs: Sequence[TermsProgram], trunks: SharedTrunks, processes: Processes
) -> dict[str, list[RankSums]]:
    """The sums of ranks of this process's batches, by term and twin."""
    terms = [name for name, term in programs[0].terms.items() if term.pairs in QUESTIONS]
    sums = {name: [RankSums()] * len(programs) for name in terms}
    batches, first = programs[0].validation_batches()
    for program in programs:
        _normalise(program, trunks, batches[0], terms)
    for batch in batches[processes.rank :: processes.world]:
        counts = np.isin(batch.rows, first)
        for place, program in enumerate(programs):
            views = program.views("validate", batch)
            for name in terms:
                compared = program.terms[name].comparisons(views)
                for score_KK in () if compared is None else compared.counted(counts):
                    sums[name][place] += RankSums.of(score_KK)
        trunks.forget()
    return sums


def _normalise(
    program: TermsProgram, trunks: SharedTrunks, batch: Batch, terms: Sequence[str]
) -> None:
    """Give the batch normalisations that a twin has drawn the statistics of a batch.

    A step of training would, whether or not it teaches anything. Without them deep layers of a new
    encoder see next to no difference between images. Trunks that are loaded bring their own. All
    processes have the batch, and none asks the others.
    """
    for module in program.modules.values():
        revert(module.eval())
    layers = (layer for module in program.modules.values() for layer in module.modules())
    drawn_layers = [x for x in layers if isinstance(x, _BatchNorm) and x not in trunks.layers()]
    if not drawn_layers or len(batch.rows) < 2:  # a single sample has no statistics
        return
    for layer in drawn_layers:
        layer.train()
        layer.momentum = 1.0
    views = program.views("validate", batch)
    for name in terms:
        program.terms[name].comparisons(views)
    for layer in drawn_layers:
        layer.eval()
