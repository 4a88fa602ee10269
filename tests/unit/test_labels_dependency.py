"""The dependency engine on hand-written parses: labels, reasons, failures, parsers."""

import math
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from dependency_fixtures import BROKEN, SENTENCES, VERSION_1
from stanza import Document
from stanza.utils.conll import CoNLL

from cxrflow.errors import InputError
from cxrflow.reports.labels.dependency.graph import Graph
from cxrflow.reports.labels.dependency.labeller import LONGEST, DependencyLabeller
from cxrflow.reports.labels.dependency.parsers import ConlluParses, StanzaParser
from cxrflow.reports.labels.observations import OBSERVATIONS

SHORT = {
    "ECM": "Enlarged Cardiomediastinum",
    "CM": "Cardiomegaly",
    "LL": "Lung Lesion",
    "LO": "Lung Opacity",
    "ED": "Edema",
    "CO": "Consolidation",
    "PN": "Pneumonia",
    "AT": "Atelectasis",
    "PT": "Pneumothorax",
    "PE": "Pleural Effusion",
    "FX": "Fracture",
    "SD": "Support Devices",
    "NF": "No Finding",
}
MARKS = {"+": 1.0, "-": 0.0, "?": -1.0}
# All labels that are not blank (+ positive, - negative, ? uncertain).
CASES = [
    ("No pleural effusion.", "PE- NF+"),
    ("No new opacity.", "LO?"),
    ("Pneumonia cannot be excluded.", "PN?"),
    ("Cannot exclude a small effusion.", "PE?"),
    ("An effusion is not excluded.", "PE?"),
    ("Pneumonia cannot be ruled out.", "PN?"),
    ("Stable cardiomegaly.", "CM+"),
    ("Stable cardiac silhouette.", "CM?"),
    ("The cardiomediastinal silhouette is unchanged.", "ECM?"),
    ("Atelectasis or consolidation.", "AT? CO?"),
    ("Bibasilar atelectasis/consolidation.", "AT? CO?"),
    ("Atelectasis versus pneumonia.", "AT? PN?"),
    ("Atelectasis rather than pneumonia.", "AT+ PN-"),
    ("Edema is present but not pneumonia.", "ED+ PN-"),
    ("Heart size is within normal limits.", "CM- NF+"),
    ("Heart size appears normal.", "CM- NF+"),
    ("The heart is normal in size.", "CM- NF+"),
    ("The heart is not enlarged.", "CM- NF+"),
    ("The heart is enlarged.", "CM+"),
    ("Heart size and mediastinal contours are normal.", "CM- ECM- NF+"),
    ("The effusion has resolved.", "PE- NF+"),
    ("Effusion that has resolved.", "PE- NF+"),
    ("Pneumothorax has not resolved.", "PT+"),
    ("Interval resolution of the edema.", "ED- NF+"),
    ("The pneumothorax is no longer seen.", "PT- NF+"),
    ("The lungs are clear without evidence of pneumonia.", "PN- NF+"),
    ("Clear lungs without effusion.", "PE- NF+"),
    ("Without signs of pneumonia.", "PN- NF+"),
    ("The lungs are free of consolidation.", "CO- NF+"),
    ("Negative for pneumothorax.", "PT- NF+"),
    ("No evidence of pneumothorax.", "PT- NF+"),
    ("No displaced rib fracture is seen.", "FX- NF+"),
    ("Opacity may represent pneumonia.", "LO+ PN?"),
    ("Opacities which may reflect atelectasis.", "LO+ AT?"),
    ("Opacity consistent with atelectasis.", "LO+ AT+"),
    ("Findings may be due to edema.", "ED?"),
    ("Findings suspicious for fracture.", "FX?"),
    ("Possible left lower lobe pneumonia.", "PN?"),
    ("Question of small nodule.", "LL?"),
    ("Vascular congestion.", "ED?"),
    ("No pneumothorax, effusion or consolidation.", "PT- PE- CO- NF+"),
    ("There is no pneumothorax or pleural effusion.", "PT- PE- NF+"),
    ("There is no focal consolidation, but there is a small effusion.", "CO- PE+"),
    ("Small effusion and no pneumothorax.", "PE+ PT-"),
    # As published: a noun shares its "no" with every conjunct.
    ("No effusion and stable cardiomegaly.", "PE- CM- NF+"),
    ("Congestive heart failure.", "ED+ CM?"),
    ("No evidence of congestive heart failure.", "ED- NF+"),
    ("Right PICC ends over the heart.", "SD+ NF+"),
    ("Moderate hiatal hernia.", ""),
]
# What needs no parse.
UNPARSED = [
    ("The lungs are well inflated.", "NF+"),
    ("Pericardial effusion.", "NF+"),
    ("FINDINGS: No effusion and unknown edema.", "PE- ED- NF+"),
    ("Impression: no hernia, whatever the parser says.", "NF+"),
]


class Silent:
    """A parser that counts what it is asked for and has no parse of anything."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def parse(self, sentences: Sequence[str]) -> list[Graph | None]:
        self.asked += sentences
        return [None] * len(sentences)


@pytest.fixture(scope="module")
def labeller() -> DependencyLabeller:
    return DependencyLabeller(ConlluParses(SENTENCES))


def labels(labeller: DependencyLabeller, *sentences: str) -> dict[str, float]:
    (report,) = labeller.label([sentences])
    assert report.unread == 0
    return {o: v for o, v in zip(OBSERVATIONS, report.values, strict=True) if not math.isnan(v)}


def wanted(text: str) -> dict[str, float]:
    return {SHORT[word[:-1]]: MARKS[word[-1]] for word in text.split()}


@pytest.mark.parametrize(("sentence", "expected"), CASES)
def test_sentence(labeller: DependencyLabeller, sentence: str, expected: str) -> None:
    assert labels(labeller, sentence) == wanted(expected)
    # Case and blanks do not matter, neither does what was read before.
    fresh = DependencyLabeller(ConlluParses(SENTENCES))
    assert labels(fresh, f" {sentence.upper().replace(' ', '  ')}") == wanted(expected)


@pytest.mark.parametrize(("sentence", "expected"), UNPARSED)
def test_sentence_without_a_parse(sentence: str, expected: str) -> None:
    parser = Silent()
    assert labels(DependencyLabeller(parser), sentence) == wanted(expected)
    assert parser.asked == []


def test_every_parse_is_a_case() -> None:
    texts = [line[9:] for line in SENTENCES.read_text().splitlines() if line.startswith("# text")]
    assert sorted(texts) == sorted(sentence for sentence, _ in CASES)


def test_a_report_is_all_its_sentences(labeller: DependencyLabeller) -> None:
    sentences = ("No pleural effusion.", "Small effusion and no pneumothorax.", "Nothing else.")
    assert labels(labeller, *sentences) == wanted("PE+ PT-")


def test_reasons_name_pattern_and_words(labeller: DependencyLabeller) -> None:
    sentences = [
        "Well inflated.",
        "Bibasilar  atelectasis/consolidation.",
        "Clear lungs without effusion.",
        "Congestive heart failure.",
        "Impression: no edema",
    ]
    first, second, effusion, edema, heart, last = labeller.explain(sentences)
    assert (first.observation, first.phrase, first.sentence) == ("Atelectasis", "atelecta", 1)
    assert first.rule == "uncertainty: {} > {dependency:/conj:or/} {}"
    assert sentences[1][first.cue_start : first.cue_end] == "consolidation"
    assert sentences[1][second.start : second.end] == second.phrase == "consolidat"
    assert sentences[1][second.cue_start : second.cue_end] == "atelectasis"
    assert (effusion.value, effusion.rule[:10]) == (0, "negation: ")
    assert (edema.rule, edema.value, edema.cue_start) == ("mention", 1, edema.cue_end)
    assert (heart.observation, heart.rule, heart.value) == ("Cardiomegaly", "heart failure", -1)
    assert (last.rule, last.value, last.sentence) == ("negation: Impression: no", 0, 4)
    assert sentences[4][last.cue_start : last.cue_end] == "Impression: no"


def test_version_1_graphs_are_read() -> None:
    labeller = DependencyLabeller(ConlluParses(VERSION_1))
    assert labels(labeller, "No evidence of pneumonia or edema.") == wanted("PN- ED- NF+")
    assert labels(labeller, "Lungs free of consolidation.") == wanted("CO- NF+")


def test_sentences_without_a_parse_are_counted_and_assert_nothing() -> None:
    broken = [line[9:] for line in BROKEN.read_text().splitlines() if line.startswith("# text")]
    labeller = DependencyLabeller(ConlluParses(BROKEN.parent))
    reports = [[text, "No pleural effusion."] for text in [*broken, "Unknown fracture."]]
    for report in labeller.label(reports):
        assert report.unread == 1
        found = {o: v for o, v in zip(OBSERVATIONS, report.values, strict=True) if v == v}
        assert found == {"Pleural Effusion": 0.0}
    assert len(labeller.label([broken])[0].values) == 14
    assert labeller.label([broken])[0].unread == len(broken)
    assert labeller.explain(broken) == []


def test_only_new_sentences_with_a_mention_are_parsed() -> None:
    parser = Silent()
    labeller = DependencyLabeller(parser)
    reports = [["Edema.", "Clear lungs."], ["Edema.", "Small  effusion/edema"], []]
    found = labeller.label(reports)
    assert [r.unread for r in found] == [1, 2, 0]
    assert str(labeller.label(reports)) == str(found)
    assert parser.asked == ["Edema.", "Small effusion or edema"]


@pytest.mark.parametrize(
    "text",
    [
        "no effusion, " * 80_000,
        "effusion" * 125_000,
        "a" * 1_000_000 + " edema",
        "mass massive " * 80_000,
        "in the contour over the left heart " * 30_000 + "edema",
        "edema " + "." * 1_000_000,
        ". " * 500_000 + "edema",
        "edema" + "/a" * 500_000,
        "and/or" * 160_000 + "edema",
        "\x00edema\u0130 " * 100_000,
    ],
    ids=["commas", "words", "word", "barred", "place", "stops", "ends", "or", "and", "case"],
)
def test_hostile_text_takes_linear_time(text: str) -> None:
    parser = Silent()
    started = time.process_time()
    (report,) = DependencyLabeller(parser).label([[text]])
    assert time.process_time() - started < 8
    assert report.unread == 1
    assert all(len(sentence) <= LONGEST for sentence in parser.asked)


def test_parses_that_are_not_there(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.conllu"):
        with pytest.raises(InputError, match="not found; expected a CoNLL-U file"):
            ConlluParses(path)
    (tmp_path / "empty.conllu").write_text("# nothing\n")
    with pytest.raises(InputError, match="no sentences"):
        ConlluParses(tmp_path)
    (tmp_path / "empty.conllu").write_bytes(b"\xff")
    with pytest.raises(InputError, match="empty.conllu: cannot be read"):
        ConlluParses(tmp_path)


class Pipeline:
    """Stands in for a stanza pipeline: real documents, from the hand-written parses."""

    def __init__(self, bad: str = "") -> None:
        self._bad = bad
        self._parses = {s.text: s for s in CoNLL.conll2doc(SENTENCES).sentences}

    def bulk_process(self, documents: list[Document]) -> list[Document]:
        return [self._process(document.text) for document in documents]

    def _process(self, text: str) -> Document:
        if text == self._bad:
            raise RuntimeError("out of memory")
        return CoNLL.conll2doc(input_str=f"{self._parses[text]:C}\n\n")


CLEAN = [sentence for sentence, _ in CASES if "/" not in sentence]


def test_stanza_documents_give_what_the_files_give(labeller: DependencyLabeller) -> None:
    stanza = DependencyLabeller(StanzaParser("nowhere", pipeline=Pipeline()))
    assert str(stanza.label([[s] for s in CLEAN])) == str(labeller.label([[s] for s in CLEAN]))
    assert stanza.explain(CLEAN) == labeller.explain(CLEAN)


def test_one_sentence_that_stanza_cannot_parse_does_not_stop_the_others() -> None:
    parser = StanzaParser("nowhere", pipeline=Pipeline(bad=CLEAN[3]))
    graphs = parser.parse(CLEAN)
    assert [i for i, graph in enumerate(graphs) if graph is None] == [3]
    assert parser.parse([]) == []


def test_stanza_documents_of_another_shape_are_no_parse() -> None:
    class Odd:
        def bulk_process(self, documents: list[Document]) -> list[Document]:
            good, two, moved, bare = (Pipeline()._process(CLEAN[0]) for _ in documents)
            two.sentences.append(two.sentences[0])
            moved.sentences[0].tokens[1].text = "other"
            bare.sentences[0].words[0].head = None
            return [good, two, moved, bare]

    graphs = StanzaParser("nowhere", pipeline=Odd()).parse([CLEAN[0]] * 4)
    assert [graph is None for graph in graphs] == [False, True, True, True]


def test_stanza_folder_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="resources.json: not found"):
        StanzaParser(tmp_path)
    (tmp_path / "resources.json").write_text('{"en": {"lang_name": "English", "packages": {}}}')
    with pytest.raises(InputError, match="stanza cannot load 'mimic'|lacks"):
        StanzaParser(tmp_path)
