"""Phase III of CXR-BERT: the sections of a report against each other, and masked words in both.

BioViL section 2.1: L_III = L_RSM + lambda_MLM L_MLM on FINDINGS-IMPRESSION pairs with sentence
shuffling and 25 % dropout. Table 4 also has a phase III without section matching: MLM alone. "In
other biomedical settings" the section says that masked FINDINGS may be matched with FINDINGS.
"""

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from cxrflow.encoders.cxr_bert import CXRBert, save_text_half
from cxrflow.pretrain.inputs import Pairs, Run, copy_tokenizer
from cxrflow.pretrain.objective import Batch, TermsProgram
from cxrflow.pretrain.report_text import TextPasses, Texts, TextViews, sentence_pool
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.report_batch import SECTIONS, ReportTokens
from cxrflow.training.samples import SampleTable


def matched_reports(pairs: Pairs, split: str, settings: TextPretrainingSettings) -> pd.DataFrame:
    """Reports of a split with both texts that are matched.

    Where FINDINGS are matched with themselves they stand in IMPRESSION's place too: a section has
    draws of its own, so that the two texts differ by sentence order and mask.
    """
    matching = settings.terms.section_matching
    if matching is None or matching.pair == "findings_impression":
        return pairs.split(split, SECTIONS)
    return sentence_pool(pairs.split(split, ("findings",)), ("findings",))


class SectionPairsProgram(TermsProgram):
    """Both sections of N reports."""

    text_names = SECTIONS

    def __init__(
        self,
        settings: TextPretrainingSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        train: ReportTokens,
        validation: ReportTokens,
        text: CXRBert,
        vocabulary: Path,
    ) -> None:
        self.text, self.vocabulary = text, vocabulary
        super().__init__(settings, run, {"text": text}, samples, vocabulary=train.vocabulary)
        self.passes = TextPasses(text, train.vocabulary, self.needs, run.device)
        shuffle = settings.sentence_shuffling
        self.texts = {
            "train": {name: Texts(train, (name,), shuffle) for name in SECTIONS},
            "validate": {name: Texts(validation, (name,), False) for name in SECTIONS},
        }

    def views(self, split: str, batch: Batch) -> TextViews:
        """FINDINGS and IMPRESSION."""
        sources = {str(name): texts.intact for name, texts in self.texts[split].items()}
        return TextViews(self.passes, sources, SECTIONS, batch)

    def export(self, folder: Path) -> None:
        """The text half and its tokenizer."""
        save_text_half(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)
