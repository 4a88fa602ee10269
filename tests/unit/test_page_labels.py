"""The page's section of report labels: what it takes from a comparison, and in which order."""

import numpy as np
import pandas as pd
import pytest
from label_fixtures import given_like, write_corpus
from page_fixtures import REAL, load, write_results

from cxrflow.benchmarks.data import label_agreement as program
from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.config.configuration import Config
from cxrflow.page import page
from cxrflow.page.inputs import RunFolder
from cxrflow.page.labels import SENTENCES, agreement

REPORTS = {
    "1": ["Pulmonary edema.", "No pneumothorax."],
    "2": ["Pulmonary edema.", "A grey thing is seen."],
    "3": ["Pulmonary edema."],
    "4": ["No pneumothorax."],
}


def made(tmp_path, config: Config | None = None, reports=REPORTS, settings=None, **changes):
    """The section's content for a comparison of ``reports`` with changed labels."""
    corpus = write_corpus(tmp_path / "made", reports)
    given = given_like(corpus, **changes)
    ours = program.CorpusLabels.read(corpus)
    values = {"intervals": {"replicates": 100}} | (settings or {})
    chosen = LabelAgreementSettings.model_validate(values)
    folder = tmp_path / "benchmarks/label_agreement/mimic_cxr/chexpert"
    program.write(folder, *program.compare(ours, given, "chexpert", chosen), engine="scope")
    run = RunFolder(config or load(), {}, tmp_path, {"biovil": "all"})
    return agreement(run, "mimic_cxr", "chexpert")


def test_classes_findings_and_confusion_stand_in_their_order(tmp_path):
    found = made(tmp_path, s2={"Edema": -1.0, "Lung Opacity": 1.0})
    assert found["classes"] == ["positive", "negative", "uncertain"]
    totals = [f"{row['name']}{row['words']}" for row in found["totals"]]
    assert totals == ["positive", "positive, without No Finding", "negative", "uncertain"]
    names = [row["name"] for row in found["rows"]]
    assert names[0] == "Edema"  # most given
    assert {*names, *found["absent"]} == {*program.OBSERVATIONS} and "Fracture" in found["absent"]
    recalls = [cell[1]["value"] for cell in found["rows"][0]["cells"]]
    assert recalls == [1.0, None, 0.0]  # none is given negative
    no_finding = next(row for row in found["rows"] if row["name"] == "No Finding")
    assert no_finding["cells"][1:] == [None, None]
    positive = found["confusion"][0]
    assert positive["given"] == ["positive", "negative", "uncertain", "blank"]
    assert [cell["count"] for cell in positive["cells"]] == [2, 0, 1, 0]
    assert [cell["share"] for cell in positive["cells"]] == [2 / 3, 0, 1, 0]
    assert [cell["same"] for cell in positive["cells"]] == [True, False, False, False]


def test_sentences_with_a_rule_and_those_without_are_apart(tmp_path):
    found = made(tmp_path, s2={"Edema": -1.0, "Lung Opacity": 1.0}, s3={"Edema": -1.0})
    (read,) = found["read"]
    assert (read["sentence"], read["studies"]) == ("Pulmonary edema.", 3)
    mention = {"finding": "Edema", "ours": "positive", "given": "uncertain", "rule": "mention"}
    assert read["readings"] == [mention | {"count": 2}]
    (unread,) = found["unread"]
    assert unread["sentence"] == "A grey thing is seen." and unread["studies"] == 1
    assert unread["readings"][0]["rule"] == "nothing read"
    assert found["more"] == 0


def test_a_long_list_is_cut_and_the_rest_counted(tmp_path):
    reports = {str(n): [f"Pulmonary edema number {n}."] for n in range(SENTENCES + 3)}
    changes = {f"s{n}": {"Edema": np.nan} for n in range(SENTENCES + 3)}
    found = made(tmp_path, reports=reports, **changes)
    assert len(found["read"]) == SENTENCES and found["unread"] == []
    assert found["more"] == 3


@pytest.mark.parametrize("allowed", [True, False, "auto"])
def test_text_is_taken_only_where_privacy_allows(tmp_path, allowed):
    config = load(privacy={"show_text": allowed})
    found = made(tmp_path, config, s2={"Edema": -1.0}, s3={"Edema": -1.0})
    assert found["show_text"] is bool(allowed)  # synthetic
    assert bool(found["read"]) == bool(allowed)
    said = repr({key: value for key, value in found.items() if key not in ("read", "unread")})
    assert "edema." not in said
    if not allowed:
        assert found["readings"] == [
            {"finding": "Edema", "ours": "positive", "given": "uncertain", "rule": "mention",
             "count": 2}
        ]  # fmt: skip


def test_a_comparison_that_agrees_in_everything_or_is_of_positives(tmp_path):
    found = made(tmp_path)
    assert (found["read"], found["unread"], found["more"]) == ([], [], 0)
    found = made(tmp_path / "second", settings={"positives_only": True})
    assert found["classes"] == ["positive"]
    assert [len(row["cells"]) for row in found["rows"]] == [1] * len(found["rows"])
    assert found["confusion"][0]["given"] == ["positive", "blank"]


def test_the_section_is_there_only_where_labels_are_compared(tmp_path):
    write_results(tmp_path / "with", load(**REAL))
    html = page.build_page(tmp_path / "with/report/config.json", tmp_path / "with")
    assert 'id="labels-open_i-terms"' in html and 'href="#labels"' in html
    assert "The reference states only what is there." in html
    write_results(tmp_path / "without", load(label_agreement={"comparisons": []}))
    html = page.build_page(tmp_path / "without/report/config.json", tmp_path / "without")
    assert "Report labels" not in html and 'href="#labels"' not in html


def test_the_confusion_is_that_of_the_file(tmp_path):
    found = made(tmp_path, s1={"Pneumothorax": 1.0})
    table = pd.read_csv(tmp_path / "benchmarks/label_agreement/mimic_cxr/chexpert/confusion.csv")
    table = table[table["finding"] != "No Finding"]
    counts = [cell["count"] for row in found["confusion"] for cell in row["cells"]]
    assert sum(counts) == table["studies"].sum()
