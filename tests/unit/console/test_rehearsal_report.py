"""The report of a rehearsal: what failed, and the run's hours from a few steps."""

import json
import math
from pathlib import Path

import pytest
import yaml
from config_overlays import DEMO

from cxrflow.config import Config, load_config
from cxrflow.console.rehearsal_report import Cost, report, resources, step_seconds

MODEL = "biovil/simclr"
TYPED = ["papers=[biovil]", "extent=all", "scale=paper"]


@pytest.fixture
def configs(tmp_path: Path) -> tuple[Config, Config]:
    typed = [*TYPED, f"pathvars={{results: {tmp_path}}}"]
    full = load_config([DEMO], check_roots=False, typed=typed)
    return full, load_config([DEMO], check_roots=False, typed=[*typed, "rehearsal={batch: 4}"])


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.fixture
def results(configs: tuple[Config, Config]) -> Path:
    """One training that was done, of a cohort whose reports were a tenth of the list."""
    folder = Path(configs[1].values.results)
    times = [9.0, 20.0, 22.0, 30.0, 32.5]
    lines = [{"step": n, "split": "train", "time": time} for n, time in enumerate(times, start=1)]
    write(folder / f"models/{MODEL}/seed0/metrics.jsonl", "\n".join(map(json.dumps, lines)))
    write(folder / f"models/{MODEL}/seed0/run.json", {"device": "cuda:0", "peak_memory_mb": 9000})
    write(
        folder / "cohorts/biovil/mimic_cxr/flow.json",
        {"kind": "pairs", "whole": {"train": 1000, "validate": 200, "images": 1200}, "splits": {}},
    )
    drop = {"reason": "beyond the slice", "count": 900, "examples": []}
    step = {"name": "reports listed", "dropped": [drop]}
    write(folder / "corpus/mimic_cxr/corpus.json", {"reports": 100, "steps": [step]})
    write(folder / "timings/pretrain_image/x.tsv", "s\tmax_rss\n60\t4100\n")
    write(folder / "logs/broken.log", "error: rsna.csv: no such file\n")
    return folder


def dry_run(folder: Path) -> str:
    model = folder / f"models/{MODEL}/seed0"
    return f"""rule pretrain_image:
    output: {model}/run.json, {model}/metrics.jsonl
    log: {folder}/logs/x.log
    benchmark: {folder}/timings/pretrain_image/x.tsv
    wildcards: model={MODEL}, seed=0
rule build_samples:
    output: {folder}/cohorts/biovil/rsna/flow.json
    log: {folder}/logs/broken.log
    wildcards: cohort=biovil/rsna
rule store_pixels:
    input: {folder}/cohorts/biovil/rsna/flow.json
    output: {folder}/pixels/biovil/rsna/store.json
    wildcards: cohort=biovil/rsna
"""


def test_what_failed_is_said_with_its_reason_and_what_waits_is_counted(configs, results):
    text = report(*configs, dry_run(results), ["paper.yaml"])
    assert "## 1 jobs failed, 1 wait for these" in text
    assert "- build_samples biovil/rsna: rsna.csv: no such file" in text
    assert text == (results / "report.md").read_text()


def test_hours_follow_from_the_quickest_step_and_the_whole_list(configs, results):
    assert step_seconds(results / f"models/{MODEL}/seed0/metrics.jsonl") == 2.0
    report(*configs, dry_run(results), ["paper.yaml"])
    rows = [line.split("\t") for line in (results / "costs.tsv").read_text().splitlines()]
    costs = {row[1]: dict(zip(rows[0], row, strict=True)) for row in rows[1:]}
    training = configs[0].models[MODEL].settings.training
    epoch = 10 * 1000 // training.batch_size
    steps = training.epochs * epoch
    validations = steps // (epoch * -(-training.epochs // training.validations))
    batches = -(-2000 // training.batch_size)
    assert float(costs[MODEL]["seconds"]) == pytest.approx(
        2 * (steps + validations * batches / 3), rel=0.01
    )
    assert costs[MODEL]["gpu_mb"] == "9000" and costs[MODEL]["memory_mb"] == "4100"
    assert costs["biovil/biovil"]["seconds"] == "nan"  # of a kind that has not been rehearsed


def test_a_rule_asks_for_half_as_much_again_as_was_measured(configs, results):
    report(*configs, dry_run(results), ["paper.yaml"])
    asked = yaml.safe_load((results / "resources.yaml").read_text())["resources"]
    before = configs[0].values.resources["pretrain_image"]
    entry = asked["pretrain_image"]
    assert entry["mem_mb"] == 6500 and entry["threads"] == before.threads
    assert entry["runtime"] <= 1440 and entry["retries"] >= before.retries


def test_a_training_asks_for_less_than_the_largest_of_its_rule(configs):
    large = Cost("pretrain_image", "biovil/simclr", 9000, 5000)
    costs = [large, Cost("pretrain_image", "low_data/simclr", 6000, 4000)]
    asked = resources([*costs, Cost("pretrain_image", "unknown", math.nan, 0)], configs[0])
    assert {n: asked["pretrain_image"][n] for n in ("mem_mb", "runtime")} == {
        "mem_mb": 7500,
        "runtime": 225,
    }
    assert {n: entry for n, entry in asked.items() if "/" in n} == {
        "low_data/simclr": {"mem_mb": 6000, "runtime": 150}
    }
