"""The RadNLI baseline (Miura et al. 2021): BERT on MedNLI, with the head of its public code.

BioViL's protocol puts a linear layer on the last [CLS]. ysmiura/ifcc puts it on BERT's pooler by
default: a linear layer and tanh on that [CLS]. All else is ``natural_language_inference``.

IFCC's reward reads a model of the program ``sentence_pairs``, which keeps the head on [CLS].

Shapes: B pairs, L tokens, D width.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import torch
from torch import Tensor, nn

from cxr_files.errors import InputError
from cxrflow.benchmarks.benchmark import rows
from cxrflow.benchmarks.language import natural_language_inference as inference
from cxrflow.benchmarks.language.sentence_pair_rows import pair_clusters
from cxrflow.benchmarks.language.settings import NaturalLanguageInferenceSettings
from cxrflow.benchmarks.metric_names import METRICS
from cxrflow.benchmarks.model_inputs import ModelInputs
from cxrflow.benchmarks.outside import OutsideBenchmark, OutsideBenchmarkSettings
from cxrflow.benchmarks.registry import WORD_RULES
from cxrflow.benchmarks.result import CountedStatistic, Predictions
from cxrflow.encoders.bert import BertConfig
from cxrflow.encoders.cxr_bert import CXRBert, load_text_encoder
from cxrflow.models.run_record import learnt, read_run, relates_sentences
from cxrflow.text.sentence_pairs import PairTokens
from cxrflow.text.tokenizer import read_tokenizer


class PooledBert(CXRBert):
    """BERT whose first state is that of its pooler."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__(config)
        self.bert.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        nn.init.normal_(self.bert.pooler.weight, std=config.initializer_range)
        nn.init.zeros_(self.bert.pooler.bias)

    def hidden_states(self, *inputs: Any, **more: Any) -> Tensor:
        """The last states [B, L, D], the first of which the pooler has changed."""
        hidden_BLD = super().hidden_states(*inputs, **more)
        pooled_B1D = torch.tanh(self.bert.pooler(hidden_BLD[:, :1]))  # type: ignore[operator]
        return torch.cat([pooled_B1D, hidden_BLD[:, 1:]], dim=1)


def with_pooler(encoder: CXRBert) -> PooledBert:
    """The encoder with a new pooler, the same for every run seed.

    BERT's published pooler is not read: an imported BERT has none.
    """
    if type(encoder) is not CXRBert:
        raise InputError(f"the text encoder is a {type(encoder).__name__}; expected a BERT")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        pooled = PooledBert(encoder.config)
    pooled.load_state_dict(encoder.state_dict(), strict=False)
    return pooled.to(next(encoder.parameters()).device)


# Of two defaults of a field that of the first base counts, here the split.
class PooledInferenceSettings(NaturalLanguageInferenceSettings, OutsideBenchmarkSettings):
    """Those of natural_language_inference."""


class PooledInference(OutsideBenchmark):
    """Natural language inference with the classifier on BERT's pooler."""

    settings: PooledInferenceSettings
    description: ClassVar[dict[str, Any]] = {
        "kind": "nli",
        "needs": ["text"],
        "training": "nli",
        "own": ("max_length", "input", "head", "optimiser"),
        **rows(*WORD_RULES, "hypothesis", supervised="labels"),
        "baselines": "rows.sentences:Inference",
    }
    metrics = METRICS["natural_language_inference"]
    COLUMNS = inference.COLUMNS

    @staticmethod
    def predict(inputs: ModelInputs, settings: PooledInferenceSettings) -> Predictions:
        if inputs.row is not None:
            return inference.predict(inputs, settings)
        inputs.model.text_encoder = with_pooler(inputs.model.text_encoder)
        predictions = inference.predict(inputs, settings)
        head = "linear, on tanh of a linear layer on the last-layer [CLS]; all is trained"
        return replace(predictions, protocol={**predictions.protocol, "head": head})

    @staticmethod
    def statistic(table: pd.DataFrame, settings: PooledInferenceSettings) -> CountedStatistic:
        return inference.statistic(table, settings)

    @staticmethod
    def clusters(table: pd.DataFrame, unit: str) -> Any:
        return pair_clusters(table, unit)


class SentencePairModel:
    """How two sentences relate, as a trained model says; ``folder`` is its model folder.

    A pair is cut to the length of the training.
    """

    def __init__(self, folder: Path, device: torch.device) -> None:
        record, path = read_run(folder), folder / "run.json"
        if not relates_sentences(record):
            raise InputError(
                f"{path}: key 'program' is {record.get('program')!r}; expected sentence_pairs, "
                "whose models say how two sentences relate"
            )
        if learnt(record) is False:
            raise InputError(f"{path}: the model has not learnt; expected one that tells relations")
        self.length, self.classes = record["settings"]["length"], record["data"]["classes"]
        self.text, self.tokenizer = load_text_encoder(folder).to(device), read_tokenizer(folder)
        self.device = device

    @torch.no_grad()
    def __call__(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[str]:
        """Of N premises and N hypotheses: entailment, neutral or contradiction, [N]."""
        pairs = PairTokens(premises, hypotheses, self.tokenizer, self.length)
        relations = [""] * len(pairs)
        for batch in pairs.by_length(128):
            ids_BL, segments_BL = batch.input_ids.to(self.device), batch.segment_ids.to(self.device)
            states_BLD = self.text.hidden_states(ids_BL, batch.attention_mask, segments_BL)
            for row, best in zip(batch.rows, self.text.project(states_BLD).argmax(1), strict=True):
                relations[row] = self.classes[int(best)]
        return relations
