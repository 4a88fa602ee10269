"""The words of a text, as a similarity reads them: sums of their pieces' states, projected."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.word_aggregation import Words, aggregate_words
from cxrflow.text.tokenizer import VocabularyInfo


class WordReader(NamedTuple):
    """Which pieces of a vocabulary are words, and of how many layers their states are summed."""

    layers: int  # the last ones
    continues_V: Tensor  # bool: a piece that continues the word before it
    dropped_V: Tensor  # bool: a piece of no word

    @classmethod
    def of(
        cls, vocabulary: VocabularyInfo, layers: int, cls_is_word: bool, sep_is_word: bool = False
    ) -> "WordReader":
        """Words without padding and, unless it counts as a word, [CLS] (GLoRIA) or [SEP] (MGCA)."""
        continues_V = torch.from_numpy(vocabulary.continues)
        dropped_V = torch.zeros_like(continues_V)
        dropped_V[vocabulary.pad] = True
        dropped_V[vocabulary.sep] = not sep_is_word
        dropped_V[vocabulary.cls_] = not cls_is_word
        return cls(layers, continues_V, dropped_V)

    def __call__(self, text: CXRBert, states: Sequence[Tensor], ids_TL: Tensor) -> Words:
        """Projected words [T, W, P] of texts; ``states`` [T, L, D] of the last layers."""
        words = aggregate_words(
            states[-self.layers :], ids_TL.cpu(), self.continues_V, self.dropped_V
        )
        return Words(text.project_words(*words), words.lengths)
