"""Training text of the sentence splitter and of the entity tagger, in formats near stanza's.

``stanza_text``: ``X.txt`` is raw text, a blank line between paragraphs. ``X.toklabels`` has the
same length: 0 inside a token or between tokens, 1 at a token's last character, 2 at a sentence's
last one; paragraph breaks are copied. A list number belongs to the sentence that it opens.

``stanza_entities``: ``X.bioes`` holds the sentences of the same reports, a blank line after each.
A sentence is a line ``# text = ...`` and then a line ``token<tab>tag`` for each of its tokens.
"""

from pathlib import Path

import numpy as np

from cxrflow.phantom.entities import TOKEN, tag_sentence
from cxrflow.phantom.grammar import pick, write
from cxrflow.phantom.patient import make_patient
from cxrflow.phantom.report import report_of
from cxrflow.phantom.settings import HospitalSettings
from cxrflow.phantom.wording.context import NOTIFICATIONS, RECOMMENDATIONS
from cxrflow.phantom.writers.folder import write_dataset

#: Of so many reports one goes to the development set (and one, of entities, to the test set).
_REPORTS_PER_DEV = 6
_STREAM = 61


def label_sentence(sentence: str) -> str:
    """One digit a character of ``sentence``; the last is 2."""
    labels = ["0"] * len(sentence)
    for token in TOKEN.finditer(sentence):
        labels[token.end() - 1] = "1"
    labels[-1] = "2"
    return "".join(labels)


def _paragraphs(settings: HospitalSettings, number: int) -> list[list[str]]:
    """Paragraphs of one report, each a list of its sentences; about a third are numbered lists."""
    rng = np.random.default_rng([settings.seed, number, _STREAM])
    # Patients beyond the hospital's own: the text is of the same kind, not the same text.
    patient = make_patient(settings, settings.patients + number)
    study = patient.studies[int(rng.integers(len(patient.studies)))]
    report = report_of(settings, patient, study)
    made = []
    for section in (report.findings, report.impression, report.last_paragraph):
        sentences = list(section)
        if sentences and rng.random() < 0.25:
            sentences.append(write(pick(NOTIFICATIONS, rng), rng).text)
        if sentences and rng.random() < 0.2:
            sentences.append(write(pick(RECOMMENDATIONS, rng), rng).text)
        if section is report.impression and rng.random() < 0.5:
            sentences = [f"{n}. {sentence}" for n, sentence in enumerate(sentences, 1)]
        if sentences:
            made.append(sentences)
    return made


def _write_part(folder: Path, name: str, paragraphs: list[list[str]]) -> int:
    texts = [" ".join(sentences) for sentences in paragraphs]
    labels = ["0".join(map(label_sentence, sentences)) for sentences in paragraphs]
    (folder / f"{name}.txt").write_text("\n\n".join(texts) + "\n", encoding="utf-8", newline="\n")
    (folder / f"{name}.toklabels").write_text(
        "\n\n".join(labels) + "\n", encoding="utf-8", newline="\n"
    )
    return sum(map(len, paragraphs))


def write_stanza_text(settings: HospitalSettings, output: str | Path, threads: int = 1) -> bool:
    """Write {train,dev}.{txt,toklabels}; small enough for one process whatever ``threads`` says."""
    del threads

    def build(folder: Path) -> dict[str, int]:
        parts: dict[str, list[list[str]]] = {"train": [], "dev": []}
        for number in range(settings.splitter_reports):
            part = "dev" if number % _REPORTS_PER_DEV == 1 else "train"
            parts[part] += _paragraphs(settings, number)
        return {
            f"{name}_sentences": _write_part(folder, name, paragraphs)
            for name, paragraphs in parts.items()
        }

    return write_dataset("stanza_text", settings, output, build)


def tagged_lines(sentence: str) -> str:
    """A sentence of an entity file: its text, its tokens with their tags, a blank line."""
    tokens = [f"{sentence[t.start : t.end]}\t{t.tag}\n" for t in tag_sentence(sentence)]
    return f"# text = {sentence}\n{''.join(tokens)}\n"


def write_stanza_entities(settings: HospitalSettings, output: str | Path, threads: int = 1) -> bool:
    """Write {train,dev,test}.bioes; small enough for one process whatever ``threads`` says."""
    del threads

    def build(folder: Path) -> dict[str, int]:
        parts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
        for number in range(settings.splitter_reports):
            part = {1: "dev", 2: "test"}.get(number % _REPORTS_PER_DEV, "train")
            for sentences in _paragraphs(settings, number):
                parts[part] += sentences
        for name, sentences in parts.items():
            text = "".join(map(tagged_lines, sentences))
            (folder / f"{name}.bioes").write_text(text, encoding="utf-8", newline="\n")
        return {f"{name}_sentences": len(sentences) for name, sentences in parts.items()}

    return write_dataset("stanza_entities", settings, output, build)
