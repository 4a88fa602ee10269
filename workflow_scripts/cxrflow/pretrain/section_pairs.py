"""Phase III of CXR-BERT: the sections of a report against each other, and masked words in both.

BioViL section 2.1: L_III = L_RSM + lambda_MLM L_MLM on FINDINGS-IMPRESSION pairs with sentence
shuffling and 25 % dropout. Table 4 also has a phase III without section matching: MLM alone. "In
other biomedical settings" the section says that masked FINDINGS may be matched with FINDINGS.
Reports that have one section only leave MLM alone, which is ours.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from cxr_files.errors import InputError
from cxrflow.encoders.cxr_bert import CXRBert, save_text_encoder
from cxrflow.pretrain.inputs import Pairs, Run, copy_tokenizer
from cxrflow.pretrain.objective import Batch, TermsProgram
from cxrflow.pretrain.report_text import TextPasses, Texts, TextViews, sentence_pool
from cxrflow.pretrain.settings import TextPretrainingSettings
from cxrflow.text.report_batch import SECTIONS, ReportTokens, Section
from cxrflow.text.sentences import has_text, sentences_of
from cxrflow.training.samples import SampleTable


def single_section(pairs: Pairs, settings: TextPretrainingSettings) -> Section | None:
    """Return the only section whose words can be learnt; None if reports are read as set.

    Many hospitals write one block of text, so that no training report has both sections. FINDINGS
    that are matched with themselves need no other section.
    """
    matching = settings.terms.section_matching
    if matching is not None and matching.pair == "findings_findings":
        return None
    train = pairs.frame[pairs.frame["split"] == "train"]
    texts = {name: np.array([has_text(s) for s in sentences_of(train, name)]) for name in SECTIONS}
    if np.all(list(texts.values()), axis=0).any():
        return None
    return max(SECTIONS, key=lambda name: texts[name].sum())


def words_alone(settings: TextPretrainingSettings, section: str) -> TextPretrainingSettings:
    """Return the settings without section matching, for reports of one section.

    Raises:
        InputError: there would be no objective.
    """
    mlm = settings.terms.mlm
    if mlm is None:
        raise InputError(
            "settings: key 'terms' names section_matching alone, but no training report has both "
            f"sections, only {section.upper()}; expected terms.mlm beside it"
        )
    monitor = settings.training.stopping.monitor
    if monitor == "section_matching":
        raise InputError(
            f"settings: key 'training.stopping.monitor' is {monitor!r}, but no training report has "
            f"both sections, only {section.upper()}; expected loss or mlm"
        )
    alone = {"section_matching": None, "mlm": mlm.model_copy(update={"weight": 1.0})}
    terms = settings.terms.model_copy(update=alone)
    return settings.model_copy(update={"terms": terms})


def matched_reports(
    pairs: Pairs,
    split: str,
    settings: TextPretrainingSettings,
    sections: Sequence[str] = SECTIONS,
) -> pd.DataFrame:
    """Reports of a split with all texts that are read, ``sections``.

    Where FINDINGS are matched with themselves they stand in IMPRESSION's place too: a section has
    draws of its own, so that the two texts differ by sentence order and mask.
    """
    matching = settings.terms.section_matching
    if matching is None or matching.pair == "findings_impression":
        return pairs.split(split, sections)
    return sentence_pool(pairs.split(split, ("findings",)), ("findings",))


class SectionPairsProgram(TermsProgram):
    """The sections of N reports: both, or the only one that they have."""

    def __init__(
        self,
        settings: TextPretrainingSettings,
        run: Run,
        samples: Mapping[str, SampleTable],
        train: ReportTokens,
        validation: ReportTokens,
        text: CXRBert,
        vocabulary: Path,
        sections: Sequence[Section] = SECTIONS,
    ) -> None:
        self.text, self.vocabulary = text, vocabulary
        self.sections: tuple[Section, ...] = tuple(sections)
        self.text_names = self.sections
        super().__init__(settings, run, {"text": text}, samples, vocabulary=train.vocabulary)
        self.passes = TextPasses(text, train.vocabulary, self.needs, run.device)
        shuffle = settings.sentence_shuffling
        self.texts = {
            "train": {name: Texts(train, (name,), shuffle) for name in self.sections},
            "validate": {name: Texts(validation, (name,), False) for name in self.sections},
        }

    def views(self, split: str, batch: Batch) -> TextViews:
        """FINDINGS and IMPRESSION, or one of them."""
        sources = {str(name): texts.intact for name, texts in self.texts[split].items()}
        return TextViews(self.passes, sources, self.sections, batch)

    def export(self, folder: Path) -> None:
        """The text encoder and its tokenizer."""
        save_text_encoder(self.text, folder)
        copy_tokenizer(self.vocabulary, folder)
