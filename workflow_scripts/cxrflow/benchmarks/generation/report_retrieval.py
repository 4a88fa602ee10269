"""Reports by retrieval: the nearest training text in the joint space.

Reports: BioViL-T Appendix F.2. Sentences: CXR-RePaiR (Endo et al. 2021), whose corpus is the
distinct sentences of the impressions of training and validation that have a letter. Ties go to the
first text, in the order of studies.

Shapes: N texts, B images, P joint space.
"""

from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from cxr_files.errors import InputError
from cxrflow.benchmarks.generation.settings import ReportGenerationSettings
from cxrflow.benchmarks.inputs import Pixels, image_batches
from cxrflow.similarity.similarity import EncodedImages, EncodedTexts
from cxrflow.text.report_prompts import report_texts
from cxrflow.text.sentences import sentences_of


def retrieve(
    model: Any,
    pairs: pd.DataFrame,
    samples: pd.DataFrame,
    pixels: Pixels,
    settings: ReportGenerationSettings,
) -> list[str]:
    """Return the nearest text of the training part of ``pairs`` for each of the samples."""
    pairs = pairs.sort_values("study_id", kind="stable")
    if settings.method == "sentences":
        chosen = embedded = sentence_corpus(pairs[pairs["split"].isin(["train", "validate"])])
    else:
        training = pairs[pairs["split"] == "train"]
        reports = zip(
            *(report_texts(training, names) for names in (settings.sections, settings.embedded)),
            strict=True,
        )
        complete = [(text, key) for text, key in reports if text and key]
        chosen, embedded = [text for text, _ in complete], [key for _, key in complete]
    if not chosen:
        raise InputError("the cohort has no training report to retrieve")
    texts = encode_texts(model, embedded, settings.batch_size)
    count = settings.sentences if settings.method == "sentences" else 1
    nearest = np.empty((len(samples), min(count, len(chosen))), dtype=np.int64)
    for positions, frames in image_batches(pixels, samples, settings.batch_size, model.takes_prior):
        images = EncodedImages.of(model.encode_image(frames))
        with torch.inference_mode():
            score_BN = model.similarity(images, texts).cpu().numpy()
        nearest[positions] = best(score_BN, nearest.shape[1])
    return [" ".join(chosen[place] for place in row) for row in nearest]


def best(cosine_BN: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the indices [B, count] of each row's greatest cosines; ties go to the first."""
    return np.argsort(-cosine_BN, axis=1, kind="stable")[:, :count]


def sentence_corpus(pairs: pd.DataFrame) -> list[str]:
    """Return the sentences of the impressions that have a letter, once whatever their case."""
    sentences = (s for report in sentences_of(pairs, "impression") for s in report)
    lettered = (s for s in sentences if any(character.isalpha() for character in s))
    return list({sentence.lower(): sentence for sentence in lettered}.values())


def encode_texts(model: Any, texts: list[str], batch_size: int) -> EncodedTexts:
    """The texts as the model's similarity reads them; an end that is too long is cut."""
    batches, place_N = encode_different(model, texts, batch_size)
    return EncodedTexts.joined(batches).rows(place_N)


def encode_different(
    model: Any, texts: list[str], batch_size: int
) -> tuple[list[EncodedTexts], list[int]]:
    """The different texts, in batches of about equal lengths, and which of them each text is."""
    different = sorted(set(texts), key=len)
    longest = model.text_encoder.config.max_position_embeddings
    ids = [text.ids for text in model.tokenizer.encode_batch_fast(different)]
    # [SEP], the last token, stays.
    ids = [[*text[: longest - 1], text[-1]] if len(text) > longest else text for text in ids]
    batches = []
    for begin in range(0, len(ids), batch_size):
        batches.append(model.encode_tokens(ids[begin : begin + batch_size]))
    place = {text: number for number, text in enumerate(different)}
    return batches, [place[text] for text in texts]
