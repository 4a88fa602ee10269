"""The papers' losses as functions of tensors: what ``cxrflow.objectives`` computes, in one place.

Each states its equation, its shapes and an example. Needs the extra ``models`` (docs/library.md).
The names in ``__all__`` are public, and each is imported when it is first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cxrflow.objectives.biovil import (
        global_alignment,
        masked_language_modelling,
        report_likelihood,
        section_matching,
        symmetric_cross_entropy,
    )
    from cxrflow.objectives.cutmix import mixed_features, sentence_regions
    from cxrflow.objectives.doubly_stochastic import doubly_stochastic
    from cxrflow.objectives.local_alignment import Matching, local_alignment, local_similarity
    from cxrflow.objectives.mirrored_pairs import mirrored_pairs, side_scores
    from cxrflow.objectives.momentum_contrast import momentum_contrast
    from cxrflow.objectives.pair_matching import pair_matching
    from cxrflow.objectives.prototypes import prototype_alignment
    from cxrflow.objectives.simclr import nt_xent
    from cxrflow.objectives.token_alignment import TokenMatching, token_alignment, token_weights

__all__ = [
    "Matching",
    "TokenMatching",
    "doubly_stochastic",
    "global_alignment",
    "local_alignment",
    "local_similarity",
    "masked_language_modelling",
    "mirrored_pairs",
    "mixed_features",
    "momentum_contrast",
    "nt_xent",
    "pair_matching",
    "prototype_alignment",
    "report_likelihood",
    "section_matching",
    "sentence_regions",
    "side_scores",
    "symmetric_cross_entropy",
    "token_alignment",
    "token_weights",
]


if not TYPE_CHECKING:  # which would take any name for one of these

    def __getattr__(name: str) -> object:
        from cxrflow.programs.public_names import public_name

        return public_name(__name__, name)


def __dir__() -> list[str]:
    from cxrflow.programs.public_names import names_of

    return names_of(__name__)
