"""Gain of masked words by the prior image (BioViL-T section 4.6, Appendix F.5, Figure 4).

The text encoder reads each sentence with one token masked and attends to the patches of its study.
A token's gain by the prior is the cross-entropy without it less that with it (Eq. 2), a mean over
the sentences that have the token (Eq. 5). A category's value is the mean over its tokens. Control:
``over_other`` is the gain over another patient's prior, so that the mere presence of a prior does
not count. A token is a word that is one piece of the vocabulary; of a token that stands twice in a
sentence the mean counts.

Shapes: N studies, M = h x w patches of width P, B masked sentences of L tokens, R resamples.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils.rnn import pad_sequence

from cxr_files.errors import InputError
from cxr_files.progress import progress
from cxrflow.benchmarks.controls import exchange
from cxrflow.benchmarks.figures.distributions import draw_distributions
from cxrflow.benchmarks.inputs import (
    PRIOR,
    Pixels,
    draw_samples,
    drop_rows,
    image_batches,
)
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.result import CountedStatistic, Figure, Predictions
from cxrflow.benchmarks.temporal.settings import PriorInfluenceSettings
from cxrflow.encoders.guided_text import GuidedText, load_guidance
from cxrflow.metrics.intervals import Floats
from cxrflow.text.sentences import sentences_of
from cxrflow.text.tokenizer import VocabularyInfo

COLUMNS = ("subject_id", "study_id", "image_id", "split", PRIOR)
PROGRESSION, OTHERS = "progression", "others"
FIGURE = "prior_influence.png"
CAPTION_TOKENS = 5  # as in the paper's caption
GAINS = ("delta_prior", "over_other")


@dataclass(frozen=True)
class MaskedSentence:
    """A sentence [CLS] … [SEP] of a study, and the positions of the tokens to mask."""

    study: int
    ids: Tensor  # [L]
    places: list[int]


def read_sentences(
    samples: pd.DataFrame, tokenizer: Any, longest: int, settings: PriorInfluenceSettings
) -> list[MaskedSentence]:
    """Return the sentences of all reports that have a word of a category."""
    vocabulary = VocabularyInfo.from_tokenizer(tokenizer)
    words = {word for group in settings.categories.values() for word in group}
    categorised = np.array([piece.lower() in words for piece in vocabulary.pieces])
    masked = []
    for section in settings.sections:
        for study, sentences in enumerate(sentences_of(samples, section)):
            for encoding in tokenizer.encode_batch_fast(sentences):
                ids = np.array(encoding.ids[:longest])
                begins = ~vocabulary.continues[ids]
                # A word of one piece: it begins a word, and the next piece begins another.
                single = begins & np.append(begins[1:], True)
                places = np.flatnonzero(single & categorised[ids]).tolist()
                if places:
                    masked.append(MaskedSentence(study, torch.from_numpy(ids), places))
    return masked


def masked_batches(
    sentences: list[MaskedSentence], mask: int, size: int
) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor, Tensor]]:
    """Yield sentence numbers, masked ids [B, L] (padding -1), places and their true ids [B].

    A sentence comes once for each of its tokens. Batches are of similar length.
    """
    order = sorted(range(len(sentences)), key=lambda number: len(sentences[number].ids))
    items = [(number, place) for number in order for place in sentences[number].places]
    batches = (items[begin : begin + size] for begin in range(0, len(items), size))
    for batch in progress(batches, len(items), "masked token"):
        numbers = np.array([number for number, _ in batch])
        places = torch.tensor([place for _, place in batch])
        ids = pad_sequence([sentences[n].ids for n in numbers], batch_first=True, padding_value=-1)
        row = torch.arange(len(batch))
        targets = ids[row, places]
        ids[row, places] = mask
        yield numbers, ids, places, targets


@torch.inference_mode()
def encode_patches(
    model: Any, pixels: Pixels, samples: pd.DataFrame, with_prior: bool, size: int
) -> Tensor:
    """Return projected patches [N, M, P], not normalised, as in training."""
    batches = image_batches(pixels, samples, size, takes_prior=with_prior)
    patches = [model.encode_image(frames).unnormalised_patches for _, frames in batches]
    return torch.cat([grid.flatten(1, 2) for grid in patches])


@torch.inference_mode()
def token_losses(
    model: Any,
    guided: GuidedText,
    sentences: list[MaskedSentence],
    patches: dict[str, Tensor],
    size: int,
) -> pd.DataFrame:
    """Return the cross-entropy of each masked token, a column for each kind of ``patches``."""
    vocabulary = VocabularyInfo.from_tokenizer(model.tokenizer)
    studies = np.array([sentence.study for sentence in sentences])
    tables = []
    for numbers, ids, places, targets in masked_batches(sentences, vocabulary.mask, size):
        real = ids >= 0
        ids = ids.masked_fill(~real, vocabulary.pad).to(model.device)
        flat = (torch.arange(len(ids)) * ids.shape[1] + places).to(model.device)
        columns: dict[str, Any] = {}
        for name, all_NMP in patches.items():
            patches_BMP = all_NMP[torch.from_numpy(studies[numbers])]
            hidden = guided.states(model.text_encoder, ids, real.long(), patches_BMP)
            logits = model.text_encoder.predict_tokens(hidden, flat).float()
            loss = cross_entropy(logits, targets.to(model.device), reduction="none")
            columns[name] = loss.cpu().numpy()
        keys = {"sentence": numbers, "study": studies[numbers], "token": targets.numpy()}
        tables.append(pd.DataFrame({**keys, **columns}))
    return pd.concat(tables, ignore_index=True)


def gains(losses: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each study and token: its ``sentences``, and the sum of each gain (F.5)."""
    gained = losses[["study", "sentence", "token"]].assign(
        delta_prior=losses["none"] - losses["prior"],
        over_other=losses["other"] - losses["prior"],
    )
    of_sentences = gained.groupby(["study", "sentence", "token"]).mean().reset_index()
    grouped = of_sentences.groupby(["study", "token"])
    return grouped[list(GAINS)].sum().assign(sentences=grouped.size()).reset_index()


def frequent_tokens(predictions: pd.DataFrame, least: int) -> pd.DataFrame:
    """Return mean gains and category by token, of tokens in at least ``least`` sentences."""
    grouped = predictions.groupby("token")
    total = grouped[["sentences", *GAINS]].sum()
    tokens = total[total["sentences"] >= least]
    means = tokens[list(GAINS)].div(tokens["sentences"], axis=0)
    return means.assign(category=grouped["category"].first())


def statistic(predictions: pd.DataFrame, settings: PriorInfluenceSettings) -> CountedStatistic:
    """``<gain>/<category>``, a mean over tokens, and ``tokens/<category>``, their number.

    ``others`` stands for all categories but progression. All resamples have the same tokens.
    """
    frequent = frequent_tokens(predictions, settings.least_sentences)
    place = predictions["token"].map({token: n for n, token in enumerate(frequent.index)})
    rows = np.flatnonzero(place.notna())
    shape = (len(predictions), len(frequent))

    def sums(column: str) -> Any:
        where = (rows, place.iloc[rows].astype(int))
        return coo_array((predictions[column].to_numpy()[rows], where), shape=shape).tocsr()

    number_NT = sums("sentences")
    gain_NT = {name: sums(name) for name in GAINS}
    category = frequent["category"].to_numpy()
    groups = {name: category == name for name in settings.categories}
    groups[OTHERS] = category != PROGRESSION
    present = {name: group for name, group in groups.items() if group.any()}

    def metrics(counts: Floats) -> dict[str, Floats]:
        total_RT = (number_NT.T @ counts.T).T
        means = {}
        for name, sum_NT in gain_NT.items():
            mean_RT = (sum_NT.T @ counts.T).T / np.where(total_RT > 0, total_RT, np.nan)
            for group, chosen in present.items():
                # A token may be absent from a resample.
                number = np.isfinite(mean_RT[:, chosen]).sum(axis=1)
                total = np.nansum(mean_RT[:, chosen], axis=1)
                means[f"{name}/{group}"] = total / np.where(number > 0, number, np.nan)
        for group, chosen in present.items():
            means[f"tokens/{group}"] = np.full(len(counts), float(chosen.sum()))
        return means

    return CountedStatistic(
        metrics, lambda name: sizes(predictions, settings)[name.partition("/")[2]]
    )


def sizes(predictions: pd.DataFrame, settings: PriorInfluenceSettings) -> dict[str, int]:
    """Return how many studies have a frequent token, by category; "" is any category."""
    frequent = frequent_tokens(predictions, settings.least_sentences)
    of = predictions["token"].map(frequent["category"])
    groups = {name: of == name for name in settings.categories}
    groups |= {OTHERS: of.notna() & (of != PROGRESSION), "": of.notna()}
    return {name: int(predictions["sample_id"][rows].nunique()) for name, rows in groups.items()}


def draw(predictions: pd.DataFrame, settings: PriorInfluenceSettings) -> Figure:
    """Draw Figure 4: the tokens' gains by category."""
    frequent = frequent_tokens(predictions, settings.least_sentences)
    labels = {name: name.replace("_", " ").capitalize() for name in settings.categories}
    groups = {
        f"{label} ({len(deltas)})": deltas.to_numpy()
        for name, label in labels.items()
        if len(deltas := frequent.loc[frequent["category"] == name, "delta_prior"])
    }
    progression = frequent[frequent["category"] == PROGRESSION]["delta_prior"]
    best = progression.nlargest(CAPTION_TOKENS).index
    caption = (
        "By how much the cross-entropy of a masked token falls with the prior image, a value a "
        "token that stands in enough sentences; boxes are quartiles, dots means, numbers of tokens "
        f"in brackets. The words of change that need the prior most: {', '.join(best) or 'none'}."
    )
    return Figure(
        FIGURE,
        draw_distributions(groups, "loss without the prior less loss with it"),
        "Influence of the prior image on masked words",
        caption,
    )


def usable(
    inputs: ModelInputs, settings: PriorInfluenceSettings
) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """Return the studies with a prior in the store, and the counts of the rest by reason."""
    table, pixels = inputs.rows(settings.split), inputs.pixels
    table = table.assign(sample_id=table["study_id"])
    tests = {
        "no prior": table[PRIOR].isna(),
        "image is not in the pixel store": ~pixels.holds(table["image_id"]),
        "prior image is not in the pixel store": pixels.find(table[PRIOR]) < 0,
    }
    samples, dropped = drop_rows(table, tests)
    return draw_samples(samples, settings.samples), dropped


def predict(inputs: ModelInputs, settings: PriorInfluenceSettings) -> Predictions:
    """Mask the tokens of every study and measure what the prior image adds."""
    model, pixels = inputs.model, inputs.pixels
    if model.text_encoder is None or model.tokenizer is None or not model.takes_prior:
        raise InputError(f"{inputs.options.model}: expected a model of text and of two images")
    guided = load_guidance(inputs.options.model, model.text_encoder).to(model.device)
    samples, dropped = usable(inputs, settings)
    longest = int(model.text_encoder.config.max_position_embeddings)
    sentences = read_sentences(samples, model.tokenizer, longest, settings)
    partner = exchange(samples["subject_id"])
    wrong = None
    if not sentences:
        wrong = "no sentence has a word of a category"
    elif (partner < 0).any():
        wrong = "more than half of the studies are of one patient; the control needs others"
    if wrong:
        raise InputError(f"{inputs.source}: {wrong}")
    lent = samples.assign(**{PRIOR: samples[PRIOR].to_numpy()[partner]})
    patches = {
        name: encode_patches(model, pixels, table, name != "none", settings.batch_size)
        for name, table in (("none", samples), ("prior", samples), ("other", lent))
    }
    token_gains = gains(token_losses(model, guided, sentences, patches, settings.batch_size))
    vocabulary = VocabularyInfo.from_tokenizer(model.tokenizer)
    owner = {word: name for name, group in settings.categories.items() for word in group}
    words = pd.Series([vocabulary.pieces[token] for token in token_gains["token"]]).str.lower()
    of_studies = (
        samples[["sample_id", "subject_id"]].iloc[token_gains["study"]].reset_index(drop=True)
    )
    predictions = of_studies.assign(token=words, category=words.map(owner)).join(
        token_gains[["sentences", *GAINS]]
    )
    measured = statistic(predictions, settings)
    names = measured(np.ones((1, len(predictions))))
    if f"delta_prior/{OTHERS}" not in names and f"delta_prior/{PROGRESSION}" not in names:
        raise InputError(
            f"{inputs.source}: no word of a category stands in "
            f"{settings.least_sentences} sentences or more"
        )
    without = len(samples) - measured.size("")
    return Predictions(
        predictions,
        measured,
        {
            "pictures": pixels.fingerprint,
            "studies": len(samples),
            "sentences": len(sentences),
            "unscored": {"no token that counts is in the report": without} if without else {},
            "dropped": dropped,
        },
        {"vocabulary": vocabulary.fingerprint, "geometry": str(pixels.geometry)},
        draw=lambda metrics: [draw(predictions, settings)],
    )
