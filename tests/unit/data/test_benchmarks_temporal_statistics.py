"""What is counted of courses, progressions and pairs of sentences (BioViL-T B, C.1, C.2, F.2)."""

import json
from pathlib import Path

import pandas as pd
import pytest
from benchmark_fakes import write_cohort
from data_fixtures import Image, mimic_cxr_jpg
from test_data_progression import EFFUSION, graph, relation, write_imagenome

from cxr_files.errors import InputError
from cxrflow.benchmarks.evaluate import main

ROWS = (
    ("1", "Edema", "improving", "one_expert", "test"),
    ("1", "Edema", "stable", "disagreement", "test"),
    ("2", "Edema", "worsening", "multiple_experts", "test"),
    ("2", "Edema", "worsening", "multiple_experts", "test"),
    ("3", "Pneumonia", "stable", "one_expert", "test"),
    ("4", "Pneumonia", "stable", "silver", "train"),
)


def counted(tmp_path: Path, benchmark: str, table: pd.DataFrame, **settings: object):
    cohort = write_cohort(tmp_path / "cohort", "samples.parquet", table)
    arguments = [benchmark, "--cohort", str(cohort), "--output", str(tmp_path / "out")]
    main([*arguments, "--settings", json.dumps(settings)])
    found = json.loads((tmp_path / "out" / "metrics.json").read_text())
    return {name: one["value"] for name, one in found["metrics"].items()}


def test_labels_by_finding(tmp_path: Path) -> None:
    table = pd.DataFrame(ROWS, columns=["subject_id", "finding", "label", "quality", "split"])
    table["sample_id"] = [f"s{number}" for number in range(len(table))]
    values = counted(tmp_path, "progression_statistics", table)
    assert (values["pairs/edema"], values["subjects/edema"]) == (4, 2)
    shares = [values[f"{name}/edema"] for name in ("improving", "stable", "worsening")]
    assert shares == [25, 25, 50]
    quality = [values[f"{n}/edema"] for n in ("one_expert", "multiple_experts", "disagreement")]
    assert quality == [25, 50, 25]
    assert (values["pairs/total"], values["subjects/total"], values["stable/total"]) == (5, 3, 40)
    trained = counted(tmp_path, "progression_statistics", table, split="train")
    assert trained["pairs/total"] == 1 and trained["disagreement/total"] is None


def test_pairs_of_sentences_by_subset(tmp_path: Path) -> None:
    labels = ["paraphrase", "contradiction", "contradiction"]
    table = pd.DataFrame({"label": labels, "subset": ["Swaps", "Swaps", "RadGraph"]})
    table = table.assign(sample_id=["a", "b", "c"], premise="x", hypothesis="y", split="test")
    values = counted(tmp_path, "sentence_pair_statistics", table)
    assert values == {
        "paraphrase/total": 1, "contradiction/total": 2, "all/total": 3,
        "paraphrase/swaps": 1, "contradiction/swaps": 1, "all/swaps": 2,
        "paraphrase/radgraph": 0, "contradiction/radgraph": 1, "all/radgraph": 1,
    }  # fmt: skip
    assert counted(tmp_path, "sentence_pair_statistics", table.drop(columns="subset")) == {
        "paraphrase/total": 1, "contradiction/total": 2, "all/total": 3,
    }  # fmt: skip


def test_courses(tmp_path: Path) -> None:
    first, second = (Image("10000001", f"5000000{n}", n, date=f"217{n}0304") for n in (1, 2))
    third, alone = Image("10000001", "50000003", 3), Image("11000002", "50000004", 4)
    studies = mimic_cxr_jpg(tmp_path / "jpg", (first, second, third, alone))
    root = write_imagenome(
        tmp_path / "graphs",
        [
            graph(first),
            graph(second, relation(second, first, "worsened", "tubesandlines|yes|chest tube")),
            graph(third, relation(third, second, "sideways", EFFUSION)),
        ],
    )
    arguments = ["course_statistics", "--dataset", "chest_imagenome", "--root", str(root)]
    arguments += ["--studies-layout", "mimic_cxr_jpg", "--studies-root", str(studies)]
    arguments += ["--output", str(tmp_path / "out")]
    main(arguments)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())["metrics"]
    values = {name: one["value"] for name, one in metrics.items()}
    assert (values["subjects"], values["studies"], values["several_studies"]) == (2, 4, 50)
    assert (values["studies/1"], values["studies/2"], values["studies/3"]) == (50, 0, 50)
    assert values["progression"] == 25
    broken = root / "silver_dataset" / "scene_graph"
    broken.mkdir()
    (broken / "x_SceneGraph.json").write_text("{")
    (root / "silver_dataset" / "scene_graph.zip").unlink()
    with pytest.raises(InputError, match=r"1 of 1 files failed at 'scene graphs'"):
        main(arguments)


def test_options_of_other_benchmarks_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words, said in (
        (["progression_statistics"], "progression_statistics needs --cohort"),
        (["vocabulary", "--cohort", "c"], "vocabulary needs --vocabulary"),
        (["curation_statistics", "--cohort", "c"], "curation_statistics does not read --cohort"),
        (["course_statistics", "--root", "r"], "course_statistics needs --dataset"),
        (
            ["sentence_pair_statistics", "--cohort", "c", "--studies-root", "r"],
            "sentence_pair_statistics does not read --studies-root",
        ),
    ):
        with pytest.raises(SystemExit) as end:
            main([*words, "--output", "nowhere"])
        assert end.value.code == 2 and f"error: {said}\n" in capsys.readouterr().err
