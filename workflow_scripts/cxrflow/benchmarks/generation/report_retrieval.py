"""Reports found instead of written: the nearest training text in the joint space.

Whole reports: BioViL-T Appendix F.2. Sentences: CXR-RePaiR (Endo et al. 2021), whose corpus is the
impressions of training and validation, without sentences of numbers alone; a sentence that occurs
often stands in it once. Of equally near texts the first counts, by study and place.

Shapes: N texts, B images, P joint space.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.inputs import Pixels, image_batches
from cxrflow.errors import InputError
from cxrflow.text.report_prompts import report_texts
from cxrflow.text.sentences import sentences_of


def retrieve(
    model: Any,
    pairs: pd.DataFrame,
    samples: pd.DataFrame,
    pixels: Pixels,
    settings: ReportGenerationSettings,
) -> list[str]:
    """A text for each of the samples, out of the training part of ``pairs``."""
    pairs = pairs.sort_values("study_id", kind="stable")
    if settings.method == "sentences":
        known = pairs[pairs["split"].isin(["train", "validate"])]
        corpus = sentence_corpus(known)
        chosen, embedded = corpus, corpus
    else:
        known = pairs[pairs["split"] == "train"]
        chosen, embedded = (
            report_texts(known, sections) for sections in (settings.sections, settings.embedded)
        )
        there = [bool(text and other) for text, other in zip(chosen, embedded, strict=True)]
        chosen, embedded = (
            [text for text, keep in zip(texts, there, strict=True) if keep]
            for texts in (chosen, embedded)
        )
    if not chosen:
        raise InputError("the cohort has no training report to retrieve")
    text_NP = embed(model, embedded, settings.batch_size)
    count = settings.sentences if settings.method == "sentences" else 1
    nearest = np.empty((len(samples), min(count, len(chosen))), dtype=np.int64)
    for positions, frames in image_batches(pixels, samples, settings.batch_size, model.takes_prior):
        cosine_BN = (model.encode_image(frames).projected_global @ text_NP.T).cpu().numpy()
        nearest[positions] = best(cosine_BN, nearest.shape[1])
    return [" ".join(chosen[place] for place in row) for row in nearest]


def best(cosine_BN: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """The ``count`` nearest of each row, best first; of equals the first."""
    return np.argsort(-cosine_BN, axis=1, kind="stable")[:, :count]


def sentence_corpus(pairs: pd.DataFrame) -> list[str]:
    """The different sentences of the impressions that have a letter, in any case once."""
    every = (s for row in sentences_of(pairs, "impression") for s in row)
    lettered = (s for s in every if any(character.isalpha() for character in s))
    return list({sentence.lower(): sentence for sentence in lettered}.values())


@torch.inference_mode()
def embed(model: Any, texts: list[str], batch_size: int) -> Tensor:
    """Projected texts [N, P], of length 1; each different one once, its end cut where too long."""
    different = sorted(set(texts), key=len)
    longest = model.text_encoder.config.max_position_embeddings
    ids = [one.ids for one in model.tokenizer.encode_batch_fast(different)]
    ids = [[*one[: longest - 1], one[-1]] if len(one) > longest else one for one in ids]
    parts = []
    for begin in range(0, len(ids), batch_size):
        rows = [torch.tensor(one) for one in ids[begin : begin + batch_size]]
        ids_BL = pad_sequence(rows, batch_first=True).to(model.device)
        mask_BL = pad_sequence([torch.ones_like(one) for one in rows], batch_first=True)
        hidden_BLD = model.text_encoder.hidden_states(ids_BL, mask_BL)
        parts.append(normalize(model.text_encoder.project(hidden_BLD, mask_BL).float(), dim=1))
    place = {text: number for number, text in enumerate(different)}
    return torch.cat(parts)[[place[text] for text in texts]]
