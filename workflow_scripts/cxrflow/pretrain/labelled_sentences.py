"""The sentence_pairs program: N pairs of sentences and the relation of each."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from cxr_files.atomic import read_object
from cxr_files.drops import EXAMPLES
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.compute.device_copy import sent
from cxrflow.data.readers.nli import LABELS
from cxrflow.encoders.cxr_bert import CXRBert, save_text_encoder
from cxrflow.pretrain.inputs import FLOW, Pairs, Run, copy_tokenizer
from cxrflow.pretrain.objective import Batch, Computed, TermsProgram, TextOutput, Views
from cxrflow.pretrain.settings import SentencePairSettings
from cxrflow.text.sentence_pairs import PairTokens
from cxrflow.training.samples import SampleTable


class LabelledSentences(Pairs):
    """``samples.parquet`` of a cohort of kind nli; patients and studies are not known."""

    classes = LABELS

    def __init__(self, path: Path) -> None:
        self.path = path
        columns = ("sample_id", "premise", "hypothesis", "label", "split")
        self.frame = read_table(path, columns)
        self.flow = read_object(path.with_name("flow.json"), FLOW)
        self.dropped = []
        strange = self.frame.loc[~self.frame["label"].isin(LABELS), "label"].unique()
        if len(strange):
            raise InputError(
                f"{path}: column 'label' has {', '.join(map(repr, strange[:EXAMPLES]))}; expected "
                f"{', '.join(LABELS)}"
            )

    def rows(self, name: str) -> pd.DataFrame:
        """The pairs of a split.

        Raises:
            InputError: it has none.
        """
        rows = self.frame[self.frame["split"] == name]
        if rows.empty:
            raise InputError(f"{self.path}: no row of split '{name}'")
        return rows.reset_index(drop=True)

    def labelled(self, rows: pd.DataFrame) -> SampleTable:
        """Pairs as samples, whose labels [N] are numbers of relations."""
        labels = rows["label"].map(LABELS.index).to_numpy(np.int64)
        return SampleTable(rows["sample_id"].tolist(), labels=labels, classes=LABELS)


class SentencePairViews(Views):
    """The text ``pair`` of each sample: both sentences, one after the other."""

    def __init__(self, program: "SentencePairsProgram", split: str, batch: Batch) -> None:
        super().__init__(batch)
        self._program = program
        self._pairs = program.tokens[split].batch(batch.own)
        self.tokens = int(self._pairs.attention_mask.sum())
        self.texts = Computed(self._pass)

    def _pass(self, name: str) -> TextOutput:
        pairs, text, device = self._pairs, self._program.text, self._program.run.device
        ids_NL, segments_NL = sent(pairs.input_ids, device), sent(pairs.segment_ids, device)
        layers = self._program.needs.layers
        states: list[Tensor] = text.last_states(ids_NL, pairs.attention_mask, layers, segments_NL)
        return TextOutput(text, pairs.input_ids, pairs.attention_mask, states, None)


class SentencePairsProgram(TermsProgram):
    """Trains a text encoder whose projection of [CLS] gives the logits of relations."""

    text_names = ("pair",)

    def __init__(
        self,
        settings: SentencePairSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        tokens: Mapping[str, PairTokens],
        text: CXRBert,
        vocabulary: Path,
    ) -> None:
        self.tokens, self.text, self.vocabulary = tokens, text, vocabulary
        super().__init__(settings, run, {"text": text}, samples)

    def views(self, split: str, batch: Batch) -> SentencePairViews:
        """The pairs of a batch."""
        return SentencePairViews(self, split, batch)

    def export(self, folder: Path) -> None:
        """The text encoder with its classifier, and the tokenizer."""
        save_text_encoder(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)
