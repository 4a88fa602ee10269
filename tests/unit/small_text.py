"""A small text model with its tokenizer, and reports of its words."""

from pathlib import Path

import pandas as pd
import torch

from cxrflow.encoders.cxr_bert import CXRBert, save_text_encoder
from cxrflow.encoders.settings import TextEncoderSettings
from cxrflow.text.documents import DocumentWriter
from cxrflow.text.tokenizer import SPECIAL_TOKENS, write_tokenizer

WORDS = ["no", "##dule", "pleural", "eff", "##usion", "##s", "heart", "is", "large", "."]
TEXT = TextEncoderSettings(layers=3, width=24, heads=2, feed_forward=32, positions=40, projection=8)
MINIMAL = {
    "training": {"batch_size": 4, "epochs": 1},
    "augmentation": {},
    "terms": {"global_alignment": {}},
}
REPORTS = pd.DataFrame(
    {
        "findings_sentences": [["heart is large .", "no effusion ."], [], ["no .", "\u200b"]] * 400,
        "impression_sentences": [["large pleural effusion ."], ["is .", "heart ."], []] * 400,
    }
)


def pool_of(row: int) -> list[str]:
    """Sentences with text of a report, FINDINGS first."""
    both = [*REPORTS["findings_sentences"][row], *REPORTS["impression_sentences"][row]]
    return [sentence for sentence in both if sentence != "\u200b"]


def write_documents(path: Path, texts: list[str]) -> Path:
    """documents.parquet of these texts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with DocumentWriter(path) as writer:
        for number, text in enumerate(texts):
            writer.add(str(number), text)
    return path


def write_text_model(folder: Path, words: list[str] = WORDS) -> Path:
    """A text model of 3 layers with its tokenizer."""
    write_tokenizer(folder, [*SPECIAL_TOKENS, *words], lowercase=True)
    torch.manual_seed(0)
    save_text_encoder(CXRBert.build(TEXT, len(SPECIAL_TOKENS) + len(words), 0), folder)
    return folder
