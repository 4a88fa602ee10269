"""The local term of joint training: the words of all texts against the patches of all images.

GLoRIA's local loss (Huang et al. 2021), as BioViL-L adds it to BioViL (Table 5) and BioViL-T trains
with it (section 3.2). Words are sums of their pieces' states over BERT's last layers, projected to
the joint space by the projection of [CLS]; patches are those of the image projection.

Each of several processes compares its own images with all texts, so that the work is shared out.

Shapes: B pairs of a batch, I of them this process's own, W words of the longest text, P width of
the joint space.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

from cxrflow.encoders.cxr_bert import CXRBert
from cxrflow.encoders.image_encoder import ImageOutput
from cxrflow.encoders.word_aggregation import Words, aggregate_words
from cxrflow.errors import InputError
from cxrflow.objectives.contrastive import symmetric_cross_entropy
from cxrflow.objectives.local_alignment import Matching, local_similarity
from cxrflow.pretrain.settings import LocalAlignmentSettings
from cxrflow.text.tokenizer import VocabularyInfo
from cxrflow.training.processes import Processes


class LocalTerm:
    """Makes words from the states of a text encoder and compares them with patches."""

    def __init__(
        self, settings: LocalAlignmentSettings, text: CXRBert, vocabulary: VocabularyInfo
    ) -> None:
        if settings.layers > text.config.num_hidden_layers:
            raise InputError(
                f"settings: key 'local_alignment.layers' is {settings.layers}, but the text "
                f"encoder has {text.config.num_hidden_layers} layers; expected no more than that"
            )
        self.settings, self.text = settings, text
        self.matching = Matching(
            settings.temp1,
            settings.temp2,
            settings.word_softmax,
            settings.match,
            settings.aggregation,
        )
        self._continues_V = torch.from_numpy(vocabulary.continues)
        self._dropped_V = torch.zeros_like(self._continues_V)
        self._dropped_V[[vocabulary.pad, vocabulary.sep]] = True
        self._dropped_V[vocabulary.cls_] = not settings.cls_is_word

    def words(self, layers: list[Tensor], piece_IL: Tensor) -> Words:
        """Projected words [I, W, P] from layers of states [I, L, D] of these ids (on the CPU)."""
        found = aggregate_words(layers, piece_IL, self._continues_V, self._dropped_V)
        return Words(self.text.project_words(found.word_BWD), found.lengths)

    def loss(self, images: ImageOutput, words: Words, total: int, processes: Processes) -> Tensor:
        """This process's share of the loss of ``total`` pairs, of which it holds some; a scalar."""
        word_IWP = words.word_BWD.float()
        patch_IhwP = images.unnormalised_patches
        if self.settings.normalised:
            word_IWP, patch_IhwP = normalize(word_IWP, dim=2), images.projected_patches
        (length_B,), _ = processes.gather(total, torch.tensor(words.lengths))
        behind = int(length_B.max()) - word_IWP.shape[1]
        (word_BWP,), _ = processes.gather(total, pad(word_IWP, (0, 0, 0, behind)))
        similarity_IB = local_similarity(
            patch_IhwP.flatten(1, 2), word_BWP, length_B.tolist(), self.matching
        )
        (similarity_BB,), own = processes.gather(total, similarity_IB)
        return symmetric_cross_entropy(self.settings.temp3 * similarity_BB, own)
