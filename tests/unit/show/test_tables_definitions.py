"""The tables of the papers: internal consistency of the published values, and what is refused."""

import re
from itertools import product

import pytest
from pydantic import ValidationError

from cxrflow.benchmarks.classification.probe_settings import LinearProbeSettings
from cxrflow.benchmarks.classification.settings import ZeroShotClassificationSettings
from cxrflow.benchmarks.data.ms_cxr_statistics import BACKGROUND, FINDINGS, TOTAL
from cxrflow.benchmarks.grounding.settings import SegmentationSettings
from cxrflow.benchmarks.heads.shares import percent
from cxrflow.benchmarks.registry import BENCHMARKS
from cxrflow.config.papers import Library
from cxrflow.names import is_reference
from cxrflow.papers import Paper, load_paper, paper_names
from cxrflow.papers.table import Headline, Row, Table, cells_of, comparisons

TABLES = sorted(load_paper("biovil").tables)


def table(name: str) -> Table:
    return load_paper("biovil").tables[name]


def published(name: str) -> dict[str, dict[str, float]]:
    rows = table(name).rows
    return {
        row.label: {k: float(v[0]) for k, v in row.published.items()}
        for row in rows
        if row.published
    }


@pytest.mark.parametrize("name", TABLES)
def test_every_table_is_well_formed(name):
    found = table(name)
    assert found.source.startswith(("BioViL, Table", "none; the paper"))
    for row in found.rows:
        assert row.published or row.model, row.label
        assert not row.data or row.variant, row.label
        for cell in row.published.values():
            assert all(value is None or value == value.strip() for value in cell)


@pytest.mark.parametrize(
    ("name", "digits"), [("table5", 0.5e-2), ("table_a3", 0.5e-2), ("table_a4", 0.5e-3)]
)
def test_the_average_is_that_of_the_eight_findings(name, digits):
    """A wrong digit moves the mean of eight by more than rounding can (unless it is the last)."""
    for label, cells in published(name).items():
        # Three averages are printed that are not those of the printed findings.
        inconsistent = name == "table_a4" and re.match(r".*PubMedBERT|ConVIRT|GLoRIA", label)
        if len(cells) == 9 and not inconsistent:
            mean = sum(v for k, v in cells.items() if k != "avg") / 8
            # The findings' rounding and that of the printed average itself.
            assert cells["avg"] == pytest.approx(mean, abs=2 * digits), label


def test_tables_that_repeat_a_value_agree():
    both, miou = published("grounding_protocols"), published("table_a4")
    for label, cells in published("table5").items():
        if label in miou and miou[label]:
            assert both[label] == {"cnr": cells["avg"], "miou": miou[label]["avg"]}
    five, three = published("table5"), published("table_a3")
    biovil = five["BioViL: CXR-BERT, global loss"]
    again = three["BioViL, 146.7k training pairs"]
    assert {k: v for k, v in again.items() if k != "avg"} == {
        k: v for k, v in biovil.items() if k != "avg"
    }
    six, extended = published("table6"), published("table_a2")
    assert list(six) == list(extended)
    for label, cells in six.items():
        assert cells == {k: v for k, v in extended[label].items() if k in cells}
    prompts = published("table_a1")
    default = "BioViL: “Findings suggesting pneumonia” / “No evidence of pneumonia”"
    assert prompts[default] == {k: six["BioViL, zero-shot"][k] for k in ("f1", "auroc")}
    ablation = published("table4")["Pretrain & Vocab (I–II)"]["cnr"]
    assert five["Phases I–II, no MLM in joint training"] == {"avg": ablation}


@pytest.mark.parametrize(
    ("name", "task", "settings", "models"),
    [
        ("table6", "linear_probe", LinearProbeSettings(), 3),
        ("table_a2", "linear_probe", LinearProbeSettings(), 3),
        ("table7", "segmentation", SegmentationSettings(), 2),
    ],
)
def test_probe_rows_read_the_share_that_their_label_names(name, task, settings, models):
    found = table(name)
    papers = [row for row in found.rows if not row.is_reference and "(ours)" not in row.label]
    rows = [row for row in papers if row.share is not None]
    label = re.compile(r"(\w+), (?:linear probe|fine-tuned), (\d+) % of labels")
    named = [label.fullmatch(row.label) for row in rows]
    assert [(f"biovil/{m[1].lower()}", m[2]) for m in named] == [(r.model, r.share) for r in rows]
    assert {row.task or found.task for row in rows} == {f"biovil/{task}"}
    shares = {percent(share) for share in settings.fractions}
    assert {row.share for row in rows} == shares and len(rows) == models * len(shares)
    prompted = [row for row in papers if row.model and row.share is None]
    assert prompted and all("zero-shot" in row.label for row in prompted)


def test_overlaps_of_more_prompts_stand_under_those_of_one():
    found = table("table7").rows
    prompted = [row for row in found if row.model and row.share is None and not row.is_reference]
    more = {row.label for row in prompted if row.task == "biovil/segmentation_more_prompts"}
    assert {f"{row.label}, more prompts" for row in prompted if row.label not in more} == more
    assert "biovil/biovil" in [row.model for row in prompted]


def test_published_overlaps_are_possible():
    """The Dice score of one map is 2 IoU / (1 + IoU), and a mean of such is no greater."""
    for label, cells in published("table7").items():
        if "iou" in cells:
            most = 2 * cells["iou"] / (1 + cells["iou"])
            assert cells["iou"] < cells["dice"] < most + 1e-3, label


def small_table(rows, columns, **values):
    columns = [{"key": key, "label": key, "metric": key} | more for key, more in columns.items()]
    return Table.model_validate(
        {"title": "T", "source": "S", "task": "main", "columns": columns, "rows": rows} | values
    )


def test_a_row_has_another_model_where_its_column_says_so():
    rows = [{"label": "x", "model": "chest", "models": {"b": "bone"}}]
    found = small_table(rows, {"a": {}, "b": {}})
    assert found.results() == [("main", "chest"), ("main", "bone")]
    with pytest.raises(ValidationError, match="row 'x' has values or models for unknown \\['c'\\]"):
        small_table([{"label": "x", "model": "m", "models": {"c": "n"}}], {"a": {}})


def test_a_table_says_which_results_it_reads():
    found = small_table(
        [
            {"label": "x", "model": "m", "vocabulary": "v"},
            {"label": "y", "model": "m", "task": "probe"},
            {"label": "z", "reason": "not run"},
            {"label": "data", "data": True},
        ],
        {
            "a": {},
            "b": {"task": "words", "metric": "size/{vocabulary}"},
            "c": {"task": "d", "reason": "no"},
        },
    )
    assert found.results() == [
        ("main", "m"), ("words", None), ("probe", "m"), ("main", None),
    ]  # fmt: skip
    assert cells_of({"t": found}, None) == found.results()
    assert cells_of({"t": found}, [Headline(table="t", rows=["x"])]) == found.results()[:2]
    part = [Headline(table="t", rows=["x", "y"], columns=["a"])]
    assert cells_of({"t": found}, part) == [("main", "m"), ("probe", "m")]
    assert cells_of({"t": found}, []) == []


def test_the_headline_of_biovil_is_twelve_results():
    paper = load_paper("biovil")
    assert {
        (task.removeprefix("biovil/"), model.removeprefix("biovil/"))
        for task, model in cells_of(paper.tables, paper.headline)
        if not is_reference(model)
    } == {
        ("zero_shot_other_words", "biovil"),
        ("linear_probe", "report_labels"),
        *product(("linear_probe", "segmentation"), ("biovil", "simclr")),
        *product(
            ("phrase_grounding", "phrase_grounding_released", "zero_shot_classification"),
            ("biovil", "baseline_clinical_bert"),
        ),
    }
    for wrong in (
        {"table": "table0"},
        {"table": "t", "rows": ["y"]},
        {"table": "t", "columns": ["b"]},
    ):
        tables = {"t": small_table([{"label": "x", "model": "m"}], {"a": {}})}
        with pytest.raises(ValidationError, match="headline: (no table 'table0'|t has not: [yb])"):
            Paper(name="p", tables=tables, headline=[wrong])


def test_names_belong_to_their_paper():
    rows = [{"label": "own", "model": "m"}, {"label": "b", "model": "other/m", "task": "other/t"}]
    values = small_table(rows, {"a": {}}).model_dump()
    found = Table.model_validate(values, context={"paper": "p"})
    assert found.results() == [("p/main", "p/m"), ("other/t", "other/m")]


def test_rows_are_compared_with_their_reference_in_the_same_task():
    rows = [
        {"label": "r", "model": "a"},
        {"label": "s", "model": "b"},
        {"label": "probe", "model": "b", "task": "probe", "share": "10"},
        {"label": "other probe", "model": "a", "task": "probe", "share": "10",
         "reference": "probe"},
        {"label": "variant", "model": "a", "variant": "x", "blank": ["g"]},
        {"label": "published", "reason": "not run"},
    ]  # fmt: skip
    columns = {"f": {"metric": "auroc"}, "g": {"metric": "f1"}, "h": {"reason": "not run"}}
    found = small_table(rows, columns, reference="r")
    assert [
        tuple(one.model_dump(exclude_none=True).values()) for one in comparisons(found.pairs())
    ] == [
        ("main", "b", "auroc", "a", "auroc"),
        ("main", "b", "f1", "a", "f1"),
        ("probe", "a", "auroc/10", "b", "auroc/10"),
        ("probe", "a", "f1/10", "b", "f1/10"),
        ("main", "a", "auroc/x", "a", "auroc"),
    ]


def test_prompt_rows_read_the_pair_that_their_label_names():
    pairs = {pair.name: pair for pair in ZeroShotClassificationSettings().prompt_pairs}
    default = ZeroShotClassificationSettings()
    for row in table("table_a1").rows:
        if row.model is None:
            continue
        pair = pairs.get(row.variant)
        positive = pair.positive if pair else default.positive_prompts
        negative = pair.negative if pair else default.negative_prompts
        assert row.label.endswith(f": “{positive[0]}” / “{negative[0]}”")
        compared = pair is not None and pair.compared_with is not None
        assert (row.blank == ["delta"]) is not compared
        if compared:
            other = next(one for one in table("table_a1").rows if one.label == row.reference)
            assert other.model == row.model and (other.variant or "default") == pair.compared_with


def test_the_statistics_of_ms_cxr_add_up():
    found = published("table_c1")
    findings = {k: v for k, v in found.items() if not k.startswith(("Total", "Background"))}
    assert len(findings) == 8 and sum(v["pairs"] for v in findings.values()) == 1153
    for label, cells in found.items():
        share = 100 * cells["women"] / cells["subjects"]
        # Two rows are printed inconsistently; see the table's notes.
        inconsistent = label.startswith(("Lung opacity", "Background"))
        assert (round(share, 2) == cells["women_percent"]) is not inconsistent, label
    rows = {row.variant for row in table("table_c1").rows}
    assert rows == {*FINDINGS, TOTAL, BACKGROUND}


def test_prompt_sensitivity_is_the_difference_of_the_aurocs():
    found = published("table_a1")
    first, second = "Findings suggesting pneumonia", "Findings consistent with pneumonia"
    no, none = "No evidence of pneumonia", "There is no pneumonia"
    acute = "There is no evidence of acute pneumonia"
    for model in ("BioViL", "ClinicalBERT"):
        for before, after in (
            ((first, no), ("Consistent with the diagnosis of pneumonia", acute)),
            ((second, no), (second, none)),
        ):
            cells = [found[f"{model}: “{p}” / “{n}”"] for p, n in (before, after)]
            gap = abs(cells[0]["auroc"] - cells[1]["auroc"])
            assert cells[1]["delta"] == pytest.approx(gap, abs=1e-9), (model, after)


def test_the_spelling_of_a_word_has_its_letters():
    found = table("table1")
    for row in found.rows:
        for word, (spelling, _) in row.published.items():
            assert spelling == "✓" or spelling.replace("-", "") == word


def test_token_increase_fits_the_token_counts():
    """Tokens over words: all rows must agree on the number of words in FINDINGS."""
    words = [
        cells["tokens"] / (1 + cells["increase"] / 100)
        for cells in (
            {k: float(v[0].replace(",", "")) for k, v in row.published.items()}
            for row in table("table3").rows
        )
        if "tokens" in cells
    ]
    assert len(words) == 4 and max(words) - min(words) < 0.02


GOOD = {
    "title": "T",
    "source": "S",
    "task": "b",
    "columns": [{"key": "auroc", "label": "AUROC", "metric": "auroc"}],
    "rows": [{"label": "ours", "model": "m", "published": {"auroc": ["0.8", None]}}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [{"label": "a", "model": "m", "published": {"f1": ["1", None]}}]}, "unknown"),
        ({"rows": [{"label": "a", "model": "m", "published": {"auroc": ["1"]}}]}, "spread"),
        (
            {"rows": [{"label": "a", "model": "m", "published": {"auroc": 0.8}}]},
            "'auroc' is 0.8; exp",
        ),
        ({"rows": [{"label": "a"}]}, "neither model"),
        ({"rows": GOOD["rows"] * 2}, "more than once"),
        ({"columns": GOOD["columns"] * 2}, "more than once"),
        ({"reference": "nobody"}, "reference 'nobody' is no row"),
        ({"rows": [GOOD["rows"][0] | {"blank": ["auroc"]}]}, "'blank' has unknown or published"),
        ({"rows": [GOOD["rows"][0] | {"blank": ["f1"]}]}, "'blank' has unknown or published"),
    ],
)
def test_a_wrong_definition_is_refused(change, message):
    Table.model_validate(GOOD)
    with pytest.raises(ValidationError, match=message):
        Table.model_validate(GOOD | change)


@pytest.mark.parametrize("name", paper_names())
def test_every_task_stands_beside_rows_that_know_nothing(name):
    """In a table of the paper, by its own task or by one of the same benchmark and data set."""
    library = Library([name])

    def kind(task):
        recipe = library.tasks[task]
        return recipe.benchmark, library.cohorts[recipe.cohort].dataset

    results = [result for one in load_paper(name).tables.values() for result in one.results()]
    tasks = {task for task, model in results if model is not None and not is_reference(model)}
    scored = {kind(task) for task in tasks if BENCHMARKS[kind(task)[0]].needs}
    shown = {kind(task) for task, model in results if is_reference(model)}
    missing = {b for b, _ in scored - shown if not BENCHMARKS[b].no_rows}
    assert not missing, f"{name}: no reference row is in a table of these benchmarks' tasks"
    if name.startswith(("public", "own_data", "learning_curve")):  # of real data, without a truth
        return
    told = {
        kind(task)
        for table in load_paper(name).tables.values()
        for task, _ in table.results([row.key for row in table.rows if row.ceiling])
    }
    missing = {b for b, _ in scored - told if not BENCHMARKS[b].no_rows}
    assert not missing, f"{name}: no ceiling is in a table of these benchmarks' tasks"


def test_a_row_that_must_succeed_is_called_a_ceiling():
    said = {"label": "Told", "model": "reference/oracle"}
    with pytest.raises(ValidationError, match="'Told': 'ceiling' must go with"):
        Row.model_validate(said | {"ceiling": True})
    with pytest.raises(ValidationError, match="'Ceiling: told': 'ceiling' must go with"):
        Row.model_validate(said | {"label": "Ceiling: told"})


def test_equality_is_published_within_its_margin():
    paper = load_paper("biovil_t")
    claims = [claim for claim in paper.orderings if claim.margin is not None]
    assert {claim.column for claim in claims} == {"cnr", "miou"}
    for claim in claims:
        first, second = (
            float(paper.tables[place.table].row(place.row).published[place.column][0])
            for place in claim.addresses()
        )
        assert abs(first - second) < claim.margin
    asked = [one for one in paper.comparisons("table5") if one.margin]
    assert [one.reference_task for one in asked] == ["biovil_t/phrase_grounding"] * 2
