"""Report labels against given ones: reading them, matching studies, scores, sentences behind."""

import logging
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from benchmark_fakes import metrics_of
from label_fixtures import REPORTS, given_like, write_corpus

from cxr_files.atomic import read_json, write_json
from cxr_files.errors import InputError
from cxr_labels.labeller import make_labeller
from cxr_labels.observations import OBSERVATIONS
from cxr_labels.settings import LabellerSettings, ReportSettings
from cxrflow.benchmarks.data import label_agreement as program
from cxrflow.benchmarks.data.compare_labels import main
from cxrflow.benchmarks.data.label_disagreements import (
    NOT_TOLD,
    NOTHING_READ,
    behind_label,
    find_disagreements,
    labelled_sentences,
    rank,
)
from cxrflow.benchmarks.data.reference_labels import read_reference_labels
from cxrflow.benchmarks.data.settings import LabelAgreementSettings
from cxrflow.data.readers import mimic_cxr_jpg

NAN = float("nan")


@pytest.fixture
def corpus(tmp_path):
    return write_corpus(tmp_path / "corpus")


def settings(**values):
    return LabelAgreementSettings.model_validate({"intervals": {"replicates": 100}} | values)


def compare(corpus, given, **values):
    ours, theirs = program.CorpusLabels.read(corpus), given.astype({"study_id": "str"})
    return program.compare(ours, theirs, "given", settings(**values))


# --- the given labels ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_table_is_read_by_name_whatever_its_format(tmp_path, corpus, name):
    table = given_like(corpus, s50000001={"Edema": -1.0}).rename(columns={"study_id": "key"})
    table["key"] = "s" + table["key"]
    path = tmp_path / name
    table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
    asked = tmp_path / name.removesuffix(".gz")  # plain or gzipped, as published or unpacked
    found = read_reference_labels(asked, settings(id_column="key"))
    assert list(found) == ["study_id", *OBSERVATIONS]
    assert found["study_id"].tolist() == list(REPORTS)
    assert found.loc[0, ["Edema", "Pleural Effusion", "Pneumothorax"]].tolist() == [-1, 1, 0]
    assert np.isnan(found.loc[0, "Fracture"])


def test_mimics_tables_are_read_as_their_reader_reads_them(tmp_path, corpus):
    table = given_like(corpus, s50000002={"Lung Opacity": 1.0})
    for kind in ("chexpert", "radiologist"):
        path = tmp_path / mimic_cxr_jpg.LABEL_TABLES[kind]
        named = {"Lung Opacity": "Airspace Opacity"} if kind == "radiologist" else {}
        table.rename(columns=named).to_csv(path, index=False)
        theirs = mimic_cxr_jpg.read_labels(tmp_path, kind)[0].set_index("study_id")
        found = read_reference_labels(path, settings()).set_index("study_id")
        pd.testing.assert_frame_equal(found, theirs[list(OBSERVATIONS)], check_names=False)


def test_open_i_is_read_by_its_terms(tmp_path, monkeypatch):
    terms = pd.DataFrame([("CXR1", 1.0, 0.0)], columns=["study_id", "Edema", "No Finding"])

    def read(root):
        return terms if root == tmp_path else pytest.fail(str(root))

    monkeypatch.setattr("cxrflow.benchmarks.data.reference_labels.read_term_labels", read)
    found = read_reference_labels(tmp_path, settings(layout="open_i"))
    assert found.to_dict("list") == {"study_id": ["CXR1"], "No Finding": [0.0], "Edema": [1.0]}
    terms = terms.iloc[:0]
    with pytest.raises(InputError, match="it labels no report"):
        read_reference_labels(tmp_path, settings(layout="open_i"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("study_id,Edema\n1,1\n2,2\n", "t.csv: data row 2: 'Edema' is '2'; expected 1, 0, -1"),
        ("study_id,Edema\n1,yes\n", "t.csv: data row 1: 'Edema' is 'yes'; expected 1, 0, -1"),
        ("study_id,Edema\n1,1\n2,\n1,1\n", "t.csv: data rows 1, 3 are all of study '1'; exp"),
        ("study_id,Edema\ns1,1\n1.0,1\n", "t.csv: data rows 1, 2 are all of study '1'"),
        ("study_id,Edema\n1,1\n ,1\n", "t.csv: data row 2: 'study_id' is blank"),
        ("study_id,Odema\n1,1\n", "t.csv: no column is named like an observation"),
        ("id,Edema\n1,1\n", "t.csv: column 'study_id' is missing"),
        ("study_id,Edema\n1,1,1\n", r"wrong number of fields \(expected 2\): .*t.csv:2"),
        ("study_id,Edema\n", "t.csv: it labels no report"),
    ],
)
def test_a_bad_row_is_named(tmp_path, text, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=message):
        read_reference_labels(tmp_path / "t.csv", settings())


def test_an_absent_table_is_named(tmp_path):
    with pytest.raises(InputError, match=r"no.csv: file not found \(plain or .gz\)"):
        read_reference_labels(tmp_path / "no.csv", settings())
    pd.DataFrame({"study_id": [1, 1], "Edema": [1, 0]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="t.parquet: data rows 1, 2 are all of study '1'"):
        read_reference_labels(tmp_path / "t.parquet", settings())


# --- the comparison -----------------------------------------------------------------------------


def test_equal_labels_agree_in_everything(corpus):
    result, tables = compare(corpus, given_like(corpus))
    values = {name: found.value for name, found in result.metrics.items()}
    assert values["agreement"] == values["macro_kappa"] == values["micro_f1/positive"] == 1
    assert result.data["studies"] == 6 and result.data["labels_differing"] == 0
    assert tables["disagreements"].empty
    assert "f1/negative/No Finding" not in values and "f1/positive/No Finding" in values


def test_scores_counts_and_tables_of_a_case_worked_by_hand(corpus):
    # Six reports: Pneumothorax is negative in five. One of them is given positive, one blank.
    given = given_like(corpus, s50000001={"Pneumothorax": 1.0}, s50000002={"Pneumothorax": NAN})
    result, tables = compare(corpus, given)
    row = tables["agreement"].set_index(["finding", "class"]).loc["Pneumothorax", "negative"]
    assert (row["given"], row["ours"], row["both"]) == (3, 5, 3)
    assert (row["precision"], row["recall"], row["f1"]) == (0.6, 1.0, 0.75)
    assert result.metrics["f1/negative/Pneumothorax"].n == 3
    assert result.metrics["kappa/Pneumothorax"].n == 6
    counts = tables["confusion"].set_index(["finding", "ours", "given"])["studies"]
    assert counts["Pneumothorax", "negative", "positive"] == 1
    assert counts["Pneumothorax", "negative", "blank"] == 1
    assert counts.groupby("finding").sum().tolist() == [6] * 14
    assert result.metrics["agreement"].n == 84
    assert result.metrics["agreement"].value == pytest.approx(82 / 84)
    assert (result.data["studies_differing"], result.data["labels_differing"]) == (2, 2)
    first = result.predictions.iloc[0]
    assert first["study_id"] == "50000001"
    assert (first["ours/Pneumothorax"], first["given/Pneumothorax"]) == (0, 1)


def test_no_finding_is_positive_or_not_on_both_sides(corpus):
    given = given_like(corpus, s50000001={"No Finding": 0.0}, s50000003={"No Finding": -1.0})
    result, tables = compare(corpus, given)
    rows = tables["agreement"]
    assert rows.loc[rows["finding"] == "No Finding", "class"].tolist() == ["positive"]
    assert result.data["labels_differing"] == 1  # 0 is no other than blank
    counts = tables["confusion"].set_index(["finding", "ours", "given"])["studies"]
    assert counts["No Finding", "positive", "blank"] == 1


@pytest.mark.parametrize(
    ("uncertain", "differing"), [("apart", 1), ("negative", 1), ("positive", 0)]
)
def test_what_uncertain_counts_as(corpus, uncertain, differing):
    # Ours: pneumonia "is possible", uncertain; given: positive.
    given = given_like(corpus, s50000004={"Pneumonia": 1.0})
    result, tables = compare(corpus, given, uncertain=uncertain)
    assert result.data["labels_differing"] == differing
    assert ("uncertain" in result.protocol["classes"]) == (uncertain == "apart")
    assert ("micro_f1/uncertain" in result.metrics) == (uncertain == "apart")
    assert set(tables["disagreements"]["ours"]) == ({"uncertain"} if differing else set())


@pytest.mark.parametrize("values", [{"positives_only": True}, {"layout": "open_i"}])
def test_a_reference_of_positives(corpus, values):
    given = given_like(corpus).fillna(0.0).replace(-1.0, 0.0)
    result, _ = compare(corpus, given, **values)
    assert list(result.protocol["classes"]) == ["positive"] and result.protocol["positives_only"]
    # Our negatives, uncertain and blanks are all "not positive", as are its zeros.
    assert result.data["labels_differing"] == 0
    assert result.metrics["agreement"].value == result.metrics["macro_kappa"].value == 1
    assert not any("negative" in name or "uncertain" in name for name in result.metrics)


def test_studies_of_one_side_are_counted_by_reason(corpus, caplog):
    given = given_like(corpus).iloc[1:]
    extra = given.iloc[:2].assign(study_id=["59999999", "58888888"])
    with caplog.at_level(logging.WARNING):
        result, _ = compare(corpus, pd.concat([given, extra]))
    found = {one["reason"]: (one["count"], one["examples"]) for one in result.data["dropped"]}
    assert found == {
        "ours only: no given labels": (1, ["50000001"]),
        "given only: our report has no labels (no usable section)": (1, ["59999999"]),
        "given only: not in the corpus": (1, ["58888888"]),
    }
    assert result.data["studies"] == 5
    assert "1 studies left out: given only: not in the corpus" in caplog.text
    assert "58888888" not in caplog.text


def test_strangers_are_refused(corpus):
    given = given_like(corpus)
    with pytest.raises(InputError, match="none of its 6 labelled .* such as '50000001', found '7'"):
        compare(corpus, given.assign(study_id=[str(number + 7) for number in range(6)]))


def test_a_corpus_without_labels_is_refused(tmp_path, corpus):
    given = given_like(corpus)
    empty = write_corpus(tmp_path / "empty")
    pd.read_parquet(empty / "labels.parquet").iloc[:0].to_parquet(empty / "labels.parquet")
    with pytest.raises(InputError, match=r"labels.parquet: no rows; expected labelled reports"):
        compare(empty, given)


def test_a_subset_of_findings_is_enough(corpus):
    result, _ = compare(corpus, given_like(corpus)[["study_id", "Pneumothorax", "Edema"]])
    assert result.protocol["findings"] == ["Edema", "Pneumothorax"]
    assert result.metrics["agreement"].n == 12
    assert not any("no_finding" in name for name in result.metrics)
    result, _ = compare(corpus, given_like(corpus)[["study_id", "No Finding"]])
    assert list(result.protocol["classes"]) == ["positive"]
    assert not any("no_finding" in name for name in result.metrics)


def test_patients_are_drawn_whole(tmp_path):
    reports = {f"5{n:07d}": [("Edema.", "No edema.")[n // 2 % 2]] for n in range(40)}
    corpus = write_corpus(tmp_path / "corpus", reports)
    changes = {f"s{study}": {"Edema": NAN} for study in list(reports)[:16]}  # eight whole patients
    given = given_like(corpus, **changes)
    wide, _ = compare(corpus, given)
    narrow, _ = compare(corpus, given, intervals={"replicates": 100, "unit": "sample"})
    a, b = (result.metrics["kappa/Edema"] for result in (wide, narrow))
    assert a.value == b.value and a.low < a.value < a.high
    assert a.high - a.low > b.high - b.low


# --- the sentences behind -----------------------------------------------------------------------


def test_sentences_that_differ_are_ranked_and_say_their_rule(corpus):
    changes = {
        "s50000001": {"Pneumothorax": 1.0},
        "s50000004": {"Pneumothorax": 1.0},  # the same sentence in capitals and with two blanks
        "s50000002": {"Edema": -1.0},
        "s50000005": {"Lung Opacity": 1.0},  # of which we read nothing
    }
    _, tables = compare(corpus, given_like(corpus, **changes))
    rows = tables["disagreements"]
    # The first two by alphabet, since both are always read otherwise.
    assert rows["study_id"].tolist() == ["50000005", "50000002", "50000001", "50000004"]
    missed, edema, first, second = (row for _, row in rows.iterrows())
    assert (edema["sentence"], edema["phrase"]) == ("Mild pulmonary edema.", "edema")
    assert (edema["ours"], edema["given"], edema["rule"]) == ("positive", "uncertain", "mention")
    assert (missed["sentence"], missed["rule"]) == ("Fuzzy grey things are seen.", NOTHING_READ)
    assert first["rank"] == second["rank"] == 3 and first["sentence"] != second["sentence"]
    # Two disagreements, but three of the five studies with the sentence agree.
    assert (first["disagreements"], first["studies"]) == (2, 5)
    assert first["rule"] == "no"


def test_a_no_finding_that_is_missing_is_because_of_what_was_read():
    sentences = ["Mild pulmonary edema.", "No pneumothorax."]
    reasons = make_labeller(LabellerSettings()).explain(sentences)
    (found,) = behind_label("No Finding", NAN, sentences, reasons)
    assert (found.sentence, found.phrase) == ("Mild pulmonary edema.", "edema")
    sentences = ["Pain.", "No pneumothorax."]
    reasons = make_labeller(LabellerSettings()).explain(sentences)
    (found,) = behind_label("No Finding", 1.0, sentences, reasons)
    assert (found.sentence, found.rule) == ("Pain.", NOTHING_READ)
    (found,) = behind_label("Edema", NAN, sentences[1:], [replace(reasons[0], sentence=0)])
    assert found.sentence is None  # every sentence asserts something, and nothing of edema


def test_rows_without_a_sentence_come_last():
    rows = pd.DataFrame(
        {
            "study_id": ["1", "2"], "finding": ["Edema"] * 2, "ours": ["blank"] * 2,
            "given": ["positive"] * 2, "sentence": [None, "Fine."], "phrase": ["", ""],
            "rule": [NOTHING_READ] * 2,
        },
        dtype="str",
    )  # fmt: skip
    found = rank(rows, pd.Series([None, "fine."], dtype="str"), pd.Series({"fine.": 3}))
    assert found["study_id"].tolist() == ["2", "1"]
    assert found["rank"].isna().tolist() == [False, True]


def test_what_was_labelled_is_what_is_read_again(tmp_path):
    folder = write_corpus(tmp_path / "corpus", {"1": ["A."], "2": ["B."], "3": ["C."]})
    sections = pd.read_parquet(folder / "sections.parquet").iloc[:3]
    sections.loc[2, ["conclusion", "conclusion_from"]] = ["Since the prior.", "comparison"]
    rows = [
        ("1", "findings", 0, "F."), ("1", "impression", 0, "A."),
        ("2", "last_paragraph", 0, "L."), ("3", "last_paragraph", 0, "X."),
    ]  # fmt: skip
    columns = ["study_id", "section", "index", "sentence"]
    pd.DataFrame(rows, columns=columns).to_parquet(folder / "sentences.parquet")
    sections.loc[1, "conclusion_from"] = "last_paragraph"

    def read(text):
        studies, sentences = labelled_sentences(folder, sections, text)
        return list(zip(studies.tolist(), sentences.tolist(), strict=True))

    assert read("conclusion") == [("1", "A."), ("2", "L."), ("3", "Since the prior.")]
    both = [("1", "F."), ("1", "A."), ("2", "L."), ("3", "Since the prior.")]
    assert read("findings_and_impression") == both


def test_an_engine_without_reasons_names_every_sentence():
    labels = np.array([[1.0], [0.0]])
    rows = list(
        find_disagreements(
            ["1", "2"], ["Edema"], labels, labels - 1, np.array([[True], [False]]),
            {"1": ["One.", "Two."]}, None,
        )
    )  # fmt: skip
    assert [row["sentence"] for row in rows] == ["One.", "Two."]
    assert {row["rule"] for row in rows} == {NOT_TOLD}


# --- the program --------------------------------------------------------------------------------


def test_the_program_writes_its_folder_and_logs_no_text(tmp_path, corpus, caplog):
    table = tmp_path / "mine.csv"
    given_like(corpus, s50000002={"Edema": 0.0}).to_csv(table, index=False)
    output = tmp_path / "out"
    asked = {"reference": "mine", "settings": {"intervals": {"replicates": 100}}}
    with caplog.at_level(logging.INFO):
        found = metrics_of(main, corpus=corpus, labels=table, output=output, **asked)
    assert sorted(path.name for path in output.iterdir()) == [
        ".cxrflow", "SHA256SUMS", "agreement.csv", "confusion.csv", "disagreements.parquet",
        "figures", "metrics.json", "predictions.parquet",
    ]  # fmt: skip
    assert (found["benchmark"], found["model"], found["seed"]) == ("label_agreement", "scope", 0)
    assert found["data"]["name"] == "mimic_cxr" and found["data"]["synthetic"] is True
    assert found["protocol"]["reference"] == "mine"
    assert found["protocol"]["labels"]["text"] == "conclusion"
    assert found["metrics"]["f1/positive/Fracture"] == {
        "value": None, "low": None, "high": None, "n": 0,
    }  # fmt: skip
    assert "6 studies compared, 1 of them differ" in caplog.text
    for sentences in REPORTS.values():
        assert not any(sentence in caplog.text for sentence in sentences)


def test_a_corpus_of_other_settings_is_named(tmp_path):
    folder = write_corpus(tmp_path / "corpus", settings=ReportSettings(splitter="rules"))
    said = read_json(folder / "corpus.json") | {"settings": {"splittter": "rules"}}
    write_json(folder / "corpus.json", said)
    with pytest.raises(InputError, match="corpus.json, settings: unknown key 'splittter'"):
        program.CorpusLabels.read(folder)
