"""Differences between rows of a table: marks, words, and files of tests."""

import csv

import pytest
from html_outline import Outline
from table_fixtures import estimate, result, typeset, with_rows, write_tests

from cxr_files.atomic import SEAL, read_json, write_sealed
from cxr_files.errors import InputError
from cxrflow.show.tables.rendering import table_csv
from cxrflow.show.tables.tests import read_tests

# Two rows of ours, the first of which the second is tested against.
COMPARED = with_rows(
    {"label": "First", "model": "m"}, {"label": "Second", "model": "n"}, reference="First"
)


def paired_tests(folder, **values):
    """Paired tests of the rows of `COMPARED`: CNR tested, the rate not."""
    named = {"task": "grounding", "model": "n", "reference_model": "m"}
    cnr = {"metric": "cnr", "reference_metric": "cnr", "reason": None, "seeds": 3}
    rate = {"metric": "rate", "reference_metric": "rate", "reason": "no data of both", "seeds": 0}
    return write_tests(folder / "t.tests.json", [named | cnr | values, named | rate])


@pytest.mark.parametrize(
    ("p", "p_holm", "mark"), [(0.2, 0.2, ""), (0.01, 0.06, "†"), (0.001, 0.006, "‡")]
)
def test_a_difference_to_the_reference_row_is_marked(tmp_path, p, p_holm, mark):
    rate = {"rate": estimate(0.1)}
    files = [result(tmp_path, 0, 1.0, **rate), result(tmp_path, 0, 1.3, model="n", **rate)]
    ends = {"difference": 0.3, "difference_low": -0.1, "difference_high": 0.5}
    tests = read_tests([paired_tests(tmp_path, p=p, p_holm=p_holm, **ends)])
    cells, text, html = typeset(COMPARED, files, tests)
    rows = list(csv.DictReader(table_csv(cells).splitlines()))
    assert [row["p"] for row in rows] == ["", "", "", format(p, ".6g"), "", ""]
    assert (rows[3]["difference"], rows[3]["difference_low"]) == ("0.3", "-0.1")
    assert f"| 1.300{mark} (1.100 to 1.400) |" in text
    assert "Not tested: Second: no data of both." in text
    marked = "1 of 1 is marked" if mark else "None of 1 are marked"
    assert marked in text and "differs from “First”, p < 0.05" in text
    said = f"Avg. CNR +0.300 (−0.100 to +0.500), p = {p:.2g}, corrected {p_holm:.2g}"
    assert f"Differences from “First”:\n\n- Second: {said}\n" in text
    assert f"<li><b>Second</b>: {said.replace('−', '&#8722;')}</li>" in html
    assert ("</sup>" in html) == bool(mark) and Outline(html).open == []


def test_one_seed_has_a_difference_and_no_mark(tmp_path):
    files = [result(tmp_path, 0, 1.0), result(tmp_path, 0, 1.3, model="n")]
    ends = {"difference": 0.3, "difference_low": 0.1, "difference_high": 0.5, "seeds": 1}
    tests = read_tests([paired_tests(tmp_path, p=None, p_holm=None, **ends)])
    _, text, html = typeset(COMPARED, files, tests)
    assert "†" not in text and "With fewer than 3 training seeds of both rows nothing is" in text
    assert "<li><b>Second</b>: Avg. CNR +0.300 (+0.100 to +0.500)</li>" in html
    assert "title=" not in html  # nothing that only a pointer finds
    assert "</sup>" not in html


def test_rows_whose_heads_differ_by_run_have_a_difference_and_a_reason(tmp_path):
    files = [result(tmp_path, 0, 1.0, learnt=None), result(tmp_path, 0, 1.3, "grounding", "n")]
    ends = {"difference": 0.3, "difference_low": 0.1, "difference_high": 0.5, "seeds": 0}
    why = {"reason": "runs of a head differ", "p": None, "p_holm": None}
    tests = read_tests([paired_tests(tmp_path, **why, **ends)])
    text = typeset(COMPARED, files, tests).text
    assert "Not tested: Second: runs of a head differ." in text and "†" not in text
    assert "- Second: Avg. CNR +0.300 (+0.100 to +0.500)\n" in text
    assert "With fewer than" not in text


def test_without_tests_nothing_is_said_of_them(tmp_path):
    files = [result(tmp_path, 0, 1.0), result(tmp_path, 0, 1.3, model="n")]
    text = typeset(COMPARED, files).text
    assert "†" not in text and "Holm" not in text


def test_a_file_of_tests_that_lacks_a_field_is_named(tmp_path):
    path = paired_tests(tmp_path)
    path.write_text(path.read_text().replace('"reason"', '"why"'))
    with pytest.raises(InputError, match="t.tests.json: damaged, field 'digest'"):
        read_tests([path])
    content = read_json(path)
    write_sealed(path, {name: content[name] for name in content if name != SEAL})
    with pytest.raises(InputError, match=r"comparisons\[0\]: field 'reason' is missing"):
        read_tests([path])
