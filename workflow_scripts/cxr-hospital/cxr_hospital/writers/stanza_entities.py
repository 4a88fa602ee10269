"""Training text of the entity tagger: the sentences of the splitter's reports with tagged tokens.

``X.bioes`` holds one sentence after another, a blank line after each. A sentence is a line
``# text = ...`` and then a line ``token<tab>tag`` for each of its tokens.
"""

from pathlib import Path

from cxr_hospital.entities import tag_sentence
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.writers.folder import Counts, dataset_writer
from cxr_hospital.writers.stanza_text import REPORTS_PER_DEV, report_paragraphs


def tagged_lines(sentence: str) -> str:
    """A sentence of an entity file: its text, its tokens with their tags, a blank line."""
    tokens = [f"{sentence[t.start : t.end]}\t{t.tag}\n" for t in tag_sentence(sentence)]
    return f"# text = {sentence}\n{''.join(tokens)}\n"


@dataset_writer()
def write_stanza_entities(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write {train,dev,test}.bioes; small enough for one process whatever ``threads`` says."""
    splits: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    for number in range(settings.splitter_reports):
        split = {1: "dev", 2: "test"}.get(number % REPORTS_PER_DEV, "train")
        for sentences in report_paragraphs(settings, number):
            splits[split] += sentences
    for name, sentences in splits.items():
        text = "".join(map(tagged_lines, sentences))
        (folder / f"{name}.bioes").write_text(text, encoding="utf-8", newline="\n")
    return {f"{name}_sentences": len(sentences) for name, sentences in splits.items()}
