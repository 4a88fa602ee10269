"""The twins of a joint training: the same recipe, drawn again by other seeds and never trained.

What a recipe loads (an image encoder of SimCLR, CXR-BERT) twins load as well; what it draws
(projections, heads, an encoder without a start) each draws for itself. All are validated on the
pairs of the training. Their statistic is the rank of the true pair, on which no temperature bears
(:mod:`cxrflow.metrics.permuted_pairs`); the test is :func:`cxrflow.metrics.twins.twin_p`.

They cost forward passes alone, of the trunks one for all of them where the trunks are loaded. Their
ranks are kept in a file, whose name follows from all that decides them, and not from the seed of a
training: its seeds have the same twins.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from cxr_files.atomic import fingerprint, read_object, write_json
from cxr_files.errors import InputError
from cxrflow.metrics.permuted_pairs import RankSums
from cxrflow.metrics.twins import TWINS
from cxrflow.pretrain.objective import TermsProgram
from cxrflow.training.processes import Processes

#: What terms pair that untrained starts are asked as well: the start of a text encoder reads masked
#: words already, and a joint training need not teach it more.
QUESTIONS = ("image and text", "side of image and text")

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
        self.path = folder and folder / f"{fingerprint({**decides, 'twins': TWINS})}.json"
        self._ranks: Ranks | None = None

    def __call__(self) -> Ranks:
        """By term that pairs images and texts; a term that scores no pair untrained is left out."""
        if self._ranks is None:
            self._ranks = self.processes.collect(self.processes.first(self._kept))[0]
        if self._ranks is None:
            ranks = self._ranks = untrained_ranks(self.draw, self.processes)
            self.processes.first(lambda: self.path and write_json(self.path, ranks))
        return self._ranks

    def _kept(self) -> Ranks | None:
        if self.path is None or not self.path.is_file():
            return None
        ranks: Ranks = read_object(self.path)
        for name, values in ranks.items():
            whole = isinstance(values, list) and len(values) == TWINS
            if not whole or not all(isinstance(x, float) and 0 <= x <= 1 for x in values):
                raise InputError(
                    f"{self.path}: field '{name}' is {values!r}; expected the ranks of {TWINS} "
                    "twins, from 0 to 1. Delete the file to have them measured again"
                )
        return ranks


def deciding(settings: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Of a training's record what decides its twins: no seed, no optimiser, no shuffled text."""
    kept = {k: v for k, v in settings.items() if k not in ("training", "shuffled_pairs")}
    return {
        "settings": {**kept, **{name: settings["training"].get(name) for name in _VALIDATING}},
        "data": {name: data[name] for name in _VALIDATED},
    }


@torch.no_grad()
def untrained_ranks(draw: Callable[[], TermsProgram], processes: Processes) -> Ranks:
    """Draw the twins and validate them; torch's random state is left as it was."""
    with torch.random.fork_rng():
        programs = []
        for seed in range(TWINS):
            torch.manual_seed(seed)
            programs.append(draw())
            for module in programs[-1].modules.values():
                module.eval()
            share_trunks(programs[0], programs[-1])
        sums_here = _validated(programs)
    sums: dict[str, list[RankSums]] = {}
    for of_process in processes.collect(sums_here):
        for name, ranks in of_process.items():
            before = sums.get(name, [RankSums()] * TWINS)
            sums[name] = [a + b for a, b in zip(before, ranks, strict=True)]
    means = {name: [each.mean for each in of_twins] for name, of_twins in sums.items()}
    return {n: [x for x in of_n if x is not None] for n, of_n in means.items() if None not in of_n}


def _validated(programs: Sequence[TermsProgram]) -> dict[str, list[RankSums]]:
    """The sums of ranks of this process's batches, by term and twin."""
    terms = [name for name, term in programs[0].terms.items() if term.pairs in QUESTIONS]
    sums = {name: [RankSums()] * len(programs) for name in terms}
    batches, first = programs[0].validation_batches()
    for batch in batches:
        counts = torch.isin(torch.from_numpy(batch.rows), torch.from_numpy(first)).numpy()
        forget(programs[0])
        for place, program in enumerate(programs):
            views = program.views("validate", batch)
            for name in terms:
                compared = program.terms[name].comparisons(views)
                for score_KK in () if compared is None else compared.counted(counts):
                    sums[name][place] += RankSums.of(score_KK)
    return sums


#: By encoder: its attribute that most recipes load, and the functions through which it is used.
_TRUNKS = {
    "image": ("encoder", ("encoder.forward", "encoder.forward_until", "encoder.forward_from")),
    "text": ("bert", ("last_states",)),
}


class Remembered:
    """A function that gives again what it gave for equal arguments, until it is to forget."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, list[tuple[Any, Any]]()

    def __call__(self, *arguments: Any) -> Any:
        for before, result in self.calls:
            if _equal(before, arguments):
                return result
        self.calls.append((arguments, self.function(*arguments)))
        return self.calls[-1][1]


def share_trunks(first: TermsProgram, twin: TermsProgram) -> None:
    """Give a twin the first one's trunks where they are equal, whose results are remembered."""
    for name, (part, functions) in _TRUNKS.items():
        shared, own = first.modules[name], twin.modules[name]
        same = shared is own or _equal(*(_weights(getattr(m, part)) for m in (shared, own)))
        if same and shared is not own:
            setattr(own, part, getattr(shared, part))
        for path in functions if same else ():
            *owner, function = path.split(".")
            source, target = (m.get_submodule(".".join(owner)) for m in (shared, own))
            known = getattr(source, function)
            remembered = known if isinstance(known, Remembered) else Remembered(known)
            setattr(target, function, remembered)


def forget(first: TermsProgram) -> None:
    """Forget what the trunks of twins gave for a batch."""
    for name, (_, functions) in _TRUNKS.items():
        for path in functions:
            *owner, function = path.split(".")
            getattr(first.modules[name].get_submodule(".".join(owner)), function).calls.clear()


def _weights(module: nn.Module) -> list[torch.Tensor]:
    return list(module.state_dict().values())


def _equal(a: Any, b: Any) -> bool:
    """Compare arguments, tensors by their values."""
    if a is b:
        return True
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, Sequence) and not isinstance(a, str):
        return isinstance(b, Sequence) and len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
