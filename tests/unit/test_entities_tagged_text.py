"""Files of tagged sentences: what is read, what is refused, how spans are scored."""

from pathlib import Path

import pytest

from cxrflow.errors import InputError
from cxrflow.phantom.writers.stanza_entities import tagged_lines
from cxrflow.reports.entities.tagged_text import read_tagged, span_scores

SENTENCE = "Small right pleural effusion, PICC line unchanged."


def test_spans_of_the_phantoms_sentences(tmp_path: Path) -> None:
    (tmp_path / "a.bioes").write_text(tagged_lines(SENTENCE) + tagged_lines("No rib fracture."))
    first, second = read_tagged(tmp_path / "a.bioes")
    assert [(kind, SENTENCE[start:end]) for kind, start, end in first.spans()] == [
        ("OBSERVATION_MODIFIER", "Small"),
        ("ANATOMY_MODIFIER", "right"),
        ("ANATOMY", "pleural"),
        ("OBSERVATION", "effusion"),
        ("OBSERVATION", "PICC line"),
        ("OBSERVATION_MODIFIER", "unchanged"),
    ]
    assert second.spans() == [("ANATOMY", 3, 6), ("OBSERVATION", 7, 15)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a.bioes: no sentence in it"),
        ("rib\tS-ANATOMY\n", "a.bioes:1: .*expected '# text = '"),
        ("# text = A rib.\nA\tO\nrib\tX-ANATOMY\n", "a.bioes:3: tag 'X-ANATOMY'"),
        ("# text = A rib.\nA\tO\nrib\n", "a.bioes:3: tag ''"),
        ("\n# text = A rib.\nrib\tO\nA\tO\n", "a.bioes:4: token 'A' is not in the rest"),
    ],
)
def test_bad_files_are_one_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.bioes").write_text(content)
    with pytest.raises(InputError, match=message):
        read_tagged(tmp_path / "a.bioes")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="b.bioes: file not found"):
        read_tagged(tmp_path / "b.bioes")
    (tmp_path / "b.bioes").write_bytes(b"# text = \xff\n")
    with pytest.raises(InputError, match="b.bioes: not UTF-8"):
        read_tagged(tmp_path / "b.bioes")


def test_scores_by_hand() -> None:
    truth = [[("ANATOMY", 0, 3), ("OBSERVATION", 4, 9)], [("OBSERVATION", 0, 4)]]
    predicted = [[("ANATOMY", 0, 3), ("OBSERVATION", 4, 8)], [("ANATOMY", 0, 4)]]
    scores = span_scores(truth, predicted)
    assert scores["all"] == {"precision": 1 / 3, "recall": 1 / 3, "f1": 1 / 3, "n": 3}
    assert scores["ANATOMY"] == {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "n": 1}
    assert scores["OBSERVATION"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "n": 2}
    assert scores["UNCERTAINTY"] == {"precision": None, "recall": None, "f1": None, "n": 0}
