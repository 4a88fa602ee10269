"""Local alignment: the words of all texts against the patches of all images.

GLoRIA's local loss (Huang et al. 2021), as BioViL-L adds it to BioViL (Table 5) and BioViL-T trains
with it (section 3.2). Words are sums of their pieces' states over BERT's last layers, projected to
the joint space by the projection of [CLS]; patches are those of the image projection.

Each of several processes compares its own images with all texts, so that the work is shared out.

Shapes: B pairs of a batch, I of them this process's own, W words of the longest text, P width of
the joint space.
"""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.encoders.cxr_bert import require_layers
from cxrflow.encoders.word_aggregation import Words
from cxrflow.objectives.biovil import symmetric_cross_entropy
from cxrflow.objectives.local_alignment import local_similarity
from cxrflow.pretrain.objective import Encoders, Term, TextOutput, Views
from cxrflow.pretrain.terms.settings import LocalAlignmentSettings
from cxrflow.pretrain.validation.permutation import Comparisons
from cxrflow.similarity.local import Local, LocalSettings
from cxrflow.similarity.words import WordReader


class LocalAlignment(Term):
    """Makes words from the states of a text encoder and compares them with patches."""

    settings: LocalAlignmentSettings
    compares = True
    pairs = "image and text"

    def __init__(self, settings: LocalAlignmentSettings, encoders: Encoders) -> None:
        super().__init__(settings, encoders)
        require_layers(encoders.text, settings.layers, "terms.local_alignment.layers")
        names = LocalSettings.model_fields.keys()
        sizes = LocalSettings.model_validate(settings.model_dump(include=set(names)))
        reader = WordReader.of(encoders.vocabulary, settings.layers, settings.cls_is_word)
        self.local = Local(sizes, reader)

    def words(self, text: TextOutput) -> Words:
        """Projected words [I, W, P]. A masked word is still a word of as many pieces."""
        assert self.local.words is not None
        return self.local.words(text.encoder, text.states, text.ids)

    def similarity(self) -> Local | None:
        return self.local if self.settings.model_similarity else None

    def loss(self, views: Views) -> Tensor:
        return symmetric_cross_entropy(*self._scores(views))

    def comparisons(self, views: Views) -> Comparisons:
        score_BB, _ = self._scores(views)
        return Comparisons.of_batch(score_BB, slope=2)

    def _scores(self, views: Views) -> tuple[Tensor, slice]:
        """Scores of all images beside all texts, and where this process's are."""
        image, words = views.images[0], self.words(views.texts["intact"])
        word_IWP, patch_IhwP = words.word_BWD.float(), image.unnormalised_patches
        if self.settings.normalised:
            word_IWP, patch_IhwP = normalize(word_IWP, dim=2), image.projected_patches
        word_BWP, lengths = views.batch.gather_words(Words(word_IWP, words.lengths))
        similarity_IB = local_similarity(
            patch_IhwP.flatten(1, 2), word_BWP, lengths, self.local.settings.matching
        )
        (similarity_BB,), rows = views.batch.gather(similarity_IB)
        return self.settings.temp3 * similarity_BB, rows
