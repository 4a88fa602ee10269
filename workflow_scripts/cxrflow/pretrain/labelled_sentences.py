"""The sentence_pairs program: N pairs of sentences and the relation of each."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from torch import Tensor

from cxr_files.atomic import read_object
from cxr_files.drops import EXAMPLES
from cxr_files.errors import InputError
from cxr_files.parquet import read_table
from cxrflow.compute.device_copy import sent
from cxrflow.data.cohorts.settings import ALL, TrainingShare
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

    def __init__(self, path: str | Path, share: TrainingShare = ALL) -> None:
        self.path, self.share = Path(path), share
        columns = ("sample_id", "premise", "hypothesis", "label", "split")
        self.frame = read_table(self.path, columns)
        self.flow = read_object(self.path.with_name("flow.json"), FLOW)
        self.dropped = []
        strange = self.frame.loc[~self.frame["label"].isin(LABELS), "label"].unique().tolist()
        if strange:
            raise InputError(
                f"{self.path}: column 'label' has {', '.join(map(repr, strange[:EXAMPLES]))}; "
                f"expected {', '.join(LABELS)}"
            )
        for column in ("premise", "hypothesis"):
            blank = [not isinstance(t, str) or not t.strip() for t in self.frame[column]]
            self._refuse(blank, f"have no text in column '{column}'; expected a sentence in each")
        self._refuse(self.frame["sample_id"].duplicated(), "repeat a sample_id; expected each once")

    def _refuse(self, strange: Sequence[bool] | pd.Series, what: str) -> None:
        """Raise an error if one of the rows is ``strange``."""
        ids = self.frame["sample_id"][list(strange)]
        if len(ids):
            examples = ", ".join(map(str, ids[:EXAMPLES]))
            raise InputError(f"{self.path}: {len(ids)} row(s) ({examples}) {what}")

    def rows(self, name: str) -> pd.DataFrame:
        """The pairs of a split.

        Raises:
            InputError: it has none, or the training has none of a relation.
        """
        rows = self.frame[self.frame["split"] == name]
        if rows.empty:
            raise InputError(f"{self.path}: no row of split '{name}'")
        missing = [label for label in LABELS if label not in set(rows["label"])]
        if name == "train" and missing:
            raise InputError(
                f"{self.path}: no row of split 'train' has the label {' or '.join(missing)}; "
                "expected pairs of each"
            )
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
