"""What a run makes of the papers' published cells, and the lines that each of the others needs."""

import csv
from typing import Any

import pytest
import yaml
from config_overlays import DEMO, ROOT, table_of
from snakemake.iocontainers import Wildcards

from cxr_files.errors import InputError
from cxr_files.settings import overlay as laid_over
from cxr_files.yaml_file import read_yaml
from cxrflow.config import Config, make_config
from cxrflow.config.lacks import Lack
from cxrflow.config.plan import (
    announcement,
    cells_without,
    main,
    planned_cells,
    require_models,
    table_notes,
)

PAPER = ROOT / "paper.yaml"
# Published cells, and those that nobody can make: quoted from other studies, data kept private.
CELLS = {"biovil": (415, 2), "biovil_t": (216, 15), "convirt": (192, 0), "low_data": (396, 0)}
CELLS |= {"medcutmix": (70, 0)}
NAMED = [("datasets", name) for name in read_yaml(PAPER)["datasets"]]
NAMED += [("weights", name) for name in read_yaml(PAPER)["weights"]]


@pytest.fixture
def paper_run(monkeypatch, tmp_path):
    """The configuration of the paper run where all is there, with what a test lays over it."""
    monkeypatch.setenv("CXR_DATA", str(tmp_path))

    return load


def load(*overlays) -> Config:
    """The same, where CXR_DATA is set."""
    values = laid_over(read_yaml(DEMO), read_yaml(PAPER))
    for key in ("datasets", "weights"):  # as if they were there
        for entry in filter(None, values[key].values()):
            entry.pop("optional", None)
    for above in overlays:
        values = laid_over(values, above)
    return make_config(values, [DEMO, PAPER], check_roots=False)


@pytest.fixture(scope="module")
def complete():
    """The cells that are not made where everything is there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CXR_DATA", "/data")
        return unmade(load())


def unmade(config):
    """The cells that are not made, by their places."""
    cells = [cell for paper in config.library.chosen for cell in planned_cells(config, paper)]
    return {(c.paper, c.table, c.row, c.column): c.lacks for c in cells if c.lacks}


def test_with_everything_named_only_what_nobody_has_is_not_made(paper_run):
    config = paper_run()
    for paper, (published, never) in CELLS.items():
        cells = planned_cells(config, paper)
        lacking = [cell.lacks for cell in cells if cell.lacks]
        assert (len(cells), len(lacking)) == (published, never), paper
        assert not any(lack.lines for lacks in lacking for lack in lacks)


@pytest.mark.parametrize("pairs", ["rexgradient", "chexpert_plus", "chexpert_plus+rexgradient"])
def test_without_credentials_what_needs_them_alone_is_not_made(paper_run, pairs):
    """public.yaml, and CheXpert Plus in its place, or beside it, as docs/public_data.md prints."""
    page = (ROOT / "docs/public_data.md").read_text(encoding="utf-8")
    overlays = [read_yaml(ROOT / "public.yaml")]
    overlays[0]["datasets"]["padchest_gr"]["optional"] = False
    if "chexpert_plus" in pairs:
        text = page.split("```yaml\n")[1].split("```")[0]
        if "rexgradient" in pairs:
            for name in ("rexgradient", "chextemporal_rexgradient"):
                text = text.replace(f"  {name}: null\n", "")
            text = text.replace("published", "reports")
        overlays.append(yaml.safe_load(text))
    config = paper_run(*overlays)
    assert config.cohorts["convirt/mimic_cxr"].dataset == pairs
    asked = {
        line.split("#")[0] for lacks in unmade(config).values() for x in lacks for line in x.lines
    }
    credentialed = ("mimic_iv", "radnli", "mednli", "ms_cxr_t", "chest_imagenome")
    assert asked == {f"datasets: {{{name}: {{root: FOLDER}}}}  " for name in credentialed}
    made = {paper: len(planned_cells(config, paper)) for paper in CELLS}
    lost = {paper: sum(place[0] == paper for place in unmade(config)) for paper in CELLS}
    assert lost["convirt"] == lost["low_data"] == lost["medcutmix"] == 0
    assert made["biovil"] - lost["biovil"] == 318  # Table C.1 counts in MS-CXR's own files


@pytest.fixture
def public():
    """public.yaml, with its optional sets of boxes and progressions there."""
    values = read_yaml(ROOT / "public.yaml")
    names = ("padchest_gr", "chexpert_plus", "chextemporal_chexpert", "chextemporal_rexgradient")
    there = {name: values["datasets"][name] | {"optional": False} for name in names}
    return laid_over(values, {"datasets": there})


def test_progressions_without_credentials_are_of_both_open_parents(paper_run, public):
    """Each row's images are its own parent's; who is tested on is held out of both."""
    config = paper_run(public)
    # MS-CXR-T has a second reader, and these have none.
    task, row = "biovil_t/temporal_classification", "reference/second_reader"
    [lack] = config.tasks[task].lacks_of(row)
    assert lack.reason.startswith("a second reader, whom the data of")
    assert paper_run().tasks[task].lacks_of(row) == ()
    cohort = config.cohorts["biovil_t/progression"]
    assert [(each.dataset, each.holder) for each in cohort.joined] == [
        ("chextemporal_chexpert", "chexpert_plus"),
        ("chextemporal_rexgradient", "rexgradient"),
    ]
    for name in ("biovil/mimic_cxr", "biovil_t/mimic_cxr"):
        assert {*config.cohorts[name].held_out} >= {*(each.dataset for each in cohort.joined)}
    lost = sum(place[0] == "biovil_t" for place in unmade(config))
    assert len(planned_cells(config, "biovil_t")) - lost == 169  # 78 without CheXTemporal
    own = paper_run(public, {"papers": ["chextemporal"]}).cohorts["chextemporal/directions"]
    assert own.holders == ["chexpert_plus", "rexgradient"]


def test_without_one_parent_its_line_or_the_other_alone_is_asked_for(paper_run, public):
    config = paper_run(public, {"datasets": {"chexpert_plus": None}})
    (lack,) = config.cohorts.lacks("biovil_t/progression")
    said = [line.split("  #")[0] for line in lack.lines]
    assert said == [
        "datasets: {chexpert_plus: {root: FOLDER}}",
        "datasets: {chextemporal_chexpert: null}",
    ]
    alone = paper_run(public, {"datasets": {"chexpert_plus": None}}, yaml.safe_load(said[1]))
    cohort = alone.cohorts["biovil_t/progression"]
    assert not cohort.joined
    assert (cohort.dataset, cohort.holder) == ("chextemporal_rexgradient", "rexgradient")


@pytest.mark.parametrize(("key", "name"), NAMED, ids=lambda part: part)
def test_what_the_absence_of_one_thing_costs_is_said_exactly(paper_run, complete, key, name):
    values = read_yaml(DEMO)[key] | read_yaml(PAPER)[key]
    absent = {key: {name: (values[name] or {}) | {"optional": True}}}
    config = paper_run(absent)
    whole, lost = complete, unmade(config)
    assert whole.items() <= lost.items()
    for paper, table, row, column in set(lost) - set(whole):
        (lack,) = lost[paper, table, row, column]  # nothing else is lacking
        line = next(line for line in lack.lines if name in line)
        assert set(yaml.safe_load(line)) == {key}
    # The jobs of such a run make the other cells, and none of these.
    for paper, content in config.library.chosen.items():
        measured = set(config.results[paper].all("all"))
        for table_name in content.tables:
            table = config.results[paper].table(table_name)
            for row in table.rows:
                for column in row.published:
                    result = table.result_of(row, table.column(column))
                    place = (paper, table_name, row.label, column)
                    reads_patients = config.library.tasks[table.task].demographics
                    if result is not None and not reads_patients and place not in whole:
                        assert (result in measured) == (place not in lost), place
    # The line that is named, where the place is there, brings all of them back.
    restored = paper_run(absent, {key: {name: {**absent[key][name], "optional": False}}})
    assert unmade(restored) == whole


def test_a_paper_without_a_model_that_learns_is_refused(paper_run):
    without = {"weights": {"medcutmix/vit_pretraining": {"path": "/none", "optional": True}}}
    config = paper_run(without)
    require_models(config, ["biovil", "convirt"])
    with pytest.raises(InputError, match="`weights: {medcutmix/vit_pretraining: /none}") as refusal:
        require_models(config, ["biovil", "medcutmix"])
    assert "leave_out: [medcutmix]" in str(refusal.value)
    left = paper_run(without, {"leave_out": ["medcutmix"]})
    assert "medcutmix" not in left.results
    require_models(left, left.results)


def test_what_is_left_out_is_not_made_nor_what_starts_from_it(paper_run):
    config = paper_run({"leave_out": ["biovil/simclr", "biovil/table3", "biovil/phrase_grounding"]})
    lost = unmade(config)
    assert {lack.reason for lacks in lost.values() for lack in lacks} >= {
        "`leave_out` names biovil/simclr",
        "what `leave_out` names",
        "`leave_out` names biovil/phrase_grounding",
    }
    assert (
        not config.models["biovil/biovil"].trainable
        and "table3" not in config.results["biovil"].tables()
    )
    assert "biovil/phrase_grounding" not in config.tasks.available


@pytest.mark.parametrize("name", ["nothing", "biovil/nothing", "biovil/table99"])
def test_only_what_is_there_is_left_out(paper_run, name):
    with pytest.raises(InputError, match=f"key 'leave_out.0' is '{name}', which is not there"):
        paper_run({"leave_out": [name]})


def test_a_run_of_nothing_is_refused(paper_run):
    with pytest.raises(InputError, match="'leave_out': names all papers"):
        paper_run({"papers": ["biovil"], "leave_out": ["biovil"]})


def test_it_is_said_before_the_run_and_below_the_table(paper_run):
    without = {"datasets": {"mura": None}}
    config = paper_run(without)
    text = announcement(config, {"convirt": "all"})
    assert "convirt: 156 of 192 published cells\n  36 need datasets: {mura: {root: FOLDER}}" in text
    assert "convirt: 24 of 192" in announcement(paper_run(), {"convirt": "headline"})
    notes = [
        note
        for t in config.results["convirt"].tables()
        for note in table_notes(config, "convirt", t)
    ]
    assert notes and all("need `datasets: {mura: {root: FOLDER}}`" in note for note in notes)
    assert not any(
        table_notes(paper_run(), "convirt", t) for t in config.results["convirt"].tables()
    )


def test_after_a_failure_the_cells_that_wait_are_counted(paper_run):
    config = paper_run()
    task, model = "convirt/rsna_linear", "convirt/convirt"
    assert cells_without(config, {(task, "biovil/biovil")}) == ""
    one = cells_without(config, {(task, model)})
    assert one == "convirt 5 (table1a 3, table3 1, table4 1)"


def test_the_row_of_a_job_is_that_of_its_wildcards_or_of_a_plain_mapping():
    """Jobs that were not made are told by mappings, in the words about a failure."""
    names: dict[str, Any] = {}
    exec((ROOT / "rules/inputs/evaluate.smk").read_text(), names)
    row_of = names["row_of"]
    assert row_of({"task": "a/b", "name": "oracle"}) == "reference/oracle"
    assert row_of({"task": "a/b", "external": "a/file"}) == "a/file"
    assert row_of({"task": "a/b", "model": "a/c", "seed": "0"}) == "a/c"
    assert row_of({"task": "a/b"}) is None
    assert row_of(Wildcards(fromdict={"name": "oracle"})) == "reference/oracle"


def test_it_is_written_as_a_table(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(ROOT)
    main(["--paper", "low_data", "--output", str(tmp_path / "plan.tsv")])
    said = capsys.readouterr().out
    assert said.startswith("low_data: 199 of 396 published cells\n")
    assert said.endswith("a run makes of these:\n  low_data: 5 of 396 published cells\n")
    with (tmp_path / "plan.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 396 and sum(row["made"] == "yes" for row in rows) == 199
    assert {row["lines"].partition(" or ")[0] for row in rows if row["made"] == "no"} == {
        "scale: paper"
    }


def test_a_table_names_no_folder_of_this_machine(paper_run, tmp_path):
    config = paper_run({"weights": {"convirt/imagenet_pretraining": {"optional": True}}})
    (note,) = table_notes(config, "convirt", "table2")
    assert "`weights: {convirt/imagenet_pretraining: …/resnet50-0676ba61.pth}`" in note
    assert str(tmp_path) not in note and str(tmp_path) in announcement(config, {"convirt": "all"})


def test_a_reference_row_alone_in_its_task_is_not_scored(overlay, paper):
    table = table_of("convirt/rsna_linear", "auroc/1", "reference/nothing")
    config = overlay({"papers": [paper({"tables": {"alone": table}})]})
    (cell,) = planned_cells(config, "mine")
    assert cell.lacks == (Lack("a model in convirt/rsna_linear beside it"),)
    assert config.results["mine"].cells("alone") == []
