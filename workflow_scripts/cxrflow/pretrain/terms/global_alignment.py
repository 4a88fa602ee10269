"""Global alignment of images with their texts: BioViL Eq. 2, ConVIRT Eq. 4."""

from torch import Tensor
from torch.nn.functional import normalize

from cxrflow.objectives.biovil import global_alignment, products
from cxrflow.pretrain.objective import Term, Views
from cxrflow.pretrain.terms.settings import GlobalAlignmentSettings
from cxrflow.pretrain.validation.permutation import Comparisons


class GlobalAlignment(Term):
    """The projected image against the projected text."""

    settings: GlobalAlignmentSettings
    compares = True
    pairs = "image and text"

    def loss(self, views: Views) -> Tensor:
        image, text = views.images[0].projected_global, views.texts["intact"].projected
        (image_NP, text_NP), rows = views.batch.gather(image, text)
        settings = self.settings
        return global_alignment(
            image_NP,
            text_NP,
            settings.temperature,
            rows,
            settings.image_to_text,
            views.equal_texts,
        )

    def comparisons(self, views: Views) -> Comparisons:
        projections = views.images[0].projected_global, views.texts["intact"].projected
        image_NP, text_NP = (normalize(projection.float(), dim=1) for projection in projections)
        return Comparisons.of_batch(
            products(image_NP, text_NP) / self.settings.temperature, slope=2
        )
