"""Controls of MedCutMix: the term with one of its parts left out, or in another's place (ours).

``terms.cutmix.control`` names one, a class each. Where one learns as well as the method, the part
that it lacks teaches nothing. ``true_boxes`` is the other end: no region can be better.

Shapes: K pairs, h x w patches.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from cxrflow.compute.device_copy import sent
from cxrflow.data.true_boxes import TrueBoxMasks
from cxrflow.pretrain.report_text import ComposableViews
from cxrflow.pretrain.terms.cutmix import Cutmix, keyed_random
from cxrflow.text.diagnostic_sentences import ReadReport, pasted
from cxrflow.training.positive_pairs import PositivePair

REGIONS = 52  # stream of the keyed draws, beside those of the method


class ImageAlone(Cutmix):
    """Images are mixed; the reports are the targets' own."""

    def texts(
        self, reports: list[ReadReport], donors: dict[PositivePair, PositivePair]
    ) -> list[list[int]]:
        return [pasted(reports[pair.target], [], []) for pair in donors]


class TextAlone(Cutmix):
    """Sentences are pasted; the images are the targets' own, [CLS] too."""

    def regions(
        self, views: ComposableViews, reports: list[ReadReport], pairs: list[PositivePair]
    ) -> Tensor:
        patch_NhwP = views.images[0].projected_patches
        return patch_NhwP.new_zeros(len(pairs), *patch_NhwP.shape[1:3])

    def cls_shares(self, region_Khw: Tensor) -> Tensor:
        return region_Khw.new_zeros(len(region_Khw))


class Unmixed(ImageAlone, TextAlone):
    """The targets as they are: what a second look at positive samples teaches."""


class OtherRegion(Cutmix):
    """Images are mixed by the region of another pair."""

    @torch.no_grad()
    def regions(
        self, views: ComposableViews, reports: list[ReadReport], pairs: list[PositivePair]
    ) -> Tensor:
        return super().regions(views, reports, pairs).roll(1, 0)


class ShuffledRegion(Cutmix):
    """Images are mixed by as many patches, wherever they lie."""

    @torch.no_grad()
    def regions(
        self, views: ComposableViews, reports: list[ReadReport], pairs: list[PositivePair]
    ) -> Tensor:
        region_Khw, batch = super().regions(views, reports, pairs), views.batch
        region_KM, grid = region_Khw.flatten(1), region_Khw.shape[1:]
        draws = keyed_random(batch.seed, batch.epoch, int(batch.rows[0]), REGIONS)
        order = [draws.sample(range(region_KM.shape[1]), region_KM.shape[1]) for _ in pairs]
        return region_KM.gather(1, sent(torch.tensor(order), region_KM.device)).unflatten(1, grid)


class OtherClass(Cutmix):
    """The sentence of a pair of another class is pasted, where there is one."""

    def donors(
        self, pairs: list[PositivePair], reports: list[ReadReport], patients_N: NDArray[np.str_]
    ) -> dict[PositivePair, PositivePair]:
        donor_by_pair = {pair: self._next(pair, pairs, reports, patients_N) for pair in pairs}
        return {pair: donor for pair, donor in donor_by_pair.items() if donor is not None}

    def _next(
        self,
        pair: PositivePair,
        pairs: list[PositivePair],
        reports: list[ReadReport],
        patients_N: NDArray[np.str_],
    ) -> PositivePair | None:
        """The next pair of another class whose sentences do not name this pair's, if any.

        Its source is another patient than the target, who would get back a sentence of their own.
        """
        start = pairs.index(pair)
        for donor in (*pairs[start + 1 :], *pairs[:start]):
            report = reports[donor.source]
            pasted_places = report.of(donor.class_number, self.settings.first)
            if (
                donor.class_number != pair.class_number
                and patients_N[donor.source] != patients_N[pair.target]
                and set(pasted_places).isdisjoint(report.of(pair.class_number))
            ):
                return donor
        return None


class TrueBoxes(Cutmix):
    """Images are mixed by the finding's boxes, which the synthetic hospital alone knows."""

    true_boxes: TrueBoxMasks  # of the training images; see pairs/preparation.py

    @torch.no_grad()
    def regions(
        self, views: ComposableViews, reports: list[ReadReport], pairs: list[PositivePair]
    ) -> Tensor:
        names = [self.settings.classes[pair.class_number] for pair in pairs]
        masks = views.shown_masks(
            [pair.source for pair in pairs], lambda rows: self.true_boxes.masks(rows, names)
        )
        grid = views.images[0].projected_patches.shape[1:3]
        return adaptive_avg_pool2d(masks, (grid[0], grid[1]))[:, 0]
