"""Vocabularies compared on report text (BioViL sections 2.1 and 4.2, Tables 1 and 3).

Table 1: the pieces that a term is split into. Table 3: tokens of a FINDINGS section against its
number of words. *Words* are those of BERT's pre-tokeniser (letters and digits together, each
punctuation mark by itself): the paper's +1.59 % is out of reach if punctuation is no word. The
increase is that of the mean (ratio of sums).

metrics.json holds, for each vocabulary NAME (its folder's): ``tokens/NAME``, ``increase/NAME``
(0.0159 is +1.59 %), ``unknown/NAME`` (share of [UNK]), ``size/NAME``, ``pieces/NAME/<word>``
(number) and ``spelling/NAME/<word>`` (text, "✓" for a whole word), and once ``words``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers

from cxr_files.errors import InputError
from cxrflow.benchmarks.inputs import Inputs, drop_rows
from cxrflow.benchmarks.language.settings import VocabularyComparisonSettings
from cxrflow.benchmarks.result import CountedStatistic, Predictions, estimate, patients
from cxrflow.metrics.intervals import Estimate, Floats, weighted_mean
from cxrflow.text.tokenizer import PREFIX, read_tokenizer

COLUMNS = ("study_id", "subject_id", "findings", "impression")


@dataclass(frozen=True)
class Spelling(Estimate):
    """The pieces of a word in a vocabulary: a metric whose value is text."""

    text: str = ""

    def as_json(self) -> dict[str, Any]:
        """The text as value, without an interval."""
        return {"value": self.text, "low": None, "high": None, "n": self.n}


def exactly(value: float) -> Estimate:
    """Return a counted number as a metric; its interval is the number itself."""
    return Estimate(float(value), float(value), float(value), 1)


def count_tokens(
    tokenizer: Tokenizer, texts: Sequence[str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens [N] of each text without [CLS] and [SEP], and how many [N] are [UNK]."""
    unknown = tokenizer.token_to_id("[UNK]")
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    tokens = np.array([len(text.ids) for text in encodings], dtype=np.int64)
    missing = [0 if unknown is None else text.ids.count(unknown) for text in encodings]
    return tokens, np.array(missing, dtype=np.int64)


def compare(
    tokenizers: Mapping[str, Tokenizer],
    reports: pd.DataFrame,
    settings: VocabularyComparisonSettings,
) -> tuple[dict[str, Estimate], pd.DataFrame]:
    """Return all metrics, and the counts of every report (ids and numbers only)."""
    texts = [str(text) for text in reports[settings.section]]
    splitter = pre_tokenizers.BertPreTokenizer()
    words = np.array([len(splitter.pre_tokenize_str(text)) for text in texts], dtype=np.int64)
    counts = pd.DataFrame({"study_id": reports["study_id"].astype(str), "words": words})
    metrics: dict[str, Estimate] = {}
    for name, tokenizer in tokenizers.items():
        counts[f"tokens/{name}"], counts[f"unknown/{name}"] = count_tokens(tokenizer, texts)
        metrics[f"size/{name}"] = exactly(tokenizer.get_vocab_size(with_added_tokens=True))
        for word in settings.words:
            tokens = tokenizer.encode(word, add_special_tokens=False).tokens
            pieces = [token.removeprefix(PREFIX) for token in tokens]
            spelling = "✓" if len(pieces) == 1 and pieces[0] != "[UNK]" else "-".join(pieces)
            metrics[f"pieces/{name}/{word}"] = exactly(len(pieces))
            metrics[f"spelling/{name}/{word}"] = Spelling(
                float("nan"), float("nan"), float("nan"), 1, text=spelling
            )

    def means_of(weights: Floats) -> dict[str, Floats]:
        mean_words = weighted_mean(weights, counts["words"])
        means = {"words": mean_words}
        for name in tokenizers:
            tokens = weighted_mean(weights, counts[f"tokens/{name}"])
            means[f"tokens/{name}"] = tokens
            means[f"increase/{name}"] = tokens / mean_words - 1
            means[f"unknown/{name}"] = weighted_mean(weights, counts[f"unknown/{name}"]) / tokens
        return means

    statistic = CountedStatistic(means_of, lambda name: len(counts))
    clusters_N = patients(reports, settings.intervals.unit)
    return metrics | estimate(statistic, clusters_N, settings.intervals), counts


def predict(inputs: Inputs, settings: VocabularyComparisonSettings) -> Predictions:
    """Count the tokens of every report in each vocabulary."""
    folders = inputs.options.vocabulary
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"--vocabulary: the folders' names are the results'; two are '{name}'")
    tokenizers = dict(zip(names, map(read_tokenizer, folders), strict=True))
    rows = inputs.rows(settings.split)
    table = rows.assign(sample_id=rows["study_id"])
    empty = table[settings.section].fillna("").str.strip() == ""
    reports, dropped = drop_rows(table, {f"no {settings.section} text": empty})
    metrics, counts = compare(tokenizers, reports, settings)
    protocol = {
        "word": "BERT's pre-tokeniser: letters and digits together, each punctuation mark alone",
        "increase": "mean tokens / mean words - 1",
        "case": {
            name: "uncased" if getattr(tokenizer.normalizer, "lowercase", False) else "cased"
            for name, tokenizer in tokenizers.items()
            if isinstance(tokenizer.model, models.WordPiece)
        },
        "dropped": dropped,
    }
    return Predictions(counts, protocol=protocol, estimates=metrics)
