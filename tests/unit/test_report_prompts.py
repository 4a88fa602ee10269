"""Sequences of prior report and report: what is predicted, what is cut."""

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer

from cxrflow.encoders.settings import ReportDecoderSettings
from cxrflow.text.report_prompts import ReportPrompts, prior_texts, report_texts
from cxrflow.text.tokenizer import SPECIAL_TOKENS, bert_tokenizer

WORDS = ("heart", "is", "large", ".", "lungs", "clear", "effusion", "stable", "pa", "##d")
PRIORS = ["lungs clear .", None, "effusion"]
REPORTS = ["heart is large .", "clear .", "stable effusion"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    pieces = (*SPECIAL_TOKENS, *WORDS)
    return bert_tokenizer({piece: n for n, piece in enumerate(pieces)}, lowercase=True)


def sequences(tokenizer: Tokenizer, **settings: object) -> list[tuple[str, str]]:
    """Prompt and predicted tokens of each study, as words."""
    chosen = ReportDecoderSettings.model_validate({"length": 20, "report_length": 8, **settings})
    prompts = ReportPrompts(PRIORS, tokenizer, chosen, REPORTS)
    batch = prompts.batch(np.arange(3))
    rows = []
    for row, prompt in enumerate(prompts.prompts):
        in_row = batch.positions // batch.ids.shape[1] == row
        first = int(batch.positions[in_row][0]) % batch.ids.shape[1]
        assert batch.ids[row, : first + 1].tolist() == prompt
        positions, targets = batch.positions[in_row] + 1, batch.targets[in_row]
        assert batch.ids.flatten()[positions].tolist() == targets.tolist()
        assert len(prompt) + len(targets) == batch.mask[row].sum()
        words = [" ".join(map(tokenizer.id_to_token, ids)) for ids in (prompt, targets.tolist())]
        rows.append((words[0], words[1]))
    return rows


def test_a_prior_report_stands_before_the_report(tokenizer: Tokenizer) -> None:
    assert sequences(tokenizer) == [
        ("[CLS] lungs clear . [SEP]", "heart is large . [SEP]"),
        ("[CLS] [SEP]", "clear . [SEP]"),
        ("[CLS] effusion [SEP]", "stable effusion [SEP]"),
    ]


def test_variants_of_table_7(tokenizer: Tokenizer) -> None:
    reports = [report for _, report in sequences(tokenizer)]
    joined = sequences(tokenizer, separator=False)
    assert [prompt for prompt, _ in joined] == ["[CLS] lungs clear .", "[CLS]", "[CLS] effusion"]
    alone = sequences(tokenizer, prior_report=False)
    assert [prompt for prompt, _ in alone] == ["[CLS]"] * 3
    assert [report for _, report in joined] == [report for _, report in alone] == reports


def test_what_is_cut_is_counted(tokenizer: Tokenizer) -> None:
    settings = ReportDecoderSettings(length=9, report_length=4)
    prompts = ReportPrompts([*PRIORS[:2], "pad " * 3], tokenizer, settings, REPORTS)
    assert (prompts.cut_priors, prompts.cut_reports) == (1, 1)
    tokens = [
        list(map(tokenizer.id_to_token, ids)) for ids in (prompts.prompts[2], prompts.reports[0])
    ]
    assert tokens == [["[CLS]", "##d", "pa", "##d", "[SEP]"], ["heart", "is", "large", "."]]
    assert max(len(p) + len(r) for p, r in zip(prompts.prompts, prompts.reports, strict=True)) <= 9


def test_texts_come_from_the_table_of_pairs() -> None:
    pairs = pd.DataFrame(
        {
            "study_id": ["1", "2", "3"],
            "prior_study_id": [None, "1", "unlisted"],
            "findings_sentences": [["A.", "B."], None, ["D."]],
            "findings": ["A. B.", None, "D."],
            "impression_sentences": [["C."], ["E."], None],
            "impression": ["C.", "E.", None],
        }
    )
    sections = ("findings", "impression")
    assert report_texts(pairs, sections) == ["A. B. C.", "E.", "D."]
    assert report_texts(pairs, ("impression",)) == ["C.", "E.", ""]
    assert prior_texts(pairs, pairs, sections) == [None, "A. B. C.", None]
