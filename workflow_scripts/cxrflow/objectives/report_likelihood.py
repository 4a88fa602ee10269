"""Log-likelihood of reports, word by word: BioViL-T Appendix F.1."""

from torch import Tensor
from torch.nn.functional import cross_entropy


def report_likelihood(logits_TV: Tensor, targets_T: Tensor, tokens: int) -> Tensor:
    """Minus the sum of log p(w_t | w_<t, prior report, patches) over T tokens, over ``tokens``.

    ``tokens`` are those of the whole batch, of which T may be a share: a scalar.
    """
    return cross_entropy(logits_TV.float(), targets_T, reduction="sum") / tokens
