"""Which side: an image and its mirror image, with left and right exchanged in the text (ours).

Of texts that name one side. The other hardly costs the global term anything, so that encoders do
not learn it (docs/archive/results.md). The exchanged words are whole word pieces; abbreviations
such as RLL stay as they are. Augmentation must not flip images.

Shapes: N samples of this process, S of which name one side; L tokens, P width of the joint space.
"""

import numpy as np
import torch
from torch import Tensor

from cxr_files.errors import InputError
from cxrflow.compute.device_copy import sent
from cxrflow.objectives.mirrored_pairs import mirrored_pairs, side_scores
from cxrflow.pretrain.objective import Encoders, Term, Views
from cxrflow.pretrain.terms.settings import MirroredPairsSettings
from cxrflow.pretrain.validation.permutation import Comparisons, PairGroup
from cxrflow.text.tokenizer import VocabularyInfo

SIDES = ("left", "right")
_CASES = (str.lower, str.capitalize, str.upper)


class MirroredPairs(Term):
    """Image and text, both mirrored or neither: cross-entropy over the two, in both directions."""

    settings: MirroredPairsSettings
    compares = False  # an image with its own mirror image alone
    pairs = "side of image and text"

    def __init__(self, settings: MirroredPairsSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        self._image = (encoders.image,)  # not a module of the term, which would save it again
        self.sides = side_pieces(encoders.vocabulary)

    def loss(self, views: Views) -> Tensor:
        score_S22, _ = self._scores(views)
        (count,) = views.batch.processes.totals(len(score_S22))
        return mirrored_pairs(score_S22, count)

    def comparisons(self, views: Views) -> Comparisons:
        """An image and its mirror image may exchange their texts."""
        score_S22, rows_S = self._scores(views)
        pairs = zip(score_S22, rows_S.tolist(), strict=True)
        return Comparisons([PairGroup(score, np.full(2, row)) for score, row in pairs], slope=2)

    def _scores(self, views: Views) -> tuple[Tensor, Tensor]:
        """Scores [S, 2, 2] of the samples whose text names one side, and their rows [S]."""
        image, text = views.images[0], views.texts["intact"]
        # All images, since batch statistics are of all, in every process.
        mirrored = self._image[0](views.pixels(0).each(lambda pixels: pixels.flip(-1)))
        rows_S, ids_SL = exchanged_sides(text.ids, self.sides)
        mask_SL, device = text.mask[rows_S], text.projected.device
        texts = text.projected[sent(rows_S, device)]
        exchanged = texts
        if len(rows_S):
            states = text.encoder.last_states(sent(ids_SL, device), mask_SL, 1)
            exchanged = text.encoder.project(states[-1], mask_SL)
        images = (image.projected_global, mirrored.projected_global)
        images_S2P = torch.stack([each[sent(rows_S, device)] for each in images], dim=1)
        texts_S2P = torch.stack([texts, exchanged], dim=1)
        return side_scores(images_S2P, texts_S2P, self.settings.temperature), rows_S


def side_pieces(vocabulary: VocabularyInfo) -> Tensor:
    """Word pieces [2, C] of left and right; a column for each spelling, lower case always."""
    numbers = {piece: number for number, piece in enumerate(vocabulary.pieces)}
    spellings = [tuple(map(case, SIDES)) for case in _CASES]
    pairs = [words for words in spellings if all(word in numbers for word in words)]
    if SIDES not in pairs:
        raise InputError(
            "terms.mirrored_pairs: the vocabulary lacks 'left' or 'right' as a word piece; "
            "expected both, since they are exchanged"
        )
    return torch.tensor([[numbers[word] for word in words] for words in pairs]).T


def exchanged_sides(ids_NL: Tensor, sides_2C: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [S] that name exactly one side, and their tokens [S, L] with the opposite side."""
    named_2N = torch.stack([torch.isin(ids_NL, side).any(dim=1) for side in sides_2C])
    rows_S = (named_2N.sum(dim=0) == 1).nonzero()[:, 0]
    ids_SL = ids_NL[rows_S]
    exchanged_SL = ids_SL.clone()
    for left, right in sides_2C.T.tolist():
        exchanged_SL[ids_SL == left], exchanged_SL[ids_SL == right] = right, left
    return rows_S, exchanged_SL
