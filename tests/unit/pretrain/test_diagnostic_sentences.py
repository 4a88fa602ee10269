"""The sentences that say a finding, reports in which they are exchanged, and the pairs drawn."""

from random import Random

import numpy as np

from cxr_labels.present import positive_findings
from cxrflow.text.diagnostic_sentences import DiagnosticSentences, pasted, read_report
from cxrflow.text.report_batch import ReportSentence
from cxrflow.training.positive_pairs import draw_pairs

CLASSES = ["Edema", "Pleural Effusion", "No Finding"]
WORDS = [
    *("no", "edema", "pleural", "eff", "##usion", "##s", "heart", "is", "large", "left", "right"),
    *("mild", ".", "small"),
]
SENTENCES = [
    ["mild edema .", "heart is large ."],
    ["no pleural effusion .", "heart is large .", "left edema ."],
    ["left pleural effusion .", "small pleural effusions .", "mild edema ."],
    ["heart is large ."],
    ["right pleural effusion .", "heart is large ."],
    ["edema is mild .", "right pleural effusion ."],
]


def test_diagnostic_sentences_have_the_name_of_the_class() -> None:
    named = DiagnosticSentences(CLASSES)
    assert named("No Pleural  Effusion, or EDEMA.") == {0, 1}
    assert named("Small pleural effusions.") == {1}
    assert named("The left effusion in the pleural space.") == frozenset()
    marked = DiagnosticSentences(["Nodule/Mass", "Épanchement", "—"])
    assert marked("A nodule - mass; ÉPANCHEMENT.") == {0, 1} and marked("Follow-up.") == frozenset()
    read = DiagnosticSentences(CLASSES, positive_findings)
    assert read("No pleural effusion.") == frozenset()
    assert read("Fluid in the left costophrenic angle, with effusion.") == {1}


def report(*sentences: str) -> list[ReportSentence]:
    ids = {word: number for number, word in enumerate(WORDS)}
    return [
        ReportSentence(text, np.array([ids[w] for w in text.replace("effusions", "eff ##usion ##s")
                                       .replace("effusion", "eff ##usion").split()]))
        for text in sentences
    ]  # fmt: skip


CONTINUES = np.array([word.startswith("##") for word in WORDS])
NAMED = DiagnosticSentences(CLASSES)


def test_words_know_their_sentence() -> None:
    read = read_report(report(*SENTENCES[2]), NAMED, CONTINUES)
    assert read.word_sentence.tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    assert (read.of(1), read.of(1, first=True), read.of(0), read.of(2)) == ([0, 1], [0], [2], [])


def test_pasted_sentences_stand_where_the_first_stood() -> None:
    source, target = (read_report(report(*SENTENCES[n]), NAMED, CONTINUES) for n in (5, 2))

    def text(tokens: list[int]) -> str:
        return " ".join(WORDS[token] for token in tokens)

    effusion = [source.sentences[place] for place in source.of(1)]
    assert text(pasted(target, target.of(1), effusion)) == (
        "right pleural eff ##usion . mild edema ."
    )
    assert text(pasted(target, target.of(1, first=True), effusion)) == (
        "right pleural eff ##usion . small pleural eff ##usion ##s . mild edema ."
    )
    # Without the source's sentence it is the target without its own.
    assert text(pasted(target, target.of(1), [])) == "mild edema ."
    assert text(pasted(target, [], effusion)) == (
        "left pleural eff ##usion . small pleural eff ##usion ##s . mild edema ."
    )


def test_pairs_are_of_positive_samples_of_different_patients() -> None:
    positive = np.array([[1, 0], [1, 1], [1, 0], [0, 1], [1, 0]], dtype=bool)
    patients = np.array(["a", "a", "b", "a", "c"])
    seen = set()
    for seed in range(300):
        pairs = draw_pairs(positive, patients, 3, Random(seed))
        assert len(pairs) == 3  # class 1 has samples of a alone
        assert len({pair.source for pair in pairs}) == 3
        for source, target, number in pairs:
            assert number == 0 and positive[source, 0] and positive[target, 0]
            assert patients[source] != patients[target]
            seen.add((source, target))
    assert seen == {(i, j) for i in (0, 1, 2, 4) for j in (0, 1, 2, 4)
                    if patients[i] != patients[j]}  # fmt: skip
    assert draw_pairs(positive, patients, 0, Random(0)) == []
    assert len(draw_pairs(positive, patients, 9, Random(0))) == 4
