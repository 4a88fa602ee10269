"""Intervals over seeds and samples, paired tests between models, and what is not compared."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from table_fixtures import estimate

from command_options import options
from cxr_files.atomic import read_json, write_json
from cxr_files.errors import InputError
from cxrflow.benchmarks import paired_tests as program
from cxrflow.benchmarks.compare_rows import main
from cxrflow.benchmarks.grounding.settings import PhraseGroundingSettings
from cxrflow.benchmarks.registry import BENCHMARKS, imported
from cxrflow.benchmarks.settings import PairedTestSettings
from cxrflow.metrics.intervals import clusters_of, resamples
from cxrflow.papers.table import Table
from cxrflow.show.tables.cells import make_cells
from cxrflow.show.tables.results import read_results
from cxrflow.show.tables.tests import read_tests

SETTINGS = PhraseGroundingSettings(categories=["Edema", "Pneumonia"])
CNR = {
    "task": "phrase_grounding", "model": "m", "metric": "cnr",
    "reference_model": "r", "reference_metric": "cnr",
}  # fmt: skip


def grounding(seed: int, shift: float = 0.0, count: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    numbers = np.arange(count)
    table = pd.DataFrame(
        {
            "sample_id": [f"s{n}" for n in numbers],
            "subject_id": [f"p{n // 3}" for n in numbers],
            "category": np.where(numbers % 4, "Edema", "Pneumonia"),
            "box_share": np.full(count, 0.1),
            "placed": numbers % 2 == 0,
        }
    )
    hard = np.random.default_rng(99).normal(1, 0.4, count)  # the same for every model
    for name in ("cnr", "signed_cnr", "miou"):
        table[name] = hard + shift + rng.normal(0, 0.2, count)
    return table


def write(folder, model, seed, table, benchmark="phrase_grounding", settings=SETTINGS, **changes):
    """A result folder; gives its predictions."""
    made = folder / benchmark / model / f"seed{seed}"
    made.mkdir(parents=True)
    table.to_parquet(made / "predictions.parquet", index=False)
    said = {"task": benchmark, "learnt": True, "drawn": False, "metrics": {}}
    said |= {name: changes.pop(name) for name in said.keys() & changes.keys()}
    said |= {"benchmark": benchmark, "model": model, "seed": seed}
    said["data"] = {"name": "tiny", "synthetic": True}
    said["data"]["fingerprint"] = changes.pop("fingerprint", "f")
    said["protocol"] = settings.model_dump(mode="json", exclude={"device", "batch_size"}) | changes
    write_json(made / "metrics.json", said)
    return made / "predictions.parquet"


def outcome(files, *comparisons, **values):
    asked = {"replicates": 300, "comparisons": comparisons or [CNR]} | values
    return inference(files, asked).comparisons()


def inference(files, asked):
    runs = program.read_predictions(files)
    return program.Inference(runs, PairedTestSettings.model_validate(asked))


def macro(table, counts):
    """Mean CNR over both findings, written out."""
    means = []
    for name in ("Edema", "Pneumonia"):
        rows = np.flatnonzero(table["category"] == name)
        drawn = [table["cnr"][row] for row in rows for _ in range(int(counts[row]))]
        means.append(np.mean(drawn))
    return np.mean(means)


def drawn_like(table, score):
    """A score on the resamples of the samples in the order of their keys."""
    sorted_ = table.sort_values("sample_id").reset_index(drop=True)
    clusters = clusters_of(sorted_["subject_id"])
    return [score(sorted_, row) for block in resamples(clusters, 300, 0) for row in block]


def test_it_is_the_interval_of_the_differences_written_out(tmp_path):
    better = np.random.default_rng(7).normal(0, 0.5, 30)  # on some samples, in every training
    own = [grounding(seed, 0.1 + 0.05 * seed + better) for seed in (1, 2, 4)]
    other = [grounding(seed) for seed in (3, 5, 6)]
    shuffled = own[1].sample(frac=1, random_state=0)  # joined by sample, not by place
    files = [
        *(
            write(tmp_path, "m", seed, table, grid=[7, 7])
            for seed, table in enumerate((own[0], shuffled, own[2]))
        ),
        # The grid belongs to the model.
        *(write(tmp_path, "r", seed, table, grid=[14, 14]) for seed, table in enumerate(other)),
    ]
    entry = outcome(files)[0]
    ones = np.ones(30)
    values = [macro(a, ones) - macro(b, ones) for a, b in zip(own, other, strict=True)]
    drawn = [
        np.array(drawn_like(a, macro)) - np.array(drawn_like(b, macro))
        for a, b in zip(own, other, strict=True)
    ]
    covariance = np.cov(drawn)
    common = (covariance.sum() - np.trace(covariance)) / 6 * 10 / 9  # of ten patients
    between = np.var(values, ddof=1) / 3
    share = between / (between + common)
    freedom = 1 / (share / 2 + (1 - share) / 9)
    error = np.sqrt(between + common)
    half = stats.t.ppf(0.975, freedom) * error
    assert entry["difference"] == pytest.approx(np.mean(values)) and entry["seeds"] == 3
    assert entry["difference_low"] == pytest.approx(np.mean(values) - half)
    assert entry["difference_high"] == pytest.approx(np.mean(values) + half)
    p = 2 * stats.t.sf(abs(np.mean(values)) / error, freedom)
    assert entry["p"] == entry["p_holm"] == pytest.approx(p) and entry["reason"] is None
    (cell,) = (c for c in inference(files, {"replicates": 300}).cells() if c["model"] == "m")
    interval = cell["metrics"]["cnr"]
    mean = np.mean([macro(table, ones) for table in own])
    assert interval["low"] < mean < interval["high"] and cell["task"] == "phrase_grounding"
    assert interval["low"] + interval["high"] == pytest.approx(2 * mean)


def several(folder, model, shifts, **changes):
    """Results of as many seeds as there are shifts."""
    return [
        write(folder, model, seed, grounding(10 * len(model) + seed, shift), **changes)
        for seed, shift in enumerate(shifts)
    ]


def test_p_is_given_from_three_seeds_of_both(tmp_path):
    files = several(tmp_path, "m", (0.5, 0.6, 0.7, 0.5))
    two = inference([*files, *several(tmp_path / "two", "r", (0.0, 0.1))], {"comparisons": [CNR]})
    (entry,) = two.comparisons()
    assert entry["seeds"] == 2 and entry["p"] is None and entry["p_holm"] is None
    assert entry["difference_low"] < entry["difference"] < entry["difference_high"]
    (entry,) = outcome([*files, *several(tmp_path / "three", "r", (0.0, 0.1, 0.0))])
    assert entry["seeds"] == 3 and entry["p"] < 0.05
    (entry,) = outcome([files[0], write(tmp_path / "one", "r", 0, grounding(3))])
    assert entry["seeds"] == 1 and entry["p"] is None and entry["difference"] > 0.2
    other = write(tmp_path / "other", "r", 7, grounding(3))
    assert outcome([*files, other])[0]["reason"] == "trained with different seeds"


def test_the_reference_counts_by_its_factor(tmp_path):
    """Of twice the scores a half is the same, on every resample."""
    files = []
    for seed in range(3):
        table = grounding(seed)
        doubled = table.assign(**{name: 2 * table[name] for name in ("cnr", "signed_cnr")})
        files += [write(tmp_path, "m", seed, table), write(tmp_path, "r", seed, doubled)]
    plain, half = outcome(files, CNR, CNR | {"factor": 0.5})
    assert plain["difference"] < -0.5 and plain["p"] < 0.05
    assert [half[end] for end in program.ENDS] == pytest.approx([0, 0, 0], abs=1e-9)


def test_what_was_not_trained_stands_beside_every_training(tmp_path):
    files = several(tmp_path, "m", (0.5, 0.6, 0.7))
    fixed = write(tmp_path, "r", 0, grounding(3), learnt=None)
    (entry,) = outcome([*files, fixed])
    assert entry["seeds"] == 3 and entry["p"] < 0.05
    mean = np.mean([macro(pd.read_parquet(file), np.ones(30)) for file in files])
    assert entry["difference"] == pytest.approx(mean - macro(grounding(3), np.ones(30)))
    # Two that were not trained have no seeds; their samples alone judge.
    (entry,) = outcome([write(tmp_path / "b", "m", 0, grounding(1, 0.6), learnt=None), fixed])
    assert entry["seeds"] == 0 and entry["p"] < 0.05
    # Random weights have not learnt either, but are others with each seed.
    random = [
        write(tmp_path / f"c{seed}", "m", seed, grounding(seed, 0.6), learnt=None)
        for seed in range(3)
    ]
    assert [outcome([*random[:n], fixed])[0]["seeds"] for n in (2, 3)] == [2, 3]
    assert outcome([*random[:2], fixed])[0]["p"] is None
    start = write(tmp_path / "d", "m", 0, grounding(0, 0.6), learnt=None, drawn=True)
    (entry,) = outcome([start, fixed])
    assert entry["seeds"] == 1 and entry["p"] is None and entry["difference"] > 0.2
    other = write(tmp_path / "e", "r", 1, grounding(3), learnt=None, drawn=True)
    assert outcome([start, other])[0]["reason"] == "trained with different seeds"


def test_a_model_that_did_not_learn_is_not_compared(tmp_path):
    files = several(tmp_path, "m", (0.5, 0.6, 0.7))
    other = several(tmp_path, "r", (0.0, 0.1))
    other.append(write(tmp_path, "r", 2, grounding(3), learnt=False))
    (entry,) = outcome([*files, *other])
    assert entry["reason"] == "r has not learnt" and entry["p"] is None
    assert len(inference([*files, *other], {"replicates": 100}).cells()) == 2


def test_few_samples_behind_a_metric_widen_its_interval(tmp_path):
    counts = {"cnr": estimate(0.5, n=30), "cnr/edema": estimate(0.5, n=5)}
    files = several(tmp_path, "m", (0.5, 0.6, 0.7), metrics=counts)
    (many,) = inference(several(tmp_path / "n", "m", (0.5, 0.6, 0.7)), {"replicates": 300}).cells()
    (few,) = inference(files, {"replicates": 300}).cells()
    few_rows, many_rows = (cell["metrics"]["cnr/edema"] for cell in (few, many))
    widths = [interval["high"] - interval["low"] for interval in (few_rows, many_rows)]
    assert widths[0] > 1.05 * widths[1]
    assert few["metrics"]["cnr"] == many["metrics"]["cnr"]


def test_p_is_corrected_for_all_comparisons(tmp_path):
    files = several(tmp_path, "m", (0.2, 0.3, 0.2)) + several(tmp_path, "r", (0.0, 0.1, 0.0))
    names = ("cnr", "miou", "cnr/edema")
    entries = outcome(files, *(CNR | {"metric": n, "reference_metric": n} for n in names))
    assert [entry["metric"] for entry in entries] == list(names)
    smallest = min(entry["p"] for entry in entries)
    assert min(entry["p_holm"] for entry in entries) == pytest.approx(min(1, 3 * smallest))
    equal = CNR | {"margin": 0.2}  # whose p is of another question
    asked = [CNR | {"metric": n, "reference_metric": n} for n in names]
    *same, alone = outcome(files, *asked, equal)
    assert [entry["p_holm"] for entry in same] == [entry["p_holm"] for entry in entries]
    assert alone["p"] is None and alone["p_equivalent"] is not None
    undefined = CNR | {"metric": "cnr/none", "reference_metric": "cnr/none"}
    assert outcome(files, undefined)[0]["reason"] == "not defined for both"


@pytest.mark.parametrize(
    ("table", "changes", "reason"),
    [
        (grounding(3, count=29), {}, "measured on different samples"),
        (grounding(3).assign(sample_id="s1"), {}, "measured on different samples"),
        (grounding(3), {"fingerprint": "g"}, "measured on different data"),
        (grounding(3), {"upsample": "x", "average": "x"}, "protocols (average, upsample)"),
    ],
)
def test_what_was_not_measured_alike_is_not_compared(tmp_path, table, changes, reason):
    files = [write(tmp_path, "m", 0, grounding(1)), write(tmp_path, "r", 0, table, **changes)]
    [entry] = outcome(files)
    assert reason in entry["reason"] and entry["p"] is None and entry["p_holm"] is None
    assert outcome(files[:1])[0]["reason"] == "no predictions of both"


def test_models_that_see_pictures_in_other_geometries_are_compared(tmp_path):
    files = [
        write(tmp_path, "m", 0, grounding(1), geometry="shorter512crop448"),
        write(tmp_path, "r", 0, grounding(3), geometry="shorter512"),
    ]
    [entry] = outcome(files)
    assert entry["reason"] is None and entry["difference"] != 0


def test_wrong_input_is_named(tmp_path):
    bad = write(tmp_path, "m", 0, grounding(1).drop(columns="miou"))
    good = write(tmp_path, "r", 0, grounding(3))
    with pytest.raises(InputError, match="column 'miou' is missing"):
        outcome([bad, good])
    with pytest.raises(
        InputError, match="benchmark is 'guessing'; expected module:Class or one of"
    ):
        outcome([write(tmp_path, "x", 0, grounding(1), "guessing")])


def test_the_program_writes_its_protocol(tmp_path):
    files = [
        write(tmp_path, name, 0, grounding(seed), task="p/phrases")
        for name, seed in (("m", 1), ("r", 3))
    ]
    asked = CNR | {"task": "p/phrases"}
    settings, output = {"replicates": 200, "comparisons": [asked]}, tmp_path / "table.tests.json"
    main(options(predictions=files, settings=settings, output=output))
    found = read_json(output)
    assert found["protocol"] == {"replicates": 200, "level": 0.95, "unit": "subject", "seed": 0}
    assert found["comparisons"][0].keys() >= {"difference", "p", "p_holm", "seeds", *CNR}
    assert found["cells"] == []  # of one seed metrics.json has the interval


def test_tables_read_what_the_program_writes(tmp_path):
    names = ("m", "r")
    files = [
        p for n, s in zip(names, (0.6, 0.0), strict=True) for p in several(tmp_path, n, [s] * 3)
    ]
    output = tmp_path / "table.tests.json"
    asked = [CNR, CNR | {"metric": "cnr/edema", "reference_metric": "cnr/edema"}]
    settings = {"replicates": 200, "comparisons": asked}
    main(options(predictions=files, settings=settings, output=output))
    column = {"key": "cnr", "label": "CNR", "metric": "cnr", "scale": 100, "digits": 0}
    table = Table.model_validate(
        {"title": "T", "source": "S", "task": "phrase_grounding", "reference": "Row r",
         "columns": [column], "rows": [{"label": f"Row {n}", "model": n} for n in names]}
    )  # fmt: skip
    for file in files:
        said = read_json(file.parent / "metrics.json")
        said["data"] |= {"name": "tiny", "synthetic": True}
        said["metrics"] = {"cnr": estimate(macro(pd.read_parquet(file), np.ones(30)), 0.0, 9.0)}
        write_json(file.parent / "metrics.json", said)
    results = read_results([file.parent / "metrics.json" for file in files])
    own, reference = make_cells(table, results, read_tests([output]))
    assert own.over == reference.over == "seeds and samples" and own.seeds == 3
    assert own.low < own.ours < own.high < 2 * own.ours
    assert reference.tested is None and own.tested.mark == "‡" and own.tested.seeds == 3
    assert own.tested.value == pytest.approx(own.ours - reference.ours)
    assert own.tested.low < own.tested.value < own.tested.high


def test_every_statistic_and_cluster_that_a_benchmark_names_is_there():
    for benchmark in BENCHMARKS.values():
        if benchmark.statistic_module is not None:
            module = imported(benchmark.statistic_module)
            assert callable(module.statistic)
            assert callable(imported(benchmark.clusters))


def test_two_tasks_of_the_same_samples_are_tested_for_equality(tmp_path):
    """As one model's grounding with and without the prior: other cohorts, the same phrases."""
    own = several(tmp_path, "m", (0.0, 0.01, 0.02))
    same = [
        write(
            tmp_path / "beside",
            "m",
            seed,
            pd.read_parquet(file),
            task="with_prior",
            fingerprint="g",
        )
        for seed, file in enumerate(several(tmp_path / "copy", "m", (0.0, 0.02, 0.01)))
    ]
    asked = CNR | {"reference_model": "m", "reference_task": "with_prior", "margin": 0.2}
    (entry,) = outcome([*own, *same], asked)
    assert entry["reason"] is None and entry["seeds"] == 3
    assert entry["p_equivalent"] < 0.05 and abs(entry["difference"]) < 0.05
    assert entry["p"] is None is entry["p_holm"]
    (entry,) = outcome([*own, *same], asked | {"margin": 0.001})
    assert entry["p_equivalent"] > 0.05
    other = [write(tmp_path / "few", "m", 0, grounding(0, count=20), task="with_prior")]
    (entry,) = outcome([*own, *other], asked)
    assert entry["reason"] == "measured on different samples"
    (entry,) = outcome(own[:2] + same[:2], asked)
    assert entry["p_equivalent"] is None and entry["p"] is None  # too few trainings
