"""A finished run and what is new: nothing is trained again but what a change can change."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from cxr_files.atomic import file_digest
from cxrflow.data.layouts import layout

from .conftest import ROOT, Checkout, jobs_of, models_of
from .test_extending import PACKAGE, extend

pytestmark = pytest.mark.slow

# Cohorts of its own on images that are stored already, one of them curated, and a model more.
PAPER = """
cohorts:
  pairs: {extends: biovil/mimic_cxr, choose: first}
  curated: {extends: toy/curated, curation: {margin: 0.1}}
models:
  more: {extends: toy/joint, cohort: pairs}
external:
  theirs: {trained_on: nothing, people: [], files: {toy/linear_probe: theirs.parquet}}
tasks:
  grounding: {extends: toy/phrase_grounding}
  choice: {extends: toy/curation, cohort: curated}
tables:
  choice: {extends: toy/curation, task: choice}
  grounding: {extends: toy/grounding, task: grounding, rows: [{label: more, model: more}]}
  images:
    extends: toy/images
    rows: [{kind: external, label: elsewhere, model: theirs, task: toy/linear_probe, share: "50"}]
"""


def edit(folder: Path, file: str, old: str, new: str) -> None:
    path = folder / PACKAGE / file
    text = path.read_text(encoding="utf-8")
    assert old in text, f"{file}: nothing to edit"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_nothing_is_trained_again_for_what_is_new(finished_copy: Checkout) -> None:
    """A comment, a docstring, a field of another term; a term, a data set, a benchmark, papers."""
    folder = extend(finished_copy.folder)
    edit(folder, "training/engine.py", '"""', '"""Said otherwise. ')
    edit(folder, "objectives/simclr.py", "    views = ", "    # Remark.\n    views = ")
    local = "    temp1: float"
    edit(folder, "pretrain/terms/settings.py", local, f"    temp0: float = 1.0\n{local}")
    (folder / "mine.yaml").write_text(PAPER, encoding="utf-8")
    (folder / "theirs.parquet").touch()
    changed = finished_copy.write("new.yaml", {"papers": ["toy.yaml", "mine.yaml"]})
    jobs = changed.plan()
    # The field is of a term that `local` uses: its settings are others now.
    assert models_of(jobs) == {"toy/local", "mine/more"}
    # The other cohort has a store of its own.
    stored = {job.wildcards["cohort"] for job in jobs if job.rule == "store_pixels"}
    assert stored == {"mine/pairs"}
    # Another choice among them is made by a model that is there.
    assert {j.wildcards["cohort"] for j in jobs if j.rule == "curate_images"} == {"mine/curated"}
    scored = {(j.wildcards["task"], j.wildcards["model"]) for j in jobs if j.rule == "evaluate"}
    assert scored == {
        ("toy/phrase_grounding", "toy/local"),
        *(("mine/grounding", model) for model in ("toy/joint", "toy/local", "mine/more")),
    }
    # A model from elsewhere is scored on stored images, and by one job.
    (scored_elsewhere,) = [job for job in jobs if job.rule == "score_external"]
    assert "theirs.parquet" in scored_elsewhere.input
    (out, *_) = scored_elsewhere.output
    assert out == "results/benchmarks/toy/linear_probe/mine/theirs/seed0/metrics.json"


def test_other_arithmetic_trains_its_models_and_what_starts_from_them(finished_copy):
    """Which edit counts for which stage: tests/unit/test_source_files.py."""
    edit(finished_copy.folder, "objectives/simclr.py", "/ temperature", "* temperature")
    assert models_of(finished_copy.plan()) == {
        f"toy/{name}" for name in ("images", "joint", "local", "frames", "writer")
    }


# Laid over Snakemake's own at the end of a Snakefile: a job leaves empty files.
NO_PROGRAMS = """
def shell(*command, bench_record, **options):
    bench_record.running_time = 0.0
    for path in sys._getframe(1).f_locals["output"]:
        Path(path).touch() if Path(path).suffix else Path(path).mkdir(exist_ok=True)
"""


def as_if_finished(checkout: Checkout, *targets: str) -> None:
    """Run all that targets need, but for the programs themselves."""
    with (checkout.folder / "Snakefile").open("a", encoding="utf-8") as snakefile:
        snakefile.write(NO_PROGRAMS)
    done = checkout.snakemake("--cores", "2", *targets)
    assert done.returncode == 0, done.stdout[-6000:]
    assert checkout.plan(*targets) == []


def test_settings_of_the_task_that_selects_train_again(checkout: Checkout) -> None:
    """They decide which weights are kept; settings that change no result do not."""
    target = "results/models/medcutmix/medcutmix_40/seed0/run.json"
    as_if_finished(checkout, target)
    other = {"tasks": {"medcutmix/selection": {"prompts": "windsor"}}}
    assert models_of(checkout.write("other.yaml", other).plan(target)) == {"medcutmix/medcutmix_40"}


def test_the_users_models_of_stanza_are_settings(checkout: Checkout, tmp_path: Path) -> None:
    """They are no product; so are data sets that statistics are of."""
    target = "results/benchmarks/biovil_t/report_generation/biovil_t/biovil_t/seed0/metrics.json"

    def given(folder: str) -> Checkout:
        (tmp_path / folder).mkdir()
        entities = {"stanza_folder": str(tmp_path / folder)}
        return checkout.write(f"{folder}.yaml", {"reports": {"entities": entities}})

    as_if_finished(given("first"), target)
    assert [job.rule for job in given("second").plan(target)] == ["evaluate"]


def test_data_sets_that_statistics_are_of_are_settings(checkout: Checkout, tmp_path: Path) -> None:
    target = "results/benchmarks/biovil/ms_cxr_statistics/metrics.json"
    (tmp_path / "mimic_cxr").mkdir()

    def given(folder: str) -> Checkout:
        (tmp_path / folder).mkdir()
        real = {"mimic_cxr": "mimic_cxr", "ms_cxr": folder}
        datasets = {name: {"root": str(tmp_path / root)} for name, root in real.items()}
        values = {
            "papers": ["biovil"],
            "datasets": {**datasets, "mimic_cxr_jpg": None, "mimic_iv": None},
            "cohorts": {"biovil/ms_cxr": {"images": "mimic_cxr"}},
            "label_agreement": {"comparisons": []},
        }
        return checkout.write(f"{folder}.yaml", values)

    as_if_finished(given("first"), target)
    assert [job.rule for job in given("second").plan(target)] == ["measure_data"]


def test_an_edited_list_of_real_data_reruns_what_reads_it(
    checkout: Checkout, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A cohort or a comparison of labels, and what follows; nothing for a list that is the same."""
    data = tmp_path_factory.mktemp("real")
    for name in ("mimic_cxr", "mimic_cxr_jpg", "ms_cxr", "rsna"):
        (data / name).mkdir()
        lists = [names[0] for use in layout(name).lists.values() for names in use.values()]
        for file in [*lists, *layout(name).label_tables.values()]:
            (data / name / file).write_text("a list")
    real = {path.name: {"root": str(path)} for path in data.iterdir()}
    run = checkout.write(
        "real.yaml",
        {
            "papers": ["biovil"],
            "reports": {"splitter": "rules"},
            "datasets": {**real, "mimic_iv": None, "ms_cxr_t": None},
        },
    )
    tasks = ("zero_shot_classification", "phrase_grounding")
    scored = [
        f"results/benchmarks/biovil/{task}/biovil/biovil/seed0/metrics.json" for task in tasks
    ]
    compared = [
        f"results/benchmarks/label_agreement/mimic_cxr/{reference}/metrics.json"
        for reference in ("chexpert", "negbio")
    ]
    # Of real data a cohort may lack what is asked of it, which is known before any training.
    jobs = run.plan(*scored)
    building = [job.priority for job in jobs if job.rule in ("build_pairs", "build_samples")]
    assert min(building) > max(job.priority for job in jobs if job.rule.startswith("pretrain_"))
    as_if_finished(run, *scored, *compared)

    def outputs(place: str, text: str) -> list[str]:
        """What would be made again of each job's outputs, the first, after an edit, taken back."""
        file = data / place
        before, time = file.read_text(), file.stat().st_mtime_ns
        file.write_text(text)
        jobs = run.plan(*scored, *compared)
        file.write_text(before)
        os.utime(file, ns=(time, time))
        return [job.output[0] for job in jobs]

    assert outputs("rsna/stage_2_train_labels.csv", "a list") == []
    of_rsna = "results/{}/biovil/rsna/{}"
    assert set(outputs("rsna/stage_2_train_labels.csv", "an edited list")) == {
        of_rsna.format("cohorts", "samples.parquet"),
        of_rsna.format("pixels", "shorter128/index.parquet"),
        of_rsna.format("features/biovil/biovil/seed0", "features.safetensors"),
        scored[0],
    }
    # MIMIC-CXR's cohorts are of studies, whatever these tables say of them.
    for table, comparison in zip(("chexpert", "negbio"), compared, strict=True):
        assert outputs(f"mimic_cxr_jpg/mimic-cxr-2.0.0-{table}.csv", "edited") == [comparison]


# A probe that learns from a part that its cohort has not: a cohort that is there, and a new one.
ASKING = """
cohorts:
  new: {extends: biovil/rsna, splits: {test_share: 0.4}}
tasks:
  probe: {extends: toy/linear_probe, settings: {train_split: validate}}
  new: {extends: probe, cohort: new}
tables:
  probe: &table
    title: A part that is not there
    source: ours
    task: probe
    columns: [{key: auroc, label: AUROC, metric: auroc/100}]
    rows: [{label: joint, model: toy/joint}]
  new: {<<: *table, task: new}
"""


@pytest.mark.parametrize(("task", "cohort"), [("probe", "biovil/rsna"), ("new", "mine/new")])
def test_what_a_cohort_lacks_is_said_before_anything_reads_it(task, cohort, finished_copy):
    """At the start of the run if it is there, else by the job that builds it, which fails."""
    (finished_copy.folder / "mine.yaml").write_text(ASKING, encoding="utf-8")
    asking = finished_copy.write("new.yaml", {"papers": ["toy.yaml", "mine.yaml"]})
    target = f"results/benchmarks/mine/{task}/toy/joint/seed0/metrics.json"
    done = asking.snakemake("--cores", "2", "--show-failed-logs", target)
    assert done.returncode != 0
    refused = f"results/cohorts/{cohort}/samples.parquet: no row has split 'validate'; found ["
    assert refused in done.stdout and f"`leave_out: [mine/{task}]`" in done.stdout
    tried = {job.rule for job in jobs_of(done.stdout)}
    assert tried == (set() if task == "probe" else {"build_samples"})
    tables = list((finished_copy.folder / "results/cohorts" / cohort).glob("*.parquet"))
    assert bool(tables) == (task == "probe")


def test_a_run_beside_another_and_after_a_kill_says_what_to_do(finished_copy, quick):
    """SIGKILL of Snakemake and its job in a training; unlocked, the same command makes the same."""
    shutil.copytree(ROOT / "profiles", finished_copy.folder / "profiles")  # as it is typed
    results = finished_copy.folder / "results"
    model, state = results / "models/toy/words/seed0", results / "state/toy/words/seed0"
    before = file_digest(model / "model.safetensors")
    shutil.rmtree(model)
    typed = ("--cores", "1", "results/models/toy/words/seed0/run.json")
    with subprocess.Popen(
        finished_copy.command(*typed),
        cwd=finished_copy.folder,
        env=finished_copy.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as first:
        until = time.monotonic() + 120
        while not (state / "identity.json").exists():
            assert first.poll() is None and time.monotonic() < until
            time.sleep(0.005)
        os.killpg(first.pid, signal.SIGSTOP)
        beside = finished_copy.snakemake(*typed)
        os.killpg(first.pid, signal.SIGKILL)
    for refused in (beside, finished_copy.snakemake(*typed)):
        assert refused.returncode != 0 and "error: another run works in this" in refused.stdout
        assert "type `snakemake --unlock` and then the same command" in refused.stdout
    assert not (model / "run.json").exists()
    assert finished_copy.snakemake("--unlock").returncode == 0
    done = finished_copy.snakemake(*typed, **quick)
    assert done.returncode == 0 and "done  pretrain_text toy/words" in done.stdout, done.stdout
    assert file_digest(model / "model.safetensors") == before
    assert not state.exists()
