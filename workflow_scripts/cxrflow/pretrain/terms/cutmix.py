"""MedCutMix: pairs of which one takes a finding's sentence and region from the other.

Wang et al. 2026, section 2, beside the terms of any joint training. Both of a pair are positive
for a class. The diagnostic sentence of the source replaces the target's (Eq. 3), the image regions
that the sentence attends to (Eq. 2) are mixed into the target's features (Eq. 4), and images and
reports that are made so are contrasted with each other alone (Eq. 5, 6).

The batch is that of all processes. Each of them makes its share of the pairs.

Shapes: N samples of the batch, K pairs of it, h x w patches, W words, P joint space.
"""

import logging
from collections.abc import Mapping
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from cxr_files.errors import InputError
from cxr_labels.present import positive_findings
from cxrflow.compute.device_copy import sent
from cxrflow.compute.keyed_random import row_state
from cxrflow.encoders.cxr_bert import require_layers
from cxrflow.objectives.biovil import global_alignment
from cxrflow.objectives.cutmix import mixed_features, sentence_regions
from cxrflow.pretrain.objective import Batch, Encoders, Term, Views
from cxrflow.pretrain.report_text import ComposableViews
from cxrflow.pretrain.terms.cutmix_settings import CutmixSettings
from cxrflow.similarity.words import WordReader
from cxrflow.text.diagnostic_sentences import (
    DiagnosticSentences,
    ReadReport,
    pasted,
    read_report,
)
from cxrflow.training.batch_norm import kept_statistics
from cxrflow.training.positive_pairs import PositivePair, draw_pairs
from cxrflow.training.samples import SampleTable

log = logging.getLogger("cxrflow")

PAIRS, EPOCH = 51, 53  # streams of the keyed draws; 52 is a control's
SKIPPED = ("warm_up", "epoch_has_them", "few_pairs")


class Cutmix(Term):
    """The contrast of augmented pairs; in validation there is none."""

    settings: CutmixSettings
    compares, composes = False, True

    def __init__(self, settings: CutmixSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        samples, classes = encoders.samples, settings.classes
        if samples.labels is None:
            raise InputError(
                "settings: key 'terms.cutmix' needs the labels of the training studies, but the "
                "cohort has none; expected `labels: published` or `labels: reports` of the cohort"
            )
        missing = [name for name in classes if name not in samples.classes]
        if missing:
            raise InputError(
                f"settings: key 'terms.cutmix.classes' names {missing[0]}, which the cohort's "
                f"labels lack; expected some of {', '.join(samples.classes)}"
            )
        image, stages = encoders.image.settings, encoders.trunk.stages
        try:
            settings.check_trunk(image, stages)
        except ValueError as error:
            raise InputError(f"settings: {error}") from None
        last = settings.stage == stages
        if image.has_cls and last and settings.cls in ("target", "source"):
            log.warning(
                "terms.cutmix: images are mixed after the last of %d blocks, where the %s's [CLS] "
                "no longer changes by it",
                *(stages, settings.cls),
            )
        require_layers(encoders.text, settings.layers, "terms.cutmix.layers")
        self.columns = [samples.classes.index(name) for name in classes]
        self.count = settings.count
        lacking = [
            name
            for name, column in zip(classes, self.columns, strict=True)
            if _patients(samples, samples.labels[:, column] == 1) < 2
        ]
        if lacking and self.count:
            log.warning(
                "terms.cutmix: no pair can be made of %s: fewer than two patients of the training "
                "part are positive",
                ", ".join(lacking),
            )
        if settings.pairs and not self.count:
            log.warning(
                "terms.cutmix: no pair is made: pairs is %d, fewer than the %d classes",
                *(settings.pairs, len(classes)),
            )
        self.ghost_batch = encoders.ghost_batch
        reader = None if settings.sentences == "name" else positive_findings
        self.diagnostic = DiagnosticSentences(classes, reader)
        self.reader = WordReader.of(encoders.vocabulary, settings.layers, cls_is_word=False)
        self.continues = encoders.vocabulary.continues
        self._values: dict[str, float | Tensor] = {}

    def loss(self, views: Views) -> Tensor:
        assert isinstance(views, ComposableViews)  # all programs that have the term
        nothing, self._values = views.images[0].projected_global.new_zeros(()), {}
        if not self.training:
            return nothing
        names = [f"pairs/{name}" for name in self.settings.classes]
        names += [*(f"skipped/{why}" for why in SKIPPED), "pairs", "mixed", "cut"]
        self._values = dict.fromkeys(names, 0.0)
        why = self._rest(views.batch)
        if why is None:
            reports = [read_report(t, self.diagnostic, self.continues) for t in views.sentences]
            pairs = self.pairs_of_batch(views.batch, reports)
            # Each pair has a negative, and each process at least one pair to make.
            if len(pairs) >= max(2, views.batch.processes.world):
                return self._contrast(views, reports, pairs)
        self._values[f"skipped/{why or 'few_pairs'}"] = 1 / views.batch.processes.world
        return nothing

    def logged(self) -> Mapping[str, float | Tensor]:
        """Pairs, also by class, steps without the term by reason, the mean share that is mixed.

        ``cut``: pairs whose report is too long with the pasted sentences, and loses its end.
        """
        return self._values

    def _rest(self, batch: Batch) -> str | None:
        """Return why this batch has no pairs, whatever its samples; None if it may have some.

        Raises:
            InputError: ghost batches in several processes, whose shares of the pairs are not whole.
        """
        if self.ghost_batch is not None and batch.processes.world > 1:
            raise InputError(
                f"settings: key 'ghost_batch' is {self.ghost_batch}, with terms.cutmix in "
                f"{batch.processes.world} processes, whose shares of the pairs are no whole ghost "
                "batches; expected null, or one process"
            )
        if batch.epoch < self.settings.warmup_epochs:
            return "warm_up"
        if self.count == 0:
            return "few_pairs"
        if self.settings.per == "epoch":
            chosen = keyed_random(batch.seed, batch.epoch, 0, EPOCH).randrange(batch.batches)
            return None if batch.number == chosen else "epoch_has_them"
        return None

    def pairs_of_batch(
        self, batch: Batch, reports: list[ReadReport]
    ) -> dict[PositivePair, PositivePair]:
        """The pairs of the batch, of positive samples that have a diagnostic sentence.

        Each with the pair whose source's sentences are pasted: itself.
        """
        samples = batch.samples
        assert samples.labels is not None
        positive_NC = samples.labels[batch.rows][:, self.columns] == 1
        stated_NC = np.zeros_like(positive_NC)
        for place, report in enumerate(reports):
            stated_NC[place, list(frozenset().union(*report.classes))] = True
        patients = samples.patients
        patients_N = batch.rows.astype(str) if patients is None else patients[batch.rows]
        draws = keyed_random(batch.seed, batch.epoch, int(batch.rows[0]), PAIRS)
        pairs = draw_pairs(positive_NC & stated_NC, patients_N, self.count, draws)
        donors = self.donors(pairs, reports, patients_N)
        # One pair alone in a ghost batch would have no statistics.
        if self.ghost_batch is not None and len(donors) % self.ghost_batch == 1:
            donors.popitem()
        return donors

    def donors(
        self, pairs: list[PositivePair], reports: list[ReadReport], patients_N: NDArray[np.str_]
    ) -> dict[PositivePair, PositivePair]:
        """Each pair's own source gives the sentences."""
        return {pair: pair for pair in pairs}

    def _contrast(
        self,
        views: ComposableViews,
        reports: list[ReadReport],
        donors: dict[PositivePair, PositivePair],
    ) -> Tensor:
        """This process's share of Eq. 6."""
        settings, batch, pairs = self.settings, views.batch, list(donors)
        processes = batch.processes
        share = pairs_of(pairs, processes.rank, processes.world)
        tokens = self.texts(reports, donors)[share]
        text = views.composed(tokens)
        region_Khw = self.regions(views, reports, pairs)[share]
        local_pairs = pairs[share]
        sources, targets = (
            sent(torch.tensor([getattr(pair, name) for pair in local_pairs]), region_Khw.device)
            for name in ("source", "target")
        )
        (features,), _ = batch.gather(views.features)
        if settings.cls != "target" and features.dim() == 4:
            raise InputError(f"settings: {settings.without_cls()}")
        cls_share_K = self.cls_shares(region_Khw)
        mixed = mixed_features(features[sources], features[targets], region_Khw, cls_share_K)
        image = views.resumed(mixed, mean_pooled=settings.cls == "patches")
        (image_KP, text_KP), rows = processes.gather(
            len(pairs), image.projected_global, text.projected
        )
        for pair in local_pairs:
            self._values[f"pairs/{settings.classes[pair.class_number]}"] += 1
        self._values["pairs"] = float(len(local_pairs))
        self._values["mixed"] = region_Khw.mean((1, 2)).sum() / len(pairs)  # of all processes
        kept_K = (text.mask.sum(1) - 2).tolist()  # without [CLS] and [SEP]
        self._values["cut"] = float(
            sum(kept_count < len(ids) for kept_count, ids in zip(kept_K, tokens, strict=True))
        )
        return global_alignment(image_KP, text_KP, settings.temperature, rows) / 2

    def cls_shares(self, region_Khw: Tensor) -> Tensor:
        """The source's share [K] of [CLS], which Eq. 4 does not cover."""
        if self.settings.cls == "mixed":
            return region_Khw.mean((1, 2))
        return region_Khw.new_full((len(region_Khw),), float(self.settings.cls == "source"))

    def texts(
        self, reports: list[ReadReport], donors: dict[PositivePair, PositivePair]
    ) -> list[list[int]]:
        """The tokens of the targets' reports, with the sentences of the sources."""
        texts, settings = [], self.settings
        for pair, donor in donors.items():
            report = reports[pair.target]
            places = reports[donor.source].of(donor.class_number, settings.first)
            sentences = [reports[donor.source].sentences[place] for place in places]
            replaced = report.of(pair.class_number, settings.first)
            texts.append(pasted(report, replaced, sentences))
        return texts

    @torch.no_grad()
    def regions(
        self, views: ComposableViews, reports: list[ReadReport], pairs: list[PositivePair]
    ) -> Tensor:
        """The regions [K, h, w] of all pairs, in the sources' images (Eq. 2)."""
        settings, batch = self.settings, views.batch
        text = views.texts["intact"]
        (patch_NhwP,), _ = batch.gather(views.images[0].projected_patches)
        grid = patch_NhwP.shape[1:3]
        with kept_statistics(text.encoder):  # a term that trains on words has counted them
            own_words = self.reader(text.encoder, text.states, text.ids)
        words = batch.gather_words(own_words)
        is_word_KW = np.zeros((len(pairs), words.word_BWD.shape[1]), dtype=bool)
        for number, pair in enumerate(pairs):
            report = reports[pair.source]
            places = report.of(pair.class_number, settings.first)
            of_sentence = np.isin(report.word_sentence, places)
            is_word_KW[number, : len(of_sentence)] = of_sentence
        sources = sent(torch.tensor([pair.source for pair in pairs]), patch_NhwP.device)
        region_KM = sentence_regions(
            patch_NhwP[sources].flatten(1, 2).float(),
            normalize(words.word_BWD[sources].float(), dim=2),
            sent(torch.from_numpy(is_word_KW), sources.device),
            settings.region_temperature,
            settings.region,
        )
        return region_KM.unflatten(1, grid)


def pairs_of(pairs: list[PositivePair], rank: int, world: int) -> slice:
    """The pairs that a process makes, as ``Processes.gather`` expects them."""
    places = np.array_split(np.arange(len(pairs)), world)[rank]
    return slice(int(places[0]), int(places[-1]) + 1)


def _patients(samples: SampleTable, rows: NDArray[np.bool_]) -> int:
    """The number of patients in ``rows``; where they are not known, each row is one."""
    return int(rows.sum()) if samples.patients is None else len(set(samples.patients[rows]))


def keyed_random(seed: int, epoch: int, key: int, stream: int) -> Random:
    """Draws that depend on the seed, the epoch, a key such as the batch, and the stream alone."""
    state = row_state(torch.tensor([key]), seed, epoch, stream)
    return Random(int(state) % 2**64)
