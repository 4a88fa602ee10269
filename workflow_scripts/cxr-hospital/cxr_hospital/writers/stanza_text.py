"""Training text of the sentence splitter, in a format near stanza's.

``X.txt`` is raw text, a blank line between paragraphs. ``X.toklabels`` has the
same length: 0 inside a token or between tokens, 1 at a token's last character, 2 at a sentence's
last one; paragraph breaks are copied. A list number belongs to the sentence that it opens.
"""

from pathlib import Path

import numpy as np

from cxr_hospital.entities import TOKEN
from cxr_hospital.grammar import pick, write
from cxr_hospital.patient import make_patient
from cxr_hospital.report import report_of
from cxr_hospital.settings import HospitalSettings
from cxr_hospital.wording.context import NOTIFICATIONS, RECOMMENDATIONS
from cxr_hospital.writers.folder import Counts, dataset_writer

#: One report in this many goes to the development set (and one, of entities, to the test set).
REPORTS_PER_DEV = 6
_STREAM = 61


def label_sentence(sentence: str) -> str:
    """One digit a character of ``sentence``; the last is 2."""
    labels = ["0"] * len(sentence)
    for token in TOKEN.finditer(sentence):
        labels[token.end() - 1] = "1"
    labels[-1] = "2"
    return "".join(labels)


def report_paragraphs(settings: HospitalSettings, number: int) -> list[list[str]]:
    """Paragraphs of one report, each a list of its sentences; about a third are numbered lists."""
    rng = np.random.default_rng([settings.seed, number, _STREAM])
    # Patients beyond the hospital's own: the text is of the same kind, not the same text.
    patient = make_patient(settings, settings.patients + number)
    study = patient.studies[int(rng.integers(len(patient.studies)))]
    report = report_of(settings, patient, study)
    paragraphs = []
    for section in (report.findings, report.impression, report.last_paragraph):
        sentences = list(section)
        if sentences and rng.random() < 0.25:
            sentences.append(write(pick(NOTIFICATIONS, rng), rng).text)
        if sentences and rng.random() < 0.2:
            sentences.append(write(pick(RECOMMENDATIONS, rng), rng).text)
        if section is report.impression and rng.random() < 0.5:
            sentences = [f"{n}. {sentence}" for n, sentence in enumerate(sentences, 1)]
        if sentences:
            paragraphs.append(sentences)
    return paragraphs


@dataset_writer()
def write_stanza_text(folder: Path, settings: HospitalSettings, threads: int) -> Counts:
    """Write {train,dev}.{txt,toklabels}; small enough for one process whatever ``threads`` says."""
    splits: dict[str, list[list[str]]] = {"train": [], "dev": []}
    for number in range(settings.splitter_reports):
        split = "dev" if number % REPORTS_PER_DEV == 1 else "train"
        splits[split] += report_paragraphs(settings, number)
    for name, paragraphs in splits.items():
        texts = [" ".join(sentences) for sentences in paragraphs]
        labels = ["0".join(map(label_sentence, sentences)) for sentences in paragraphs]
        for suffix, blocks in (("txt", texts), ("toklabels", labels)):
            text = "\n\n".join(blocks) + "\n"
            (folder / f"{name}.{suffix}").write_text(text, encoding="utf-8", newline="\n")
    return {f"{name}_sentences": sum(map(len, texts)) for name, texts in splits.items()}
