"""Results are recomputed from predictions on; the first product that differs is named."""

import io
import re
import shutil
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest
from page_fixtures import load, write_record
from PIL import Image

from command_options import options
from cxr_files.atomic import (
    CHECKSUMS,
    SEAL,
    atomic_folder,
    read_json,
    write_json,
    write_png,
    write_sealed,
)
from cxr_files.errors import InputError
from cxrflow.benchmarks import compare_rows
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.result import Predictions, measure
from cxrflow.commands import verify
from cxrflow.commands.verify_results import root_of, verify_results
from cxrflow.show.tables import make_table

TASK = "biovil/phrase_grounding"
MODELS = ("biovil/biovil", "biovil/convirt")


def score(root: Path, settings, model: str, shift: float) -> Path:
    """The result of a model, as the benchmark writes it; gives its predictions."""
    rng = np.random.default_rng(3)
    numbers = np.arange(24)
    table = pd.DataFrame({
        "sample_id": [f"s{n:02d}" for n in numbers[::-1]],  # not in the order of their keys
        "subject_id": [f"p{n // 3}" for n in numbers],
        "category": np.where(numbers % 4, "Pneumonia", "Edema"),
        "box_share": 0.1, "placed": True, "boxes": 1,
        **{name: rng.normal(shift, 0.4, 24) ** 2 / 9 for name in ("cnr", "signed_cnr", "miou")},
    })  # fmt: skip
    statistic = imported(BENCHMARKS["phrase_grounding"].statistic_module).statistic
    predictions = Predictions(
        table, statistic(table, settings), {"name": "d", "synthetic": True, "fingerprint": "f"}
    )
    folder = root / f"benchmarks/{TASK}/{model}/seed0"
    measure("phrase_grounding", predictions, settings).write(folder, model, 0, TASK, True)
    return folder / "predictions.parquet"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cohort, two results, their paired tests and a table."""
    root = tmp_path_factory.mktemp("finished") / "results"
    config = load(paired_tests={"replicates": 200})
    write_record(root, config)
    with atomic_folder(root / "cohorts/biovil/ms_cxr", "cohort") as folder:
        write_json(folder / "flow.json", {"kind": "samples"})
    settings = config.tasks[TASK].settings
    settings = settings.model_copy(
        update={"intervals": settings.intervals.model_copy(update={"replicates": 100})}
    )
    files = [score(root, settings, model, 1.0 + n) for n, model in enumerate(MODELS)]
    output = root / "tables/biovil/table5"
    tests = output.with_suffix(".tests.json")
    protocol = config.values.paired_tests.model_dump()
    protocol["comparisons"] = [
        each.model_dump() for each in config.results["biovil"].comparisons("table5")
    ]
    compare_rows.main(options(predictions=files, settings=protocol, output=tests))
    metrics = [str(file.with_name("metrics.json")) for file in files]
    table = ["--paper", "biovil", "--table", "table5", "--metrics", *metrics]
    stand_ins = config.results["biovil"].stand_ins.items()
    table += ["--stand-ins", *(f"{name}={weights}" for name, weights in stand_ins)]
    make_table.main([*table, "--tests", str(tests), "--output", str(output)])
    return root


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "results"))


def meant(folder: Path) -> Path:
    """A folder whose checksums somebody has deleted."""
    (folder / CHECKSUMS).unlink()
    return folder


def test_what_follows_is_counted_and_has_one_root(finished: Path, capsys) -> None:
    verify.main([str(finished)])
    said = capsys.readouterr().out
    assert "files of 3 folders are as they were written; 0 listed are not there" in said
    assert "scores of 2 results follow from predictions\n" in said
    compared = len(load().results["biovil"].comparisons("table5"))
    assert f"cells of 1 tables, {compared} paired tests and 0 rankings follow" in said
    assert said.endswith(f"root {root_of(finished)}\n")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit_score(root: Path) -> None:
    path = meant(root / f"benchmarks/{TASK}/biovil/biovil/seed0") / "metrics.json"
    content = read_json(path)
    content["metrics"]["cnr"]["value"] += 0.001
    write_json(path, content)


def edit_interval(root: Path) -> None:
    path = meant(root / f"benchmarks/{TASK}/biovil/biovil/seed0") / "metrics.json"
    content = read_json(path)
    content["metrics"]["cnr"]["low"] -= 0.001
    write_json(path, content)


def edit_predictions(root: Path) -> None:
    path = meant(root / f"benchmarks/{TASK}/biovil/convirt/seed0") / "predictions.parquet"
    table = pd.read_parquet(path)
    table.loc[3, "cnr"] += 0.5
    table.to_parquet(path)


def edit_tests(root: Path) -> None:
    path = root / "tables/biovil/table5.tests.json"
    content = read_json(path)
    of_both = next(each for each in content["comparisons"] if each["difference"] is not None)
    of_both["difference_low"] -= 0.1
    write_sealed(path, {name: content[name] for name in content if name != SEAL})


def edit_cell(root: Path) -> None:
    path = root / "tables/biovil/table5.csv"
    text = path.read_text()
    cell = '"BioViL: CXR-BERT, global loss",avg,0.'
    assert text.count(cell) == 1
    path.write_text(text.replace(cell, cell.replace("0.", "1.")))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: flip(root / "cohorts/biovil/ms_cxr/flow.json"), "flow.json: its SHA-256 is"),
        (lambda root: flip(root / f"benchmarks/{TASK}/biovil/biovil/seed0/predictions.parquet"),
         "biovil/biovil/seed0/predictions.parquet: its SHA-256 is"),
        (edit_score, "biovil/biovil/seed0/metrics.json: field 'metrics.cnr.value' is"),
        (edit_interval, "biovil/biovil/seed0/metrics.json: field 'metrics.cnr.low' is"),
        (edit_predictions, "biovil/convirt/seed0/metrics.json: field 'metrics.cnr"),
        (edit_tests, "table5.tests.json: field 'tests.comparisons["),
        (edit_cell, "table5.csv:"),
    ],
)  # fmt: skip
def test_the_first_product_that_differs_is_named(
    results: Path, change: Callable[[Path], None], said: str
) -> None:
    before = root_of(results)
    change(results)
    with pytest.raises(InputError) as error:
        list(verify_results(results, 2))
    assert said in str(error.value)
    # The root is over lists and tables: a changed file below an old list is found, and not in it.
    assert (root_of(results) == before) == ("SHA-256" in said)


def flipped(path: Path, random: Random) -> None:
    """Flip one bit, wherever."""
    content = bytearray(path.read_bytes())
    place = random.randrange(8 * len(content))
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "tables/biovil/table5.md",
            "tables/biovil/table5.html",
            "tables/biovil/table5.tests.json",
        ),
        *("figures/biovil/map.png", "figures/biovil/map.json"),
        f"benchmarks/{TASK}/biovil/biovil/seed0/metrics.json",
    ],
)
def test_any_bit_of_what_people_read_is_found(results: Path, name: str) -> None:
    picture = io.BytesIO()
    Image.fromarray(np.arange(900, dtype=np.uint8).reshape(30, 30)).save(picture, "png")
    write_png(results / "figures/biovil/map.png", picture.getvalue())
    write_sealed(results / "figures/biovil/map.json", {"caption": "A map.", "lines": []})
    path, random = results / name, Random(name)
    content = path.read_bytes()
    assert len(list(islice(verify_results(results, 1), 2))) == 2
    for _ in range(40):
        flipped(path, random)
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}: "):
            list(islice(verify_results(results, 1), 2))
        path.write_bytes(content)


def test_any_bit_of_a_list_is_found(results: Path) -> None:
    folder, random = results / f"benchmarks/{TASK}/biovil/biovil/seed0", Random(0)
    path = folder / CHECKSUMS
    content = path.read_bytes()
    for _ in range(200):
        flipped(path, random)
        with pytest.raises(InputError, match=f"^{re.escape(str(folder))}/"):
            list(islice(verify_results(results, 1), 1))
        path.write_bytes(content)


def test_any_bit_of_a_table_for_programs_is_found(results: Path) -> None:
    """An end of a line that becomes a vertical tab, too; a table of no paper is counted."""
    path, random = results / "tables/biovil/table5.csv", Random(5)
    content = path.read_bytes()
    ends = [place for place, byte in enumerate(content) if byte == ord("\n")]
    for place in [ends[0], ends[-1], *random.sample(range(len(content)), 8)]:
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=f"^{re.escape(str(path))}"):
            list(verify_results(results, 1))
    path.write_bytes(content)
    shutil.copy(path, path.with_name("mine.csv"))
    assert (
        "1 tables are of no paper of this run and were not compared (tables/biovil/mine.csv)"
        in (list(verify_results(results, 1)))
    )


def test_what_is_not_there_is_counted(results: Path, capsys) -> None:
    shutil.rmtree(results / "cohorts")
    (results / f"benchmarks/{TASK}/biovil/biovil/seed0/predictions.parquet").unlink()
    (results / "tables/biovil/table5.csv").unlink()
    (results / "tables/biovil/table5.tests.json").unlink()
    verify.main([str(results)])
    said = capsys.readouterr().out
    assert "1 listed are not there" in said and "whose predictions are not there" in said
    assert "0 cells of 0 tables" in said


def test_a_data_set_or_results(tmp_path: Path) -> None:
    for words in ([], [str(tmp_path), "--root", str(tmp_path)]):
        with pytest.raises(SystemExit):
            verify.main(words)
    with pytest.raises(InputError, match=r"config.json: file not found"):
        verify.main([str(tmp_path)])
