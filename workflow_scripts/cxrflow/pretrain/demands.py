"""What a training asks of the rows of its cohort, by the functions with which it reads them.

Called when the cohort is built (:mod:`cxrflow.data.cohorts.demands`), with a store that holds every
image: a share, a part, a section or a class that leaves too little is known then.
"""

from collections.abc import Callable, Sequence
from functools import singledispatch
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd

from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.data.cohorts.demands import ASKER, UnmetError, other_split
from cxrflow.data.cohorts.settings import TrainingShare
from cxrflow.data.cohorts.unread import Asked, EveryImage, NotRead
from cxrflow.pretrain.inputs import PRIOR, Pairs
from cxrflow.pretrain.objective import Encoders
from cxrflow.pretrain.pairs.tables import require_earlier_priors
from cxrflow.pretrain.registry import TRAINING_PROGRAMS
from cxrflow.pretrain.resident_images import other_patients
from cxrflow.pretrain.section_pairs import matched_reports, single_section, words_alone
from cxrflow.pretrain.settings import (
    CaptionTrainingSettings,
    ImagePretrainingSettings,
    JointPretrainingSettings,
    ReportTrainingSettings,
    SentencePairSettings,
    StoredImagesSettings,
    SupervisedSettings,
    TextPretrainingSettings,
)
from cxrflow.pretrain.terms import term_class
from cxrflow.training.sampler import choose_sampler, contrastive_batches
from cxrflow.training.samples import SampleTable

STORE: Any = EveryImage()
PARTS = ("train", "validate")


def require_rows(
    folder: Path,
    program: str,
    values: dict[str, Any],
    packed: bool = False,
    seeds: Sequence[int] = (0,),
) -> None:
    """Read the rows of a training, and what its sampler, terms and validation make of them.

    ``packed``: it trains on packed corpora, of which the cohort only validates. ``seeds``: those
    whose share of the rows is another.

    Raises:
        InputError: as the training would; :class:`UnmetError` where a line mends it.
    """
    entry = TRAINING_PROGRAMS[program]
    settings: Any = entry.settings.model_validate(values)
    for seed in seeds:
        _require_rows_of(seed, folder, entry.table, settings, packed)


def _require_rows_of(seed: int, folder: Path, reader: str, settings: Any, packed: bool) -> None:
    """The same of one seed; ``reader``: of the table, as the registry names it."""
    module, _, name = reader.partition(":")
    table = getattr(import_module(f"cxrflow.pretrain.{module}"), name)
    file = "samples.parquet" if (folder / "samples.parquet").is_file() else "pairs.parquet"
    size = settings.training.batch_size
    stored = isinstance(settings, StoredImagesSettings)
    share = settings.share(seed) if stored else TrainingShare()
    splits = PARTS[1:] if packed else PARTS

    def read(fewest: int) -> dict[str, SampleTable]:
        pairs = table(folder / file, share._replace(fewest=fewest))
        if packed:
            return {split: pairs.samples(pairs.split(split)) for split in splits}
        return {split: samples(settings, pairs, split) for split in splits}

    try:
        by_part = read(size)
    except InputError as error:
        present = read_table(folder / file, ("split",))["split"].unique()
        has_parts = set(splits) <= set(present)
        remedy = _smaller_batch(read) if has_parts else other_split(folder)
        raise UnmetError(str(error), remedy) from None
    if packed:
        return
    kinds = {name: term_class(name, term) for name, term in settings.terms.named().items()}
    for name, term in settings.terms.named().items():
        _require_samples(kinds[name], term, by_part["train"], settings)
    choose_sampler(settings.training.sampler, by_part["train"], size, 0)
    if any(kind.compares for kind in kinds.values()):
        try:
            contrastive_batches(len(by_part["validate"]), size)
        except InputError as error:
            raise UnmetError(str(error), other_split(folder)) from None


def _smaller_batch(read: Callable[[int], dict[str, SampleTable]]) -> str:
    """The line that mends too few training rows; "" where no batch would."""
    try:
        count = len(read(1)["train"])
    except InputError:
        return ""
    largest = 2 ** (count.bit_length() - 1)
    return f"models: {{{ASKER}: {{training: {{batch_size: {largest}}}}}}}"


def _require_samples(kind: Any, term: Any, train: SampleTable, settings: Any) -> None:
    """Begin to make a term, which looks at the samples before it asks for the encoders."""
    encoder: Any = SimpleNamespace(settings=getattr(settings, "encoder", NotRead()))
    unread: Any = NotRead()
    encoders = Encoders(train, unread, encoder, unread, unread, None)
    try:
        kind(term, encoders)
    except Asked:
        return


# --- the rows of a part, by the settings of a program ---------------------------------------------


@singledispatch
def samples(settings: Any, pairs: Any, split: str) -> SampleTable:
    """The samples of a part (train, validate) of ``pairs``."""
    raise NotImplementedError(type(settings).__name__)


@samples.register
def _(settings: TextPretrainingSettings, pairs: Pairs, split: str) -> SampleTable:
    section = single_section(pairs, settings)
    if section is None:
        return pairs.samples(matched_reports(pairs, split, settings))
    return pairs.samples(matched_reports(pairs, split, words_alone(settings, section), (section,)))


@samples.register
def _(settings: ImagePretrainingSettings, pairs: Pairs, split: str) -> SampleTable:
    return pairs.samples(pairs.split(split, (), STORE), "image_id")


@samples.register
def _(settings: SentencePairSettings, pairs: Any, split: str) -> SampleTable:
    table: SampleTable = pairs.labelled(pairs.rows(split))
    return table


@samples.register
def _(settings: SupervisedSettings, pairs: Any, split: str) -> SampleTable:
    table: SampleTable = pairs.labelled(pairs.split(split, (), STORE), settings.terms.findings)
    return table


@samples.register
def _(settings: JointPretrainingSettings, pairs: Any, split: str) -> SampleTable:
    two_images = settings.encoder.takes_prior
    reports: pd.DataFrame = pairs.samples_of(pairs.rows(split, settings, STORE, two_images))
    if settings.shuffled_pairs and split == "train":
        other_patients(reports["subject_id"], 0)
    with_prior = reports[PRIOR].notna().to_numpy() if two_images else None
    table: SampleTable = pairs.samples(reports, with_prior=with_prior)
    return table


@samples.register
def _(settings: ReportTrainingSettings, pairs: Pairs, split: str) -> SampleTable:
    reads = settings.decoder
    if reads.prior_report:
        require_earlier_priors(pairs)
    required = "impression" if "impression" in reads.sections else "findings"
    return pairs.samples(pairs.split(split, (required,), STORE))


@samples.register
def _(settings: CaptionTrainingSettings, pairs: Pairs, split: str) -> SampleTable:
    return pairs.samples(pairs.reported(split, settings.decoder.report.sections, STORE, 1.0))
